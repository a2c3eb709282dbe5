"""The streams of changes, over sockets, with both servers."""

from __future__ import annotations

import time
from collections.abc import Callable

import grpc
import pytest
from client import Client, reason, status, until
from conftest import Serve
from grpc import StatusCode
from servers import KINDS, serving

from extender_policy import (
    Args,
    ArgsError,
    Info,
    Node,
    NotReady,
    Options,
    Pod,
    Policy,
    Replaceable,
    Verb,
    Verdict,
    _service,
    configured,
)
from extender_policy._api.v1beta1 import watch_pb2
from extender_policy._watch import MAX_WATCHES, Watches


class Revised(Policy):
    """Its attributes are what changes."""

    def __init__(self, revision: str = "r1") -> None:
        self.revision = revision
        self.why: Exception | None = None
        self.newer: Policy | Exception = self

    def info(self) -> Info:
        return Info("revised", "1").revision(self.revision).filters(Verb.per_node())

    def filter(self, pod: Pod, node: Node) -> Verdict:
        return Verdict.accept()

    def ready(self) -> None:
        if self.why is not None:
            raise self.why

    def current(self) -> Policy:
        if isinstance(self.newer, Exception):
            raise self.newer
        return self.newer


CHANGES: dict[str, Callable[[Replaceable, Revised], None]] = {
    "replaced": lambda backend, policy: backend.replace(Revised("r2")),
    "renewed": lambda backend, policy: setattr(policy, "newer", Revised("r2")),
    "cannot be renewed": lambda backend, policy: setattr(policy, "newer", ValueError("no newer one")),
    "not ready": lambda backend, policy: setattr(policy, "why", NotReady("the price list is a day old")),
    "fails to be ready": lambda backend, policy: setattr(policy, "why", ValueError("a bug")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_reported_once(serve: Serve, change: Callable[[Replaceable, Revised], None]) -> None:
    policy = Revised()
    backend = Replaceable(policy)
    client = serve(backend)
    stream, compared = client.watch(), Watches().open(backend, b"")
    assert (next(stream), compared.has_changed()) == (b"", False)
    change(backend, policy)
    assert next(stream) == b""
    assert [compared.has_changed() for _ in range(3)] == [True, False, False]
    backend.replace(Revised("r3"))
    assert next(stream) == b""


def build(args: Args) -> Policy:
    if "wrong" in args.json:
        raise ArgsError("wrong: unknown field")
    return Revised(str(args.json))


def test_wrong_args_are_answered_as_by_the_handshake(serve: Serve) -> None:
    client = serve(configured(build))
    assert next(client.watch(b'{"a": 1}')) == b""
    for ask in (lambda: next(client.watch(b'{"wrong": 1}')), lambda: client.get_info(b'{"wrong": 1}')):
        with pytest.raises(grpc.RpcError) as raised:
            ask()
        assert status(raised.value) == (StatusCode.INVALID_ARGUMENT, "wrong: unknown field")
        assert reason(raised.value) == "INVALID_ARGS"


def test_a_policy_is_watched_also_when_it_is_no_longer_kept_for_calls() -> None:
    backend = configured(build)
    watch = Watches().open(backend, watch_pb2.WatchRequest(args=b'{"a": 1}').SerializeToString())
    policy = backend._policy_for(b'{"a": 1}').policy
    for number in range(20):
        for _ in range(2):
            backend._policy_for(b'{"b": %d}' % number)
    assert not watch.has_changed()
    assert isinstance(policy, Revised)
    policy.newer = Revised("r2")
    assert watch.has_changed()


@pytest.mark.parametrize("kind", KINDS)
def test_an_open_stream_ends_with_the_server_at_once(kind: str) -> None:
    with serving(kind, Revised(), Options(drain=30)) as address:
        client = Client(address)
        stream = client.watch()
        assert next(stream) == b""
        begin = time.monotonic()
    assert time.monotonic() - begin < 15
    with client, pytest.raises(grpc.RpcError):
        next(stream)


def test_a_stream_whose_client_is_gone_leaves_nothing(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    watches = Watches()
    monkeypatch.setattr(_service, "Watches", lambda: watches)
    client = serve(Revised())
    streams = [client.watch() for _ in range(MAX_WATCHES)]
    assert [next(stream) for stream in streams] == [b""] * MAX_WATCHES
    # All others are answered.
    assert client.get_info().name == "revised"
    refused = client.watch()
    with pytest.raises(grpc.RpcError) as raised:
        next(refused)
    assert status(raised.value) == (
        StatusCode.RESOURCE_EXHAUSTED,
        "this backend already has 64 streams of changes; more are refused",
    )
    assert reason(raised.value) == "OVERLOADED"
    for stream in streams:
        stream.cancel()
    until(lambda: watches.count == 0)
    assert next(client.watch()) == b""


def test_the_args_of_all_streams_are_bounded(serve: Serve) -> None:
    client = serve(configured(lambda args: Revised()))
    large = [b'{"a": "%d%s"}' % (number, b"x" * 1_000_000) for number in range(3)]
    streams = [client.watch(args) for args in large[:2]]
    assert [next(stream) for stream in streams] == [b"", b""]
    with pytest.raises(grpc.RpcError) as raised:
        next(client.watch(large[2]))
    assert status(raised.value)[0] is StatusCode.RESOURCE_EXHAUSTED
    assert next(client.watch(b"{}")) == b""
