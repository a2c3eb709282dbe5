"""What a policy shows of its state, over sockets, with both servers; and the snapshots of calls."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType

import grpc
import pytest
from client import Client, inline, question, row, status
from conftest import Serve
from grpc import StatusCode

from extender_policy import (
    Args,
    DeclarationError,
    Info,
    IntrospectAsk,
    InvalidParameter,
    Node,
    NotFound,
    NotReady,
    Options,
    Pod,
    Policy,
    Reads,
    Replaceable,
    Scale,
    Server,
    Verb,
    Verdict,
    configured,
    testing,
)
from extender_policy.testing import NoAnswer, TestNode, TestPod

SERVICE = "extender.policy.v1beta1.IntrospectionService"
FOUR_MIB = 4 << 20
TOO_MANY = (StatusCode.UNAVAILABLE, "too many such requests; try again later")


@dataclass(frozen=True)
class Quota:
    namespace: str
    pods: Mapping[str, int]
    owners: frozenset[str]


class Shows(Policy):
    """Shows whatever its functions return."""

    def __init__(
        self, name: str = "shows", shown: Mapping[str, Callable[[IntrospectAsk], object]] = MappingProxyType({})
    ) -> None:
        self._name = name
        self._shown = shown

    def info(self) -> Info:
        info = (
            Info(self._name, "1")
            .filters(Verb.per_node())
            .shows("/quotas", "all quotas", lambda ask: ["shop", "bank"])
            .shows("/quotas/:namespace", "the quota of a namespace", self.quota)
            .shows("/quotas/:namespace/pods/:pod", "", lambda ask: dict(ask.parameters))
            .shows("/name", "the name of the policy", lambda ask: self._name)
        )
        for path, show in self._shown.items():
            info = info.shows(f"/{path}", "", show)
        return info

    def filter(self, pod: Pod, node: Node) -> Verdict:
        return Verdict.accept()

    def quota(self, ask: IntrospectAsk) -> Quota:
        namespace = ask.parameters["namespace"]
        if namespace == "nowhere":
            raise NotFound(f"namespace {namespace} has no quota")
        most = ask.query.get("most", "3")
        if not most.isdigit():
            raise InvalidParameter(f"most is {most!r}; expected a number")
        return Quota(namespace, MappingProxyType({"most": int(most)}), frozenset({"b", "a"}))

    def ready(self) -> None:
        raise NotReady("no data yet")


def shows(**shown: Callable[[IntrospectAsk], object]) -> Shows:
    return Shows("shows", shown)


def failing(client: Client, path: str, **fields: object) -> tuple[StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        client.introspect(path, **fields)
    return status(raised.value)


def test_a_path_is_shown_also_while_the_policy_is_not_ready(serve: Serve) -> None:
    assert serve(Shows()).introspect("/quotas") == '["shop","bank"]'


def test_parameters_and_query_reach_the_function(serve: Serve) -> None:
    client = serve(Shows())
    shown = client.introspect("/quotas/:namespace", parameters={"namespace": "läden"}, query={"most": "7"})
    assert shown == '{"namespace":"läden","pods":{"most":7},"owners":["a","b"]}'
    parameters = {"namespace": "shop", "pod": "a/b", "other": "x"}
    shown = client.introspect("/quotas/:namespace/pods/:pod", parameters=parameters)
    assert json.loads(shown) == {"namespace": "shop", "pod": "a/b"}


def test_the_errors_of_functions_have_their_codes(serve: Serve) -> None:
    def away(ask: IntrospectAsk) -> object:
        raise NotReady("the last prices are a day old")

    client = serve(shows(away=away))
    missing = failing(client, "/quotas/:namespace", parameters={"namespace": "nowhere"})
    assert missing == (StatusCode.NOT_FOUND, "namespace nowhere has no quota")
    invalid = failing(client, "/quotas/:namespace", parameters={"namespace": "shop"}, query={"most": "x"})
    assert invalid == (StatusCode.INVALID_ARGUMENT, "most is 'x'; expected a number")
    assert failing(client, "/away") == (StatusCode.UNAVAILABLE, "the last prices are a day old")


def test_a_bug_is_logged_and_not_told(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    def broken(ask: IntrospectAsk) -> object:
        raise KeyError("secret")

    client = serve(shows(broken=broken))
    with caplog.at_level(logging.ERROR, "extender_policy"):
        assert failing(client, "/broken") == (
            StatusCode.INTERNAL,
            "introspect failed (KeyError); see the policy's log",
        )
    assert "secret" in caplog.text
    assert client.introspect("/quotas")


def loop() -> object:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value", [float("nan"), {"a": [float("-inf")]}, {float("inf"): 1}, {(1, 2): 3}, object(), b"bytes", Quota, loop()]
)
def test_what_json_does_not_have_is_an_error(serve: Serve, value: object) -> None:
    code, text = failing(serve(shows(value=lambda ask: value)), "/value")
    assert code == StatusCode.INTERNAL
    assert text == "what the policy shows at /value cannot be written as JSON; its log says why"


def test_texts_are_utf_8(serve: Serve) -> None:
    client = serve(shows(text=lambda ask: {"\ud800": '\\ud800 "\udfff" ä\n\0'}, nothing=lambda ask: None))
    assert client.introspect("/text") == '{"?":"\\\\ud800 \\"?\\" ä\\n\\u0000"}'
    assert client.introspect("/nothing") == "null"


def test_an_answer_may_have_four_mib(serve: Serve) -> None:
    client = serve(shows(most=lambda ask: "x" * (FOUR_MIB - 2), more=lambda ask: "ä" * (FOUR_MIB // 2)))
    assert len(client.introspect("/most")) == FOUR_MIB
    code, text = failing(client, "/more")
    assert code == StatusCode.RESOURCE_EXHAUSTED
    assert text.startswith(f"what the policy shows at /more has {FOUR_MIB + 2} bytes as JSON; at most {FOUR_MIB} are")


def test_a_request_that_is_too_large_is_not_decoded(serve: Serve) -> None:
    code, text = failing(serve(Shows()), "/quotas", query={"q": "x" * (2 << 20)})
    assert code == StatusCode.RESOURCE_EXHAUSTED
    assert text.endswith("at most 2097152 are decoded")


def test_args_select_the_policy(serve: Serve) -> None:
    def build(args: Args) -> Policy:
        return Shows(args.parse(Named).name)

    client = serve(configured(build))
    assert client.introspect("/name", args=b'{"name": "one"}') == '"one"'
    assert client.introspect("/name", args=b'{"name": "two"}') == '"two"'
    code, text = failing(client, "/name", args=b'{"nam": "one"}')
    assert code == StatusCode.INVALID_ARGUMENT
    assert "args.nam: unknown field `nam`, expected `name`" in text
    code, _ = failing(serve(Shows()), "/name", args=b'{"name": "one"}')
    assert code == StatusCode.INVALID_ARGUMENT


@dataclass(frozen=True)
class Named:
    name: str


def test_a_replaced_policy_shows_the_state_of_the_new_one(serve: Serve) -> None:
    backend = Replaceable(Shows("old"))
    client = serve(backend)
    backend.replace(Shows("new"))
    assert client.introspect("/name") == '"new"'


class Silent(Policy):
    """Shows nothing, and answers what the snapshot and the cluster are."""

    def info(self) -> Info:
        verb = Verb.per_node().reads(Reads.everything())
        return Info("silent", "1").filters(verb).scores(verb, Scale.unbounded())

    def filter(self, pod: Pod, node: Node) -> Verdict:
        return Verdict.reject(f"{pod.snapshot} {pod.cluster}")

    def score(self, pod: Pod, node: Node) -> int:
        return len(pod.snapshot or "")


def test_coroutine_functions_need_the_event_loop() -> None:
    from servers import serving

    async def slow(ask: IntrospectAsk) -> object:
        return ask.path

    with pytest.raises(DeclarationError, match=r"the function of /slow: coroutine functions, .* use run_async"):
        Server(shows(slow=slow))
    with serving("loop", shows(slow=slow)) as address, Client(address) as client:
        assert client.introspect("/slow") == '"/slow"'


class Slow(Silent):
    """Is ready, and shows what takes long."""

    def __init__(self, slow: Callable[[IntrospectAsk], object]) -> None:
        self._slow = slow

    def info(self) -> Info:
        return super().info().shows("/slow", "", self._slow)


def test_slow_functions_leave_threads_for_calls() -> None:
    from servers import serving

    waiting = threading.Semaphore(0)
    going = threading.Event()

    def slow(ask: IntrospectAsk) -> object:
        waiting.release()
        return going.wait(20)

    options = Options(threads=1)
    with serving("threads", Slow(slow), options) as address, Client(address) as client, ThreadPoolExecutor(16) as pool:
        try:
            answers = [pool.submit(client.introspect, "/slow") for _ in range(16)]
            assert all(waiting.acquire(timeout=20) for _ in answers)
            assert client.filter(question(inline([row("a")]))).result.evaluated == 1
            assert failing(client, "/slow") == TOO_MANY
        finally:
            going.set()
        assert [answer.result() for answer in answers] == ["true"] * 16
        assert client.introspect("/slow") == "true"


def test_the_event_loop_has_the_same_limit() -> None:
    from servers import serving

    waiting = threading.Semaphore(0)
    going = threading.Event()

    async def slow(ask: IntrospectAsk) -> object:
        waiting.release()
        while not going.is_set():
            await asyncio.sleep(0.01)
        return True

    with serving("loop", Slow(slow)) as address, Client(address) as client, ThreadPoolExecutor(16) as pool:
        try:
            canceled = [client.begin_introspect("/slow") for _ in range(16)]
            assert all(waiting.acquire(timeout=20) for _ in canceled)
            assert failing(client, "/slow") == TOO_MANY
            for call in canceled:
                call.cancel()
            answers = [pool.submit(until_answered, client) for _ in range(16)]
            assert all(waiting.acquire(timeout=20) for _ in answers)
            assert client.filter(question(inline([row("a")]))).result.evaluated == 1
        finally:
            going.set()
        assert [answer.result() for answer in answers] == ["true"] * 16


def until_answered(client: Client) -> str:
    """The server learns of cancellations a little later."""
    while True:
        try:
            return client.introspect("/slow")
        except grpc.RpcError as error:
            assert status(error) == TOO_MANY


def nothing(ask: IntrospectAsk) -> object:
    return None


def declared(*paths: str) -> Info:
    info = Info("p", "1").filters(Verb.per_node())
    for path in paths:
        info = info.shows(path, "", nothing)
    return info


def test_a_path_can_be_tried_without_a_server() -> None:
    assert testing.introspect(Shows(), "/quotas/:namespace", {"namespace": "shop"})["pods"] == {"most": 3}
    with pytest.raises(NoAnswer, match="most is 'x'; expected a number"):
        testing.introspect(Shows(), "/quotas/:namespace", {"namespace": "shop"}, {"most": "x"})
    with pytest.raises(NoAnswer, match="does not show the path"):
        testing.introspect(Shows(), "/unknown")


def test_a_pod_has_the_snapshot_and_the_cluster_of_its_call(serve: Serve) -> None:
    client = serve(Silent())
    for snapshot, cluster, expected in (("s7", "blue", "s7 blue"), ("", "", "None None")):
        answer = client.filter(question(inline([row("a")]), snapshot=snapshot, cluster=cluster))
        assert [rejection.reason for rejection in answer.rejections] == [expected]


def test_a_snapshot_and_a_cluster_can_be_tried_without_a_server() -> None:
    pod = TestPod("shop").snapshot("s7").cluster("blue")
    assert testing.filter(Silent(), pod, [TestNode("a")]) == [("a", "s7 blue")]
    assert testing.score(Silent(), pod, [TestNode("a")]) == [2]
    assert testing.score(Silent(), TestPod("shop"), [TestNode("a")]) == [0]
