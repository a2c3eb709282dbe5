"""Which methods of a policy its author wrote."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from ._declaration import REPORT
from .info import DECLARED_WITH, Info
from .policy import Policy

_METHODS = {
    "Filter": ("filter", "filter_all"),
    "Score": ("score", "score_all"),
    "Preempt": ("preempt", "preempt_all"),
    "Bind": ("bind",),
    "BeforeFilter": ("before_filter",),
    "BeforeFilterNodes": ("before_filter_node", "before_filter_nodes"),
    "BeforeScore": ("before_score",),
    "Report": ("observe",),
}
"""Those that answer a verb or observe outcomes, of which one is enough. The last one is called, and calls the first one
unless it is written."""


def is_written(policy: Policy, method: str) -> bool:
    """Whether the policy has a method of its own."""
    return getattr(getattr(policy, method), "__func__", None) is not getattr(Policy, method)


def written(policy: Policy, method: str) -> str:
    """The method that the author wrote where this one is called: `filter`, unless there is a `filter_all`."""
    each = next((methods[0] for methods in _METHODS.values() if methods[-1] == method), method)
    return method if is_written(policy, method) else each


def unwritten(policy: Policy, info: Info) -> Iterator[str]:
    """What is declared and has no method of the policy, one sentence each."""
    for verb in (*info.served, *([REPORT] if info.is_observing else [])):
        methods = _METHODS[verb]
        if not any(is_written(policy, method) for method in methods):
            yield (
                f"{type(policy).__name__} declares {DECLARED_WITH[verb]} and has no method for it; "
                f"write {' or '.join(map(_signature, methods))}, or remove the declaration"
            )


def _signature(method: str) -> str:
    return f"{method}({', '.join(inspect.signature(getattr(Policy, method)).parameters)})"
