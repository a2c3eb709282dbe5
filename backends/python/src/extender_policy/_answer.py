"""From an encoded request to an encoded answer, without sockets: fulfills what the contract requires of a backend.

The functions are coroutines, so that the methods of a policy may be, too. A policy without coroutine functions never
waits: `finished` runs such a coroutine to its end without an event loop.
"""

from __future__ import annotations

import copy
import inspect
import operator
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from ._api.sdk import wire_pb2
from ._api.v1beta1 import info_pb2, outcomes_pb2, pod_pb2, policy_pb2
from ._backend import Backend, Prepared, Versions
from ._calls import known, note
from ._declaration import Terms
from ._errors import cut, exhausted, failed, invalid, missing
from ._limits import BIND_MESSAGE_BYTES, RULE_BYTES
from ._named import NamedArgs
from ._question import Question, check_pod, check_purpose, decoded_pod, required
from .candidate import BindAsk, Candidate
from .pod import Pod
from .reads import quoted
from .verdict import NO_OPINION, Bind, Eviction, Verdict

INT32 = range(-(1 << 31), 1 << 31)

MAX_REASON_BYTES = 900
"""The longest reason. The gateway shows 200 bytes of it, and accepts an answer of 1 KiB per node."""

MAX_SMALL_BYTES = 2 << 20
"""A larger request without pods and nodes is not decoded. The args, its largest part, have at most 1 MiB."""

T = TypeVar("T")
M = TypeVar("M", bound=Message)


