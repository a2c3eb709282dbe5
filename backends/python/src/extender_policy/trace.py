"""The trace of the call that a policy is answering, for a policy that adds to it.

Each call says whether it is traced. If it is, and the environment names an OpenTelemetry collector, the SDK sends a
span of the policy's work, with the attributes and events that are added here. For all other calls these functions do
nothing.

    def filter_all(self, pod, nodes):
        trace.attribute("acme.quota.tenant", pod.namespace)
        trace.event("prices read")
        ...

They find the call by the context of the thread or task that answers it. A policy that uses OpenTelemetry itself finds
the span as the current one.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

__all__ = ["Value", "attribute", "event", "traceparent"]

Value = str | int | float | bool
"""The value of an attribute."""

MOST = 128
"""More attributes or events than these are dropped: a span describes a call, not each node."""


class Span(Protocol):
    """The span of a traced call."""

    @property
    def traceparent(self) -> str:
        """Of this span."""

    def set(self, key: str, value: Value) -> None:
        """Sets an attribute."""

    def note(self, key: str, value: Value) -> None:
        """Sets an attribute of the SDK, which is always kept."""

    def add(self, name: str) -> None:
        """Records an event."""


CURRENT: ContextVar[Span | None] = ContextVar("extender_policy_span", default=None)


def attribute(key: str, value: Value) -> None:
    """Sets an attribute of the call: the last value counts for each key, and at most 128 keys are kept.

    Use your own keys, such as `acme.quota.left`.
    """
    span = CURRENT.get()
    if span is not None:
        span.set(key, value)


def note(key: str, value: Value) -> None:
    """Sets an attribute of the SDK."""
    span = CURRENT.get()
    if span is not None:
        span.note(key, value)


def event(name: str) -> None:
    """Records an event at the current time. At most 128 are kept."""
    span = CURRENT.get()
    if span is not None:
        span.add(name)


def traceparent() -> str | None:
    """The call's span as a W3C `traceparent`, for requests that the policy makes during the call.

    `None` if the call is not traced.
    """
    span = CURRENT.get()
    return None if span is None else span.traceparent
