"""The errors of a call and their status codes: the contract's error table."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable

from grpc import StatusCode

from ._limits import STATUS_MESSAGE_BYTES
from .errors import ArgsError, BindFailed, CannotAnswer, DeclarationError, NotReady, UndeclaredRead

LOG = logging.getLogger("extender_policy")

MAX_KINDS = 100
"""The kinds of failures that are counted apart; all others are one."""
AGAIN_SECONDS = 60.0

USUAL_REASONS = {
    StatusCode.INVALID_ARGUMENT: "INVALID_REQUEST",
    StatusCode.UNAVAILABLE: "NOT_READY",
    StatusCode.ABORTED: "CANNOT_ANSWER",
    StatusCode.INTERNAL: "POLICY_FAILED",
}
"""Those of errors that name no other."""


class CallError(Exception):
    """Why a call is not answered."""

    def __init__(self, code: StatusCode, text: str, detail: str = "", *, reason: str = "") -> None:
        """`detail` is what only the author of the policy gets to see, in a test."""
        super().__init__(text)
        self.code = code
        self.reason = reason or USUAL_REASONS.get(code, "")
        """Which of the errors of its code it is, as `ErrorReason` of the contract names it; empty for none of them."""
        self.text = text
        self.detail = cut(detail or text, STATUS_MESSAGE_BYTES)

    @property
    def trailers(self) -> tuple[tuple[str, str], ...]:
        """What a status has besides the text."""
        return (("extender-reason", f"ERROR_REASON_{self.reason}"),) if self.reason else ()

    @property
    def message(self) -> str:
        """The text for a status."""
        return cut(self.text, STATUS_MESSAGE_BYTES)


def invalid(text: str) -> CallError:
    """The request is not one that a gateway sends."""
    return CallError(StatusCode.INVALID_ARGUMENT, text)


def exhausted(text: str, reason: str) -> CallError:
    """A message is too large, or memory is lacking."""
    return CallError(StatusCode.RESOURCE_EXHAUSTED, text, reason=reason)


def missing(field: str, what: str = "every request has it") -> CallError:
    """A field that is always there."""
    return invalid(f"{field} is missing; {what}")


def failed(text: str) -> CallError:
    """The policy's code has a mistake."""
    return CallError(StatusCode.INTERNAL, text)


def call_error(method: str, raised: BaseException) -> CallError:
    """The error of a call for whatever was raised while it was answered.

    The text of an exception may hold anything, and that of a status reaches people outside. That of a read that is not
    declared is this package's own.
    """
    if isinstance(raised, CallError):
        return raised
    if isinstance(raised, NotReady | BindFailed):
        return CallError(StatusCode.UNAVAILABLE, str(raised))
    if isinstance(raised, CannotAnswer):
        return CallError(StatusCode.ABORTED, str(raised))
    if isinstance(raised, ArgsError):
        return CallError(StatusCode.INVALID_ARGUMENT, str(raised), reason="INVALID_ARGS")
    if isinstance(raised, DeclarationError):
        return failed(str(raised))
    verb, kind = in_sentence(method), type(raised).__name__
    if isinstance(raised, UndeclaredRead):
        error = failed(f"{verb} failed: {raised}")
    else:
        text = f"{verb} failed ({kind}); see the policy's log"
        error = CallError(StatusCode.INTERNAL, text, f"{verb} failed: {kind}: {raised}")
    error.__cause__ = raised
    return error


class FailureLog:
    """Logs what is wrong with a policy: a bug that each call meets must not fill the disk.

    The first failure of a kind has its stack trace. After that there is at most one line a minute, with their number.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, ...], tuple[int, float]] = {}
        """How many failures there were of each kind, and when one was logged."""

    def add(self, method: str, error: CallError) -> None:
        """A call failed with INTERNAL. What its method, exception and place have in common is a kind."""
        cause = error.__cause__
        # A wrong answer has no cause: what found it is its place.
        raised = cause or error
        last = traceback.extract_tb(raised.__traceback__)[-1:]
        kind = (method, type(raised).__name__, *(f"{frame.filename}:{frame.lineno}" for frame in last))
        now = self._clock()
        with self._lock:
            if len(self._kinds) >= MAX_KINDS and kind not in self._kinds:
                kind = ("others",)
            count, logged = self._kinds.get(kind, (0, now - AGAIN_SECONDS))
            is_logged = now - logged >= AGAIN_SECONDS
            self._kinds[kind] = (count + 1, now if is_logged else logged)
        if count == 0:
            LOG.error("%s; the call fails with INTERNAL", error.detail, exc_info=cause)
        elif is_logged:
            LOG.error("%s; %d failures of this kind so far", error.detail, count + 1)


def in_sentence(verb: str) -> str:
    """The name of a verb or a hook as people write it, such as `beforeFilter`."""
    return verb[0].lower() + verb[1:]


def counted(count: object, noun: str) -> str:
    """Such as "1 node" and "2 nodes"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def cut(text: str, most: int) -> str:
    """The beginning of the text in at most this many bytes of UTF-8. What UTF-8 cannot express is replaced."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= most:
        return encoded.decode()
    return encoded[:most].decode(errors="ignore")
