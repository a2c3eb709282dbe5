"""What strangers can do to a backend whose address they reach."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import pytest
from client import SERVICE, Client, inline, question, row
from grpc import StatusCode
from servers import KINDS, serving

from extender_policy import (
    Address,
    Backend,
    Bind,
    BindAsk,
    Info,
    Options,
    Policy,
    Reads,
    ServeError,
    Verb,
    Verdict,
    _service,
    configured,
)
from extender_policy._api.v1beta1 import info_pb2
from extender_policy._errors import FailureLog, call_error
from extender_policy._receiving import Receiving
from extender_policy._run import argument_parser, options_from

OPEN = Address("0.0.0.0", 0)
REFUSED = "is reached from other machines without a client certificate, and callers of this policy can bind pods"


def info(client: Client) -> info_pb2.GetInfoResponse:
    return client.call("GetInfo", info_pb2.GetInfoRequest(), info_pb2.GetInfoResponse)


def failing(call: Callable[[], object]) -> tuple[StatusCode, str]:
    with pytest.raises(grpc.RpcError) as refused:
        call()
    return refused.value.code(), refused.value.details() or ""


class Binder(Policy):
    def info(self) -> Info:
        return Info("binder", "1").binds()

    def bind(self, ask: BindAsk) -> Bind:
        return Bind.BOUND


class Filters(Policy):
    def info(self) -> Info:
        return Info("filters", "1").filters(Verb.per_node().reads(Reads.everything()))

    def filter(self, pod: object, node: object) -> Verdict:
        raise KeyError("password=hunter2")


@pytest.mark.parametrize("kind", KINDS)
def test_strangers_get_no_policy_that_binds(kind: str) -> None:
    with pytest.raises(ServeError, match=REFUSED), serving(kind, Binder(), Options(OPEN)):
        pass
    served: list[tuple[Backend | Policy, Options]] = [
        (Binder(), Options()),
        (Binder(), Options(Address("localhost", 0))),
        (Binder(), Options(OPEN, allow_unauthenticated_bind=True)),
        (Filters(), Options(OPEN)),
    ]
    for policy, options in served:
        with serving(kind, policy, options):
            pass
    # Whether one that is built from args binds is known when it is called.
    with (
        serving(kind, configured(lambda args: Binder()), Options(OPEN)) as address,
        Client(Address("127.0.0.1", address.port)) as client,
    ):
        code, text = failing(lambda: info(client))
        assert code is StatusCode.FAILED_PRECONDITION
        assert REFUSED in text


def unfinished(address: Address) -> socket.socket:
    """A call whose message is announced and does not come, without a client of gRPC."""
    connection = socket.create_connection(address, timeout=60)
    path = f"{SERVICE}/Filter".encode()
    # Literal fields without indexing, by static names: :path, :method POST, :scheme http, :authority, content-type, te.
    fields = b"\x83\x86" + b"\x04" + bytes([len(path)]) + path + b"\x01\x01a"
    fields += b"\x0f\x10\x10application/grpc" + b"\x00\x02te\x08trailers"
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
    connection.sendall(frame(1, 4, 1, fields) + frame(0, 0, 1, struct.pack(">BI", 0, 1000)))
    return connection


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


@pytest.mark.parametrize("kind", KINDS)
def test_messages_that_do_not_end_hold_up_no_other_for_long(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Only because others wait, they are given up.
    monkeypatch.setattr("extender_policy.async_server.BEGINNING_SECONDS", 600)
    monkeypatch.setattr("extender_policy.server.Receiving", lambda: Receiving(600))
    with serving(kind, Filters()) as address:
        connections = [unfinished(address) for _ in range(2 * _service.MAX_RECEIVING)]
        try:
            with Client(address) as client:
                assert info(client).name == "filters"
        finally:
            for connection in connections:
                connection.close()


def test_a_silent_connection_is_closed_and_a_gateway_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_service, "BEGINNING_SECONDS", 0.5)
    monkeypatch.setattr(_service, "most_connections", lambda: 4)
    with serving("threads", Filters()) as address:
        silent = [socket.create_connection(address, timeout=60) for _ in range(4)]
        try:
            for connection in silent:
                while connection.recv(1000):
                    pass
            with Client(address) as client:
                assert info(client).name == "filters"
        finally:
            for connection in silent:
                connection.close()


def test_a_failure_is_logged_with_its_text_and_then_counted_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    failures = FailureLog(lambda: now)

    def fail(method: str, text: str) -> None:
        try:
            raise KeyError(text)
        except KeyError as raised:
            failures.add(method, call_error(method, raised))

    def logged() -> list[tuple[str, bool]]:
        found = [(record.getMessage(), record.exc_info is not None) for record in caplog.records]
        caplog.clear()
        return found

    with caplog.at_level(logging.ERROR):
        for second in range(121):
            now = float(second)
            fail("Filter", f"password=hunter{second}")
        assert logged() == [
            ("filter failed: KeyError: 'password=hunter0'; the call fails with INTERNAL", True),
            ("filter failed: KeyError: 'password=hunter60'; 61 failures of this kind so far", False),
            ("filter failed: KeyError: 'password=hunter120'; 121 failures of this kind so far", False),
        ]
        # However many kinds there are.
        for number in range(1000):
            fail(f"Verb{number}", "")
        assert len(logged()) == 100


def test_one_wrong_answer_does_not_hide_another(caplog: pytest.LogCaptureFixture) -> None:
    class Wrong(Filters):
        def filter_all(self, pod: object, nodes: Sequence[object]) -> Any:
            return [] if len(nodes) > 1 else [3]

    with serving("threads", Wrong()) as address, Client(address) as client, caplog.at_level(logging.ERROR):
        for names in ("a", "ab", "a", "ab"):
            failing(lambda: client.filter(question(inline([row(name) for name in names]))))  # noqa: B023
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        'filter returned 3 for node "a"',
        "filter_all returned 0 answers for 2 nodes",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_of_an_exception_stays_in_the_log(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    class Raises(Filters):
        def filter(self, pod: object, node: object) -> Verdict:
            raise KeyError("password=hunter2")

    with serving(kind, Raises()) as address, Client(address) as client, caplog.at_level(logging.ERROR):
        told = failing(lambda: client.filter(question(inline([row("a")]))))
    assert told == (StatusCode.INTERNAL, "filter failed (KeyError); see the policy's log")
    (record,) = caplog.records
    assert "password=hunter2" in record.getMessage()
    assert record.exc_info is not None


def test_the_option_is_known() -> None:
    usage = argument_parser()
    given = options_from(usage, usage.parse_args(["--allow-unauthenticated-bind"]))
    assert given.allow_unauthenticated_bind
