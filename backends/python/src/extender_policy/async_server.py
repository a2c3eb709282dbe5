"""The server with an event loop: methods of policies may be coroutine functions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from typing import Any, NoReturn, TypeVar

import grpc
from grpc import StatusCode

from ._api.v1beta1 import table_pb2
from ._backend import Backend, backend_of
from ._errors import CallError
from ._service import (
    BEGINNING_SECONDS,
    HEALTH_OF,
    MAX_RECEIVING,
    SERVICES,
    SHUTTING_DOWN,
    TURN_SECONDS,
    Service,
    add_services,
    channel_options,
    late,
    many_tables,
    no_message,
)
from ._tables import MAX_TABLES, Filling
from ._untyped import SERVING, AsyncHealthServicer, AsyncReflectionServicer
from ._watch import CHANGED, WATCH_SECONDS
from .options import Address, Options
from .policy import Policy

T = TypeVar("T")


class AsyncServer:
    """A backend on a socket, as `Server`, in the running event loop."""

    def __init__(self, backend: Backend | Policy, options: Options | None = None) -> None:
        """Binds the address. Raises `DeclarationError` and `ServeError`."""
        self._options = options or Options()
        backend = self._options.permitted(backend_of(backend))
        credentials = self._options.credentials()
        self._service = Service(backend, self._options)
        self._stopping = asyncio.Event()
        self._turns = asyncio.BoundedSemaphore(MAX_RECEIVING)
        self._waiting = 0
        self._streams = 0
        self._server = grpc.aio.server(options=channel_options(reuse_port=self._options.reuse_port))
        self._health = AsyncHealthServicer()
        reflect = AsyncReflectionServicer(SERVICES).ServerReflectionInfo
        add_services(self._server, self._health, self._method, self._sync_nodes, self._watch, reflect)
        self.address: Address = self._options.bind(self._server, credentials)
        """Where it listens."""
        self._service.serve_metrics()

    async def start(self) -> None:
        """Begins to answer."""
        await self._server.start()
        for name in HEALTH_OF:
            await self._health.set(name, SERVING)

    async def stop(self) -> None:
        """Ends: no new calls, those in progress finish within `Options.drain`, and the last spans are sent."""
        await self._health.enter_graceful_shutdown()
        self._service.tables.stop()
        self._stopping.set()
        await self._server.stop(self._options.drain)
        await asyncio.to_thread(self._service.end)

    def _method(self, name: str) -> Callable[[AsyncIterator[bytes], Any], Awaitable[bytes]]:
        service = self._service

        async def answered(messages: AsyncIterator[bytes], context: Any) -> bytes:
            encoded = await self._received(messages, context)
            try:
                return await service.answer(name, encoded, context.invocation_metadata())
            except CallError as error:
                await _end(context, error)

        return answered

    async def _received(self, messages: AsyncIterator[bytes], context: Any) -> bytes:
        """The message of a call, which ends if it does not come."""
        try:
            encoded = await self._message(messages)
        except asyncio.TimeoutError:
            await _end(context, late())
        if encoded is None:
            await _end(context, no_message())
        return encoded

    async def _message(self, messages: AsyncIterator[bytes]) -> bytes | None:
        """The message of a call.

        Raises `TimeoutError` if it has had a turn for some time while others wait, and in any case after the longest
        time.
        """
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        arriving = asyncio.ensure_future(anext(messages, None))
        try:
            end = time.monotonic() + BEGINNING_SECONDS
            while not arriving.done():
                left = end - time.monotonic()
                done, _ = await asyncio.wait({arriving}, timeout=min(TURN_SECONDS, max(left, 0)))
                if not done and (self._waiting or left <= TURN_SECONDS):
                    raise asyncio.TimeoutError
            return arriving.result()
        finally:
            arriving.cancel()
            self._turns.release()

    async def _sync_nodes(self, messages: AsyncIterator[bytes], context: Any) -> None:
        if self._streams >= MAX_TABLES:
            await _end(context, many_tables())
        self._streams += 1
        filling = Filling(self._service.tables)
        try:
            await self._fill(filling, messages, context)
        except CallError as error:
            await _end(context, error)
        finally:
            self._streams -= 1
            filling.close()

    async def _fill(self, filling: Filling, messages: AsyncIterator[bytes], context: Any) -> None:
        while (message := await self._unless_stopping(anext(messages, None))) is not None:
            for _ in filling.apply(message):
                await asyncio.sleep(0)
            await context.write(table_pb2.SyncNodesResponse(applied=filling.version).SerializeToString())

    async def _watch(self, messages: AsyncIterator[bytes], context: Any) -> None:
        encoded = await self._received(messages, context)
        try:
            with closing(self._service.watch(encoded)) as watch:
                while True:
                    await context.write(CHANGED)
                    while not watch.has_changed():
                        await self._unless_stopping(asyncio.sleep(WATCH_SECONDS))
        except CallError as error:
            await _end(context, error)

    async def _unless_stopping(self, waiting: Awaitable[T]) -> T:
        """The result. Raises `CallError` when the server stops: open streams would delay draining."""
        result = asyncio.ensure_future(waiting)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((result, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise CallError(StatusCode.UNAVAILABLE, SHUTTING_DOWN)
            return result.result()
        finally:
            result.cancel()
            stopping.cancel()


async def _end(context: Any, error: CallError) -> NoReturn:
    await context.abort(error.code, error.message, error.trailers)
    raise AssertionError("abort raises")
