"""Streams that tell a gateway when the handshake has another answer than before, or the policy another health."""

from __future__ import annotations

import threading

from . import _answer
from ._api.v1beta1 import watch_pb2
from ._backend import Backend
from ._errors import call_error, exhausted
from ._named import MAX_BYTES, NamedArgs

MAX_WATCHES = 64
"""More streams than this are rejected: as many as there are tables."""

WATCH_SECONDS = 0.2
"""How often the answer is compared. The contract allows a second."""

CHANGED = watch_pb2.WatchResponse().SerializeToString()
"""The only message of a stream."""

State = tuple[bytes | str, bool]
"""The answer to the handshake or why there is none, and whether the policy is ready."""


class Watches:
    """The open streams of one server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0
        self._bytes = 0

    def open(self, backend: Backend, encoded: bytes) -> Watch:
        """A stream for this request. To be closed however it ends. Raises what the handshake raises."""
        request = _answer.decoded_small(watch_pb2.WatchRequest, encoded)
        watch = Watch(self, backend, NamedArgs.whole(request.args), len(request.args))
        self.change(1, watch.size)
        return watch

    def change(self, streams: int, size: int) -> None:
        """Counts streams and the bytes of their args: a policy built from args takes more memory than they do."""
        with self._lock:
            if streams > 0 and (self.count >= MAX_WATCHES or self._bytes + size > MAX_BYTES):
                text = f"this backend already has {self.count} streams of changes; more are refused"
                raise exhausted(text, "OVERLOADED")
            self.count += streams
            self._bytes += size


class Watch:
    """What a stream has last reported."""

    def __init__(self, watches: Watches, backend: Backend, args: NamedArgs, size: int) -> None:
        self._watches = watches
        self._backend = backend
        self._digest = args.digest
        # Kept, because with many args the policy would be built again for each comparison.
        self._versions = backend._versions(args)
        self._last = self._current()
        self.size = size
        """Of the args, in bytes."""

    def has_changed(self) -> bool:
        """Whether the state is another one than at the last call, or at the beginning."""
        try:
            current = self._current()
        except (Exception, SystemExit) as raised:
            current = call_error("GetInfo", raised).message, False
        before, self._last = self._last, current
        return current != before

    def close(self) -> None:
        """The stream has ended."""
        self._watches.change(-1, -self.size)

    def _current(self) -> State:
        self._versions = self._backend._recent.find(self._digest) or self._versions
        prepared = self._backend._latest(self._versions)
        return prepared.declaration.encoded, prepared.is_ready
