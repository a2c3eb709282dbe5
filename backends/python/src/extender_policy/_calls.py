"""The call that a thread or task is answering, and what its span, its metrics and its log lines say of it."""

from __future__ import annotations

import logging
import time
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

from grpc import StatusCode

from ._declaration import REPORT, VERBS
from ._errors import LOG, counted, cut

if TYPE_CHECKING:
    from ._telemetry import Followed

Value = str | int | float | bool
"""The value of an attribute."""

INTROSPECT = "Introspect"
"""The only method of IntrospectionService."""

_SNAKE = str.maketrans({letter: f"_{letter.lower()}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"})
NAMES = {name: name.translate(_SNAKE)[1:] for name in (*VERBS, "GetInfo", INTROSPECT)} | {REPORT: "observe"}
"""Of methods, and of hooks in the place of the method that they share, as logs and metrics write them."""

MAX_TEXT_BYTES = 512
"""Of the texts of a log line that come from outside."""


class Call:
    """A call in progress. Entered, it is the current one of the thread or task."""

    __slots__ = ("_began", "_token", "code", "method", "notes", "pod", "seconds", "span", "text")

    def __init__(self, method: str, span: Followed | None) -> None:
        self.method = method
        """A method of a service, or the hook once it is known."""
        self.span = span
        self.pod: object = ""
        """As a text, namespace and name, or what is read of them."""
        self.notes: dict[str, Value] = {}
        """The SDK's attributes of spans, of every call."""
        self.code = StatusCode.UNKNOWN
        self.text = ""
        self.seconds = 0.0

    def __enter__(self) -> Call:
        self._began = time.perf_counter()
        self._token: Token[Call | None] = CURRENT.set(self)
        if self.span is not None:
            self.span.__enter__()
        return self

    def __exit__(self, kind: object, error: object, stack: object) -> None:
        if self.span is not None:
            self.span.__exit__(kind, error, stack)
        CURRENT.reset(self._token)
        self.seconds = time.perf_counter() - self._began

    def ended(self, code: StatusCode, text: str = "") -> None:
        """The outcome."""
        self.code, self.text = code, text
        if self.span is not None:
            self.span.ended(code, text)

    @property
    def names(self) -> tuple[str, str]:
        """The id of the call and the pod for the log, each empty if it is not known."""
        return plain(str(self.notes.get("extender.call.id", ""))), plain(str(self.pod))

    def log(self) -> None:
        """Writes the line of `--log-calls`."""
        about = _about(*self.names)
        for what in ("evaluated", "rejected"):
            count = self.notes.get(f"extender.nodes.{what}")
            about += [] if count is None else [f"{counted(count, 'node')} {what}"]
        if self.code is not StatusCode.OK:
            about.append(": ".join(filter(None, (self.code.name, plain(self.text)))))
        text = ", ".join([*about, f"{self.seconds * 1000:.1f} ms"])
        LOG.info("%s: %s", NAMES.get(self.method, self.method), text)


CURRENT: ContextVar[Call | None] = ContextVar("extender_policy_call", default=None)


def note(key: str, value: Value) -> None:
    """Sets an attribute of the SDK."""
    call = CURRENT.get()
    if call is not None:
        call.notes[key] = value
        if call.span is not None:
            call.span.note(key, value)


def known(*, method: str = "", pod: object = "") -> None:
    """What has become known of the current call."""
    call = CURRENT.get()
    if call is not None:
        call.method = method or call.method
        call.pod = pod or call.pod


def plain(text: str) -> str:
    """A text from outside on one line of the log."""
    text = cut(text[:MAX_TEXT_BYTES], MAX_TEXT_BYTES)
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def _about(call_id: str, pod: str) -> list[str]:
    return [f"{what} {name}" for what, name in (("call", call_id), ("pod", pod)) if name]


class CallFilter(logging.Filter):
    """Names the call and the pod in each log record that is written while a method of a policy is called.

        handler.addFilter(CallFilter())
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s%(call)s"))

    The record has `call_id`, and `pod` with namespace and name as far as the verb reads them, each empty outside of a
    call, and `call`, both of them as a text. Pure verbs have them, too: they are for the log alone. `run` and
    `exit_with` set it up where the program has set up no log. A thread that a method starts has no call, unless it runs
    in a copy of the context, as with `asyncio.to_thread`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Adds to the record, and keeps it."""
        call = CURRENT.get()
        call_id, pod = ("", "") if call is None else call.names
        about = ", ".join(_about(call_id, pod))
        vars(record).update(call_id=call_id, pod=pod, call=about and f" [{about}]")
        return True
