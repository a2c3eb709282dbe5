"""Metrics of the calls, in Prometheus' text format.

The package prometheus-client is an optional dependency (`extender-policy[metrics]`). Nothing is imported or counted
without `Options.metrics_address`.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from ._calls import INTROSPECT, NAMES, Call
from ._errors import LOG
from .errors import ServeError
from .options import Address

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
"""In seconds."""

MAX_SCRAPES = 8
"""More connections than this are closed at once."""

SCRAPE_SECONDS = 10.0
"""How long a connection may take."""


class Metrics:
    """Counts calls, and serves the counts with those that the author of the policy has registered."""

    def __init__(self, address: Address, gauges: dict[str, tuple[str, Callable[[], float]]]) -> None:
        """Binds the address. `gauges`: help text and current value. Raises `ServeError`."""
        try:
            from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
        except ImportError as error:
            raise ServeError(
                f"metrics cannot be served: {error}; pip install 'CHECKOUT/backends/python[metrics]', or leave out "
                "--metrics-address"
            ) from error
        registry = CollectorRegistry()
        registry.register(REGISTRY)
        self._calls = Counter("extender_policy_calls", "Calls that were answered.", ["verb", "code"], registry=registry)
        self._durations = Histogram(
            "extender_policy_call_duration_seconds",
            "How long calls took, without the network.",
            ["verb"],
            buckets=BUCKETS,
            registry=registry,
        )
        for name, (text, value) in gauges.items():
            Gauge(f"extender_policy_{name}", text, registry=registry).set_function(value)
        try:
            self._server = _Scrapes(address, registry)
        except OSError as error:
            text = f"{error.strerror or error}; set another --metrics-address, or stop the process that uses it"
            raise ServeError(f"cannot serve metrics on {address}: {text}") from error
        self.address = address._replace(port=self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def count(self, call: Call) -> None:
        """A call has ended. What no verb is about is not counted."""
        verb = NAMES.get(call.method)
        if verb is not None and call.method != INTROSPECT:
            self._calls.labels(verb, call.code.name).inc()
            self._durations.labels(verb).observe(call.seconds)

    def stop(self) -> None:
        """Closes the address."""
        self._server.shutdown()
        self._server.server_close()


class _Scrapes(ThreadingTCPServer):
    """A server of HTTP for whoever reaches the address."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, registry: Any) -> None:
        self.registry = registry
        self._free = threading.BoundedSemaphore(MAX_SCRAPES)
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), _Scrape)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread could be started.
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        end = threading.Timer(SCRAPE_SECONDS, _shut, [request])
        try:
            end.start()
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error of the policy; metrics of its author that cannot be collected are."""
        if not isinstance(sys.exc_info()[1], OSError):
            LOG.exception("the request for metrics failed")


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Scrape(BaseHTTPRequestHandler):
    """One request."""

    server: _Scrapes

    def do_GET(self) -> None:
        """Serves the metrics."""
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "only /metrics is served")
            return
        content = generate_latest(self.server.registry)
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE_LATEST)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - that of the base class
        """A scrape every few seconds is not worth a line."""
