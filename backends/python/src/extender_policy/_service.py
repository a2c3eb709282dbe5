"""What both servers share: the methods, the options of the transport, and the names of the services."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import Message
from grpc import StatusCode

from . import _answer, _introspect, _outcomes, _verbs
from ._backend import Backend
from ._calls import INTROSPECT, Call
from ._declaration import (
    CHANGE,
    HOOK_SERVICE,
    INTROSPECTION_SERVICE,
    MAX_MESSAGE_BYTES,
    NODE_TABLE_SERVICE,
    OUTCOME_SERVICE,
    POLICY_SERVICE,
    REPORT,
    WATCH_SERVICE,
)
from ._errors import LOG, CallError, FailureLog, call_error, exhausted, invalid
from ._tables import MAX_TABLES, Tables
from ._telemetry import Tracer
from ._untyped import ReflectionRequest, ReflectionResponse, add_health
from ._watch import Watch, Watches
from .options import Options

if TYPE_CHECKING:
    from ._metrics import Metrics

HEALTH_SERVICE = "grpc.health.v1.Health"
REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"
REFLECTION_V1ALPHA = "grpc.reflection.v1alpha.ServerReflection"

SERVICES = (
    POLICY_SERVICE,
    NODE_TABLE_SERVICE,
    INTROSPECTION_SERVICE,
    HOOK_SERVICE,
    OUTCOME_SERVICE,
    WATCH_SERVICE,
    HEALTH_SERVICE,
    REFLECTION_V1,
    REFLECTION_V1ALPHA,
)
"""What reflection lists."""

HEALTH_OF = ("", POLICY_SERVICE)
"""The services that have a health."""

METHODS = ("GetInfo", "Filter", "Score", "Preempt", "Bind")
"""Those of PolicyService."""

BEGINNING_SECONDS = 10.0
"""How long a connection has to begin, and the message of a call to arrive."""

MAX_RECEIVING = 4
"""The calls whose message is received at a time.

gRPC reads the whole of a message into memory when it is wanted, so this many of the largest bound the memory of
unfinished ones. Others wait with the few kilobytes that HTTP/2 reads ahead."""

TURN_SECONDS = 0.5
"""How long the message of a call may arrive while another call waits."""

MAX_CONNECTIONS = 1000

MAX_SHOWN = 16
"""The requests for introspection in progress: those of four gateways."""

SHUTTING_DOWN = "this backend is shutting down"


def most_connections() -> int:
    """A quarter of the descriptors stays for what the policy opens itself."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return MAX_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(MAX_CONNECTIONS, soft * 3 // 4))


def late() -> CallError:
    """The message of a call is not complete."""
    return CallError(StatusCode.DEADLINE_EXCEEDED, f"the message did not arrive within {BEGINNING_SECONDS:g} s")


def no_message() -> CallError:
    """A call ended without its message."""
    return invalid("the call has no message; every call has one")


def many_tables() -> CallError:
    """There is no room for another stream of a table, however little it has sent."""
    return exhausted(f"this backend already holds {MAX_TABLES} tables, the maximum", "OVERLOADED")


def channel_options(*, reuse_port: bool) -> list[tuple[str, int]]:
    """Limits, and keepalive in both directions."""
    return [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        # Compressed messages are refused: a few kilobytes become megabytes.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        # A connection that stays silent is closed, and many leave descriptors for the policy itself.
        ("grpc.server_handshake_timeout_ms", int(BEGINNING_SECONDS * 1000)),
        ("grpc.max_allowed_incoming_connections", most_connections()),
        # A second process at the same address is a mistake, unless it is wanted.
        ("grpc.so_reuseport", int(reuse_port)),
        # A peer that is gone ends its tables after 80 s.
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # A gateway that asks whether this server is alive gets an answer, however often it asks.
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ]


def add_services(
    server: Any,
    health: Any,
    method: Callable[[str], Any],
    sync_nodes: Callable[..., Any],
    watch: Callable[..., Any],
    reflect: Callable[..., Any],
) -> None:
    """Adds the services to a server of either kind: with `method`, the handlers of methods with one answer."""
    # A unary handler of grpcio receives the message at once, however many others are being received, and never ends a
    # call without one.
    unary = grpc.stream_unary_rpc_method_handler
    stream = grpc.stream_stream_rpc_method_handler
    # Both versions of reflection have the same messages.
    info = {"ServerReflectionInfo": stream(reflect, ReflectionRequest.FromString, ReflectionResponse.SerializeToString)}
    services = {
        POLICY_SERVICE: {name: unary(method(name)) for name in METHODS},
        HOOK_SERVICE: {CHANGE: unary(method(CHANGE))},
        OUTCOME_SERVICE: {REPORT: unary(method(REPORT))},
        NODE_TABLE_SERVICE: {"SyncNodes": stream(sync_nodes)},
        WATCH_SERVICE: {"Watch": stream(watch)},
        INTROSPECTION_SERVICE: {INTROSPECT: unary(method(INTROSPECT))},
        REFLECTION_V1: info,
        REFLECTION_V1ALPHA: info,
    }
    add = grpc.method_handlers_generic_handler
    server.add_generic_rpc_handlers(tuple(add(name, methods) for name, methods in services.items()))
    add_health(health, server)


