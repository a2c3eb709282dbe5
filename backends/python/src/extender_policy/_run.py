"""`main` for a policy, and serving for one with options of its own."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from ._backend import Backend
from ._calls import CallFilter
from ._tls import Tls
from .async_server import AsyncServer
from .errors import DeclarationError, ServeError
from .options import Address, Options
from .policy import Policy
from .server import Server

SIGNALS = (signal.SIGTERM, signal.SIGINT)

BAD_USAGE = 2

EPILOG = """\
The variable [env: ...] counts where its option is not given, unless it is empty; it is true or false for an option
without a value. Prints `listening on HOST:PORT` when it is ready; the log goes to standard error. SIGTERM finishes
calls in progress, a second one ends at once. Changed TLS files are read again for new connections.

Calls that the gateway traces are continued, and their spans sent to an OpenTelemetry collector, where the standard
variables name one: OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317, OTEL_EXPORTER_OTLP_PROTOCOL,
OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_CERTIFICATE (each also as
OTEL_EXPORTER_OTLP_TRACES_...), OTEL_TRACES_EXPORTER=none, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_..., OTEL_SDK_DISABLED."""


def run(backend: Backend | Policy, arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs a policy as a program: accepts `--address`, the TLS options and `--help`, then does what `serve` does.

    Exits with 0 when it was stopped by a signal, 1 when it cannot start, and 2 after wrong usage. As `exit_with`, it
    does not wait for calls that have not ended.
    """
    _run(arguments, lambda options: serve(backend, options))


def run_async(backend: Backend | Policy, arguments: Sequence[str] | None = None) -> NoReturn:
    """The same with the server with an event loop, for policies with coroutine functions."""
    _run(arguments, lambda options: asyncio.run(serve_async(backend, options)))


def serve(backend: Backend | Policy, options: Options | None = None) -> int:
    """Serves a policy until SIGTERM or SIGINT, with a pool of threads. To be called from the main thread.

    Returns how many calls have not ended within `Options.drain`: the interpreter waits for their threads when it ends,
    unless `run` or `exit_with` ends the program.

    Raises `DeclarationError` and `ServeError` if it cannot start.
    """
    with _Signals() as signals:
        server = Server(backend, options)
        server.start()
        announce(server.address)
        signals.wait()
        return server.stop()


async def serve_async(backend: Backend | Policy, options: Options | None = None) -> None:
    """Serves a policy until SIGTERM or SIGINT, in the running event loop. To be called from the main thread.

    Raises `DeclarationError` and `ServeError` if it cannot start.
    """
    with _Signals() as signals:
        server = AsyncServer(backend, options)
        await server.start()
        announce(server.address)
        await signals.wait_async()
        await server.stop()


def announce(address: Address) -> None:
    """The one line on standard output."""
    print(f"listening on {address}", flush=True)


class _Signals:
    """Tells of the first signal, and ends the process at the second one.

    A handler of Python is called by the main thread alone, which a signal does not wake if another thread gets it, or
    if it comes just before the main thread waits. So the interpreter also writes the signal's number into a socket.
    """

    def __init__(self) -> None:
        self._receiver, self._sender = socket.socketpair()
        self._sender.setblocking(False)
        self._earlier: dict[signal.Signals, Any] = {}
        self._earlier_wakeup = -1
        self._is_stopping = False

    def __enter__(self) -> _Signals:
        self._earlier_wakeup = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            self._earlier[number] = signal.signal(number, self._caught)
        return self

    def __exit__(self, kind: object, error: object, stack: object) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._earlier_wakeup)
        self._receiver.close()
        self._sender.close()

    def wait(self) -> None:
        """Waits for the first signal."""
        while not self._receive():
            pass

    async def wait_async(self) -> None:
        """The same in the running event loop."""
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._receiver, lambda: stopped.set() if self._receive() else None)
        try:
            await stopped.wait()
        finally:
            loop.remove_reader(self._receiver)

    def _receive(self) -> bool:
        # There are also the numbers of signals that others handle.
        return not set(SIGNALS).isdisjoint(self._receiver.recv(64))

    def _caught(self, number: int, frame: FrameType | None) -> None:
        if self._is_stopping:
            # Threads of calls in progress would be waited for.
            os._exit(0)
        self._is_stopping = True


