"""A client as the gateway is one: the methods of the contract over one channel."""

from __future__ import annotations

import hashlib
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from extender_policy._api.v1beta1 import (
    hooks_pb2,
    info_pb2,
    introspection_pb2,
    map_pb2,
    node_pb2,
    pod_pb2,
    policy_pb2,
    table_pb2,
    watch_pb2,
)

M = TypeVar("M", bound=Message)

SERVICE = "/extender.policy.v1beta1.PolicyService"
INTROSPECT = "/extender.policy.v1beta1.IntrospectionService/Introspect"
CHANGE = "/extender.policy.v1beta1.HookService/Change"
WATCH = "/extender.policy.v1beta1.WatchService/Watch"
SYNC_NODES = "/extender.policy.v1beta1.NodeTableService/SyncNodes"
LIMITS = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20)]


class Client:
    """Calls that end within some seconds, however loaded the machine is."""

    def __init__(self, address: object, credentials: grpc.ChannelCredentials | None = None) -> None:
        target = str(address)
        if credentials is None:
            self.channel = grpc.insecure_channel(target, options=LIMITS)
        else:
            options: list[tuple[str, Any]] = [*LIMITS, ("grpc.ssl_target_name_override", "localhost")]
            # Each client has a connection of its own.
            options.append(("grpc.use_local_subchannel_pool", 1))
            self.channel = grpc.secure_channel(target, credentials, options=options)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self.channel.close()

    def call(self, method: str, request: Message | bytes, answer: type[M], **options: Any) -> M:
        encoded = request if isinstance(request, bytes) else request.SerializeToString()
        path = method if method.startswith("/") else f"{SERVICE}/{method}"
        answered: bytes = self.channel.unary_unary(path, None, None)(
            encoded, timeout=options.pop("timeout", 20), **options
        )
        return answer.FromString(answered)

    def get_info(self, args: bytes = b"") -> info_pb2.GetInfoResponse:
        request = info_pb2.GetInfoRequest(gateway_version="1", backend="b", args=args)
        return self.call("GetInfo", request, info_pb2.GetInfoResponse)

    def filter(self, request: policy_pb2.FilterRequest, **options: Any) -> policy_pb2.FilterResponse:
        return self.call("Filter", request, policy_pb2.FilterResponse, **options)

    def score(self, request: policy_pb2.ScoreRequest, **options: Any) -> policy_pb2.ScoreResponse:
        return self.call("Score", request, policy_pb2.ScoreResponse, **options)

    def preempt(self, request: policy_pb2.PreemptRequest, **options: Any) -> policy_pb2.PreemptResponse:
        return self.call("Preempt", request, policy_pb2.PreemptResponse, **options)

    def bind(self, request: policy_pb2.BindRequest, **options: Any) -> policy_pb2.BindResponse:
        return self.call("Bind", request, policy_pb2.BindResponse, **options)

    def begin_bind(self, request: policy_pb2.BindRequest) -> Any:
        """One that can be canceled."""
        return self.channel.unary_unary(f"{SERVICE}/Bind", None, None).future(request.SerializeToString(), timeout=20)

    def change(self, request: hooks_pb2.ChangeRequest, **options: Any) -> hooks_pb2.ChangeResponse:
        return self.call(CHANGE, request, hooks_pb2.ChangeResponse, **options)

    def introspect(self, path: str, **fields: Any) -> str:
        request = introspection_pb2.IntrospectRequest(backend="b", path=path, **fields)
        return self.call(INTROSPECT, request, introspection_pb2.IntrospectResponse).json.decode()

    def watch(self, args: bytes = b"") -> Any:
        """The stream of changes."""
        request = watch_pb2.WatchRequest(backend="b", args=args).SerializeToString()
        return self.channel.unary_stream(WATCH, None, None)(request, timeout=60)

    def begin_introspect(self, path: str) -> Any:
        """One that can be canceled."""
        request = introspection_pb2.IntrospectRequest(backend="b", path=path)
        return self.channel.unary_unary(INTROSPECT, None, None).future(request.SerializeToString(), timeout=20)


