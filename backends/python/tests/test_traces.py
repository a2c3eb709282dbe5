"""Spans of calls, sent to a collector of the test, with both servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest
from client import EVERYTHING, NOTHING, Client, by_table, inline, question, row
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2
from servers import KINDS, serving

from extender_policy import (
    ChangedPart,
    Hook,
    Info,
    NodeChange,
    Nodes,
    Pod,
    PodChange,
    Policy,
    Reads,
    ServeError,
    Verb,
    Verdict,
    trace,
)
from extender_policy._api.v1beta1 import hooks_pb2, info_pb2

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
NAME = "extender.policy.v1beta1.PolicyService/Filter"


class Traced(Policy):
    """Adds to its span, and remembers what it could send on."""

    def __init__(self) -> None:
        self.traceparents: list[str | None] = []
        self.injected: list[str | None] = []

    def info(self) -> Info:
        return Info("traced", "2").revision("r7").filters(Verb.whole_set().reads(Reads.everything()))

    def filter_all(self, pod: Pod, nodes: Nodes) -> list[Verdict]:
        from opentelemetry.propagate import inject

        headers: dict[str, str] = {}
        inject(headers)
        self.injected.append(headers.get("traceparent"))
        self.traceparents.append(trace.traceparent())
        trace.attribute("acme.tenant", "shop")
        for number in range(200):
            trace.attribute(f"acme.{number}", number)
            trace.event(f"event {number}")
        if nodes[0].name == "raises":
            raise ValueError("a bug")
        return [Verdict.reject("no")] * len(nodes)


class Collector:
    """Takes spans over gRPC and over HTTP."""

    def __init__(self) -> None:
        self.exports: list[trace_service_pb2.ExportTraceServiceRequest] = []
        self._arrived = threading.Condition()

    def take(self, encoded: bytes) -> None:
        with self._arrived:
            self.exports.append(trace_service_pb2.ExportTraceServiceRequest.FromString(encoded))
            self._arrived.notify_all()

    def spans(self) -> list[trace_pb2.Span]:
        scopes = (scope for export in self.exports for one in export.resource_spans for scope in one.scope_spans)
        return [span for scope in scopes for span in scope.spans]


@contextmanager
def collecting(protocol: str) -> Iterator[tuple[Collector, str]]:
    """A collector and its endpoint."""
    collector = Collector()
    if protocol == "grpc":

        def export(encoded: bytes, context: grpc.ServicerContext) -> bytes:
            collector.take(encoded)
            return b""

        server = grpc.server(futures.ThreadPoolExecutor(2))
        methods = {"Export": grpc.unary_unary_rpc_method_handler(export)}
        service = "opentelemetry.proto.collector.trace.v1.TraceService"
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield collector, f"http://127.0.0.1:{port}"
        server.stop(None).wait()
    else:

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                import gzip

                body = self.rfile.read(int(self.headers["content-length"]))
                collector.take(gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield collector, f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()
        http.server_close()


def attributes(span: trace_pb2.Span) -> dict[str, Any]:
    found = {}
    for one in span.attributes:
        kind = one.value.WhichOneof("value")
        found[one.key] = getattr(one.value, kind) if kind else None
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_traced_calls_have_spans(kind: str, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Traced()
    with collecting(protocol) as (collector, endpoint):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        if protocol != "grpc":
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        with ExitStack() as stack:
            client = stack.enter_context(Client(stack.enter_context(serving(kind, policy))))
            request = question(inline([row("a"), row("b")]))
            sampled = [("traceparent", SAMPLED), ("tracestate", "acme=1")]
            for metadata in (
                sampled,
                [("traceparent", SAMPLED[:-1] + "0")],
                [("traceparent", "00-0-0-01")],
                [("traceparent", "nothing")],
                [],
            ):
                assert client.filter(request, metadata=metadata).result.evaluated == 2
            assert client.filter(question(by_table("t1", [1])), metadata=sampled).result.miss
            with pytest.raises(grpc.RpcError):
                client.filter(question(inline([row("raises")])), metadata=sampled)
            client.get_info()
    first, missed, failed = collector.spans()
    assert (first.name, first.kind) == (NAME, trace_pb2.Span.SPAN_KIND_SERVER)
    assert (first.trace_id.hex(), first.parent_span_id.hex()) == (TRACE, PARENT)
    assert first.trace_state == "acme=1"
    assert first.status.code == trace_pb2.Status.STATUS_CODE_UNSET
    assert len(first.events) == 128
    found = attributes(first)
    assert len([key for key in found if key.startswith("acme.")]) <= 128
    assert {key: value for key, value in found.items() if not key.startswith("acme.")} == {
        "rpc.system.name": "grpc",
        "rpc.method": NAME,
        "rpc.response.status_code": "OK",
        "extender.policy.name": "traced",
        "extender.policy.revision": "r7",
        "extender.backend.name": "b",
        "extender.call.id": "c1",
        "extender.nodes.evaluated": 2,
        "extender.nodes.rejected": 2,
    }
    assert found["acme.tenant"] == "shop"
    assert attributes(missed)["extender.miss"] == "MISS_TABLE_UNKNOWN"
    assert failed.status.code == trace_pb2.Status.STATUS_CODE_ERROR
    assert failed.status.message == "INTERNAL: filter failed (ValueError); see the policy's log"
    assert attributes(failed)["error.type"] == "INTERNAL"
    traceparent = f"00-{TRACE}-{first.span_id.hex()}-01"
    assert policy.traceparents[:2] == policy.injected[:2] == [traceparent, None]
    (resource, *_) = (one.resource for export in collector.exports for one in export.resource_spans)
    named = {one.key: one.value.string_value for one in resource.attributes}
    assert (named["service.name"], named["service.version"]) == ("traced", "2")
    assert named["deployment.environment.name"] == "test"


class Changes(Policy):
    """Changes the pod, and every node."""

    def info(self) -> Info:
        hook = Hook.per_node().reads(Reads.everything()).changes(ChangedPart.NODE_LABELS)
        info = Info("changes", "2").revision("2").before_filter_nodes(hook).before_score(hook)
        return info.before_filter(Hook.of_pod().changes(ChangedPart.POD_LABELS))

    def before_filter(self, pod: Pod) -> PodChange:
        return PodChange().set_label("a", "b")

    def before_filter_nodes(self, pod: Pod, nodes: Nodes) -> list[NodeChange | None]:
        return [NodeChange().set_label("a", "b")] * len(nodes)

    def before_score(self, pod: Pod, nodes: Nodes) -> tuple[PodChange | None, list[NodeChange | None]]:
        return None, self.before_filter_nodes(pod, nodes)


@pytest.mark.parametrize("kind", KINDS)
def test_hooks_have_spans(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with collecting("grpc") as (collector, endpoint):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        with ExitStack() as stack:
            client = stack.enter_context(Client(stack.enter_context(serving(kind, Changes()))))
            asked = question(inline([row("a"), row("b")]), cluster="blue")
            sampled = [("traceparent", SAMPLED)]
            for hook, nodes in (
                (info_pb2.VERB_BEFORE_FILTER, None),
                (info_pb2.VERB_BEFORE_FILTER_NODES, asked.nodes),
                (info_pb2.VERB_BEFORE_SCORE, by_table("t1", [1])),
            ):
                asked.call.reads = EVERYTHING if nodes else NOTHING
                request = hooks_pb2.ChangeRequest(call=asked.call, pod=asked.pod, nodes=nodes, hook=hook)
                client.change(request, metadata=sampled)
    spans = collector.spans()
    name = "extender.policy.v1beta1.HookService/Change"
    noted: list[dict[str, Any]] = [
        {"extender.hook": "beforeFilter", "extender.nodes.evaluated": 1},
        {"extender.hook": "beforeFilterNodes", "extender.nodes.evaluated": 2},
        {"extender.hook": "beforeScore", "extender.miss": "MISS_TABLE_UNKNOWN"},
    ]
    for span, more in zip(spans, noted, strict=True):
        assert span.name == name
        assert attributes(span) == {
            "rpc.system.name": "grpc",
            "rpc.method": name,
            "rpc.response.status_code": "OK",
            "extender.policy.name": "changes",
            "extender.policy.revision": "2",
            "extender.backend.name": "b",
            "extender.call.id": "c1",
            "extender.cluster.name": "blue",
            **more,
        }


def test_nothing_is_set_up_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    from extender_policy import Server

    policy = Traced()
    for variables in (
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ):
        with monkeypatch.context() as context:
            for name, value in variables.items():
                context.setenv(name, value)
            server = Server(policy)
            assert server._service.tracer.follow("Filter", [("traceparent", SAMPLED)]) is None
            server.stop()


def test_a_protocol_that_is_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from extender_policy import Server

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    with pytest.raises(ServeError, match="OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json'; expected grpc or http/protobuf"):
        Server(Traced())
