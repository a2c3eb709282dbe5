"""Checks what the declarations of hooks have and those of other verbs have not."""

from __future__ import annotations

from collections.abc import Iterator

from .changes import ChangedPart
from .info import Hook, View
from .reads import NodePart

_POD = frozenset(part for part in ChangedPart if part.is_of_pod)

_CHANGEABLE = {
    "before_filter": _POD,
    "before_filter_nodes": frozenset(ChangedPart) - _POD,
    "before_score": frozenset(ChangedPart),
}
"""What each hook can change."""


def hook_mistakes(name: str, hook: Hook) -> Iterator[str]:
    """What the contract does not allow, one sentence each."""
    yield from _change_mistakes(name, hook)
    if hook.verb.has_side_effects:
        yield f"{name} has side effects, which hooks must not have; remove Verb.side_effects"
    if name == "before_filter":
        yield from _node_mistakes(hook)
    elif hook.is_of_pod:
        yield (
            f"{name} is declared with Hook.of_pod, which is for before_filter; use Hook.per_node or Hook.whole_set, "
            "with Hook.view(View.NAME) if the names of nodes are enough"
        )


def _change_mistakes(name: str, hook: Hook) -> Iterator[str]:
    if not hook.changed:
        yield f"{name} declares no changes; declare what it changes with Hook.changes"
    beyond = hook.changed - _CHANGEABLE[name]
    if beyond:
        allowed = "the pod" if name == "before_filter" else "nodes"
        yield f"{name} changes {_names(beyond)}, but can only change {allowed}; remove them from Hook.changes"
    if name == "before_score" and hook.verb.is_pure and hook.changed & _POD:
        yield (
            f"{name} is pure and changes {_names(hook.changed & _POD)}, but a pure {name} can only change nodes; "
            "remove one"
        )


def _node_mistakes(hook: Hook) -> Iterator[str]:
    """What before_filter, which has no nodes, declares about them."""
    verb = hook.verb
    if verb.node_view is not View.NAME or not verb.is_per_node:
        yield "before_filter is called without nodes; declare it with Hook.of_pod, without a view"
    if verb.wants_usage:
        yield "before_filter has Hook.usage, but is called without nodes; remove it"
    reads = verb.declared_reads
    if reads is not None and (reads._reads_nodes() or NodePart.NAME in reads._node.parts):
        yield "before_filter reads nodes, but is called without them; declare what it reads of the pod"


def _names(parts: frozenset[ChangedPart]) -> str:
    return ", ".join(part.name for part in sorted(parts))
