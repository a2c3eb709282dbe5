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

from ._calls import CURRENT, Value

__all__ = ["Value", "attribute", "event", "traceparent"]

MOST = 128
"""More attributes or events than these are dropped: a span describes a call, not each node."""


def attribute(key: str, value: Value) -> None:
    """Sets an attribute of the call: the last value counts for each key, and at most 128 keys are kept.

    Use your own keys, such as `acme.quota.left`.
    """
    call = CURRENT.get()
    if call is not None and call.span is not None:
        call.span.set(key, value)


def event(name: str) -> None:
    """Records an event at the current time. At most 128 are kept."""
    call = CURRENT.get()
    if call is not None and call.span is not None:
        call.span.add(name)


def traceparent() -> str | None:
    """The call's span as a W3C `traceparent`, for requests that the policy makes during the call.

    `None` if the call is not traced.
    """
    call = CURRENT.get()
    return None if call is None or call.span is None else call.span.traceparent
