"""The verbs and hooks, and how a request of one becomes an answer, without sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from google.protobuf.message import Message

from . import _hooks
from ._answer import Asked, _decoded, _prepared, _versions, filtered, preempted, scored
from ._api.sdk import wire_pb2
from ._api.v1beta1 import hooks_pb2, policy_pb2
from ._backend import Backend, Versions
from ._calls import known, note
from ._declaration import CHANGE, HOOKS, VERBS
from ._errors import call_error, in_sentence, invalid, missing
from ._question import Missed, Question
from ._tables import Tables


class _Verb(NamedTuple):
    request: type[wire_pb2.Question | wire_pb2.Change | wire_pb2.Preemption]
    response: Callable[..., Message]
    decided: Callable[[Asked], Awaitable[dict[str, Any]]]
    """The fields of a response besides its result."""


_VERBS = {
    "Filter": _Verb(wire_pb2.Question, policy_pb2.FilterResponse, filtered),
    "Score": _Verb(wire_pb2.Question, policy_pb2.ScoreResponse, scored),
    "Preempt": _Verb(wire_pb2.Preemption, policy_pb2.PreemptResponse, preempted),
    "BeforeFilter": _Verb(wire_pb2.Change, hooks_pb2.ChangeResponse, _hooks.before_filter),
    "BeforeFilterNodes": _Verb(wire_pb2.Change, hooks_pb2.ChangeResponse, _hooks.before_filter_nodes),
    "BeforeScore": _Verb(wire_pb2.Change, hooks_pb2.ChangeResponse, _hooks.before_score),
}
"""All but `Bind`, which is not a question."""

_HOOKS: dict[int, str] = {VERBS[name]: name for name in HOOKS}
"""The names of hooks by their numbers."""


async def answer(method: str, backend: Backend, tables: Tables, encoded: bytes, names: Sequence[str] = ()) -> Any:
    """The answer to an encoded request. `names`: those of the nodes, if they need not be sent."""
    request: Any = _decoded(wire_pb2.Change if method == CHANGE else _VERBS[method].request, encoded)
    # Args that are not known come before all other mistakes: the gateway sends the call again.
    versions = _versions(backend, request)
    name = _hook(request.hook) if method == CHANGE else method
    try:
        return await _answered(name, backend, versions, tables, request, names)
    except (Exception, SystemExit) as raised:
        # The method of the service does not say which hook has failed.
        error = call_error(name, raised)
        raise error from error.__cause__


def _hook(number: int) -> str:
    """The hook that a request names."""
    if not number:
        raise missing("hook")
    name = _HOOKS.get(number)
    if name is None:
        raise invalid(f"hook is {number}; expected VERB_BEFORE_FILTER, VERB_BEFORE_FILTER_NODES or VERB_BEFORE_SCORE")
    note("extender.hook", in_sentence(name))
    known(method=name)
    return name


async def _answered(
    name: str, backend: Backend, versions: Versions, tables: Tables, request: Any, names: Sequence[str]
) -> Message:
    verb = _VERBS[name]
    prepared, terms = _prepared(backend, versions, request.call, name)
    try:
        question = Question(request, terms, tables)
    except Missed as missed:
        note("extender.miss", policy_pb2.Miss.Name(missed.miss))
        return verb.response(result=policy_pb2.Result(miss=missed.miss))
    known(pod=question.pod)
    decided = await verb.decided(Asked(prepared, terms, request, question, names))
    note("extender.nodes.evaluated", question.count)
    result = policy_pb2.Result(evaluated=question.count, revision=prepared.declaration.revision)
    return verb.response(result=result, **decided)
