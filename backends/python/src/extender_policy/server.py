"""The server with threads: each call is answered by one thread of a pool."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, NoReturn

import grpc
from grpc import StatusCode

from ._answer import finished
from ._api.v1beta1 import table_pb2
from ._backend import Backend, Prepared, backend_of
from ._errors import LOG, CallError, counted, exhausted
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
from ._untyped import SERVING, HealthServicer, ReflectionServicer
from ._watch import CHANGED, MAX_WATCHES, WATCH_SECONDS
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
        self._service = Service(backend, self._options)
        self._calls: set[Any] = set()
        self._streams: set[Any] = set()
        self._lock = threading.Condition()
        self._is_stopping = False
        self._receiving = Receiving()
        # Streams occupy threads for as long as they are open, and calls do not wait for slow introspection; threads are
        # started when they are needed.
        workers = self._options.threads + MAX_TABLES + MAX_WATCHES + MAX_REFLECTIONS + MAX_SHOWN
        self._server = grpc.server(
            ThreadPoolExecutor(workers, thread_name_prefix="call"),
            options=channel_options(reuse_port=self._options.reuse_port),
        )
        self._health = HealthServicer(experimental_non_blocking=True)
        sync_nodes = _limited(MAX_TABLES, self._sync_nodes, many_tables())
        many = exhausted(f"at most {MAX_REFLECTIONS} streams of reflection are served", "OVERLOADED")
        reflect = _limited(MAX_REFLECTIONS, ReflectionServicer(SERVICES).ServerReflectionInfo, many)
        add_services(self._server, self._health, self._method, sync_nodes, self._watch, reflect)
        self.address: Address = self._options.bind(self._server, credentials)
        """Where it listens."""
        self._service.serve_metrics()

    def start(self) -> None:
        """Begins to answer."""
        self._server.start()
        for name in HEALTH_OF:
            self._health.set(name, SERVING)

    def stop(self) -> int:
        """Ends: no new calls, those in progress finish within `Options.drain`, and the last spans are sent.

        Returns how many calls have not ended, whose threads the interpreter waits for when it ends.
        """
        end = time.monotonic() + self._options.drain
        self._health.enter_graceful_shutdown()
        self._service.tables.stop()
        with self._lock:
            self._is_stopping = True
            open_streams = list(self._streams)
        # Open streams would delay draining.
        for context in open_streams:
            context.cancel()
        self._server.stop(self._options.drain).wait()
        # gRPC does not wait for calls whose callers have given up.
        with self._lock:
            self._lock.wait_for(lambda: not (self._calls or self._streams), end - time.monotonic())
            left = len(self._calls | self._streams)
        if left:
            LOG.warning("%s did not end within %g s", counted(left, "call"), self._options.drain)
        self._receiving.stop()
        self._service.end()
        return left

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
                with self._running(context, self._calls):
                    return finished(service.answer(name, encoded, context.invocation_metadata(), context.is_active))
            except CallError as error:
                _end(context, error)

        return answered

    @contextmanager
    def _running(self, context: grpc.ServicerContext, kind: set[Any]) -> Iterator[None]:
        """A call in progress, also after its caller has given up."""
        with self._lock:
            kind.add(context)
        try:
            yield
        finally:
            with self._lock:
                kind.discard(context)
                self._lock.notify_all()

    @contextmanager
    def _stream(self, context: grpc.ServicerContext) -> Iterator[None]:
        """An open stream, which ends when the server stops: it would delay draining."""
        with self._running(context, self._streams):
            if self._is_stopping:
                _end(context, CallError(StatusCode.UNAVAILABLE, SHUTTING_DOWN))
            yield

    def _sync_nodes(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        with self._stream(context), closing(Filling(self._service.tables)) as filling:
            # A generator that waits for a message is not closed when the stream ends.
            yield from _filled(filling, messages, context)

    def _watch(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        with self._stream(context):
            try:
                watch = self._service.watch(self._receiving.message(messages, context))
            except CallError as error:
                _end(context, error)
            with closing(watch):
                # The thread is woken when the stream ends.
                ended = threading.Event()
                is_open = context.add_callback(ended.set)
                while is_open:
                    yield CHANGED
                    while is_open and not watch.has_changed():
                        is_open = not ended.wait(WATCH_SECONDS)


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


def _limited(most: int, behavior: Callable[..., Iterator[Any]], many: CallError) -> Callable[..., Iterator[Any]]:
    free = threading.BoundedSemaphore(most)

    def limited(messages: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        if not free.acquire(blocking=False):
            _end(context, many)
        try:
            yield from behavior(messages, context)
        finally:
            free.release()

    return limited
