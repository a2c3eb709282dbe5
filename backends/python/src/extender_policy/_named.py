"""The operator's args as a request names them, and the policies that were made from them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from ._api.v1beta1 import policy_pb2
from ._errors import invalid
from .args import check_size

if TYPE_CHECKING:
    from ._backend import Versions

MAX_POLICIES = 16
"""With more configured policies than this, some are rebuilt now and then; they still work."""
MAX_BYTES = 2 << 20
"""The most bytes of args of which the policies are kept. A policy built from them can be tens of times as large."""


class NamedArgs(NamedTuple):
    """Args by their digest, which is all that most calls have."""

    digest: bytes
    encoded: bytes | None
    """`None` if only the digest came."""

    @staticmethod
    def whole(encoded: bytes) -> NamedArgs:
        """Args that a request brings. Raises `ArgsError` for more than are worth a digest."""
        check_size(encoded)
        return NamedArgs(sha256(encoded).digest(), encoded)

    @staticmethod
    def of(call: policy_pb2.Call) -> NamedArgs:
        """Those of a call. Raises `CallError` if the digest is not theirs."""
        digest = call.args_sha256
        if not digest and not call.args:
            return NamedArgs.whole(b"")
        if not digest:
            raise invalid("call.args_sha256 is missing; it is the SHA-256 of call.args")
        if len(digest) != 32:
            raise invalid(f"call.args_sha256 has {len(digest)} bytes; expected the 32 of a SHA-256")
        if not call.args:
            return NamedArgs(digest, None)
        args = NamedArgs.whole(call.args)
        if args.digest != digest:
            raise invalid("call.args_sha256 is not the SHA-256 of call.args")
        return args


class _Kept:
    """The policy for some args."""

    def __init__(self, versions: Versions, size: int) -> None:
        self.versions = versions
        self.size = size
        """Of the args."""
        self.is_repeated = False
        """Whether the args came more than once."""


class Recent:
    """The policies for the args that came last, by their digests; bounded, because args come from outside."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, digest: bytes) -> Versions | None:
        """The policy for these args, if it is still known."""
        with self._lock:
            known = self._kept.get(digest)
            if known is None:
                return None
            self._kept.move_to_end(digest)
            known.is_repeated = True
            return known.versions

    def all(self) -> list[Versions]:
        """Those that are known."""
        with self._lock:
            return [kept.versions for kept in self._kept.values()]

    def keep(self, digest: bytes, versions: Versions, size: int) -> Versions:
        """Keeps the policy for args of this size. Of two threads that make the same, one policy is kept."""
        with self._lock:
            known = self._kept.get(digest)
            if known is not None:
                return known.versions
            while self._kept and (len(self._kept) >= MAX_POLICIES or self._size() + size > MAX_BYTES):
                self._evict()
            self._kept[digest] = _Kept(versions, size)
            return versions

    def _size(self) -> int:
        return sum(kept.size for kept in self._kept.values())

    def _evict(self) -> None:
        """Removes the policy that was least recently used.

        Args that came once, as from a client that is not the gateway, go first: they must not displace those of every
        call.
        """
        once = (digest for digest, kept in self._kept.items() if not kept.is_repeated)
        del self._kept[next(once, next(iter(self._kept)))]
