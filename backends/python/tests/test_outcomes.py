"""How a policy learns how attempts to place pods ended, over sockets, with both servers."""

from __future__ import annotations

from functools import partial
from typing import Any

import grpc
import pytest
from client import EVERYTHING, NOTHING, Client, by_digest, call, inline, named, question, reason, row, status
from conftest import Serve
from grpc import StatusCode

from extender_policy import (
    Args,
    Backend,
    Bind,
    BindAsk,
    DeclarationError,
    Info,
    Node,
    NotReady,
    Outcome,
    OutcomeKind,
    Pod,
    Policy,
    Reads,
    Scale,
    Server,
    Verb,
    Verdict,
    configured,
    testing,
)
from extender_policy._api.v1beta1 import outcomes_pb2, policy_pb2
from extender_policy.testing import NoAnswer, TestNode, TestPod

SERVICE = "extender.policy.v1beta1.OutcomeService"
WATCH = "extender.policy.v1beta1.WatchService"
BOUND = {"call": "c7", "namespace": "shop", "name": "web-0", "uid": "u1", "kind": 1, "node": "n1"}
INFO = Info("observes", "1").filters(Verb.per_node().side_effects()).observes_outcomes()


class Filters(Policy):
    """Observes nothing."""

    def __init__(self, info: Info = INFO) -> None:
        self._info = info

    def info(self) -> Info:
        return self._info

    def filter(self, pod: Pod, node: Node) -> Verdict:
        return Verdict.accept()


class Observes(Filters):
    """Remembers what it observes."""

    def __init__(self, info: Info = INFO) -> None:
        super().__init__(info)
        self.observed: list[Outcome] = []

    def ready(self) -> None:
        raise NotReady("prices are a day old")

    def observe(self, outcome: Outcome) -> None:
        if outcome.name == "raises":
            raise KeyError("password=hunter2")
        self.observed.append(outcome)


def report(client: Client, *outcomes: dict[str, Any], **fields: Any) -> outcomes_pb2.ReportResponse:
    sent = [outcomes_pb2.Outcome(**outcome) for outcome in outcomes]
    request = outcomes_pb2.ReportRequest(**{"call": call(reads=b""), "outcomes": sent, **fields})
    return client.call(f"/{SERVICE}/Report", request, outcomes_pb2.ReportResponse)


def failing(ask: Any) -> tuple[StatusCode, str, str]:
    with pytest.raises(grpc.RpcError) as raised:
        ask()
    return *status(raised.value), reason(raised.value)