class Stream:
    """A stream that fills a table."""

    def __init__(self, client: Client) -> None:
        self._messages: queue.Queue[table_pb2.SyncNodesRequest | bytes | None] = queue.Queue()
        method = client.channel.stream_stream(SYNC_NODES, None, None)
        self.call: Any = method(iter(self._sent()), timeout=60)

    def _sent(self) -> Iterator[bytes]:
        while (message := self._messages.get()) is not None:
            yield message if isinstance(message, bytes) else message.SerializeToString()

    def send(self, message: table_pb2.SyncNodesRequest | bytes) -> int:
        """The version that the backend has applied."""
        self._messages.put(message)
        return table_pb2.SyncNodesResponse.FromString(next(self.call)).applied

    def fail(self, message: table_pb2.SyncNodesRequest | bytes) -> tuple[grpc.StatusCode, str]:
        """How the stream ends after this message."""
        self._messages.put(message)
        try:
            next(self.call)
        except grpc.RpcError as error:
            return status(error)
        raise AssertionError("the stream goes on")

    def end(self) -> None:
        self._messages.put(None)
        assert list(self.call) == []

    def reset(self) -> None:
        self.call.cancel()
        self._messages.put(None)


def until(condition: Callable[[], bool]) -> None:
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("the condition does not hold after 10 s")


def status(error: grpc.RpcError) -> tuple[grpc.StatusCode, str]:
    """Code and text."""
    failed: Any = error
    return failed.code(), failed.details()


def reason(failed: Any) -> str:
    """Which of the errors of its code ends a call or a stream; empty for none of them."""
    found: str = dict(failed.trailing_metadata()).get("extender-reason", "")
    return found.removeprefix("ERROR_REASON_")


def sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def digest(reads: info_pb2.Reads) -> bytes:
    """`Call.reads` of the calls to a verb with this declaration."""
    return sha256(reads.SerializeToString(deterministic=True))


POD = info_pb2.PodReads(everything=True)
EVERYTHING = digest(info_pb2.Reads(pod=POD, node=info_pb2.NodeReads(everything=True)))
EVERYTHING_OF_PODS = digest(info_pb2.Reads(pod=POD))
NOTHING = digest(info_pb2.Reads())


def call(
    purpose: policy_pb2.Purpose = policy_pb2.PURPOSE_DECIDE, reads: bytes = EVERYTHING, **fields: Any
) -> policy_pb2.Call:
    """To a verb that reads everything, unless it is said what it reads."""
    return policy_pb2.Call(id="c1", purpose=purpose, gateway="g", backend="b", reads=reads, **fields)


def named(args: bytes) -> dict[str, Any]:
    """The fields of a call that brings its args."""
    return {"args": args, "args_sha256": sha256(args)}


def by_digest(args: bytes) -> dict[str, Any]:
    """The fields of a call that names its args alone."""
    return {"args_sha256": sha256(args)}


def reads_of(client: Client, verb: int | None = None, args: bytes = b"") -> bytes:
    """`Call.reads` of the calls to this verb, or to the first one."""
    declared = next(found for found in client.get_info(args).verbs if verb in (None, found.verb))
    return digest(declared.reads)


def values(*given: str, absent: Sequence[int] = ()) -> map_pb2.MapValues:
    """Labels by the positions of their keys."""
    return map_pb2.MapValues(values=given, absent=absent)


def pod(**facts: Any) -> pod_pb2.Pod:
    return pod_pb2.Pod(facts=pod_pb2.PodFacts(**{"namespace": "shop", "priority": 0, **facts}))


def row(name: str, **labels: str) -> node_pb2.NodeRow:
    facts = node_pb2.NodeFacts(unschedulable=False, labels=map_pb2.MapValues(entries=labels))
    return node_pb2.NodeRow(name=name, facts=facts)


def inline(rows: Sequence[node_pb2.NodeRow]) -> node_pb2.Nodes:
    return node_pb2.Nodes(count=len(rows), rows=node_pb2.NodeRows(rows=rows))


def by_table(
    table: str, ids: Sequence[int], at_least: int = 1, rows: Sequence[node_pb2.NodeRow] = ()
) -> node_pb2.Nodes:
    named = node_pb2.NodeRef(table=table, at_least=at_least, ids=ids, rows=rows)
    return node_pb2.Nodes(count=len(ids), table=named)


def question(nodes: node_pb2.Nodes, placed: pod_pb2.Pod | None = None, **fields: Any) -> policy_pb2.FilterRequest:
    return policy_pb2.FilterRequest(call=call(**fields), pod=placed or pod(), nodes=nodes)