def argument_parser(
    description: str = "Serves one policy to the extender gateway over gRPC.",
) -> argparse.ArgumentParser:
    """The options of every policy, for programs that add their own; `options_from` reads them."""
    usage = argparse.ArgumentParser(
        description=description, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    for option in OPTIONS:
        # Without an option its variable counts, so there is no default here.
        given: dict[str, Any] = {"metavar": option.value, "type": option.read}
        if option.read is _boolean:
            given = {"action": "store_const", "const": True}
        usage.add_argument(option.flag, help=f"{option.help} [env: {option.variable}]", **given)
    return usage


def options_from(usage: argparse.ArgumentParser, given: argparse.Namespace) -> Options:
    """The options that were given, or those of the environment. Exits with 2 if they cannot be used."""
    found: dict[str, Any] = {}
    for option in OPTIONS:
        value, text = getattr(given, option.name), os.environ.get(option.variable, "")
        try:
            found[option.name] = option.read(text) if value is None and text else value
        except argparse.ArgumentTypeError as error:
            usage.error(f"{option.variable}: {error}")
    for name, other in (("tls_cert", "tls_key"), ("tls_key", "tls_cert"), ("tls_client_ca", "tls_cert")):
        if found[name] is not None and found[other] is None:
            place, missing = (f"--{text.replace('_', '-')}" for text in (name, other))
            if getattr(given, name) is None:
                place = f"EXTENDER_POLICY_{name.upper()}"
            usage.error(f"{place} is given without {missing}; expected --tls-cert FILE and --tls-key FILE together")
    cert, key, client_ca = (found.pop(name) for name in ("tls_cert", "tls_key", "tls_client_ca"))
    tls = None if cert is None else Tls(cert, key, client_ca)
    return Options(tls=tls, **{name: value for name, value in found.items() if value is not None})


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid value {text!r}; expected HOST:PORT such as 0.0.0.0:9000") from None


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"invalid value {text!r}; expected true or false")
    return text == "true"


class _Option(NamedTuple):
    """An option of every program, and its variable."""

    name: str
    """In Python."""
    read: Callable[[str], Any]
    value: str
    """What --help says that it takes."""
    help: str

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return f"EXTENDER_POLICY_{self.name.upper()}"


OPTIONS = (
    _Option("address", _address, "HOST:PORT", "where to listen; port 0 takes a free one [default: 127.0.0.1:0]"),
    _Option("tls_cert", str, "FILE", "the server's certificate chain, in PEM"),
    _Option("tls_key", str, "FILE", "its private key, in PEM"),
    _Option("tls_client_ca", str, "FILE", "clients must present a certificate of this CA, in PEM"),
    _Option(
        "allow_unauthenticated_bind",
        _boolean,
        "",
        "serve a policy that binds also beyond loopback without --tls-client-ca: anyone who reaches the address may "
        "bind pods",
    ),
    _Option("metrics_address", _address, "HOST:PORT", "serve GET /metrics for Prometheus there [default: nowhere]"),
    _Option("log_calls", _boolean, "", "write a line for each call to the log"),
)


def log_to_stderr() -> None:
    """The log of a program that does not set up one of its own."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(CallFilter())
    text = "%(asctime)s %(levelname)s %(name)s: %(message)s%(call)s"
    logging.basicConfig(level=logging.INFO, handlers=[handler], format=text)


def _run(arguments: Sequence[str] | None, serve_with: Callable[[Options], int | None]) -> NoReturn:
    usage = argument_parser()
    given = options_from(usage, usage.parse_args(arguments))
    exit_with(lambda: serve_with(given))


def exit_with(serving: Callable[[], int | None]) -> NoReturn:
    """Serves, and exits with the status of a program: 0, or 1 with the reason on standard error if it cannot start.

    If `serving` returns, as `serve` does, that calls have not ended, the program ends without waiting for their
    threads. Nothing of the program runs after that, such as functions of `atexit`.
    """
    log_to_stderr()
    try:
        left = serving()
    except (DeclarationError, ServeError) as error:
        sys.exit(f"{error}")
    if left:
        # Ended in any other way, the process would wait for the threads of these calls.
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)
    sys.exit(0)
