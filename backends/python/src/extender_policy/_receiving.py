"""Receives the messages of calls in the server with threads: few at a time, and each within some seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import grpc

from ._service import BEGINNING_SECONDS, MAX_RECEIVING, TURN_SECONDS, late, no_message


class Receiving:
    """The calls whose messages arrive. A call with a message that never ends would hold thread and turn for ever.

    Those that have had a turn for some time are given up while others wait.
    """

    def __init__(self, seconds: float = BEGINNING_SECONDS) -> None:
        self._seconds = seconds
        self._turns = threading.BoundedSemaphore(MAX_RECEIVING)
        self._lock = threading.Lock()
        self._arriving: dict[grpc.ServicerContext, float] = {}
        self._waiting = 0
        self._late: set[grpc.ServicerContext] = set()
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="arrivals", daemon=True).start()

    def message(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        """The message of a call. Raises `CallError`."""
        with self._lock:
            self._waiting += 1
        with self._turns:
            with self._lock:
                self._waiting -= 1
                self._arriving[context] = time.monotonic()
            try:
                message = next(messages, None)
            finally:
                with self._lock:
                    del self._arriving[context]
                    is_late = context in self._late
                    self._late.discard(context)
        if is_late:
            raise late()
        if message is None:
            raise no_message()
        return message

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(min(TURN_SECONDS, self._seconds)):
            now = time.monotonic()
            with self._lock:
                longest = min(TURN_SECONDS, self._seconds) if self._waiting else self._seconds
                late = [context for context, began in self._arriving.items() if began + longest < now]
                self._late.update(late)
            for context in late:
                context.cancel()  # type: ignore[no-untyped-call]  # grpcio's stubs
