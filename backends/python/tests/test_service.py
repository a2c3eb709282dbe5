"""The methods of PolicyService, over sockets, with both servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import grpc
import pytest
from client import (
    EVERYTHING_OF_PODS,
    NOTHING,
    by_digest,
    by_table,
    call,
    inline,
    named,
    pod,
    question,
    reads_of,
    reason,
    row,
    sha256,
    status,
    values,
)
from conftest import Serve
from grpc import StatusCode

from extender_policy import (
    NO_OPINION,
    Args,
    Between,
    Bind,
    BindAsk,
    BindFailed,
    Candidate,
    CannotAnswer,
    Eviction,
    Info,
    Node,
    NodePart,
    Nodes,
    NotReady,
    Pod,
    PodPart,
    PodsBy,
    Policy,
    Reads,
    Replaceable,
    Scale,
    Verb,
    Verdict,
    _answer,
    configured,
)
from extender_policy._api.v1beta1 import map_pb2, node_pb2, pod_pb2, policy_pb2


class Scripted(Policy):
    """Answers about each node by its name."""

    def __init__(self, info: Info | None = None, ready: str = "") -> None:
        self._info = info or everything()
        self._ready = ready

    def info(self) -> Info:
        return self._info

    def ready(self) -> None:
        if self._ready:
            raise NotReady(self._ready)

    def filter(self, pod: Pod, node: Node) -> Verdict:
        if node.name == "raises":
            raise ValueError("this node is a bug")
        if node.name == "late":
            raise NotReady("old")
        if node.name == "unknown":
            raise CannotAnswer("no such claim")
        if node.name == "none":
            return None  # type: ignore[return-value]
        if node.name.startswith("no"):
            after = node.label("after")
            return Verdict.reject(
                node.name,
                rule=node.label("rule") or "",
                unresolvable="!" in node.name,
                retry_after=None if after is None else float(after),
            )
        return Verdict.accept()

    def score(self, pod: Pod, node: Node) -> int:
        if node.name == "raises":
            raise ValueError("this node is a bug")
        return int(node.label("score") or 0)

    def preempt(self, pod: Pod, candidate: Candidate) -> Eviction:
        if candidate.node.name == "beyond":
            return Eviction.only([0, 7])
        if candidate.node.name == "twice":
            return Eviction.only([0, 0])
        return Eviction.of(candidate, lambda victim: victim.pod is not None and victim.pod.priority < pod.priority)

    def bind(self, ask: BindAsk) -> Bind:
        if ask.name == "declined":
            return Bind.declined("ä" * 600)
        if ask.name == "not bound":
            return Bind.not_bound("ö" * 600)
        if ask.name == "failed":
            raise BindFailed("the apiserver is away")
        if ask.name == "locked":
            raise CannotAnswer("node locked")
        if ask.name == "raises":
            raise RuntimeError("a bug")
        return Bind.BOUND


VERB = Verb.per_node().reads(Reads.everything())


def everything() -> Info:
    info = Info("scripted", "1.2.3").revision("r1").filters(VERB).scores(VERB, Scale.unbounded())
    return info.preempts(VERB).binds(Reads.everything())


def failing(answer: Callable[[], object]) -> tuple[StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        answer()
    return status(raised.value)


@pytest.mark.parametrize(
    ("changed", "code", "expected"),
    [
        ({"pod": pod(namespace="n" * (17 << 20))}, StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE"),
        ({"call": call(args_sha256=sha256(b"x"))}, StatusCode.FAILED_PRECONDITION, "ARGS_UNKNOWN"),
        ({"call": call(**named(b'{"a": 1}'))}, StatusCode.INVALID_ARGUMENT, "INVALID_ARGS"),
        ({"call": call(args=b"{}")}, StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"),
        ({"call": call(reads=sha256(b""))}, StatusCode.FAILED_PRECONDITION, "OTHER_READS"),
        # The first of several.
        (
            {"call": call(policy_pb2.PURPOSE_UNSPECIFIED, args_sha256=sha256(b"x"), reads=b"x"), "pod": None},
            StatusCode.FAILED_PRECONDITION,
            "ARGS_UNKNOWN",
        ),
        ({"call": call(policy_pb2.PURPOSE_REPLAY)}, StatusCode.FAILED_PRECONDITION, "PURPOSE"),
        ({"call": None}, StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"),
        ({"nodes": inline([row("late")])}, StatusCode.UNAVAILABLE, "NOT_READY"),
        ({"nodes": inline([row("unknown")])}, StatusCode.ABORTED, "CANNOT_ANSWER"),
        ({"nodes": inline([row("raises")])}, StatusCode.INTERNAL, "POLICY_FAILED"),
        ({}, StatusCode.UNIMPLEMENTED, ""),
    ],
)
def test_errors_of_one_code_have_different_reasons(
    serve: Serve, changed: dict[str, Any], code: StatusCode, expected: str
) -> None:
    client = serve(Scripted(Info("p", "1").filters(VERB.side_effects())))
    fields = {"call": call(), "pod": pod(), "nodes": inline([row("a")]), **changed}

    def ask() -> object:
        if changed:
            return client.filter(policy_pb2.FilterRequest(**fields))
        return client.score(policy_pb2.ScoreRequest(**fields))

    with pytest.raises(grpc.RpcError) as raised:
        ask()
    assert (status(raised.value)[0], reason(raised.value)) == (code, expected)


def test_rejections_are_grouped(serve: Serve) -> None:
    client = serve(Scripted())
    rows = [row("no"), row("yes"), row("no!"), row("no"), row("no", rule="r")]
    answer = client.filter(question(inline(rows)))
    assert answer.result == policy_pb2.Result(evaluated=5, revision="r1")
    assert not answer.HasField("scores")
    found = [(r.reason, r.rule, r.kind, list(r.positions)) for r in answer.rejections]
    unschedulable, unresolvable = policy_pb2.REJECTION_KIND_UNSCHEDULABLE, policy_pb2.REJECTION_KIND_UNRESOLVABLE
    assert found == [("no", "", unschedulable, [0, 3]), ("no!", "", unresolvable, [2]), ("no", "r", unschedulable, [4])]


def test_equal_verdicts_are_one_rejection() -> None:
    first, second = (Verdict("no", "", unresolvable=False, retry_after=None) for _ in range(2))
    (rejection,) = _answer._rejections([first, second, Verdict.accept(), first], str)
    assert list(rejection.positions) == [0, 1, 3]


def test_a_rejection_may_say_when_to_try_again(serve: Serve) -> None:
    given = ["0.2", "1", "7", "-3", "inf", "4294967294.5"]
    answer = serve(Scripted()).filter(question(inline([row("no"), *(row("no", after=after) for after in given)])))
    found = [
        (list(r.positions), r.retry_after_seconds if r.HasField("retry_after_seconds") else None)
        for r in answer.rejections
    ]
    # Nodes that are rejected until the same time are one entry.
    assert found == [([0], None), ([1, 2], 1), ([3], 7), ([4], 0), ([5, 6], 4294967295)]


def test_long_reasons_and_rules_are_cut(serve: Serve) -> None:
    name = "no" + "ä" * 2000
    answer = serve(Scripted()).filter(question(inline([row(name, rule=name)])))
    (rejection,) = answer.rejections
    assert len(rejection.reason.encode()) == 900
    assert len(rejection.rule.encode()) <= 63


def test_scores_come_alone_or_with_the_verdicts(serve: Serve) -> None:
    client = serve(Scripted())
    rows = [row("a", score="-7"), row("no", score="2147483647")]
    request = question(inline(rows))
    scored = client.score(policy_pb2.ScoreRequest(call=request.call, pod=request.pod, nodes=request.nodes))
    assert (scored.result.evaluated, list(scored.scores.values)) == (2, [-7, 2147483647])
    request.want_scores = True
    answer = client.filter(request)
    assert (len(answer.rejections), list(answer.scores.values)) == (1, [-7, 2147483647])
    # A score that fails leaves the verdicts.
    request.nodes.CopyFrom(inline([row("a", score="x")]))
    answer = client.filter(request)
    assert (answer.result.evaluated, answer.HasField("scores")) == (1, False)


def test_no_opinion_is_no_score(serve: Serve) -> None:
    client = serve(Scripted())
    rows = [row("a", score="7"), row("b", score=str(NO_OPINION)), row("c"), row("d", score=str(NO_OPINION))]
    request = question(inline(rows))
    scored = client.score(policy_pb2.ScoreRequest(call=request.call, pod=request.pod, nodes=request.nodes))
    assert scored.scores == policy_pb2.Scores(values=[7, 0, 0, 0], absent=[1, 3])
    request.want_scores = True
    assert client.filter(request).scores == scored.scores


@pytest.mark.parametrize("score", [1 << 31, -(1 << 31) - 1])
def test_a_score_of_more_than_32_bits_is_named(serve: Serve, score: int) -> None:
    client = serve(Scripted())
    rows = [row("a"), row("b", score=str(score))]
    request = policy_pb2.ScoreRequest(call=call(), pod=pod(), nodes=inline(rows))
    code, text = failing(lambda: client.score(request))
    assert code is StatusCode.INTERNAL
    assert f'score returned {score} for node "b"; expected a whole number of 32 bits' in text


def test_scores_do_not_come_with_verdicts_about_something_else(serve: Serve) -> None:
    reads = Reads().node(NodePart.NAME, NodePart.TAINTS)
    reads.node_label("rule")
    verb = Verb.per_node()
    for score in (VERB, Verb.whole_set().reads(reads), verb.side_effects().reads(reads)):
        client = serve(Scripted(Info("p", "1").filters(verb.reads(reads)).scores(score, Scale.unbounded())))
        facts = node_pb2.NodeFacts(labels=values("r"))
        request = question(inline([node_pb2.NodeRow(name="a", facts=facts)]), reads=reads_of(client))
        request.want_scores = True
        answer = client.filter(request)
        assert (answer.result.evaluated, answer.HasField("scores")) == (1, False)


class Answers(Policy):
    """Whole-set answers that are wrong."""

    def __init__(self, answers: Any) -> None:
        self._answers = answers

    def info(self) -> Info:
        verb = Verb.whole_set().reads(Reads.everything())
        return Info("answers", "1").filters(verb).scores(verb, Scale.unbounded())

    def filter_all(self, pod: Pod, nodes: Nodes) -> Any:
        return self._answers

    def score_all(self, pod: Pod, nodes: Nodes) -> Any:
        return self._answers


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([Verdict.accept()], "filter_all returned 1 answers for 2 nodes; expected one per node"),
        ([Verdict.accept(), True], 'filter returned True for node "b"; expected a Verdict'),
        (None, "filter_all returned None; expected a list with one answer per node"),
    ],
)
def test_answers_that_do_not_match_the_nodes_are_errors(serve: Serve, answers: Any, expected: str) -> None:
    client = serve(Answers(answers))
    assert failing(lambda: client.filter(question(inline([row("a"), row("b")])))) == (StatusCode.INTERNAL, expected)


def test_a_whole_set_may_be_answered_by_a_generator_and_by_numbers_of_other_types(serve: Serve) -> None:
    class Number:
        def __index__(self) -> int:
            return 5

    class Generator(Answers):
        def filter_all(self, pod: Pod, nodes: Nodes) -> Any:
            return (Verdict.reject(node.name) for node in nodes)

        def score_all(self, pod: Pod, nodes: Nodes) -> Any:
            return [Number(), True]

    client = serve(Generator(None))
    answer = client.filter(question(inline([row("a"), row("b")])))
    assert [rejection.reason for rejection in answer.rejections] == ["a", "b"]
    request = policy_pb2.ScoreRequest(call=call(), pod=pod(), nodes=inline([row("a"), row("b")]))
    assert list(client.score(request).scores.values) == [5, 1]


def victim(uid: str, priority: int | None) -> policy_pb2.Victim:
    return policy_pb2.Victim(uid=uid, pod=None if priority is None else pod(priority=priority))


def test_preempt_answers_with_positions(serve: Serve) -> None:
    client = serve(Scripted())
    candidates = [
        policy_pb2.Candidate(victims=[victim("a", 1), victim("b", 9), victim("c", 2)]),
        policy_pb2.Candidate(victims=[victim("d", None)]),
        policy_pb2.Candidate(victims=[victim("e", 1)], pdb_violations=1),
    ]
    request = policy_pb2.PreemptRequest(
        call=call(), pod=pod(priority=5), nodes=inline([row("x"), row("y"), row("z")]), candidates=candidates
    )
    answer = client.preempt(request)
    assert answer.result.evaluated == 3
    assert [(kept.position, list(kept.victims)) for kept in answer.kept] == [(0, [0, 2]), (2, [0])]


@pytest.mark.parametrize("name", ["beyond", "twice"])
def test_victims_that_do_not_exist_are_an_error(serve: Serve, name: str) -> None:
    client = serve(Scripted())
    candidates = [policy_pb2.Candidate(victims=[victim("a", 1)])]
    request = policy_pb2.PreemptRequest(call=call(), pod=pod(), nodes=inline([row(name)]), candidates=candidates)
    code, text = failing(lambda: client.preempt(request))
    assert code is StatusCode.INTERNAL
    assert "expected each at most once, at least one victim, or Eviction.SPARE" in text


def binding(name: str = "web-1", **fields: Any) -> policy_pb2.BindRequest:
    given: dict[str, Any] = {
        "call": call(reads=EVERYTHING_OF_PODS),
        "namespace": "shop",
        "name": name,
        "uid": "u1",
        "node": "n1",
    }
    return policy_pb2.BindRequest(**given | fields)


def test_bind_answers_what_the_policy_says(serve: Serve) -> None:
    client = serve(Scripted())
    assert client.bind(binding()).outcome == policy_pb2.BIND_OUTCOME_BOUND
    declined = client.bind(binding("declined"))
    assert (declined.outcome, len(declined.message.encode())) == (policy_pb2.BIND_OUTCOME_DECLINED, 1024)
    not_bound = client.bind(binding("not bound"))
    assert (not_bound.outcome, len(not_bound.message.encode())) == (policy_pb2.BIND_OUTCOME_NOT_BOUND, 1024)
    assert failing(lambda: client.bind(binding("failed"))) == (StatusCode.UNAVAILABLE, "the apiserver is away")
    code, text = failing(lambda: client.bind(binding("raises")))
    assert (code, text) == (StatusCode.INTERNAL, "bind failed (RuntimeError); see the policy's log")


def test_an_exception_fails_only_its_call(serve: Serve) -> None:
    client = serve(Scripted())
    request = question(inline([row("raises")]))
    expected = StatusCode.INTERNAL, "filter failed (ValueError); see the policy's log"
    assert failing(lambda: client.filter(request)) == expected
    assert client.filter(question(inline([row("a")]))).result.evaluated == 1
    code, text = failing(lambda: client.filter(question(inline([row("none")]))))
    assert (code, text) == (StatusCode.INTERNAL, 'filter returned None for node "none"; expected a Verdict')


def test_a_policy_that_cannot_answer_about_a_pod_says_so(serve: Serve) -> None:
    client = serve(Scripted())
    about = failing(lambda: client.filter(question(inline([row("unknown")]))))
    assert about == (StatusCode.ABORTED, "no such claim")
    assert failing(lambda: client.bind(binding("locked"))) == (StatusCode.ABORTED, "node locked")


def test_a_policy_that_is_not_ready_does_not_decide(serve: Serve) -> None:
    client = serve(Scripted(ready="prices are a day old"))
    expected = StatusCode.UNAVAILABLE, "prices are a day old"
    assert failing(lambda: client.filter(question(inline([row("a")])))) == expected
    assert failing(lambda: client.bind(binding())) == expected
    assert client.get_info().name == "scripted"


def test_status_messages_have_at_most_a_kibibyte(serve: Serve) -> None:
    client = serve(Scripted(ready="ä" * 70_000))
    _, text = failing(lambda: client.filter(question(inline([row("a")]))))
    assert 1000 < len(text.encode()) <= 1024


def test_side_effects_are_only_for_decisions(serve: Serve) -> None:
    client = serve(Scripted(Info("p", "1").filters(VERB.side_effects())))
    request = question(inline([row("a")]))
    assert client.filter(request).result.evaluated == 1
    for purpose in (policy_pb2.PURPOSE_SPECULATE, policy_pb2.PURPOSE_REPLAY):
        request.call.purpose = purpose
        code, text = failing(lambda: client.filter(request))
        assert code is StatusCode.FAILED_PRECONDITION
        assert text == "this policy has side effects and only answers PURPOSE_DECIDE"
    # A purpose of a later version.
    unknown = bytes(request.SerializeToString()).replace(b"\x10\x04", b"\x10\x4d")
    code, _ = failing(lambda: client.call("Filter", unknown, policy_pb2.FilterResponse))
    assert code is StatusCode.FAILED_PRECONDITION


def test_a_placeholder_is_left_to_the_next_policy(serve: Serve) -> None:
    candidates = [policy_pb2.Candidate(placeholder=True)]
    request = policy_pb2.PreemptRequest(call=call(), pod=pod(), nodes=inline([row("n")]), candidates=candidates)
    (kept,) = serve(Scripted()).preempt(request).kept
    assert (kept.position, list(kept.victims)) == (0, [])


def test_rows_and_pods_that_are_no_messages_are_named(serve: Serve) -> None:
    client = serve(Scripted())
    request = question(inline([row("a" * 9)])).SerializeToString()
    code, text = failing(
        lambda: client.call(
            "Filter", request.replace(b"\x09" + b"a" * 9, b"\x7f" + b"a" * 9), policy_pb2.FilterResponse
        )
    )
    assert code is StatusCode.INVALID_ARGUMENT
    assert text.startswith("nodes.rows.rows[0] is not a NodeRow")


def test_unknown_fields_and_messages_in_parts_are_read(serve: Serve) -> None:
    client = serve(Scripted())
    request = question(inline([row("no")])).SerializeToString()
    # A second part of call, pod and nodes, with a field of a later version.
    for field in (b"\x0a", b"\x12", b"\x1a"):
        request += field + b"\x05\x82\x7d\x02ab"
    answer = client.call("Filter", request + b"\x82\x7d\x02ab", policy_pb2.FilterResponse)
    assert [rejection.reason for rejection in answer.rejections] == ["no"]


class Racks(Policy):
    """Reads little, and what it was told to."""

    def __init__(self, key: str = "rack", read: str | None = None, revision: str = "1") -> None:
        self._key, self._read, self._revision = key, read or key, revision

    def info(self) -> Info:
        reads = Reads()
        reads.node_label(self._key)
        reads.node_label("zone")
        reads.pod_label("app")
        return Info("racks", "1").revision(self._revision).filters(Verb.per_node().pure().reads(reads))

    def filter(self, pod: Pod, node: Node) -> Verdict:
        rack = node.label(self._read)
        return Verdict.reject(f"{rack} {pod.label('app')}")


def rack(value: str, absent: Sequence[int] = ()) -> node_pb2.NodeRow:
    return node_pb2.NodeRow(facts=node_pb2.NodeFacts(labels=values(value, "z", absent=absent)))


def placed(**facts: Any) -> pod_pb2.Pod:
    return pod_pb2.Pod(facts=pod_pb2.PodFacts(labels=values("web"), **facts))


def test_values_come_by_position(serve: Serve) -> None:
    client = serve(Racks())
    request = question(inline([rack("r1"), rack("", [0]), rack("")]), placed(), reads=reads_of(client))
    answer = client.filter(request)
    assert [rejection.reason for rejection in answer.rejections] == ["r1 web", "None web", " web"]


@pytest.mark.parametrize(
    "given", [values(), values("r1", "z", "x"), values("", "", absent=[1, 0]), values("", "z", absent=[2])]
)
def test_values_that_do_not_match_the_keys_are_named(serve: Serve, given: map_pb2.MapValues) -> None:
    client = serve(Racks())
    request = question(inline([rack("r1")]), placed(), reads=reads_of(client))
    request.nodes.rows.rows[0].facts.labels.CopyFrom(given)
    code, text = failing(lambda: client.filter(request))
    assert code is StatusCode.INVALID_ARGUMENT
    assert text.startswith("nodes.rows.rows[0].facts.labels.")


def test_nodes_of_which_nothing_is_read_are_empty(serve: Serve) -> None:
    class Counts(Policy):
        def info(self) -> Info:
            return Info("counts", "1").filters(Verb.whole_set())

        def filter_all(self, pod: Pod, nodes: Nodes) -> list[Verdict]:
            return [Verdict.reject("no") for _ in nodes]

    client = serve(Counts())
    empty = inline([node_pb2.NodeRow()] * 3)
    request = question(empty, pod_pb2.Pod(facts=pod_pb2.PodFacts()), reads=NOTHING)
    assert list(client.filter(request).rejections[0].positions) == [0, 1, 2]
    text = "nodes.rows.rows[0].name is missing; what this policy declares to read has it"
    assert failing(lambda: serve(Scripted()).filter(question(empty))) == (StatusCode.INVALID_ARGUMENT, text)


@pytest.mark.parametrize("form", [inline([node_pb2.NodeRow()] * 200_001), by_table("t", [1] * 200_001)])
def test_there_are_at_most_200000_nodes(serve: Serve, form: node_pb2.Nodes) -> None:
    client = serve(Scripted(Info("p", "1").filters(Verb.per_node())))
    request = question(form, pod_pb2.Pod(facts=pod_pb2.PodFacts()), reads=NOTHING)
    with pytest.raises(grpc.RpcError, match="nodes.count is 200001; at most 200000 nodes are read") as raised:
        client.filter(request)
    assert reason(raised.value) == "TOO_LARGE"


def test_reading_what_is_not_declared_fails_the_call(serve: Serve) -> None:
    client = serve(Racks(read="room"))
    request = question(inline([rack("r1")]), placed(), reads=reads_of(client))
    text = 'filter failed: label "room" of the node is read and not declared; declare it with Reads.node_label'
    assert failing(lambda: client.filter(request)) == (StatusCode.INTERNAL, text)


def test_another_declaration_is_not_answered(serve: Serve) -> None:
    client = serve(Racks())
    expected = "call.reads is not the SHA-256 of what this policy now declares to read; repeat the handshake"
    for reads in (b"", reads_of(client)[1:], sha256(b"something else")):
        request = question(inline([rack("r1")]), placed(), reads=reads)
        assert failing(partial(client.filter, request)) == (StatusCode.FAILED_PRECONDITION, expected)


def test_an_earlier_version_answers_its_calls(serve: Serve) -> None:
    backend = Replaceable(Racks())
    client = serve(backend)
    request = question(inline([rack("r1")]), placed(), reads=reads_of(client))
    backend.replace(Racks("room", revision="2"))
    assert (client.get_info().revision, client.filter(request).result.revision) == ("2", "1")
    for number in range(15):
        backend.replace(Racks(f"key-{number}", revision="3"))
    assert client.filter(request).result.revision == "1"
    for number in range(15, 17):
        backend.replace(Racks(f"key-{number}", revision="3"))
    assert failing(lambda: client.filter(request))[0] is StatusCode.FAILED_PRECONDITION
    with pytest.raises(ValueError, match="no verb is declared"):
        backend.replace(Scripted(Info("p", "1")))
    backend.replace(Racks(revision="4"))
    assert client.filter(request).result.revision == "4"
    # Versions that declare the same do not displace others.
    backend.replace(Racks("room", revision="5"))
    for _ in range(20):
        backend.replace(Racks("shelf", revision="6"))
    assert client.filter(request).result.revision == "4"


def test_a_policy_may_take_the_place_of_itself(serve: Serve) -> None:
    class Renewed(Racks):
        key = "rack"

        def current(self) -> Policy:
            if not self.key:
                raise OSError("no rules")
            return self if self._key == self.key else Renewed(self.key, revision=self.key)

    for backend, args in ((Renewed(), b"{}"), (configured(lambda args: Renewed()), b'{"any": 1}')):
        Renewed.key = "rack"
        client = serve(backend)
        request = question(inline([rack("r1")]), placed(), reads=reads_of(client, args=args), **named(args))
        Renewed.key = "room"
        assert client.get_info(args).revision == "room"
        # What was asked with the declaration of before is answered by it.
        assert client.filter(request).result.revision == "1"
        request.call.reads = reads_of(client, args=args)
        assert client.filter(request).result.revision == "room"
        # A failure is that of the call, until it is repaired.
        Renewed.key = ""
        expected = StatusCode.INTERNAL, "filter failed (OSError); see the policy's log"
        assert failing(partial(client.filter, request)) == expected
        Renewed.key = "room"
        assert client.filter(request).result.revision == "room"


def test_a_policy_that_is_replaced_while_it_names_a_newer_one_stays_replaced(serve: Serve) -> None:
    class Renewed(Racks):
        def current(self) -> Policy:
            backend.replace(Racks(revision="by hand"))
            return Racks(revision="by itself")

    backend = Replaceable(Renewed())
    assert serve(backend).get_info().revision == "by hand"


def test_a_policy_that_cannot_name_a_newer_one_yet_is_served(serve: Serve) -> None:
    class Late(Racks):
        is_late = True

        def current(self) -> Policy:
            if self.is_late:
                raise NotReady("no rules yet")
            return self

    client = serve(Late())
    assert failing(client.get_info) == (StatusCode.UNAVAILABLE, "no rules yet")
    Late.is_late = False
    assert client.get_info().revision == "1"


@dataclass(frozen=True)
class Drain:
    key: str
    most: Annotated[int, Between(1, 10)] = 3


def test_args_choose_the_policy(serve: Serve) -> None:
    built = []

    def build(args: Args) -> Policy:
        drain = args.parse(Drain)
        built.append(drain.key)
        return Racks(drain.key)

    client = serve(configured(build))
    first, second = b'{"key": "rack"}', b'{"key": "room"}'
    reads = reads_of(client, args=first)
    assert reads != reads_of(client, args=second)
    # The handshake has brought them.
    request = question(inline([rack("r1")]), placed(), reads=reads, args_sha256=sha256(first))
    assert client.filter(request).rejections[0].reason == "r1 web"
    assert built == ["rack", "room"]
    for args, expected in [
        (b"", "args: missing field `key`, expected a text"),
        (b"{}", "args: missing field `key`, expected a text"),
        (b'{"key": 1}', "args.key: invalid value: number `1`, expected a text"),
        (b'{"key": "a", "most": 11}', "args.most: invalid value: 11, expected a number from 1 to 10"),
        (b'{"key": "a", "lost": 1}', "args.lost: unknown field `lost`, expected `key` or `most`"),
    ]:
        request.call.args, request.call.args_sha256 = args, sha256(args) if args else b""
        assert failing(partial(client.filter, request)) == (StatusCode.INVALID_ARGUMENT, expected)
        assert failing(partial(client.get_info, args)) == (StatusCode.INVALID_ARGUMENT, expected)


UNKNOWN = StatusCode.FAILED_PRECONDITION, "the args of this call are not known here; send them"


def test_args_that_are_not_known_are_asked_for_once(serve: Serve) -> None:
    built = []

    def build(args: Args) -> Policy:
        built.append(args.parse(Drain).key)
        return Scripted()

    args = b'{"key": "rack"}'
    client = serve(configured(build))
    digest, whole = (question(inline([row("no")]), **fields) for fields in (by_digest(args), named(args)))
    assert failing(lambda: client.filter(digest)) == UNKNOWN
    for request in (whole, digest, whole):
        assert client.filter(request).rejections[0].reason == "no"
    assert built == ["rack"]
    digest.call.reads = EVERYTHING_OF_PODS
    assert client.bind(binding(call=digest.call)).outcome == policy_pb2.BIND_OUTCOME_BOUND


def test_a_policy_without_args_knows_none_but_empty_ones(serve: Serve) -> None:
    client = serve(Scripted())
    for args, code in ((b"{ }", StatusCode.OK), (b'{"a": 1}', StatusCode.INVALID_ARGUMENT)):
        digest, whole = (question(inline([row("no")]), **fields) for fields in (by_digest(args), named(args)))
        assert failing(partial(client.filter, digest)) == UNKNOWN
        if code is StatusCode.OK:
            assert client.filter(whole) == client.filter(digest)
        else:
            assert failing(partial(client.filter, whole))[0] is code
            assert failing(partial(client.filter, digest)) == UNKNOWN


def test_introspection_brings_args_as_well(serve: Serve) -> None:
    info = everything().shows("/a", "", lambda ask: 1)
    client = serve(configured(lambda args: Scripted(info)))
    args = b'{"key": "rack"}'
    client.introspect("/a", args=args)
    assert client.filter(question(inline([row("a")]), **by_digest(args))).result.evaluated == 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"args_sha256": b""}, "call.args_sha256 is missing; it is the SHA-256 of call.args"),
        ({"args_sha256": b"x" * 31}, "call.args_sha256 has 31 bytes; expected the 32 of a SHA-256"),
        ({"args_sha256": b"x" * 33, "args": b""}, "call.args_sha256 has 33 bytes; expected the 32 of a SHA-256"),
        ({"args_sha256": b"x" * 32}, "call.args_sha256 is not the SHA-256 of call.args"),
    ],
)
def test_a_digest_is_that_of_the_args(serve: Serve, fields: dict[str, Any], expected: str) -> None:
    client = serve(configured(lambda args: Scripted()))
    known = named(b'{"key": "rack"}')
    assert client.filter(question(inline([row("a")]), **known)).result.evaluated == 1
    request = question(inline([row("a")]), **known | fields)
    assert failing(lambda: client.filter(request)) == (StatusCode.INVALID_ARGUMENT, expected)


def test_args_of_more_than_a_mebibyte_are_refused(serve: Serve) -> None:
    client = serve(configured(lambda args: Scripted()))
    request = question(inline([row("a")]), **named(b" " * ((1 << 20) + 1)))
    with pytest.raises(grpc.RpcError, match="args has 1048577 bytes; at most 1048576 are allowed") as raised:
        client.filter(request)
    assert reason(raised.value) == "INVALID_ARGS"


def test_policies_are_built_once_and_the_ones_in_use_are_kept() -> None:
    built: list[str] = []

    def build(args: Args) -> Policy:
        built.append(args.parse(Drain).key)
        return Racks()

    backend = configured(build)
    used, other = b'{"key": "used"}', b'{"key": "other"}'
    policies = [backend._policy_for(args) for args in (used, other, used, other)]
    assert (policies[0], policies[1]) == (policies[2], policies[3])
    # Args that come once do not displace those in use.
    for number in range(40):
        backend._policy_for(b'{"key": "%d"}' % number)
    assert backend._policy_for(used) is policies[0]
    assert len(backend._recent._kept) == 16
    assert built.count("used") == built.count("other") == 1
    backend._policy_for(b'{"key": "0"}')
    assert built.count("0") == 2
    # Large args do not add up.
    for number in range(8):
        backend._policy_for(b'{"key": "%d"}' % number + b" " * ((1 << 20) - 20))
    assert backend._recent._size() <= 2 << 20
    assert backend._policy_for(used) is policies[0]
    # More policies in use than are kept.
    for number in range(17):
        in_use = b'{"key": "in use %d"}' % number
        assert backend._policy_for(in_use) is backend._policy_for(in_use)


def test_a_call_without_a_message_ends(serve: Serve) -> None:
    client = serve(Scripted())
    method: Any = client.channel.stream_unary("/extender.policy.v1beta1.PolicyService/Filter", None, None)
    with pytest.raises(grpc.RpcError) as raised:
        method(iter(()), timeout=10)
    assert status(raised.value)[0] is not StatusCode.DEADLINE_EXCEEDED


def test_a_policy_that_cannot_be_built_is_a_failure(serve: Serve) -> None:
    def build(args: Args) -> Policy:
        if args.json.get("declares") == "nothing":
            return Scripted(Info("p", "1"))
        raise OSError("no disk")

    client = serve(configured(build))
    expected = StatusCode.INTERNAL, "getInfo failed (OSError); see the policy's log"
    assert failing(client.get_info) == expected
    code, text = failing(lambda: client.get_info(b'{"declares": "nothing"}'))
    assert (code, "no verb is declared" in text) == (StatusCode.INTERNAL, True)


class Counting(Policy):
    """Counts pods on nodes and in the cluster."""

    def __init__(self) -> None:
        self._reads = Reads()
        self._owner = self._reads.pods_by(PodsBy.OWNER)
        self._app = self._reads.pods_and_requests_by(PodsBy.label("app"))
        self._zones = self._reads.pods_by_topology(PodsBy.OWNER, "zone")

    def info(self) -> Info:
        return Info("counting", "1").filters(Verb.per_node().reads(self._reads))

    def filter(self, pod: Pod, node: Node) -> Verdict:
        like, app = node.pods_like(self._owner, pod), node.pods_like(self._app, pod)
        zones = pod.pods_like(self._zones)
        domain = None if zones is None else zones.of(node)
        requested = app.counted.requested.milli_cpu if app is not None and app.counted is not None else None
        return Verdict.reject(f"{like} {app} {requested} {domain}")


def counts(*given: tuple[str, str, int], omitted: int = 0) -> node_pb2.PodCounts:
    messages = [node_pb2.PodCount(namespace=namespace, value=value, pods=pods) for namespace, value, pods in given]
    return node_pb2.PodCounts(counts=messages, omitted_pods=omitted)


def counted_row(zone: str, *lists: node_pb2.PodCounts) -> node_pb2.NodeRow:
    return node_pb2.NodeRow(facts=node_pb2.NodeFacts(labels=values(zone)), pod_counts=lists)


def counted_pod(*domains: tuple[str, int], omitted: int = 0) -> pod_pb2.Pod:
    owner = pod_pb2.OwnerReference(uid="u1")
    messages = [pod_pb2.DomainCount(value=value, pods=pods) for value, pods in domains]
    facts = pod_pb2.PodFacts(namespace="shop", owner=owner, labels=values("web"))
    return pod_pb2.Pod(facts=facts, topology_counts=[pod_pb2.TopologyCounts(domains=messages, omitted_pods=omitted)])


def test_pods_are_counted(serve: Serve) -> None:
    client = serve(Counting())
    labelled = counts(("shop", "web", 4), ("test", "web", 1))
    labelled.counts[0].requested.milli_cpu = 400
    rows = [
        counted_row("z1", counts(("", "u0", 1), ("", "u1", 2), omitted=3), labelled),
        counted_row("z2", counts(("", "u0", 1), omitted=3), counts(("test", "web", 1))),
        counted_row("z3", counts(), counts()),
    ]
    request = question(inline(rows), counted_pod(("z1", 5), ("z2", 7), omitted=2), reads=reads_of(client))
    reasons = [rejection.reason for rejection in client.filter(request).rejections]
    assert reasons == [
        "PodsLike(2..=2) PodsLike(4..=4) 400 PodsLike(5..=5)",
        "PodsLike(0..=3) PodsLike(0..=0) 0 PodsLike(7..=7)",
        "PodsLike(0..=0) PodsLike(0..=0) 0 PodsLike(0..=2)",
    ]


def test_the_victims_of_a_declaration_are_checked(serve: Serve) -> None:
    reads = Reads().pod(PodPart.PRIORITY)
    reads.pod_label("app")
    client = serve(Scripted(Info("p", "1").preempts(Verb.per_node().reads(reads))))
    victims = [policy_pb2.Victim(uid="a", pod=pod_pb2.Pod(facts=pod_pb2.PodFacts()))]
    request = policy_pb2.PreemptRequest(
        call=call(reads=reads_of(client)),
        pod=placed(),
        nodes=inline([node_pb2.NodeRow()]),
        candidates=[policy_pb2.Candidate(victims=victims)],
    )
    expected = "candidates[0].victims[0].pod.facts.labels.values has 0 values, and 1 keys are declared"
    assert failing(lambda: client.preempt(request)) == (StatusCode.INVALID_ARGUMENT, expected)
