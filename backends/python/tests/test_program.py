"""Policies as programs: options, exit statuses, signals, TLS, health and reflection."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from certificates import Authority
from client import NOTHING, Client, Stream, call, inline, question, row, status
from grpc import StatusCode
from grpc_health.v1 import health_pb2

from extender_policy import Address, Options, Tls
from extender_policy._api.v1beta1 import info_pb2, policy_pb2, table_pb2
from extender_policy._run import OPTIONS, _Signals, argument_parser, options_from

ROOT = Path(__file__).resolve().parent.parent
SLOW = ROOT / "tests" / "programs" / "slow.py"
NO_ARM = ROOT / "examples" / "no_arm" / "no_arm.py"
HEALTH = "/grpc.health.v1.Health/Check"

Program = subprocess.Popen[str]


@contextmanager
def started(script: Path, *arguments: object) -> Iterator[tuple[Program, str]]:
    """A program that listens, and its address."""
    command = [sys.executable, "-W", "error", str(script), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            line = program.stdout.readline()
            assert line.startswith("listening on "), program.communicate()
            yield program, line.removeprefix("listening on ").strip()
        finally:
            program.kill()


def ended(*arguments: object, script: Path = NO_ARM) -> tuple[int, str, str]:
    """The status and the output of a program that does not listen."""
    done = subprocess.run(
        [sys.executable, str(script), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def health(client: Client, service: str = "") -> int:
    request = health_pb2.HealthCheckRequest(service=service)
    return int(client.call(HEALTH, request, health_pb2.HealthCheckResponse).status)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--adress", "x"], "unrecognized arguments: --adress x"),
        (["--address"], "argument --address: expected one argument"),
        (["--address", "localhost"], "argument --address: invalid value 'localhost'; expected HOST:PORT such as"),
        (["--address=1.2.3.4:x"], "expected HOST:PORT such as 0.0.0.0:9000"),
        (["--address=1.2.3.4:65536"], "expected HOST:PORT such as 0.0.0.0:9000"),
        (["--tls-cert", "a"], "--tls-cert is given without --tls-key; expected --tls-cert FILE and --tls-key FILE"),
        (["--tls-key", "a"], "--tls-key is given without --tls-cert"),
        (["--tls-client-ca", "a"], "--tls-client-ca is given without --tls-cert"),
    ],
)
def test_wrong_usage_names_the_option(arguments: Sequence[str], expected: str) -> None:
    code, out, err = ended(*arguments)
    assert (code, out) == (2, "")
    assert expected in err


def test_help_names_the_options() -> None:
    code, out, _ = ended("--help")
    assert code == 0
    assert len(OPTIONS) == 7
    for option in ("OTEL_EXPORTER_OTLP_ENDPOINT", *(name for one in OPTIONS for name in (one.flag, one.variable))):
        assert option in out


ADDRESS = Options(Address("::1", 7))
ENVIRONMENT: list[tuple[dict[str, str], list[str], Options | str]] = [
    ({"ADDRESS": "[::1]:7"}, [], ADDRESS),
    ({"ADDRESS": "1.2.3.4:x"}, ["--address=[::1]:7"], ADDRESS),
    ({"ADDRESS": "", "LOG_CALLS": "", "TLS_CERT": ""}, [], Options()),
    ({"ADDRESS": "1.2.3.4:x"}, [], "EXTENDER_POLICY_ADDRESS: invalid value '1.2.3.4:x'; expected HOST:PORT such as"),
    ({"METRICS_ADDRESS": "[::1]:7"}, [], Options(metrics_address=Address("::1", 7))),
    ({"LOG_CALLS": "true"}, [], Options(log_calls=True)),
    ({"LOG_CALLS": "false"}, ["--log-calls"], Options(log_calls=True)),
    ({"LOG_CALLS": "yes"}, [], "EXTENDER_POLICY_LOG_CALLS: invalid value 'yes'; expected true or false"),
    ({"ALLOW_UNAUTHENTICATED_BIND": "true"}, [], Options(allow_unauthenticated_bind=True)),
    ({"TLS_CERT": "c", "TLS_KEY": "k", "TLS_CLIENT_CA": "a"}, [], Options(tls=Tls("c", "k", "a"))),
    ({"TLS_CERT": "c", "TLS_KEY": "k"}, ["--tls-cert=d"], Options(tls=Tls("d", "k"))),
    ({"TLS_CERT": "c"}, [], "EXTENDER_POLICY_TLS_CERT is given without --tls-key; expected --tls-cert FILE and"),
    ({"TLS_CLIENT_CA": "a"}, [], "EXTENDER_POLICY_TLS_CLIENT_CA is given without --tls-cert"),
]


@pytest.mark.parametrize(("variables", "arguments", "expected"), ENVIRONMENT)
def test_the_environment_has_the_options_that_are_not_given(
    variables: dict[str, str],
    arguments: list[str],
    expected: Options | str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"EXTENDER_POLICY_{name}", value)
    usage = argument_parser()
    try:
        found = options_from(usage, usage.parse_args(arguments))
    except SystemExit as ended:
        assert ended.code == 2
        assert isinstance(expected, str) and f"error: {expected}" in capsys.readouterr().err
    else:
        assert found == expected


def test_an_address_that_is_in_use_is_named() -> None:
    with started(NO_ARM) as (_, address):
        code, out, err = ended("--address", address)
    assert (code, out) == (1, "")
    assert f"cannot listen on {address}: Address already in use; set another --address" in err


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    code, _, err = ended("--tls-cert", tmp_path / "a.crt", "--tls-key", tmp_path / "a.key")
    assert code == 1
    assert f"cannot start with TLS: cannot read {tmp_path}/a.crt: No such file or directory; give the path" in err
    Authority().issue("server").write(tmp_path, "a")
    Authority().issue("other").write(tmp_path, "b")
    code, _, err = ended("--tls-cert", tmp_path / "a.crt", "--tls-key", tmp_path / "b.key")
    assert code == 1
    assert f"{tmp_path}/a.crt and {tmp_path}/b.key" in err
    assert "expected a certificate chain and its private key" in err
    (tmp_path / "ca.crt").write_text("nothing")
    code, _, err = ended(
        "--tls-cert", tmp_path / "a.crt", "--tls-key", tmp_path / "a.key", "--tls-client-ca", tmp_path / "ca.crt"
    )
    assert (code, f"{tmp_path}/ca.crt" in err) == (1, True)


@pytest.mark.parametrize("kind", [[], ["--loop"]])
def test_calls_are_logged_and_counted(kind: Sequence[str]) -> None:
    options = (*kind, "--log-calls", "--metrics-address=127.0.0.1:0")
    with started(SLOW, *options) as (program, address), Client(address) as client:
        client.bind(binding("web", 0))
        assert program.stderr is not None
        url = re.search(r"metrics are served at (.*)", program.stderr.readline())
        line = r" INFO extender_policy: bind: call c1, pod shop/web, [0-9.]+ ms\n$"
        assert re.search(line, program.stderr.readline())
        assert url is not None
        with urllib.request.urlopen(url[1], timeout=20) as scraped:
            assert b'extender_policy_calls_total{code="OK",verb="bind"} 1.0\n' in scraped.read()


def binding(name: str, seconds: float) -> policy_pb2.BindRequest:
    return policy_pb2.BindRequest(call=call(reads=NOTHING), namespace="shop", name=name, uid="u", node=str(seconds))


@pytest.mark.parametrize("kind", [[], ["--loop"]])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_finishes_calls_in_progress(kind: Sequence[str], number: signal.Signals) -> None:
    with started(SLOW, *kind) as (program, address), Client(address) as client, ThreadPoolExecutor() as pool:
        stream = Stream(client)
        stream.send(table_pb2.SyncNodesRequest(table="t1", version=1, reads=info_pb2.NodeReads(everything=True)))
        bound = pool.submit(client.bind, binding("web", 1.0))
        assert program.stdout is not None
        assert program.stdout.readline() == "binding web\n"
        begin = time.monotonic()
        program.send_signal(number)
        assert bound.result(20).outcome == policy_pb2.BIND_OUTCOME_BOUND
        # The open stream does not delay the end, as draining would for 10 s.
        assert program.wait(20) == 0
        assert time.monotonic() - begin < 10
        with pytest.raises(grpc.RpcError):
            client.get_info()


@pytest.mark.parametrize("kind", [[], ["--loop"]])
def test_the_second_signal_ends_at_once(kind: Sequence[str]) -> None:
    with started(SLOW, *kind) as (program, address), Client(address) as client:
        failed = threading.Event()

        def bind() -> None:
            with pytest.raises(grpc.RpcError):
                client.bind(binding("web", 60))
            failed.set()

        thread = threading.Thread(target=bind)
        thread.start()
        assert program.stdout is not None
        assert program.stdout.readline() == "binding web\n"
        begin = time.monotonic()
        program.terminate()
        while health_or_gone(client) == health_pb2.HealthCheckResponse.SERVING:
            assert time.monotonic() - begin < 20
        program.terminate()
        program.wait(20)
        thread.join(20)
        assert failed.is_set()
        # Draining would take 10 s, and the call a minute.
        assert program.returncode == 0


LEFT = [(2.0, 60, "bind: call c1, pod shop/web, CANCELLED, [0-9.]+ ms"), (1e6, 0.5, "1 call did not end within 0.5 s")]


@pytest.mark.parametrize(("seconds", "drain", "log"), LEFT)
def test_calls_that_do_not_end_are_left(
    seconds: float, drain: float, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"exit_with(lambda: serve(Slow(), Options(drain={drain}, log_calls=True)))"
    code, out, err = left_with(program, seconds, monkeypatch)
    assert (code, out) == (0, "")
    assert re.fullmatch(f".* {log}\n", err)


def test_serve_returns_when_a_call_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import os; print(serve(Slow(), Options(drain=0.5)), flush=True); os._exit(3)"
    code, out, err = left_with(program, 1e6, monkeypatch)
    assert (code, out) == (3, "1\n")
    assert "1 call did not end within 0.5 s" in err


def left_with(code: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """How a program ends whose caller has given up a bind of this duration, and what it then writes."""
    monkeypatch.setenv("PYTHONPATH", str(SLOW.parent))
    script = Path("-c"), f"from extender_policy import *; from slow import *; {code}"
    with started(*script) as (program, address), Client(address) as client:
        bound = client.begin_bind(binding("web", seconds))
        assert program.stdout is not None
        assert program.stdout.readline() == "binding web\n"
        # The caller gives up, as the gateway does, and the method goes on.
        bound.cancel()
        program.terminate()
        out, err = program.communicate(timeout=30)
    return program.returncode, out, err


def test_a_signal_that_another_thread_gets_ends_the_wait() -> None:
    with _Signals() as signals:
        # The main thread is usually waiting by then, and the system does not interrupt it.
        kills = threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
        kills.start()
        signals.wait()
        kills.join()

    async def waits() -> None:
        with _Signals() as signals:
            kills = threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
            kills.start()
            await signals.wait_async()
            kills.join()

    asyncio.run(waits())


def health_or_gone(client: Client) -> int:
    try:
        return health(client)
    except grpc.RpcError:
        return -1


def test_a_coroutine_is_canceled_with_its_call() -> None:
    with started(SLOW, "--loop") as (program, address), Client(address) as client:
        with pytest.raises(grpc.RpcError) as raised:
            client.bind(binding("web", 60), timeout=1)
        assert status(raised.value)[0] is StatusCode.DEADLINE_EXCEEDED
        assert program.stdout is not None
        assert [program.stdout.readline() for _ in range(2)] == ["binding web\n", "canceled web\n"]


@pytest.mark.parametrize("kind", [[], ["--loop"]])
def test_tls_is_served_and_follows_its_files(kind: Sequence[str], tmp_path: Path) -> None:
    authority, other = Authority(), Authority()
    authority.issue("first").write(tmp_path, "server")
    files = ("--tls-cert", tmp_path / "server.crt", "--tls-key", tmp_path / "server.key")
    with started(SLOW, *kind, *files) as (program, address):
        with Client(address, authority.client()) as client:
            assert client.get_info().name == "slow"
            assert certificate(client, address) == "first"
            # A rotated certificate, for new connections.
            authority.issue("second").write(tmp_path, "server")
            assert until_certificate(authority, address) == "second"
            assert client.get_info().name == "slow"
        # A broken file keeps the old certificate, and is logged once.
        (tmp_path / "server.crt").write_text("nothing")
        for _ in range(3):
            assert until_certificate(authority, address) == "second"
        # Another CA.
        other.issue("third").write(tmp_path, "server")
        assert until_certificate(other, address) == "third"
        with Client(address) as plain, pytest.raises(grpc.RpcError):
            plain.call("GetInfo", b"", info_pb2.GetInfoResponse, timeout=5)
        program.terminate()
        _, log = program.communicate(timeout=20)
    assert log.count("the changed TLS files cannot be used, and the earlier certificate stays") == 1
    assert log.count("was read again") == 2


def until_certificate(authority: Authority, address: str) -> str:
    """The name in the certificate of a new connection."""
    with Client(address, authority.client()) as client:
        client.get_info()
        return certificate(client, address)


def certificate(client: Client, address: str) -> str:
    import ssl

    from cryptography import x509

    host, _, port = address.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    import socket

    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain) as secure:
        found = secure.getpeercert(binary_form=True)
    assert found is not None
    return str(x509.load_der_x509_certificate(found).subject.rfc4514_string()).removeprefix("CN=")


@pytest.mark.parametrize("kind", [[], ["--loop"]])
def test_clients_must_present_a_certificate_of_the_ca(kind: Sequence[str], tmp_path: Path) -> None:
    authority, other = Authority(), Authority()
    authority.issue("server").write(tmp_path, "server")
    (tmp_path / "ca.crt").write_bytes(authority.cert)
    files = ("--tls-cert", tmp_path / "server.crt", "--tls-key", tmp_path / "server.key")
    with started(SLOW, *kind, *files, "--tls-client-ca", tmp_path / "ca.crt") as (_, address):
        with Client(address, authority.client(authority.issue("gateway"))) as client:
            assert client.get_info().name == "slow"
            assert client.filter(question(inline([row("a")]), reads=NOTHING)).result.evaluated == 1
        foreign = other.issue("stranger")
        for credentials in (
            authority.client(),
            grpc.ssl_channel_credentials(authority.cert, foreign.key, foreign.cert),
        ):
            with Client(address, credentials) as client, pytest.raises(grpc.RpcError) as raised:
                client.call("GetInfo", b"", info_pb2.GetInfoResponse, timeout=5)
            assert status(raised.value)[0] in (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED)


def test_two_processes_can_share_an_address() -> None:
    code = (
        "import sys; from no_arm import NoArm; from extender_policy import *;"
        "serve(NoArm(), Options(Address.parse(sys.argv[1]), reuse_port=True))"
    )
    environment = os.environ | {"PYTHONPATH": str(NO_ARM.parent)}

    def process(address: str) -> Program:
        command = [sys.executable, "-c", code, address]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    with process("127.0.0.1:0") as first:
        assert first.stdout is not None
        address = first.stdout.readline().removeprefix("listening on ").strip()
        with process(address) as second:
            assert second.stdout is not None
            assert second.stdout.readline() == f"listening on {address}\n"
            second.terminate()
        with Client(address) as client:
            assert client.get_info().name == "no-arm"
        first.terminate()
