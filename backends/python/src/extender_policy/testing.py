"""Tries a policy on a pod and some nodes without a server, through the same code that answers calls.

    nodes = [
        TestNode("old").label("kubernetes.io/arch", "amd64"),
        TestNode("new").label("kubernetes.io/arch", "arm64"),
    ]
    assert testing.filter(NoArm(), TestPod("shop"), nodes) == [("new", "arm64 nodes are not in use yet")]

A verb with `Verb.reads` gets what the gateway would send for its declaration, so a test fails if the policy reads
anything else. `everything` is the same policy with nothing left out: if both give the same answers about random pods
and nodes, the declaration is complete. Methods may be coroutine functions.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import Message

from . import _answer, _introspect, _sent, _verbs
from ._api.v1alpha1 import hooks_pb2, info_pb2, introspection_pb2, node_pb2, pod_pb2, policy_pb2
from ._backend import Backend, Prepared, WithArgs, backend_of
from ._declaration import Terms
from ._errors import CallError
from ._messages import node_affinity_message, nonzero_message, resources_message
from ._tables import Tables
from .changes import NodeChange, PodChange
from .policy import Policy
from .resources import NodeAffinity, NodeUsage, NonZero, Toleration, given_toleration, named_amounts
from .verdict import Bind

T = TypeVar("T")


class NoAnswer(Exception):
    """Why a policy gave no answer: the text that the gateway would log. The policy's own exception is its cause."""


class TestNode:
    """A node to test a policy with. Each method returns a changed copy."""

    __test__ = False

    def __init__(self, name: str) -> None:
        """A node without labels."""
        self.name = name
        self._row = node_pb2.NodeRow(name=name, facts=node_pb2.NodeFacts())
        self._running: tuple[_sent.Running, ...] = ()

    def label(self, key: str, value: str) -> TestNode:
        """With a label."""
        return self._facts(labels={key: value})

    def annotation(self, key: str, value: str) -> TestNode:
        """With an annotation. The gateway sends only those that are declared."""
        return self._facts(annotations={key: value})

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> TestNode:
        """With a taint, whose effect is "NoSchedule", "PreferNoSchedule" or "NoExecute"."""
        return self._facts(taints=[{"key": key, "value": value, "effect": effect}])

    def unschedulable(self) -> TestNode:
        """Cordoned."""
        return self._facts(unschedulable=True)

    def condition(self, kind: str, status: str) -> TestNode:
        """With the status of a condition: "True", "False" or "Unknown"."""
        return self._facts(conditions={kind: status})

    def capacity(self, **amounts: Any) -> TestNode:
        """With this status.capacity; the amounts are those of `Resources`."""
        return self._facts(capacity=resources_message(named_amounts("capacity", amounts)))

    def allocatable(self, **amounts: Any) -> TestNode:
        """With this status.allocatable; the amounts are those of `Resources`.

        Sums of requests contain the extended resources that the node reports.
        """
        return self._facts(allocatable=resources_message(named_amounts("allocatable", amounts)))

    def usage(self, usage: NodeUsage) -> TestNode:
        """With the requests of the pods on it; without, the usage is unknown."""
        changed = self._copy()
        changed._row.usage.requested.CopyFrom(resources_message(usage.requested))
        changed._row.usage.nonzero.CopyFrom(nonzero_message(usage.nonzero))
        return changed

    def raw_json(self, json: bytes) -> TestNode:
        """With the object's JSON."""
        changed = self._copy()
        changed._row.raw_json = json
        return changed

    def running(self, pod: TestPod, pods: int = 1) -> TestNode:
        """With this many pods like this one on it, besides those that are there already.

        A verb that counts pods gets the counts that the gateway would send for a cluster of the nodes of the call; the
        usage stays as it is.
        """
        return self._with(_sent.Running(pod._pod, pods, 0))

    def terminating(self, pod: TestPod, pods: int = 1) -> TestNode:
        """The same with pods that are being deleted."""
        return self._with(_sent.Running(pod._pod, pods, pods))

    def _with(self, running: _sent.Running) -> TestNode:
        changed = self._copy()
        changed._running = (*self._running, running)
        return changed

    def _facts(self, **given: Any) -> TestNode:
        changed = self._copy()
        _add_facts(changed._row.facts, given)
        return changed

    def _copy(self) -> TestNode:
        changed = copy.copy(self)
        changed._row = copy.deepcopy(self._row)
        return changed

    def _in_cluster(self) -> _sent.ClusterNode:
        return _sent.ClusterNode(self._row, self._running)


