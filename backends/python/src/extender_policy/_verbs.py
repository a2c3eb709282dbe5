"""The verbs and hooks, and how a request of one becomes an answer, without sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import Message

from . import _hooks, trace
from ._answer import Asked, _decoded, _prepared, filtered, preempted, scored
from ._api.sdk import wire_pb2
from ._api.v1beta1 import hooks_pb2, policy_pb2
from ._backend import Backend
from ._question import Missed, Question
from ._tables import Tables


class _Verb(NamedTuple):
    request: type[wire_pb2.Question | wire_pb2.PodQuestion | wire_pb2.Preemption]
    response: Callable[..., Message]
    decided: Callable[[Asked], Awaitable[dict[str, Any]]]
    """The fields of a response besides its result."""


_VERBS = {
    "Filter": _Verb(wire_pb2.Question, policy_pb2.FilterResponse, filtered),
    "Score": _Verb(wire_pb2.Question, policy_pb2.ScoreResponse, scored),
    "Preempt": _Verb(wire_pb2.Preemption, policy_pb2.PreemptResponse, preempted),
    "BeforeFilter": _Verb(wire_pb2.PodQuestion, hooks_pb2.BeforeFilterResponse, _hooks.before_filter),
    "BeforeFilterNodes": _Verb(wire_pb2.Question, hooks_pb2.BeforeFilterNodesResponse, _hooks.before_filter_nodes),
    "BeforeScore": _Verb(wire_pb2.Question, hooks_pb2.BeforeScoreResponse, _hooks.before_score),
}
"""By the names of their methods; all but `Bind`, which is not a question."""


async def answer(method: str, backend: Backend, tables: Tables, encoded: bytes, names: Sequence[str] = ()) -> Any:
    """The answer to an encoded request. `names`: those of the nodes, if they need not be sent."""
    verb = _VERBS[method]
    request = _decoded(verb.request, encoded)
    prepared, terms = _prepared(backend, request, method)
    result = policy_pb2.Result(revision=prepared.declaration.revision)
    try:
        question = Question(request, terms, tables)
    except Missed as missed:
        trace.note("extender.miss", policy_pb2.Miss.Name(missed.miss))
        result.miss = missed.miss
        return verb.response(result=result)
    decided = await verb.decided(Asked(prepared, terms, request, question, names))
    trace.note("extender.nodes.evaluated", question.count)
    result.evaluated = question.count
    return verb.response(result=result, **decided)
