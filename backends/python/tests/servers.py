"""Both servers, in this process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from extender_policy import Address, AsyncServer, Backend, Options, Policy, Server

KINDS = ("threads", "loop")


@contextmanager
def serving(kind: str, backend: Backend | Policy, options: Options | None = None) -> Iterator[Address]:
    """Serves with threads or with an event loop, until the block ends."""
    if kind == "threads":
        server = Server(backend, options)
        server.start()
        try:
            yield server.address
        finally:
            server.stop()
    else:
        with _in_loop(backend, options) as address:
            yield address


@contextmanager
def _in_loop(backend: Backend | Policy, options: Options | None) -> Iterator[Address]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def started() -> AsyncServer:
        server = AsyncServer(backend, options)
        await server.start()
        return server

    try:
        server = asyncio.run_coroutine_threadsafe(started(), loop).result()
        try:
            yield server.address
        finally:
            asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