class TestPod:
    """A pod to test a policy with. Each method returns a changed copy."""

    __test__ = False

    def __init__(self, namespace: str) -> None:
        """A pod without labels, and without a name."""
        self._pod = pod_pb2.Pod(facts=pod_pb2.PodFacts(namespace=namespace))
        self._snapshot = 0

    def identity(self, name: str, uid: str, claims: Sequence[str] = ()) -> TestPod:
        """With a name, a UID, and claims whose names are derived from its name."""
        changed = self._copy()
        changed._pod.identity.CopyFrom(pod_pb2.PodIdentity(name=name, uid=uid, claims=claims))
        return changed

    def label(self, key: str, value: str) -> TestPod:
        """With a label."""
        return self._facts(labels={key: value})

    def annotation(self, key: str, value: str) -> TestPod:
        """With an annotation. The gateway sends only those that are declared."""
        return self._facts(annotations={key: value})

    def toleration(self, toleration: Toleration | None = None, **fields: Any) -> TestPod:
        """With a toleration, or with one of these fields."""
        given = given_toleration("toleration", toleration, fields)
        return self._facts(tolerations=[given._asdict()])

    def owner(self, uid: str) -> TestPod:
        """With a controller of this UID."""
        owner = pod_pb2.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="owner", uid=uid)
        return self._facts(owner=owner)

    def priority(self, priority: int) -> TestPod:
        """With a priority."""
        return self._facts(priority=priority)

    def priority_class(self, name: str) -> TestPod:
        """With a priority class of this name."""
        return self._facts(priority_class_name=name)

    def requests(self, **amounts: Any) -> TestPod:
        """With these requests; the amounts are those of `Resources`."""
        return self._facts(requests=resources_message(named_amounts("requests", amounts)))

    def nonzero_requests(self, milli_cpu: int, memory: int) -> TestPod:
        """With these requests, with defaults for containers that request nothing."""
        return self._facts(nonzero_requests=nonzero_message(NonZero(milli_cpu, memory)))

    def node_selector(self, key: str, value: str) -> TestPod:
        """With an entry of spec.nodeSelector."""
        return self._facts(node_selector={key: value})

    def node_affinity(self, affinity: NodeAffinity) -> TestPod:
        """With an affinity to nodes."""
        return self._facts(node_affinity=node_affinity_message(affinity))

    def volume(self, name: str, claim: str = "") -> TestPod:
        """With a volume."""
        return self._facts(volumes=[{"name": name, "claim": claim}])

    def scheduler_name(self, name: str) -> TestPod:
        """With this spec.schedulerName."""
        return self._facts(scheduler_name=name)

    def raw_json(self, json: bytes) -> TestPod:
        """With the object's JSON."""
        changed = self._copy()
        changed._pod.raw_json = json
        return changed

    def snapshot(self, number: int) -> TestPod:
        """In calls about the state with this number."""
        changed = self._copy()
        changed._snapshot = number
        return changed

    def _facts(self, **given: Any) -> TestPod:
        changed = self._copy()
        _add_facts(changed._pod.facts, given)
        return changed

    def _copy(self) -> TestPod:
        changed = copy.copy(self)
        changed._pod = copy.deepcopy(self._pod)
        return changed


def _add_facts(facts: Message, given: Mapping[str, Any]) -> None:
    """Adds entries of lists and maps, and replaces all else."""
    for name, value in given.items():
        if not isinstance(value, list | dict):
            facts.ClearField(name)
    facts.MergeFrom(type(facts)(**given))


class TestCandidate:
    """A node on which pods would be evicted. Each method returns a changed copy."""

    __test__ = False

    def __init__(self, node: TestNode) -> None:
        """No pod would be evicted yet; a policy never gets such a call."""
        self._node = node
        self._victims: tuple[tuple[str, TestPod | None], ...] = ()
        self._pdb_violations = 0

    def victim(self, uid: str, pod: TestPod | None = None) -> TestCandidate:
        """With a victim, after the others; without a pod, one of which only the UID is known."""
        changed = copy.copy(self)
        changed._victims = (*self._victims, (uid, pod))
        return changed

    def pdb_violations(self, count: int) -> TestCandidate:
        """With this many evictions that violate a PodDisruptionBudget."""
        changed = copy.copy(self)
        changed._pdb_violations = count
        return changed

    def _sent(self, terms: Terms) -> policy_pb2.Candidate:
        message = policy_pb2.Candidate(pdb_violations=self._pdb_violations, placeholder=not self._victims)
        for uid, pod in self._victims:
            message.victims.add(uid=uid, pod=None if pod is None else _sent.sent_pod(pod._pod, terms))
        return message


