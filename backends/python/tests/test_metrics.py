"""Metrics of the calls, scraped from both servers."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import prometheus_client
import pytest
from client import EVERYTHING_OF_PODS, NOTHING, Stream, call, inline, pod, question, row, until
from conftest import Serve
from servers import KINDS, serving

from extender_policy import (
    Address,
    Bind,
    BindAsk,
    ChangedPart,
    Hook,
    Info,
    Node,
    NotReady,
    Options,
    Outcome,
    Pod,
    PodChange,
    Policy,
    Reads,
    Scale,
    ServeError,
    Server,
    Verb,
    Verdict,
    _metrics,
)
from extender_policy._api.v1beta1 import hooks_pb2, info_pb2, outcomes_pb2, policy_pb2, table_pb2

ANY = Address("127.0.0.1", 0)
REFERENCE = Path(__file__).resolve().parent.parent / "examples" / "reference"


class Counted(Policy):
    """Answers most calls."""

    is_ready = True

    def info(self) -> Info:
        hook = Hook.of_pod().reads(Reads.everything()).changes(ChangedPart.POD_LABELS)
        info = Info("counted", "1").filters(Verb.per_node()).scores(Verb.per_node(), Scale.unbounded()).binds()
        return info.before_filter(hook).observes_outcomes()

    def ready(self) -> None:
        if not self.is_ready:
            raise NotReady("not yet")

    def filter(self, pod: Pod, node: Node) -> Verdict:
        return Verdict.accept()

    def score(self, pod: Pod, node: Node) -> int:
        raise ValueError("a bug")

    def bind(self, ask: BindAsk) -> Bind:
        return Bind.BOUND

    def before_filter(self, pod: Pod) -> PodChange:
        return PodChange()

    def observe(self, outcome: Outcome) -> None:
        pass


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[_metrics.Metrics]:
    """The metrics of the servers of a test, with their addresses."""
    found: list[_metrics.Metrics] = []
    metrics = _metrics.Metrics

    def make(*arguments: Any) -> _metrics.Metrics:
        found.append(metrics(*arguments))
        return found[-1]

    monkeypatch.setattr(_metrics, "Metrics", make)
    return found


def scraped(address: Address, path: str = "/metrics") -> dict[str, float]:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=20) as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        lines = response.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_calls_are_counted_by_verb_and_code(serve: Serve, made: list[_metrics.Metrics]) -> None:
    client = serve(Counted(), Options(metrics_address=ANY))
    nodes = inline([row("a")])
    client.get_info()
    for _ in range(2):
        client.filter(question(nodes, reads=NOTHING))
    client.bind(policy_pb2.BindRequest(call=call(reads=NOTHING), namespace="s", name="w", uid="u", node="a"))
    of_pod = hooks_pb2.ChangeRequest(call=call(reads=EVERYTHING_OF_PODS), pod=pod(), hook=info_pb2.VERB_BEFORE_FILTER)
    client.change(of_pod)
    outcome = outcomes_pb2.Outcome(call="c1", namespace="s", name="w", uid="u", kind=outcomes_pb2.OUTCOME_KIND_DELETED)
    request = outcomes_pb2.ReportRequest(call=call(), outcomes=[outcome])
    client.call("/extender.policy.v1beta1.OutcomeService/Report", request, outcomes_pb2.ReportResponse)
    for refused in (
        lambda: client.score(policy_pb2.ScoreRequest(call=call(reads=NOTHING), pod=pod(), nodes=nodes)),
        lambda: client.preempt(policy_pb2.PreemptRequest(call=call(), pod=pod(), nodes=nodes)),
        # What no verb is about.
        lambda: client.introspect("/state"),
        lambda: client.change(hooks_pb2.ChangeRequest(call=call(), pod=pod())),
    ):
        with pytest.raises(grpc.RpcError):
            refused()
    expected = {
        ("get_info", "OK"): 1,
        ("filter", "OK"): 2,
        ("bind", "OK"): 1,
        ("before_filter", "OK"): 1,
        ("observe", "OK"): 1,
        ("score", "INTERNAL"): 1,
        ("preempt", "UNIMPLEMENTED"): 1,
    }
    samples = {f'extender_policy_calls_total{{code="{code}",verb="{verb}"}}': n for (verb, code), n in expected.items()}

    def counted() -> dict[str, float]:
        found = scraped(made[0].address)
        return {name: value for name, value in found.items() if name.startswith("extender_policy_calls_total")}

    # A call is counted after its answer.
    until(lambda: counted() == samples)
    found = scraped(made[0].address)
    name = "extender_policy_call_duration_seconds"
    assert found[f'{name}_bucket{{le="+Inf",verb="filter"}}'] == found[f'{name}_count{{verb="filter"}}'] == 2
    bounds = [match[1] for sample in found if (match := re.match(name + '_bucket{le="(.*)",verb="bind"}', sample))]
    assert " ".join(bounds) == "0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1.0 +Inf"


def test_state_is_measured_and_the_authors_metrics_are_beside(serve: Serve, made: list[_metrics.Metrics]) -> None:
    policy = Counted()
    client = serve(policy, Options(metrics_address=ANY))
    own = prometheus_client.Counter("acme_prices_read", "Prices that were read.")
    try:
        own.inc(3)
        names = ("ready", "tables", "table_nodes")

        def state() -> list[float]:
            found = scraped(made[0].address)
            assert found["acme_prices_read_total"] == 3
            return [found[f"extender_policy_{name}"] for name in names]

        assert state() == [1, 0, 0]
        policy.is_ready = False
        streams = [Stream(client), Stream(client)]
        for at, stream in enumerate(streams):
            entries = [table_pb2.TableEntry(id=node, row=row(f"n{node}")) for node in range(1, 3 + at)]
            reads = info_pb2.NodeReads(everything=True)
            stream.send(table_pb2.SyncNodesRequest(table=f"t{at}", version=1, reads=reads, upserts=entries))
        assert state() == [0, 2, 5]
        streams[1].reset()
        until(lambda: state() == [0, 1, 2])
    finally:
        prometheus_client.REGISTRY.unregister(own)


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_path_is_served_and_only_while_the_server_runs(kind: str, made: list[_metrics.Metrics]) -> None:
    with serving(kind, Counted(), Options(metrics_address=ANY)):
        assert scraped(made[0].address, "/metrics?x=1")["extender_policy_ready"] == 1
        with pytest.raises(urllib.error.HTTPError, match="404"):
            scraped(made[0].address, "/")
    with pytest.raises(urllib.error.URLError, match="refused"):
        scraped(made[0].address)


def test_slow_clients_do_not_stay(
    made: list[_metrics.Metrics], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_metrics, "SCRAPE_SECONDS", 0.2)
    with serving("threads", Counted(), Options(metrics_address=ANY)), ExitStack() as clients:
        connections = [
            clients.enter_context(socket.create_connection(made[0].address, timeout=20))
            for _ in range(_metrics.MAX_SCRAPES + 1)
        ]
        for connection in connections[:-1]:
            connection.sendall(b"GET /met")
        # The last one finds no place, the others have had their time; each ends without an answer.
        assert [connection.recv(1) for connection in connections] == [b""] * len(connections)
        assert scraped(made[0].address)["extender_policy_ready"] == 1
    assert "the request for metrics failed" not in caplog.text


def test_metrics_of_the_author_that_fail_are_logged(
    made: list[_metrics.Metrics], caplog: pytest.LogCaptureFixture
) -> None:
    own = prometheus_client.Gauge("acme_prices", "Prices.")
    own.set_function(lambda: 1 / 0)
    try:
        with serving("threads", Counted(), Options(metrics_address=ANY)), pytest.raises(http.client.RemoteDisconnected):
            scraped(made[0].address)
    finally:
        prometheus_client.REGISTRY.unregister(own)
    assert "ZeroDivisionError" in caplog.text


def test_what_prevents_metrics_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(
            ServeError, match=f"^cannot serve metrics on {address}: Address already in use; set another"
        ):
            Server(Counted(), Options(metrics_address=address))
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ServeError, match=r"^metrics cannot be served: .*; pip install 'CHECKOUT/.*/python\[metrics\]'"):
        Server(Counted(), Options(metrics_address=ANY))


def test_without_the_option_nothing_is_imported() -> None:
    code = (
        "import sys; from extender_policy import Server; from reference import Arguments, Reference; "
        "Server(Reference(Arguments('a'))).stop(); "
        "assert not {'prometheus_client', 'extender_policy._metrics'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REFERENCE, timeout=60)
