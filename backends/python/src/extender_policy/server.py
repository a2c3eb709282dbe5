"""The server with threads: each call is answered by one thread of a pool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc
from grpc import StatusCode

from ._answer import finished
from ._api.v1beta1 import table_pb2
from ._backend import Backend, Prepared, backend_of
from ._errors import CallError, exhausted
from ._receiving import Receiving
from ._service import (
    HEALTH_OF,
    MAX_SHOWN,
    SERVICES,
    SHUTTING_DOWN,
    Service,
    add_services,
    channel_options,
    many_tables,
)
from ._tables import MAX_TABLES, Filling
from ._telemetry import Tracer
from ._untyped import SERVING, HealthServicer, ReflectionServicer
from .errors import DeclarationError
from .options import Address, Options
from .policy import Policy

MAX_REFLECTIONS = 8
"""Each stream of reflection occupies a thread."""


class Server:
    """A backend on a socket, with health and reflection, from binding to draining.

    For programs with a `main` of their own; `serve` does the rest.
    """

    def __init__(self, backend: Backend | Policy, options: Options | None = None) -> None:
        """Binds the address. Raises `DeclarationError` and `ServeError`."""
        self._options = options or Options()
        backend = self._options.permitted(backend_of(backend))
        check_threads(backend._known())
        credentials = self._options.credentials()
        self._service = Service(backend, Tracer.start(backend))
        self._streams: set[Any] = set()
        self._lock = threading.Lock()
        self._is_stopping = False
        self._receiving = Receiving()
        # Streams occupy threads for as long as they are open, and calls do not wait for slow introspection; threads are
        # started when they are needed.
        workers = self._options.threads + MAX_TABLES + MAX_REFLECTIONS + MAX_SHOWN
        self._server = grpc.server(
            ThreadPoolExecutor(workers, thread_name_prefix="call"),
            options=channel_options(reuse_port=self._options.reuse_port),
        )
        self._health = HealthServicer(experimental_non_blocking=True)
        reflect = _limited(MAX_REFLECTIONS, ReflectionServicer(SERVICES).ServerReflectionInfo)
        add_services(self._server, self._health, self._method, self._sync_nodes, reflect)
        self.address: Address = self._options.bind(self._server, credentials)
        """Where it listens."""

    def start(self) -> None:
        """Begins to answer."""
        self._server.start()
        for name in HEALTH_OF:
            self._health.set(name, SERVING)

    def stop(self) -> None:
        """Ends: no new calls, those in progress finish within `Options.drain`, and the last spans are sent."""
        self._health.enter_graceful_shutdown()
        self._service.tables.stop()
        with self._lock:
            self._is_stopping = True
            open_streams = list(self._streams)
        # Open streams would delay draining.
        for context in open_streams:
            context.cancel()
        self._server.stop(self._options.drain).wait()
        self._receiving.stop()
        self._service.tracer.end()

    def _method(self, name: str) -> Callable[[Iterator[bytes], grpc.ServicerContext], bytes]:
        service = self._service

        def answered(messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            try:
                encoded = self._receiving.message(messages, context)
            except CallError as error:
                _end(context, error)
            if not context.is_active():
                # The caller gave up while the call waited for a thread.
                _end(context, CallError(StatusCode.CANCELLED, "the caller gave up"))
            try:
                return finished(service.answer(name, encoded, context.invocation_metadata(), context.is_active))
            except CallError as error:
                _end(context, error)

        return answered

    def _sync_nodes(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        with self._lock:
            if self._is_stopping:
                _end(context, CallError(StatusCode.UNAVAILABLE, SHUTTING_DOWN))
            if len(self._streams) >= MAX_TABLES:
                _end(context, many_tables())
            self._streams.add(context)
        filling = Filling(self._service.tables)
        # A generator that waits for a message is not closed when the stream ends.
        try:
            yield from _filled(filling, messages, context)
        finally:
            filling.close()
            with self._lock:
                self._streams.discard(context)


def _filled(filling: Filling, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    try:
        for message in messages:
            for _ in filling.apply(message):
                pass
            yield table_pb2.SyncNodesResponse(applied=filling.version).SerializeToString()
    except CallError as error:
        _end(context, error)


def check_threads(prepared: Prepared | None) -> None:
    """A thread cannot wait for a coroutine."""
    if prepared is not None and prepared.coroutines:
        names = ", ".join(sorted(prepared.coroutines))
        raise DeclarationError(
            [f"{names}: coroutine functions, which the server with threads cannot await; use run_async or serve_async"]
        )


def _end(context: grpc.ServicerContext, error: CallError) -> NoReturn:
    context.set_trailing_metadata(error.trailers)
    context.abort(error.code, error.message)
    raise AssertionError("abort raises")


def _limited(most: int, behavior: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    free = threading.BoundedSemaphore(most)

    def limited(messages: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        if not free.acquire(blocking=False):
            _end(context, exhausted(f"at most {most} streams of reflection are served", "OVERLOADED"))
        try:
            yield from behavior(messages, context)
        finally:
            free.release()

    return limited