def info(backend: Backend | Policy) -> info_pb2.GetInfoResponse:
    """The policy's answer to the handshake."""
    return _said(lambda: _answer.info(backend_of(backend), b""))


def with_args(backend: Backend, args: str) -> Backend:
    """The policy that `configured` builds from these args, as JSON.

    Raises `NoAnswer` with the text that the gateway would log, when the policy does not accept the args.
    """
    return WithArgs(_said(lambda: _answer._policy(lambda: backend._policy_for(args.encode()))))


def everything(policy: Policy) -> Backend:
    """The policy without its declarations of what it reads.

    It is sent pods and nodes as they are, and may read all of them.
    """
    return WithArgs(Prepared(policy, policy.info()._reading_everything()))


def filter(backend: Backend | Policy, pod: TestPod, nodes: Sequence[TestNode]) -> list[tuple[str, str]]:  # noqa: A001
    """The rejected nodes in the order given, each with its reason.

    Raises `NoAnswer` as the gateway would get it: the verb is not declared, the policy is not ready, it failed.
    """
    return [(node, rejection.reason) for node, rejection in rejections(backend, pod, nodes)]


class Rejected(NamedTuple):
    """Why a node is rejected."""

    reason: str
    rule: str
    preemption_may_help: bool


def rejections(backend: Backend | Policy, pod: TestPod, nodes: Sequence[TestNode]) -> list[tuple[str, Rejected]]:
    """The rejected nodes in the order given, each with all that is said of it."""
    response = _asked(backend, policy_pb2.FilterRequest, pod, nodes)
    found = {
        position: Rejected(rejection.reason, rejection.rule, rejection.preemption_may_help)
        for rejection in response.rejections
        for position in rejection.positions
    }
    return [(node.name, found[position]) for position, node in enumerate(nodes) if position in found]


def score(backend: Backend | Policy, pod: TestPod, nodes: Sequence[TestNode]) -> list[int]:
    """The raw scores, one a node, in the order given."""
    return list(_asked(backend, policy_pb2.ScoreRequest, pod, nodes).scores.values)


def preempt(
    backend: Backend | Policy, pod: TestPod, candidates: Sequence[TestCandidate]
) -> list[tuple[str, list[str]]]:
    """The candidates that stay, in the order given: each node with the UIDs of the pods that are evicted there."""
    terms = _terms(backend_of(backend), "Preempt")
    given = [candidate._sent(terms) for candidate in candidates] if terms is not None else []
    nodes = [candidate._node for candidate in candidates]
    response = _asked(backend, policy_pb2.PreemptRequest, pod, nodes, candidates=given)
    kept = []
    for answer in response.kept:
        candidate = candidates[answer.position]
        kept.append((candidate._node.name, [candidate._victims[position][0] for position in answer.victims]))
    return kept


def bind(backend: Backend | Policy, pod: TestPod, node: str) -> Bind:
    """The result of binding the pod, which is named `pod` and has the UID `uid` unless it has others, to this node.

    Raises `NoAnswer` also if the policy failed to bind.
    """
    source = backend_of(backend)
    call, sent, _ = _question(source, "Bind", pod, [])
    identity = pod._pod.identity
    request = policy_pb2.BindRequest(
        call=call,
        namespace=pod._pod.facts.namespace,
        name=identity.name or "pod",
        uid=identity.uid or "uid",
        node=node,
        pod=sent,
    )
    response = _run(_answer.bind_pod(source, request.SerializeToString()))
    if response.outcome == policy_pb2.BIND_OUTCOME_BOUND:
        return Bind.BOUND
    is_declined = response.outcome == policy_pb2.BIND_OUTCOME_DECLINED
    return Bind(response.message, is_declined=is_declined)


def before_filter(backend: Backend | Policy, pod: TestPod) -> PodChange | None:
    """What changes about the pod; `None` if nothing does.

    Raises `NoAnswer` also if the policy changes something that the hook does not declare.
    """
    return _changed_pod(_asked(backend, hooks_pb2.BeforeFilterRequest, pod, []))


