"""What the hooks of a policy change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from . import _answer
from ._answer import Asked
from ._api.v1beta1 import hooks_pb2
from ._errors import failed
from ._written import written
from .changes import NodeChange, PodChange


async def before_filter(asked: Asked) -> dict[str, Any]:
    """What changes about the pod, before it is filtered for."""
    change = await _answer._called(asked.prepared, "before_filter", asked.question.pod)
    return {"pod": _pod_change("before_filter", change)}


async def before_filter_nodes(asked: Asked) -> dict[str, Any]:
    """What changes about nodes, before they are filtered."""
    answers = await _answer._answers(asked, "before_filter_nodes", asked.question.nodes)
    return {"nodes": _node_changes(written(asked.prepared.policy, "before_filter_nodes"), answers, asked)}


async def before_score(asked: Asked) -> dict[str, Any]:
    """What changes about the pod and nodes, before the nodes are scored."""
    question = asked.question
    pair = await _answer._called(asked.prepared, "before_score", question.pod, question.nodes)
    of_pod, of_nodes = _pair("before_score", pair, question.count)
    return {
        "pod": _pod_change("before_score", of_pod),
        "nodes": _node_changes("before_score", of_nodes, asked),
    }


def _pair(method: str, answer: Any, count: int) -> tuple[Any, Sequence[Any]]:
    """What a hook says of the pod and of each node."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise failed(
            f"{method} returned {_answer._short(answer)}; expected a pair: a PodChange or None, and a list with a "
            "NodeChange or None per node"
        )
    of_pod, of_nodes = answer
    if isinstance(of_nodes, list | tuple) and not of_nodes:
        return of_pod, ()
    return of_pod, _answer._one_per_node(method, of_nodes, count)


def _pod_change(method: str, change: Any) -> hooks_pb2.PodChange | None:
    """The change; `None` if nothing changes."""
    if change is None:
        return None
    if type(change) is not PodChange:
        raise failed(f"{method} returned {_answer._short(change)} for the pod; expected a PodChange or None")
    return change._message if change.parts else None


def _node_changes(method: str, changes: Sequence[Any], asked: Asked) -> list[hooks_pb2.NodeChange]:
    """The changes, equal ones as one with many positions, in the order of their first occurrence."""
    messages = []
    for change, positions in _grouped(method, changes, asked):
        if change.parts:
            message = hooks_pb2.NodeChange(positions=positions)
            message.MergeFrom(change._message)
            messages.append(message)
    return messages


def _grouped(method: str, changes: Sequence[Any], asked: Asked) -> Iterator[tuple[NodeChange, list[int]]]:
    # Most changes are one object for many nodes, which need not be encoded again to be compared.
    same: dict[int, list[int]] = {}
    equal: dict[NodeChange, list[int]] = {}
    for position, change in enumerate(changes):
        if change is None:
            continue
        if type(change) is not NodeChange:
            short, place = _answer._short(change), asked.place(position)
            raise failed(f"{method} returned {short} for {place}; expected a NodeChange or None")
        positions = same.get(id(change))
        if positions is None:
            positions = same[id(change)] = equal.setdefault(change, [])
        positions.append(position)
    yield from equal.items()
