"""Spans of the calls that the gateway traces, sent to the collector that the standard OTEL_* variables name.

OpenTelemetry is an optional dependency (`extender-policy[otel]`). Nothing is imported or set up unless a variable names
an endpoint, and for a call that is not traced only one header is read.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from grpc import StatusCode

from . import trace
from ._backend import Backend
from ._declaration import CHANGE, HOOK_SERVICE, POLICY_SERVICE, REPORT
from .errors import ServeError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span
    from opentelemetry.trace import Tracer as OtelTracer

LOG = logging.getLogger("extender_policy")

FLUSH_SECONDS = 5.0
"""How long the last spans may take when the process ends: Kubernetes allows 30 s, including draining."""

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_REMEDY = "pip install 'CHECKOUT/backends/python[otel]', or unset OTEL_EXPORTER_OTLP_ENDPOINT"


class Tracer:
    """Traces calls, if spans are sent."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._provider = provider
        self._tracer: OtelTracer | None = None if provider is None else provider.get_tracer("extender-policy")

    @classmethod
    def start(cls, backend: Backend, variables: Mapping[str, str] | None = None) -> Tracer:
        """As the variables of this process say. Raises `ServeError` for a value that is not understood."""
        variables = os.environ if variables is None else variables
        if not _is_wanted(variables):
            return cls()
        protocol = _first(variables, _PROTOCOLS) or "grpc"
        if protocol not in ("grpc", "http/protobuf"):
            raise ServeError(f"{_PROTOCOLS[1]} is {protocol!r}; expected grpc or http/protobuf")
        try:
            return cls(_provider(protocol, _resource(backend, variables)))
        except ImportError as error:
            raise ServeError(f"spans cannot be sent: {error}; {_REMEDY}") from error

    def follow(self, method: str, metadata: Iterable[tuple[str, Any]]) -> Followed | None:
        """The span of a traced call, which is entered while it is answered.

        The handshake, introspection and outcomes are no part of a decision.
        """
        if self._tracer is None or method in ("GetInfo", "Introspect", REPORT):
            return None
        headers = {key: value for key, value in metadata if key in ("traceparent", "tracestate")}
        if "traceparent" not in headers:
            return None
        from opentelemetry.trace import SpanKind, get_current_span
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        caller = TraceContextTextMapPropagator().extract(headers)
        parent = get_current_span(caller).get_span_context()
        if not (parent.is_valid and parent.trace_flags.sampled):
            return None
        service = HOOK_SERVICE if method == CHANGE else POLICY_SERVICE
        name = f"{service}/{method}"
        attributes = {"rpc.system.name": "grpc", "rpc.method": name}
        return Followed(self._tracer.start_span(name, caller, kind=SpanKind.SERVER, attributes=attributes))

    def end(self) -> None:
        """Sends the queued spans, for at most 5 seconds."""
        provider = self._provider
        if provider is None:
            return
        # An exporter that waits for a collector cannot be interrupted.
        flushing = threading.Thread(target=provider.shutdown, daemon=True)
        flushing.start()
        flushing.join(FLUSH_SECONDS)
        if flushing.is_alive():
            LOG.warning("the collector did not take the last spans within %g s; they are dropped", FLUSH_SECONDS)


class Followed:
    """The span of a traced call."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._set: set[str] = set()
        self._events = 0
        self._context: Any = None

    def __enter__(self) -> Followed:
        from opentelemetry import context
        from opentelemetry.trace import set_span_in_context

        self._context = context.attach(set_span_in_context(self._span))
        return self

    def __exit__(self, kind: object, error: object, stack: object) -> None:
        from opentelemetry import context

        context.detach(self._context)
        self._span.end()

    @property
    def traceparent(self) -> str:
        """Of this span."""
        own = self._span.get_span_context()
        return f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"

    def set(self, key: str, value: trace.Value) -> None:
        """Sets an attribute, unless there are too many."""
        if key in self._set or len(self._set) < trace.MOST:
            self._set.add(key)
            self._span.set_attribute(key, value)

    def note(self, key: str, value: trace.Value) -> None:
        """Sets an attribute of the SDK."""
        self._span.set_attribute(key, value)

    def add(self, name: str) -> None:
        """Records an event, unless there are too many."""
        if self._events < trace.MOST:
            self._events += 1
            self._span.add_event(name)

    def ended(self, code: StatusCode, text: str = "") -> None:
        """The outcome of the call. One that the gateway cancels because it is decided without it is no error."""
        from opentelemetry.trace import Status
        from opentelemetry.trace import StatusCode as SpanStatus

        self._span.set_attribute("rpc.response.status_code", code.name)
        if code not in (StatusCode.OK, StatusCode.CANCELLED):
            self._span.set_attribute("error.type", code.name)
            self._span.set_status(Status(SpanStatus.ERROR, f"{code.name}: {text}"))


def _is_wanted(variables: Mapping[str, str]) -> bool:
    is_disabled = variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporter = variables.get("OTEL_TRACES_EXPORTER", "otlp").strip() or "otlp"
    return bool(_first(variables, _ENDPOINTS)) and not is_disabled and exporter == "otlp"


def _first(variables: Mapping[str, str], names: Iterable[str]) -> str:
    return next(filter(None, (variables.get(name, "").strip() for name in names)), "")


def _resource(backend: Backend, variables: Mapping[str, str]) -> dict[str, str]:
    """The service's name and version, unless a variable sets them."""
    known = backend._known()
    given = variables.get("OTEL_RESOURCE_ATTRIBUTES", "")
    attributes = {}
    name = known.declaration.name if known is not None else getattr(backend, "_name", "")
    if name and not variables.get("OTEL_SERVICE_NAME") and "service.name=" not in given:
        attributes["service.name"] = name
    if known is not None and "service.version=" not in given:
        attributes["service.version"] = known.declaration.version
    return attributes


def _provider(protocol: str, attributes: dict[str, str]) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

    exporter: SpanExporter
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter()
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter

        exporter = HttpSpanExporter()
    # Room for those of the SDK beside those of the policy, of which the oldest would be dropped.
    limits = (
        None if "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in os.environ else SpanLimits(max_span_attributes=trace.MOST + 32)
    )
    provider = TracerProvider(resource=Resource.create(attributes), span_limits=limits)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