def before_filter_nodes(
    backend: Backend | Policy, pod: TestPod, nodes: Sequence[TestNode]
) -> list[tuple[str, NodeChange]]:
    """The nodes that change in the order given, each with its change.

    Raises `NoAnswer` also if the policy changes something that the hook does not declare.
    """
    return _changed(_asked(backend, hooks_pb2.BeforeFilterNodesRequest, pod, nodes).nodes, nodes)


def before_score(
    backend: Backend | Policy, pod: TestPod, nodes: Sequence[TestNode]
) -> tuple[PodChange | None, list[tuple[str, NodeChange]]]:
    """What changes about the pod, and the nodes that change in the order given, each with its change.

    Raises `NoAnswer` also if the policy changes something that the hook does not declare.
    """
    response = _asked(backend, hooks_pb2.BeforeScoreRequest, pod, nodes)
    return _changed_pod(response), _changed(response.nodes, nodes)


def _changed_pod(response: hooks_pb2.BeforeFilterResponse | hooks_pb2.BeforeScoreResponse) -> PodChange | None:
    return PodChange._of(response.pod) if response.HasField("pod") else None


def _changed(changes: Iterable[hooks_pb2.NodeChange], nodes: Sequence[TestNode]) -> list[tuple[str, NodeChange]]:
    """The changes by node, as the policy returned them."""
    found = {}
    for message in changes:
        change = NodeChange._of(message)
        change._message.ClearField("positions")
        found.update(dict.fromkeys(message.positions, change))
    return [(node.name, found[position]) for position, node in enumerate(nodes) if position in found]


def introspect(
    backend: Backend | Policy,
    path: str,
    parameters: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
) -> Any:
    """What the policy shows at a path as it is declared, such as "/quotas/:namespace", as the decoded JSON.

    Raises `NoAnswer` as the gateway would get it: the path is not declared, there is no such object, a parameter lacks.
    """
    request = introspection_pb2.IntrospectRequest(backend="test", path=path, parameters=parameters, query=query)
    return json.loads(_run(_introspect.introspect(backend_of(backend), request.SerializeToString())).json)


def _question(
    backend: Backend, verb: str, pod: TestPod, nodes: Sequence[TestNode]
) -> tuple[policy_pb2.Call, pod_pb2.Pod, node_pb2.Nodes]:
    """The common fields of all verbs, for a decision, as the gateway sends them for the declaration of the verb."""
    terms = _terms(backend, verb)
    call = policy_pb2.Call(id="test", purpose=policy_pb2.PURPOSE_DECIDE, gateway="test", backend="test")
    call.snapshot = pod._snapshot
    cluster = [node._in_cluster() for node in nodes]
    if terms is None:
        # A verb that is not declared is not answered, whatever it is sent.
        return call, pod._pod, node_pb2.Nodes()
    call.reads = terms.reads_id
    rows = node_pb2.NodeRows(rows=[_sent.sent_row(node, terms) for node in cluster])
    return call, _sent.placed_pod(pod._pod, terms, cluster), node_pb2.Nodes(count=len(nodes), rows=rows)


def _asked(
    backend: Backend | Policy, request: type[Message], pod: TestPod, nodes: Sequence[TestNode], **more: Any
) -> Any:
    """The response to a verb or a hook with this request."""
    source = backend_of(backend)
    verb = request.__name__.removesuffix("Request")
    call, sent, message = _question(source, verb, pod, nodes)
    fields = {"call": call, "pod": sent, **more}
    if "nodes" in request.DESCRIPTOR.fields_by_name:
        fields["nodes"] = message
    names = [node.name for node in nodes]
    return _run(_verbs.answer(verb, source, Tables(), request(**fields).SerializeToString(), names))


def _terms(backend: Backend, verb: str) -> Terms | None:
    prepared: Prepared = _said(lambda: _answer._policy(lambda: backend._policy_for(b"")))
    return prepared.declaration.terms.get(verb)


def _run(answer: Coroutine[Any, Any, T]) -> T:
    return _said(lambda: asyncio.run(answer))


def _said(answer: Callable[[], T]) -> T:
    try:
        return answer()
    except CallError as error:
        raise NoAnswer(error.detail) from (error.__cause__ or error)


__all__ = [
    "NoAnswer",
    "Rejected",
    "TestCandidate",
    "TestNode",
    "TestPod",
    "before_filter",
    "before_filter_nodes",
    "before_score",
    "bind",
    "everything",
    "filter",
    "info",
    "introspect",
    "preempt",
    "rejections",
    "score",
    "with_args",
]
