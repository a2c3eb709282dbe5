"""The measured load of nodes, asked from Prometheus in the background."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import math
import socket
import ssl
import threading
import time
import urllib.parse
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

LOG = logging.getLogger("load_aware")

MAX_RESPONSE_BYTES = 32 << 20
"""A larger answer of Prometheus is not read: 15,000 nodes are about 2 MB."""


class Load(NamedTuple):
    """What a node uses, as measured."""

    milli_cpu: float
    memory: float
    measured: float
    """When it came, on the clock of `Loads`."""


@dataclass(frozen=True)
class Access:
    """How this process reaches Prometheus, besides the URL: the operator of the process says so, not the args."""

    token_file: str | None = None
    """A file with the bearer token, read for each request, since such tokens are rotated."""
    tls: ssl.SSLContext | None = None
    """For https; default: the certificates that the system trusts."""


class QueryError(Exception):
    """Why the load is not known: one sentence for operators."""


@dataclass(frozen=True)
class Prometheus:
    """The HTTP API of a Prometheus, or of a server that has the same."""

    url: str
    timeout: float
    """The most seconds that one query may take, with all of its answer."""
    access: Access = field(default_factory=Access)

    def vector(self, query: str, label: str) -> dict[str, float]:
        """The values of an instant query, by a label. Raises `QueryError`."""
        answer = self._get(query)
        try:
            data = answer["data"]
            if data["resultType"] != "vector":
                raise QueryError(f"the query {query!r} gives a {data['resultType']}; expected an instant vector")
            return _by_label(data["result"], query, label)
        except (KeyError, TypeError, ValueError) as error:
            raise QueryError(f"{self.url} gives an answer that is not one of Prometheus: {error!r}") from error

    def _get(self, query: str) -> Any:
        try:
            status, body = self._exchange("/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        except (OSError, http.client.HTTPException) as error:
            raise QueryError(f"cannot query {self.url}: {str(error) or type(error).__name__}") from error
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if status == http.HTTPStatus.OK and isinstance(answer, dict) and answer.get("status") == "success":
            return answer
        said = answer.get("error") if isinstance(answer, dict) else None
        raise QueryError(f"{self.url} answers the query {query!r} with HTTP {status}: {str(said or 'no JSON')[:200]}")

    def _exchange(self, path: str) -> tuple[int, bytes]:
        url = urllib.parse.urlsplit(self.url)
        host = url.hostname or ""
        connection: http.client.HTTPConnection
        if url.scheme == "https":
            context = self.access.tls or ssl.create_default_context()
            connection = http.client.HTTPSConnection(host, url.port, timeout=self.timeout, context=context)
        else:
            connection = http.client.HTTPConnection(host, url.port, timeout=self.timeout)
        begin = time.monotonic()
        connection.connect()
        # The timeout of a socket begins again with each byte; this one does not.
        left = max(self.timeout - (time.monotonic() - begin), 0)
        limit = threading.Timer(left, _shut, (connection.sock,))
        limit.daemon = True
        limit.start()
        try:
            connection.request("GET", url.path.rstrip("/") + path, headers=self._headers())
            response = connection.getresponse()
            body = response.read(MAX_RESPONSE_BYTES + 1)
        finally:
            limit.cancel()
            connection.close()
        if len(body) > MAX_RESPONSE_BYTES:
            raise QueryError(f"{self.url} gives more than {MAX_RESPONSE_BYTES} bytes; aggregate the query by node")
        return response.status, body

    def _headers(self) -> dict[str, str]:
        if self.access.token_file is None:
            return {}
        with open(self.access.token_file) as file:  # noqa: PTH123
            return {"Authorization": f"Bearer {file.read().strip()}"}


def _shut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _by_label(series: list[Any], query: str, label: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in series:
        name = one["metric"].get(label)
        value = float(one["value"][1])
        if not name or not math.isfinite(value):
            continue
        if name in found:
            raise QueryError(f"the query {query!r} gives two series of {label}={name}; use `sum by ({label}) (...)`")
        found[name] = max(value, 0.0)
    if not found:
        raise QueryError(f"the query {query!r} gives no series with the label {label}")
    return found


class Loads:
    """The load of all nodes, refreshed in the background until this object is gone. Calls only look at it."""

    def __init__(
        self,
        measure: Callable[[], tuple[Mapping[str, float], Mapping[str, float]]],
        staleness: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`measure` gives CPU in cores and memory in bytes, by node.

        Data older than `staleness` seconds is not used.
        """
        self._measure = measure
        self._staleness = staleness
        self._clock = clock
        self._by_node: Mapping[str, Load] = MappingProxyType({})
        self._newest = -math.inf
        self._failure = "it has not answered yet"

    def of(self, node: str) -> Load | None:
        """The load of a node; `None` if it is not known, or not any more."""
        load = self._by_node.get(node)
        return load if load is not None and self._clock() - load.measured <= self._staleness else None

    def missing(self) -> str | None:
        """Why the load of no node is known; `None` if that of some is."""
        age = self._clock() - self._newest
        if age <= self._staleness:
            return None
        return f"the load of nodes is not known: {self._failure}"

    def refresh(self) -> None:
        """Asks once."""
        try:
            cpu, memory = self._measure()
        except Exception as error:
            failure = str(error) if isinstance(error, QueryError) else f"{type(error).__name__}: {error}"
            if failure != self._failure:
                LOG.warning("the load of nodes is not refreshed: %s", failure)
            self._failure = failure
            return
        now = self._clock()
        # A node that is no longer measured keeps its load until that is stale.
        fresh = {name: load for name, load in self._by_node.items() if now - load.measured <= self._staleness}
        fresh |= {name: Load(cpu[name] * 1000, memory[name], now) for name in cpu.keys() & memory.keys()}
        if self._failure:
            LOG.info("the load of %d nodes is known", len(fresh))
        self._by_node, self._newest, self._failure = MappingProxyType(fresh), now, ""

    def keep_fresh(self, interval: float) -> None:
        """Asks now, and again every so many seconds."""
        stop = threading.Event()
        # The thread must not keep alive what it refreshes: args that are no longer used cost no queries.
        thread = threading.Thread(target=_refresh, args=(weakref.ref(self), interval, stop), daemon=True)
        weakref.finalize(self, stop.set)
        thread.start()


def _refresh(reference: Callable[[], Loads | None], interval: float, stop: threading.Event) -> None:
    while True:
        loads = reference()
        if loads is None:
            return
        loads.refresh()
        del loads
        if stop.wait(interval):
            return
