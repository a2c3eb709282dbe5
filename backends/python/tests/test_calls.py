"""The lines that the log has of calls, with both servers."""

from __future__ import annotations

import logging
import re

import grpc
import pytest
from client import Client, call, inline, question, reads_of, row, sha256, until
from conftest import Serve
from servers import KINDS, serving

from extender_policy import (
    Bind,
    BindAsk,
    CallFilter,
    ChangedPart,
    Hook,
    Info,
    Node,
    Options,
    Pod,
    PodChange,
    PodPart,
    Policy,
    Reads,
    Verb,
    Verdict,
)
from extender_policy._api.v1beta1 import hooks_pb2, info_pb2, pod_pb2, policy_pb2

LOG = logging.getLogger("acme")
IDENTIFIED = Reads().pod(PodPart.NAMESPACE, PodPart.IDENTITY)
NAMESPACED = Reads().pod(PodPart.NAMESPACE)
CALLS = Options(log_calls=True)


class Logging(Policy):
    """Logs in each method, and rejects nodes."""

    def __init__(self, info: Info) -> None:
        self._info = info

    def info(self) -> Info:
        return self._info

    def filter(self, pod: Pod, node: Node) -> Verdict:
        LOG.info("asked")
        if self._info.version == "broken":
            raise KeyError("price")
        return Verdict.reject("closed")

    def bind(self, ask: BindAsk) -> Bind:
        LOG.info("asked")
        return Bind.BOUND

    def before_filter(self, pod: Pod) -> PodChange:
        LOG.info("asked")
        return PodChange()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> logging.Handler:
    """A handler with a format as that of a program."""
    caplog.set_level(logging.INFO)
    caplog.handler.addFilter(CallFilter())
    caplog.handler.setFormatter(logging.Formatter("%(name)s: %(message)s%(call)s"))
    return caplog.handler


def logged(caplog: pytest.LogCaptureFixture, verb: str) -> list[str]:
    """What was logged until the line of a call with this verb, which is written after the answer."""
    until(lambda: f"{verb}: " in caplog.text)
    text = re.sub(r"\d+\.\d ms", "N ms", caplog.text)
    return [line for line in text.splitlines() if "get_info" not in line and not line.startswith((" ", "Traceback"))]


def placed(namespace: str = "") -> pod_pb2.Pod:
    return pod_pb2.Pod(facts=pod_pb2.PodFacts(namespace=namespace))


WEB = pod_pb2.Pod(
    facts=pod_pb2.PodFacts(namespace="shop"), identity=pod_pb2.PodIdentity(name="web-0", uid="u", created_seconds=0)
)
FILTERS = [
    (Verb.per_node().reads(IDENTIFIED), WEB, "call c1, pod shop/web-0"),
    (Verb.per_node().pure().reads(NAMESPACED), placed("shop"), "call c1, pod shop"),
    (Verb.per_node().pure(), placed(), "call c1"),
    # No text from outside makes a line of its own.
    (
        Verb.per_node().reads(NAMESPACED),
        placed("a\nfilter: \x1b[0m"),
        "call c1, pod a\N{REPLACEMENT CHARACTER}filter: \N{REPLACEMENT CHARACTER}[0m",
    ),
]


@pytest.mark.parametrize(("verb", "sent", "about"), FILTERS)
def test_a_line_of_the_log_names_call_and_pod(
    verb: Verb, sent: pod_pb2.Pod, about: str, serve: Serve, lines: logging.Handler, caplog: pytest.LogCaptureFixture
) -> None:
    client = serve(Logging(Info("logging", "1").filters(verb)), CALLS)
    client.filter(question(inline([row("a"), row("b")]), sent, reads=reads_of(client)))
    line = f"extender_policy: filter: {about}, 2 nodes evaluated, 2 nodes rejected, N ms"
    assert logged(caplog, "filter") == [f"acme: asked [{about}]"] * 2 + [line]
    # Nothing is left of the call.
    LOG.info("later")
    assert caplog.text.splitlines()[-1] == "acme: later"


def test_a_failed_call_is_logged_with_its_code(
    serve: Serve, lines: logging.Handler, caplog: pytest.LogCaptureFixture
) -> None:
    verb = Verb.per_node().reads(NAMESPACED)
    client = serve(Logging(Info("logging", "broken").filters(verb)), CALLS)
    with pytest.raises(grpc.RpcError):
        client.filter(question(inline([row("a")]), placed("shop"), reads=reads_of(client)))
    assert [line for line in logged(caplog, "extender_policy: filter") if not line.startswith("KeyError")] == [
        "acme: asked [call c1, pod shop]",
        "extender_policy: filter failed: KeyError: 'price'; the call fails with INTERNAL [call c1, pod shop]",
        "extender_policy: filter: call c1, pod shop, INTERNAL: filter failed (KeyError); see the policy's log, N ms",
    ]


def test_binds_and_hooks_are_logged(serve: Serve, lines: logging.Handler, caplog: pytest.LogCaptureFixture) -> None:
    hook = Hook.of_pod().reads(NAMESPACED).changes(ChangedPart.POD_LABELS)
    client = serve(Logging(Info("logging", "1").binds().before_filter(hook)), CALLS)
    bind, before_filter = (info.reads.SerializeToString(deterministic=True) for info in client.get_info().verbs)
    client.bind(policy_pb2.BindRequest(call=call(reads=sha256(bind)), namespace="shop", name="web", uid="u", node="a"))
    logged(caplog, "bind")
    asked = call(reads=sha256(before_filter))
    client.change(hooks_pb2.ChangeRequest(call=asked, pod=placed("shop"), hook=info_pb2.VERB_BEFORE_FILTER))
    assert logged(caplog, "before_filter") == [
        "acme: asked [call c1, pod shop/web]",
        "extender_policy: bind: call c1, pod shop/web, N ms",
        "acme: asked [call c1, pod shop]",
        "extender_policy: before_filter: call c1, pod shop, 1 node evaluated, N ms",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_option_calls_are_not_logged(
    kind: str, lines: logging.Handler, caplog: pytest.LogCaptureFixture
) -> None:
    policy = Logging(Info("logging", "1").filters(Verb.per_node()))
    with serving(kind, policy) as address, Client(address) as client:
        client.filter(question(inline([row("a")]), placed(), reads=reads_of(client)))
    assert caplog.text == "acme: asked [call c1]\n"