def test_outcomes_are_observed_in_order(serve: Serve) -> None:
    policy = Observes()
    client = serve(policy)
    assert list(client.get_info().services) == [SERVICE, WATCH]
    others = [BOUND | {"uid": f"u{kind}", "kind": kind, "node": ""} for kind in (2, 3, 4, 99)]
    for _ in range(2):
        report(client, BOUND, *others)
    report(client, BOUND, call=call(policy_pb2.PURPOSE_REPLAY, reads=b""))
    bound = Outcome("c7", "shop", "web-0", "u1", OutcomeKind.BOUND, "n1")
    # What a later version of the gateway knows is as good as superseded.
    kinds = {2: OutcomeKind.NOT_BOUND, 3: OutcomeKind.SUPERSEDED, 4: OutcomeKind.DELETED, 99: OutcomeKind.SUPERSEDED}
    once = [bound, *(bound._replace(uid=f"u{number}", kind=kind, node=None) for number, kind in kinds.items())]
    assert policy.observed == [*once, *once, bound]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"call": None}, "call"),
        ({"call": call(policy_pb2.PURPOSE_UNSPECIFIED)}, "call.purpose"),
        ({"outcomes": []}, "outcomes"),
        *(({"outcomes": [BOUND, BOUND | {name: None}]}, f"outcomes[1].{name}") for name in BOUND),
    ],
)
def test_an_invalid_request_has_no_effect(serve: Serve, fields: dict[str, Any], field: str) -> None:
    policy = Observes()
    code, text, why = failing(lambda: report(serve(policy), BOUND, **fields))
    assert (code, why, policy.observed) == (StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", [])
    assert text.startswith(f"{field} is missing")


def test_a_large_request_is_refused(serve: Serve) -> None:
    code, text, why = failing(lambda: report(serve(Observes()), BOUND, outcomes=[{}] * (1 << 20)))
    assert (code, why) == (StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE")
    assert text.endswith("at most 2097152 are decoded")


def test_args_name_the_policy(serve: Serve) -> None:
    built = {}

    def build(args: Args) -> Policy:
        policy = built[args.json["key"]] = Observes()
        return policy

    client, args = serve(configured(build)), b'{"key": "a"}'
    ask = partial(report, client, BOUND, call=call(**by_digest(args)))
    # Before other mistakes of the request.
    unknown = failing(partial(report, client, call=call(policy_pb2.PURPOSE_UNSPECIFIED, **by_digest(args))))
    assert unknown[::2] == failing(ask)[::2] == (StatusCode.FAILED_PRECONDITION, "ARGS_UNKNOWN")
    report(client, BOUND, call=call(**named(args)))
    ask()
    assert len(built["a"].observed) == 2


def test_an_exception_fails_the_request_without_its_text(serve: Serve) -> None:
    policy = Observes()
    code, text, why = failing(lambda: report(serve(policy), BOUND, BOUND | {"name": "raises"}, BOUND))
    expected = StatusCode.INTERNAL, "observe failed (KeyError); see the policy's log", "POLICY_FAILED"
    assert (code, text, why) == expected
    # The gateway sends all of them again.
    assert [outcome.name for outcome in policy.observed] == ["web-0"]


def test_a_policy_that_does_not_observe_is_not_told(serve: Serve) -> None:
    policy = Observes(Info("silent", "1").filters(Verb.per_node()))
    client = serve(policy)
    assert list(client.get_info().services) == [WATCH]
    code, text, _ = failing(lambda: report(client, BOUND))
    assert (code, policy.observed) == (StatusCode.UNIMPLEMENTED, [])
    assert text.endswith("declare it with Info.observes_outcomes")


def test_what_is_declared_has_a_method() -> None:
    with pytest.raises(
        DeclarationError, match=r"^.*Filters declares Info.observes_outcomes .*; write observe\(self, out"
    ):
        Backend(Filters())


class Waits(Observes):
    async def observe(self, outcome: Outcome) -> None:  # type: ignore[override]
        super().observe(outcome)


def test_a_policy_is_told_in_tests() -> None:
    with pytest.raises(DeclarationError, match="observe: coroutine functions"):
        Server(Waits())
    outcomes = [Outcome("c7", "shop", "web-0", "u1", kind) for kind in OutcomeKind]
    outcomes[0] = outcomes[0]._replace(node="n1")
    for policy in (Observes(), Waits()):
        testing.observe(policy, *outcomes)
        assert policy.observed == outcomes
        with pytest.raises(NoAnswer, match="^observe failed: KeyError: 'password=hunter2'$"):
            testing.observe(policy, outcomes[0]._replace(name="raises"))
        with pytest.raises(NoAnswer, match=r"^outcomes\[0\].node is missing; every pod that is bound has it$"):
            testing.observe(policy, outcomes[0]._replace(node=None))


class Calls(Policy):
    """Answers with the id of the call."""

    def __init__(self, filters: Verb, scores: Verb) -> None:
        self._info = Info("calls", "1").filters(filters).scores(scores, Scale.unbounded()).binds()

    def info(self) -> Info:
        return self._info

    def filter(self, pod: Pod, node: Node) -> Verdict:
        return Verdict.reject(str(pod.call_id)) if node.name == "shows" else Verdict.accept()

    def score(self, pod: Pod, node: Node) -> int:
        return len(pod.call_id or "")

    def bind(self, ask: BindAsk) -> Bind:
        return Bind.declined(f"{ask.call_id} {ask.pod and ask.pod.call_id}")


VERB = Verb.per_node().reads(Reads.everything())


def test_a_call_has_an_id(serve: Serve) -> None:
    client = serve(Calls(VERB.side_effects(), VERB))
    assert [no.reason for no in client.filter(question(inline([row("shows")]))).rejections] == ["c1"]
    asked = policy_pb2.BindRequest(call=call(reads=NOTHING), namespace="shop", name="web-0", uid="u1", node="n1")
    assert client.bind(asked).message == "c1 None"
    policy, given = Calls(VERB, VERB), TestPod("shop")
    assert testing.filter(policy, given, [TestNode("shows")]) == [("shows", "test")]
    assert testing.score(policy, given.call_id("longer"), [TestNode("a")]) == [6]
    assert testing.bind(policy, given.call_id("c2"), "a") == Bind.declined("c2 c2")


@pytest.mark.parametrize(("filters", "scores"), [(VERB, VERB), (VERB.pure(), VERB), (VERB, VERB.pure())])
def test_a_pure_verb_does_not_read_the_id(serve: Serve, filters: Verb, scores: Verb) -> None:
    policy = Calls(filters, scores)
    asked = question(inline([row("a")]), reads=EVERYTHING)
    asked.want_scores = True
    # Whatever the filter may read, if both are answered at once.
    assert list(serve(policy).filter(asked).scores.values) == ([] if scores.is_pure else [2])
    text = r"call_id is another one in each call, which a pure verb cannot read; declare the verb without pure\(\)$"
    for name, verb, ask in (("filter", filters, testing.filter), ("score", scores, testing.score)):
        if verb.is_pure:
            with pytest.raises(NoAnswer, match=f"^{name} failed: {text}"):
                ask(policy, TestPod("shop"), [TestNode("shows")])