class Service:
    """The methods with one answer over encoded messages."""

    def __init__(self, backend: Backend, options: Options) -> None:
        """Raises `ServeError`."""
        self.backend = backend
        self.tables = Tables()
        self._watches = Watches()
        self.tracer = Tracer.start(backend)
        self._free = threading.BoundedSemaphore(MAX_SHOWN)
        self._failures = FailureLog()
        self._options = options
        self._metrics: Metrics | None = None

    def serve_metrics(self) -> None:
        """Serves metrics from now on, if they are wanted. Raises `ServeError`."""
        if self._options.metrics_address is not None:
            from ._metrics import Metrics

            gauges: dict[str, tuple[str, Callable[[], float]]] = {
                "tables": ("Node tables that gateways keep here.", lambda: len(self.tables.sizes())),
                "table_nodes": ("Nodes in all tables.", lambda: sum(self.tables.sizes())),
                "ready": ("1 if the policy can decide, 0 if it is not ready.", self.backend._is_ready),
            }
            self._metrics = Metrics(self._options.metrics_address, gauges)
            LOG.info("metrics are served at http://%s/metrics", self._metrics.address)

    def end(self) -> None:
        """After the last call."""
        if self._metrics is not None:
            self._metrics.stop()
        self.tracer.end()

    async def answer(
        self, method: str, encoded: bytes, metadata: Any, is_active: Callable[[], bool] = lambda: True
    ) -> bytes:
        """The encoded answer, with the span of a traced call. Raises `CallError`."""
        call = Call(method, self.tracer.follow(method, metadata or ()))
        try:
            with call:
                return await self._followed(call, encoded, is_active)
        finally:
            if self._metrics is not None:
                self._metrics.count(call)
            if self._options.log_calls:
                call.log()

    async def _followed(self, call: Call, encoded: bytes, is_active: Callable[[], bool]) -> bytes:
        try:
            answer = await self._encoded(call.method, encoded)
        except CallError as error:
            call.ended(error.code, error.message)
            raise
        except asyncio.CancelledError:
            call.ended(StatusCode.CANCELLED)
            raise
        except GeneratorExit:
            # The policy waits, which the server with threads cannot do.
            call.ended(StatusCode.INTERNAL)
            raise
        call.ended(StatusCode.OK if is_active() else StatusCode.CANCELLED)
        return answer

    def watch(self, encoded: bytes) -> Watch:
        """A stream that reports changes. Raises `CallError` as the handshake does."""
        with self._failing("GetInfo"):
            return self._watches.open(self.backend, encoded)

    async def _answer(self, method: str, encoded: bytes) -> Message:
        if method == "GetInfo":
            return _answer.info(self.backend, encoded)
        if method == "Bind":
            return await _answer.bind_pod(self.backend, encoded)
        if method == REPORT:
            return await _outcomes.report(self.backend, encoded)
        if method == INTROSPECT:
            return await self._introspect(encoded)
        message: Message = await _verbs.answer(method, self.backend, self.tables, encoded)
        return message

    async def _introspect(self, encoded: bytes) -> Message:
        if not self._free.acquire(blocking=False):
            raise CallError(StatusCode.UNAVAILABLE, "too many such requests; try again later")
        try:
            return await _introspect.introspect(self.backend, encoded)
        finally:
            self._free.release()

    async def _encoded(self, method: str, encoded: bytes) -> bytes:
        with self._failing(method):
            return (await self._answer(method, encoded)).SerializeToString()

    @contextmanager
    def _failing(self, method: str) -> Iterator[None]:
        """An exception fails only this call: one pod that triggers a bug must not stop a cluster."""
        try:
            yield
        except (Exception, SystemExit) as raised:
            error = call_error(method, raised)
            if error.code is StatusCode.INTERNAL:
                self._failures.add(method, error)
            raise error from error.__cause__