def finished(answer: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        answer.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    answer.close()
    raise failed("the policy failed: it waits, which the server with threads cannot do; use run_async or serve_async")


def info(backend: Backend, encoded: bytes) -> info_pb2.GetInfoResponse:
    """The answer to the handshake."""
    request = _decoded(info_pb2.GetInfoRequest, encoded)
    return backend._policy_for(request.args).declaration.response


class Asked(NamedTuple):
    """A request that can be answered, and the policy that is asked."""

    prepared: Prepared
    terms: Terms
    request: Any
    question: Question
    names: Sequence[str]
    """Those of the nodes, for errors, if they need not be sent."""

    def place(self, position: int) -> str:
        """A node by its position, for errors: its name is sent only if it is read."""
        name = self.names[position] if self.names else self.question.nodes[position]._row.name
        return f"node {quoted(name)}" if name else f"position {position}"


async def filtered(asked: Asked) -> dict[str, Any]:
    """On which of the nodes the pod may not run; with scores if they are wanted and may be given."""
    verdicts = await _answers(asked, "filter_all", asked.question.nodes)
    rejections = _rejections(verdicts, asked.place)
    note("extender.nodes.rejected", sum(len(rejection.positions) for rejection in rejections))
    return {"rejections": rejections, "scores": await _early_scores(asked) if asked.request.want_scores else None}


async def scored(asked: Asked) -> dict[str, Any]:
    """How good each of the nodes is."""
    return {"scores": await _scores(asked)}


async def preempted(asked: Asked) -> dict[str, Any]:
    """Which pods may be evicted on which of the nodes."""
    candidates = _candidates(asked.request, asked.question, asked.terms)
    return {"kept": _kept(asked, candidates, await _answers(asked, "preempt_all", candidates))}


async def bind_pod(backend: Backend, encoded: bytes) -> policy_pb2.BindResponse:
    """Binds the pod, or declines."""
    request = _decoded(wire_pb2.Binding, encoded)
    prepared, terms = _prepared(backend, _versions(backend, request), request.call, "Bind")
    check_purpose(request.call.purpose, has_side_effects=True)
    pod = None
    if request.pod:
        message = decoded_pod(b"".join(request.pod))
        check_pod("pod", message, terms)
        if not message.HasField("facts"):
            raise missing("pod.facts")
        pod = Pod(message, terms.pods, request.call)
    for field in ("namespace", "name", "uid", "node"):
        if not getattr(request, field):
            raise missing(field)
    if pod is not None:
        _check_same_pod(request, message)
    known(pod=f"{request.namespace}/{request.name}")
    ask = BindAsk(request.namespace, request.name, request.uid, request.node, pod, request.call.id)
    answer = await _called(prepared, "bind", ask)
    if not isinstance(answer, Bind):
        raise failed(f"bind returned {_short(answer)}; expected Bind.BOUND, Bind.declined(...) or Bind.not_bound(...)")
    if answer.why is None:
        return policy_pb2.BindResponse(outcome=policy_pb2.BIND_OUTCOME_BOUND)
    why = cut(str(answer.why), BIND_MESSAGE_BYTES)
    outcome = policy_pb2.BIND_OUTCOME_DECLINED if answer.is_declined else policy_pb2.BIND_OUTCOME_NOT_BOUND
    return policy_pb2.BindResponse(outcome=outcome, message=why)


def _check_same_pod(request: wire_pb2.Binding, pod: pod_pb2.Pod) -> None:
    """Rejects facts about another pod: what a policy decides from them would be done to this one.

    What the verb does not read is left out.
    """
    for field, told, meant in (
        ("facts.namespace", pod.facts.namespace, request.namespace),
        ("identity.name", pod.identity.name, request.name),
        ("identity.uid", pod.identity.uid, request.uid),
    ):
        if told and told != meant:
            raise invalid(f"pod.{field} is that of another pod than the one to bind")


def _decoded(kind: type[M], encoded: bytes) -> M:
    try:
        return kind.FromString(encoded)
    except DecodeError as error:
        raise invalid(f"the message cannot be decoded: {error}") from error


def decoded_small(kind: type[M], encoded: bytes) -> M:
    """A request without pods and nodes."""
    if len(encoded) > MAX_SMALL_BYTES:
        raise exhausted(f"the request has {len(encoded)} bytes; at most {MAX_SMALL_BYTES} are decoded", "TOO_LARGE")
    return _decoded(kind, encoded)


def _versions(
    backend: Backend,
    request: wire_pb2.Question | wire_pb2.Change | wire_pb2.Preemption | wire_pb2.Binding | outcomes_pb2.ReportRequest,
) -> Versions:
    """The policy for the args of a call, which its trace names."""
    required(request, "call")
    call = request.call
    note("extender.call.id", call.id)
    note("extender.backend.name", call.backend)
    if call.cluster:
        note("extender.cluster.name", call.cluster)
    return backend._versions(NamedArgs.of(call))


def _prepared(backend: Backend, versions: Versions, call: policy_pb2.Call, verb: str) -> tuple[Prepared, Terms]:
    """Of this policy, the version that answers a call, which its trace names."""
    prepared, terms = backend._policy_reading(versions, call, verb)
    note("extender.policy.name", prepared.declaration.name)
    note("extender.policy.revision", prepared.declaration.revision)
    return prepared, terms


async def _called(prepared: Prepared, method: str, *arguments: object) -> Any:
    """What the policy answers, if it is ready."""
    prepared.policy.ready()
    answer = getattr(prepared.policy, method)(*arguments)
    if inspect.isawaitable(answer):
        answer = await answer
    elif isinstance(answer, list) and answer and inspect.isawaitable(answer[0]):
        answer = [await one for one in answer]
    return answer


async def _answers(asked: Asked, method: str, about: object) -> Sequence[Any]:
    """One answer for each node."""
    answers = await _called(asked.prepared, method, asked.question.pod, about)
    return _one_per_node(method, answers, asked.question.count)


def _one_per_node(method: str, answers: Any, asked: int) -> Sequence[Any]:
    """A policy that answers for more or fewer nodes than the call has cannot be trusted to have matched them."""
    if not isinstance(answers, Iterable):
        raise failed(f"{method} returned {_short(answers)}; expected a list with one answer per node")
    answers = answers if isinstance(answers, list | tuple) else list(answers)
    given = len(answers)
    if given != asked:
        raise failed(f"{method} returned {given} answers for {asked} nodes; expected one per node")
    result: Sequence[Any] = answers
    return result


def _rejections(verdicts: Sequence[Verdict], place: Callable[[int], str]) -> list[policy_pb2.Rejection]:
    """The rejected nodes, by all that is said of them, in the order of their first occurrence."""
    # Most policies have few verdicts for many nodes.
    given: defaultdict[int, list[int]] = defaultdict(list)
    for position, which in enumerate(map(id, verdicts)):
        given[which].append(position)
    groups: defaultdict[tuple[str, str, bool, int | None], list[list[int]]] = defaultdict(list)
    for positions in given.values():
        verdict = verdicts[positions[0]]
        if type(verdict) is not Verdict:
            raise failed(f"filter returned {_short(verdict)} for {place(positions[0])}; expected a Verdict")
        if verdict.reason is not None:
            key = verdict.reason, verdict.rule, verdict.unresolvable, verdict.retry_after
            groups[key].append(positions)
    return [
        policy_pb2.Rejection(
            reason=cut(reason, MAX_REASON_BYTES),
            rule=cut(rule, RULE_BYTES),
            kind=policy_pb2.REJECTION_KIND_UNRESOLVABLE if unresolvable else policy_pb2.REJECTION_KIND_UNSCHEDULABLE,
            positions=lists[0] if len(lists) == 1 else sorted(chain.from_iterable(lists)),
            retry_after_seconds=retry_after,
        )
        for (reason, rule, unresolvable, retry_after), lists in groups.items()
    ]


async def _early_scores(asked: Asked) -> policy_pb2.Scores | None:
    """Scores with the verdicts.

    If they cannot be given, the gateway requests them in a separate call: these nodes include rejected ones, for which
    the policy may not expect to be called.
    """
    score = asked.prepared.declaration.terms.get("Score")
    if score is None or not score.may_come_with(asked.terms):
        return None
    # Each of the two verbs may be pure without the other.
    question = copy.copy(asked.question)
    question.pod = question.pod._asked_by(is_pure=score.is_pure)
    try:
        return await _scores(asked._replace(question=question))
    except (Exception, SystemExit):
        return None


async def _scores(asked: Asked) -> policy_pb2.Scores:
    values = _whole_numbers(asked, await _answers(asked, "score_all", asked.question.nodes))
    absent = [position for position, value in enumerate(values) if value == NO_OPINION]
    for position in absent:
        values[position] = 0
    return policy_pb2.Scores(values=values, absent=absent)


def _whole_numbers(asked: Asked, scores: Sequence[Any]) -> list[int]:
    """As numbers of 32 bits."""
    try:
        values = list(map(operator.index, scores))
    except TypeError:
        values = None
    if values is not None and min(values) >= INT32.start and max(values) < INT32.stop:
        return values
    for position, score in enumerate(scores):
        if not (hasattr(score, "__index__") and operator.index(score) in INT32):
            raise failed(
                f"score returned {_short(score)} for {asked.place(position)}; expected a whole number of 32 bits, "
                f"from {INT32.start} to {INT32.stop - 1}"
            )
    raise AssertionError("one of the scores is wrong")


def _candidates(request: wire_pb2.Preemption, question: Question, terms: Terms) -> tuple[Candidate, ...]:
    """The candidates, one for each node, as a policy may read them."""
    given = len(request.candidates)
    if given != question.count:
        raise invalid(f"nodes.count is {question.count} and there are {given} candidates; each node has one")
    if b"" in request.candidates:
        raise invalid("candidates has an empty entry; each entry has content")
    messages = []
    for at, encoded in enumerate(request.candidates):
        try:
            message = policy_pb2.Candidate.FromString(encoded)
        except DecodeError as error:
            raise invalid(f"candidates[{at}] is not a Candidate: {error}") from error
        if not message.victims and not message.placeholder:
            raise invalid(f"candidates[{at}] has no victims and is no placeholder; expected one of them")
        for position, victim in enumerate(message.victims):
            path = f"candidates[{at}].victims[{position}]"
            if not victim.uid:
                raise invalid(f"{path}.uid is missing; every victim has it")
            check_pod(f"{path}.pod", victim.pod, terms)
        messages.append(message)
    return tuple(Candidate(node, message, terms.pods) for node, message in zip(question.nodes, messages, strict=True))


def _kept(asked: Asked, candidates: Sequence[Candidate], evictions: Sequence[Any]) -> list[policy_pb2.KeptCandidate]:
    """The candidates that stay. A policy that names a victim that does not exist has made a mistake."""
    kept = []
    for position, (candidate, eviction) in enumerate(zip(candidates, evictions, strict=True)):
        if type(eviction) is not Eviction:
            raise failed(f"preempt returned {_short(eviction)} for {asked.place(position)}; expected an Eviction")
        there = len(candidate.victims)
        if eviction.positions is None:
            victims = list(range(there))
        elif eviction.positions:
            victims = sorted(eviction.positions)
            if len(set(victims)) < len(victims) or not 0 <= victims[0] <= victims[-1] < there:
                raise failed(
                    f"preempt returned victims {victims} for {asked.place(position)}, which has {there}; expected each "
                    "at most once, at least one victim, or Eviction.SPARE"
                )
        else:
            continue
        kept.append(policy_pb2.KeptCandidate(position=position, victims=victims))
    return kept


def _short(value: object) -> str:
    try:
        return cut(repr(value), 100)
    except Exception:
        return f"a {type(value).__name__}"
