"""The policy against a real Prometheus, which scrapes an exporter of this test."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from load_aware import Arguments, Factors, LoadAware, Queries, Thresholds, Weights, backend, exceeds, least_used
from prometheus import Access, Loads, Prometheus, QueryError

from extender_policy import testing
from extender_policy.testing import NoAnswer, TestNode, TestPod

GIB = 1 << 30


def until(holds: Callable[[], Any], what: str) -> Any:
    """Waits for a condition, for at most half a minute."""
    for _ in range(600):
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"after 30 s: {what}")


@contextmanager
def http_server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """A server on this machine, and its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Exporter:
    """The kubelet's metrics of some nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[float, int]] = {}
        """Cores and bytes in use."""
        self._begin = time.monotonic()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        age = time.monotonic() - self._begin
        lines = []
        for name, (cores, memory) in list(self.nodes.items()):
            labels = f'{{id="/",node="{name}"}}'
            lines.append(f"container_cpu_usage_seconds_total{labels} {cores * age}")
            lines.append(f"container_memory_working_set_bytes{labels} {memory}")
            lines.append(f'container_memory_working_set_bytes{{id="/pod",node="{name}"}} 7')
        body = "\n".join([*lines, ""]).encode()
        request.send_response(200)
        request.send_header("content-type", "text/plain; version=0.0.4")
        request.end_headers()
        request.wfile.write(body)


@contextmanager
def prometheus(exporter: str, folder: Path) -> Iterator[str]:
    """A real Prometheus that scrapes the exporter, and its URL."""
    program = shutil.which("prometheus")
    assert program is not None, "prometheus is missing; ../../tests/tools/ensure prometheus installs it"
    target = exporter.removeprefix("http://")
    (folder / "prometheus.yml").write_text(
        "scrape_configs:\n- job_name: kubelet\n  scrape_interval: 200ms\n  scrape_timeout: 200ms\n"
        f"  static_configs: [{{targets: ['{target}']}}]\n"
    )
    command = [program, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command.append("--web.listen-address=127.0.0.1:0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                found = re.search(r'msg="Listening on" address=(\S+)', line)
                if found:
                    break
            else:
                raise AssertionError("prometheus does not listen")
            drained = threading.Thread(target=process.stderr.read)
            drained.start()
            yield f"http://{found[1]}"
        finally:
            process.kill()
            drained.join()


def node(name: str, milli_cpu: int = 4000, memory: int = 8 * GIB) -> TestNode:
    return TestNode(name).allocatable(milli_cpu=milli_cpu, memory=memory)


def rejected(policy: Any, names: str = "idle busy full unknown") -> list[tuple[str, str]] | None:
    try:
        return testing.filter(policy, TestPod("shop"), [node(name) for name in names.split()])
    except NoAnswer:
        return None


def no_answer(policy: Any) -> str | None:
    try:
        testing.filter(policy, TestPod("shop"), [node("idle")])
    except NoAnswer as error:
        return str(error)
    return None


def test_the_load_comes_from_a_real_prometheus(tmp_path: Path) -> None:
    exporter = Exporter()
    exporter.nodes = {"idle": (0.0, 0), "busy": (2.0, 2 * GIB), "full": (3.5, 8 * GIB)}
    with http_server(exporter.answer) as scraped, prometheus(scraped, tmp_path) as url:
        # A rate over 2 minutes needs data of 2 minutes to come near its value.
        queries = {"cpu": Queries().cpu.replace("[2m]", "[3s]")}
        args = {"prometheusUrl": url, "intervalSeconds": 1, "stalenessSeconds": 2, "queries": queries}
        policy = testing.with_args(backend(Access()), json.dumps(args))
        until(lambda: rejected(policy) == [("full", "node(s) cpu usage exceed threshold")], "the full node is rejected")
        pod = TestPod("shop").requests(milli_cpu=1000, memory=GIB)
        nodes = [node(name) for name in ("idle", "busy", "full", "unknown")]
        idle, busy, full, unknown = testing.score(policy, pod, nodes)
        # (4000 - 850) / 4000 and (8 - 0.7) / 8; (4000 - 2850) / 4000 and (8 - 2.7) / 8. A busy machine scrapes late, so
        # that the measured rate is another one; memory alone gives half of 66.
        assert idle == (78 + 91) // 2
        assert 66 // 2 < busy < idle
        assert full < busy
        assert unknown == 0
        for query in (Queries().cpu, Queries().memory):
            assert Prometheus(url, timeout=10).vector(query, "node").keys() == exporter.nodes.keys()
        # A node that changes, and one that is no longer measured.
        exporter.nodes = {"busy": (2.0, 8 * GIB), "full": (0.5, 0)}
        memory = "node(s) memory usage exceed threshold"
        until(lambda: ("busy", memory) in (rejected(policy) or []), "the memory of the busy node is measured")
        until(lambda: testing.score(policy, pod, [nodes[0]]) == [0], "the load of the idle node is stale")
        assert ("idle", memory) not in (rejected(policy) or [])
    # Prometheus is away. A query that it did not finish fails in another way than those that follow.
    away = re.compile(f"the load of nodes is not known: cannot query {re.escape(url)}: .*Connection refused")
    until(lambda: away.match(no_answer(policy) or "") is not None, "the policy is not ready, and says why")
    with pytest.raises(NoAnswer, match=away):
        testing.score(policy, pod, nodes)
    assert testing.info(policy).name == "load-aware"


def policy(
    cpu: dict[str, float], memory: dict[str, float], clock: Callable[[], float] = lambda: 0.0, **arguments: Any
) -> tuple[LoadAware, Loads]:
    loads = Loads(lambda: (cpu, memory), staleness=10, clock=clock)
    return LoadAware(Arguments("http://p", **arguments), loads), loads


def test_scores_weigh_the_estimated_usage() -> None:
    made, loads = policy({"a": 1.0, "b": 1.0}, {"a": 2.0 * GIB, "b": 9.0 * GIB})
    loads.refresh()
    pod, nodes = TestPod("shop").requests(milli_cpu=1000, memory=2 * GIB), [node("a"), node("b")]
    # cpu: (4000 - 1000 - 850) / 4000 = 53.75 %; memory: (8 - 2 - 1.4) / 8 = 57.5 %.
    assert testing.score(made, pod, nodes) == [(53 + 57) // 2, (53 + 0) // 2]
    made, loads = policy(
        {"a": 1.0}, {"a": 0.0}, resource_weights=Weights(3, 1), estimated_scaling_factors=Factors(100, 100)
    )
    loads.refresh()
    assert testing.score(made, pod, [node("a")]) == [(50 * 3 + 75) // 4]
    # A pod that requests nothing is expected to use 250 thousandths of a CPU and 200 MiB.
    assert testing.score(made, TestPod("shop"), [node("a", 1000, 400 << 20)]) == [(0 * 3 + 50) // 4]


def test_the_thresholds_are_those_of_the_args() -> None:
    cpu, memory = {"a": 2.6, "b": 2.0, "c": 0.0}, {"a": 0.0, "b": 7.7 * GIB, "c": 0.0}
    nodes = [node(name) for name in "abcd"]
    made, loads = policy(cpu, memory)
    loads.refresh()
    expected = [("a", "node(s) cpu usage exceed threshold"), ("b", "node(s) memory usage exceed threshold")]
    assert testing.filter(made, TestPod("shop"), nodes) == expected
    made, loads = policy(cpu, memory, usage_thresholds=Thresholds(cpu=0, memory=0))
    loads.refresh()
    assert testing.filter(made, TestPod("shop"), nodes) == []
    # A node that reports nothing is not filtered, and has no score.
    assert testing.filter(made, TestPod("shop"), [TestNode("a")]) == []
    assert testing.score(made, TestPod("shop"), [TestNode("a")]) == [0]


def test_data_becomes_stale() -> None:
    now = [0.0]
    cpu, memory = {"a": 4.0, "b": 4.0}, {"a": 0.0, "b": 0.0}
    made, loads = policy(cpu, memory, clock=lambda: now[0])
    nodes = [node("a"), node("b")]
    with pytest.raises(NoAnswer, match="the load of nodes is not known: it has not answered yet"):
        testing.filter(made, TestPod("shop"), nodes)
    loads.refresh()
    assert len(testing.filter(made, TestPod("shop"), nodes)) == 2
    del cpu["a"]
    now[0] = 8
    loads.refresh()
    assert len(testing.filter(made, TestPod("shop"), nodes)) == 2
    now[0] = 11
    assert [name for name, _ in testing.filter(made, TestPod("shop"), nodes)] == ["b"]
    now[0] = 19
    with pytest.raises(NoAnswer, match="the load of nodes is not known"):
        testing.filter(made, TestPod("shop"), nodes)


def test_the_thread_ends_with_its_policy() -> None:
    asked = threading.Event()

    def measure() -> tuple[dict[str, float], dict[str, float]]:
        asked.set()
        return {"a": 1.0}, {"a": 1.0}

    before = set(threading.enumerate())
    loads: Loads | None = Loads(measure, staleness=10)
    assert loads is not None
    loads.keep_fresh(600)
    assert asked.wait(20)
    (thread,) = set(threading.enumerate()) - before
    until(lambda: loads is not None and loads.of("a"), "the load is known")
    loads = None
    thread.join(20)
    assert not thread.is_alive()


def answering(body: bytes, status: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.end_headers()
        request.wfile.write(body)

    return answer


def vector(*series: tuple[dict[str, str], str]) -> bytes:
    result = [{"metric": metric, "value": [1, value]} for metric, value in series]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


@pytest.mark.parametrize(
    ("body", "status", "expected"),
    [
        (b"nothing", 200, "with HTTP 200: no JSON"),
        (b'{"status": "error", "error": "parse error"}', 400, "with HTTP 400: parse error"),
        (b"away", 503, "with HTTP 503: no JSON"),
        (b'{"status": "success", "data": {"resultType": "matrix", "result": []}}', 200, "gives a matrix; expected"),
        (b'{"status": "success"}', 200, "gives an answer that is not one of Prometheus"),
        (b'{"status": "success", "data": {"resultType": "vector", "result": [7]}}', 200, "is not one of Prometheus"),
        (vector(), 200, "gives no series with the label node"),
        (vector(({}, "1"), ({"node": "a"}, "NaN")), 200, "gives no series with the label node"),
        (vector(({"node": "a"}, "1"), ({"node": "a"}, "2")), 200, "gives two series of node=a; use `sum by (node)"),
    ],
)
def test_an_answer_that_cannot_be_used_is_named(body: bytes, status: int, expected: str) -> None:
    with http_server(answering(body, status)) as url, pytest.raises(QueryError) as raised:
        Prometheus(url, timeout=10).vector("up", "node")
    assert expected in str(raised.value)


def test_an_answer_is_bounded_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prometheus.MAX_RESPONSE_BYTES", 1000)
    with http_server(answering(b" " * 1001)) as url, pytest.raises(QueryError, match="gives more than 1000 bytes"):
        Prometheus(url, timeout=10).vector("up", "node")


def test_an_answer_is_bounded_in_time() -> None:
    def drips(request: BaseHTTPRequestHandler) -> None:
        # Each byte comes before the timeout of the socket.
        request.send_response(200)
        request.end_headers()
        try:
            while True:
                request.wfile.write(b" ")
                time.sleep(0.05)
        except OSError:
            pass

    begin = time.monotonic()
    with http_server(drips) as url, pytest.raises(QueryError):
        Prometheus(url, timeout=0.5).vector("up", "node")
    assert time.monotonic() - begin < 5


def test_the_query_the_path_and_the_token_are_sent(tmp_path: Path) -> None:
    seen = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        seen.append((request.path, request.headers.get("authorization")))
        answering(vector(({"instance": "a"}, "1.5"), ({"instance": "b"}, "-1")))(request)

    (tmp_path / "token").write_text("secret\n")
    with http_server(answer) as url:
        access = Access(str(tmp_path / "token"))
        found = Prometheus(f"{url}/prefix/", timeout=10, access=access).vector("a + b", "instance")
    assert found == {"a": 1.5, "b": 0.0}
    assert seen == [("/prefix/api/v1/query?query=a+%2B+b", "Bearer secret")]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("{}", "args: missing field `prometheusUrl`, expected a text"),
        ('{"prometheusUrl": "prometheus:9090"}', "args: prometheusUrl is 'prometheus:9090'; expected a URL such as"),
        ('{"prometheusUrl": "http://p:x"}', "args: prometheusUrl is 'http://p:x'; expected a URL such as"),
        ('{"prometheusUrl": "http://p", "stalenessSeconds": 5}', "args: stalenessSeconds is less than intervalSeconds"),
        ('{"prometheusUrl": "http://p", "resourceWeights": {"cpu": 0, "memory": 0}}', "args.resourceWeights: both"),
        ('{"prometheusUrl": "http://p", "usageThresholds": {"cpu": 101}}', "args.usageThresholds.cpu: invalid value"),
        ('{"prometheusUrl": "http://p", "queries": {"disk": "x"}}', "args.queries.disk: unknown field `disk`"),
    ],
)
def test_wrong_args_are_named(args: str, expected: str) -> None:
    with pytest.raises(NoAnswer) as raised:
        testing.with_args(backend(Access()), args)
    assert str(raised.value).startswith(expected)


def test_usage_and_scores_have_bounds() -> None:
    assert [exceeds(used, 100, 65) for used in (64.4, 64.5, 65, 1000)] == [False, False, True, True]
    assert (exceeds(5, 0, 65), exceeds(100, 100, 0)) == (False, False)
    assert [least_used(used, 100) for used in (0, 0.5, 50, 100, 101)] == [100, 99, 50, 0, 0]
    assert least_used(0, 0) == 0
