"""From an encoded request of a hook to the answer, without sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from google.protobuf.message import Message

from . import _answer
from ._api.sdk import wire_pb2
from ._api.v1alpha1 import hooks_pb2
from ._backend import Backend
from ._errors import CallError, failed
from ._question import Missed, Question, asked_pod
from ._tables import Tables
from ._written import written
from .changes import NodeChange, PodChange
from .reads import quoted


async def before(method: str, backend: Backend, tables: Tables, encoded: bytes) -> Message:
    """What the hook with this method of the service changes."""
    if method == "BeforeFilter":
        return await before_filter(backend, encoded)
    if method == "BeforeFilterNodes":
        return await before_filter_nodes(backend, tables, encoded)
    return await before_score(backend, tables, encoded)


async def before_filter(backend: Backend, encoded: bytes) -> hooks_pb2.BeforeFilterResponse:
    """What changes about the pod, before it is filtered for."""
    request = _answer._decoded(wire_pb2.PodQuestion, encoded)
    prepared, terms = _answer._prepared(backend, request, "BeforeFilter")
    pod = asked_pod(request, terms)
    _answer._check_ready(prepared)
    change = _pod_change("before_filter", await _answer._called(prepared, "before_filter", pod))
    return hooks_pb2.BeforeFilterResponse(result=_answer._done(prepared, 1), pod=change)


async def before_filter_nodes(
    backend: Backend, tables: Tables, encoded: bytes, names: Sequence[str] = ()
) -> hooks_pb2.BeforeFilterNodesResponse:
    """What changes about nodes, before they are filtered. `names`: those of the nodes, if they need not be sent."""
    request = _answer._decoded(wire_pb2.Question, encoded)
    prepared, terms = _answer._prepared(backend, request, "BeforeFilterNodes")
    try:
        question = Question(request, terms, tables)
    except Missed as missed:
        return hooks_pb2.BeforeFilterNodesResponse(result=_answer._missed(prepared, missed))
    _answer._check_ready(prepared)
    answers = await _answer._answers(prepared, "before_filter_nodes", question, (question.pod, question.nodes))
    method = written(prepared.policy, "before_filter_nodes")
    changes = _node_changes(method, answers, _places(question, names))
    return hooks_pb2.BeforeFilterNodesResponse(result=_answer._done(prepared, question.count), nodes=changes)


async def before_score(
    backend: Backend, tables: Tables, encoded: bytes, names: Sequence[str] = ()
) -> hooks_pb2.BeforeScoreResponse:
    """What changes about the pod and nodes, before the nodes are scored. `names`: as of `before_filter_nodes`."""
    request = _answer._decoded(wire_pb2.Question, encoded)
    prepared, terms = _answer._prepared(backend, request, "BeforeScore")
    try:
        question = Question(request, terms, tables)
    except Missed as missed:
        return hooks_pb2.BeforeScoreResponse(result=_answer._missed(prepared, missed))
    _answer._check_ready(prepared)
    pair = await _answer._called(prepared, "before_score", question.pod, question.nodes)
    of_pod, of_nodes = _pair("before_score", pair, question.count)
    pod = _pod_change("before_score", of_pod)
    nodes = _node_changes("before_score", of_nodes, _places(question, names))
    return hooks_pb2.BeforeScoreResponse(result=_answer._done(prepared, question.count), pod=pod, nodes=nodes)


def _pair(method: str, answer: Any, count: int) -> tuple[Any, Sequence[Any]]:
    """What a hook says of the pod and of each node."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise _mistake(
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
        raise _mistake(f"{method} returned {_answer._short(change)} for the pod; expected a PodChange or None")
    return change._message if change.parts else None


def _places(question: Question, names: Sequence[str]) -> Callable[[int], str]:
    """A node by its position, for errors: its name is sent only if it is read."""

    def place(position: int) -> str:
        name = names[position] if names else question.nodes[position]._row.name
        return f"node {quoted(name)}" if name else f"position {position}"

    return place


def _node_changes(method: str, changes: Sequence[Any], place: Callable[[int], str]) -> list[hooks_pb2.NodeChange]:
    """The changes, equal ones as one with many positions, in the order of their first occurrence."""
    messages = []
    for change, positions in _grouped(method, changes, place):
        if change.parts:
            message = hooks_pb2.NodeChange(positions=positions)
            message.MergeFrom(change._message)
            messages.append(message)
    return messages


def _grouped(
    method: str, changes: Sequence[Any], place: Callable[[int], str]
) -> Iterator[tuple[NodeChange, list[int]]]:
    # Most changes are one object for many nodes, which need not be encoded again to be compared.
    same: dict[int, list[int]] = {}
    equal: dict[NodeChange, list[int]] = {}
    for position, change in enumerate(changes):
        if change is None:
            continue
        if type(change) is not NodeChange:
            short = _answer._short(change)
            raise _mistake(f"{method} returned {short} for {place(position)}; expected a NodeChange or None")
        positions = same.get(id(change))
        if positions is None:
            positions = same[id(change)] = equal.setdefault(change, [])
        positions.append(position)
    yield from equal.items()


def _mistake(text: str) -> CallError:
    """What the policy returned breaks the contract."""
    _answer.log_rarely(text)
    return failed(text)
