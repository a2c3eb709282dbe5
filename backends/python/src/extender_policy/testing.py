"""Tries a policy on a pod and some nodes without a server, through the same code that answers calls.

    nodes = [
        TestNode("old").label("kubernetes.io/arch", "amd64"),
        TestNode("new").label("kubernetes.io/arch", "arm64"),
    ]
    assert testing.filter(NoArm(), TestPod("shop"), nodes) == [("new", "arm64 nodes are not in use yet")]

A verb gets what the gateway would send for its `Verb.reads`, so a test fails if the policy reads anything else.
`everything` is the same policy with nothing left out: if both give the same answers about random pods and nodes, the
declaration is complete. Methods may be coroutine functions. `recorded` has the pod and the nodes of files or a cluster.

An answer that the contract forbids raises `AssertionError`: a score outside of the scale, a change that is not
declared, and a reason that is empty, counts or has control characters. A pure verb is asked twice, the second time with
the nodes in another order, and must give each the same answer.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from . import _answer, _introspect, _outcomes, _sent, _verbs
from ._api.v1beta1 import hooks_pb2, info_pb2, introspection_pb2, node_pb2, outcomes_pb2, pod_pb2, policy_pb2
from ._backend import Backend, Prepared, Versions, backend_of
from ._contract import by_position, check_changes, check_pure, check_reasons, check_scores
from ._declaration import CHANGE, HOOKS, VERBS, Terms
from ._errors import call_error, in_sentence
from ._messages import (
    fields,
    node_affinity_message,
    nonzero_message,
    pod_affinity_message,
    resources_message,
    usage_message,
)
from ._named import NamedArgs
from ._tables import Tables
from .changes import NodeChange, PodChange
from .outcome import Outcome
from .policy import Policy
from .resources import (
    Container,
    NodeAddress,
    NodeAffinity,
    NodeImage,
    NodeUsage,
    NonZero,
    PodAffinity,
    ResourceClaim,
    SystemInfo,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    given_toleration,
    named_amounts,
)
from .verdict import Bind

T = TypeVar("T")
M = TypeVar("M", node_pb2.NodeRow, pod_pb2.Pod)
B = TypeVar("B", bound="_Built[Any]")

_REQUESTS: Mapping[str, type[Message]] = {
    "Filter": policy_pb2.FilterRequest,
    "Score": policy_pb2.ScoreRequest,
    "Preempt": policy_pb2.PreemptRequest,
}
"""By verbs that are questions about nodes."""

_CALL = policy_pb2.Call(id="test", purpose=policy_pb2.PURPOSE_DECIDE, gateway="test", backend="test")


class NoAnswer(Exception):
    """Why a policy gave no answer: the text that the gateway would log. The policy's own exception is its cause."""


class _Built(Generic[M]):
    """An object to test a policy with. Each method returns a changed copy."""

    __test__ = False
    _message: M

    def __init__(self, message: M) -> None:
        self._message = message

    def label(self: B, key: str, value: str) -> B:
        """With a label."""
        return self._facts(labels={"entries": {key: value}})

    def annotation(self: B, key: str, value: str) -> B:
        """With an annotation."""
        return self._facts(annotations={"entries": {key: value}})

    def raw_json(self: B, json: bytes) -> B:
        """With the object's JSON, which the gateway sends if it is declared."""
        changed = self._copy()
        changed._message.raw_json = json
        return changed

    def _facts(self: B, **given: Any) -> B:
        """Adds entries of lists and maps, and replaces all else."""
        changed = self._copy()
        facts = changed._message.facts
        for name, value in given.items():
            if not isinstance(value, list | dict):
                facts.ClearField(name)
        facts.MergeFrom(type(facts)(**given))
        return changed

    def _copy(self: B) -> B:
        changed = copy.copy(self)
        changed._message = copy.deepcopy(self._message)
        return changed


class TestNode(_Built[node_pb2.NodeRow]):
    """A node to test a policy with. Each method returns a changed copy."""

    def __init__(self, name: str) -> None:
        """A node without labels."""
        super().__init__(node_pb2.NodeRow(name=name, facts=node_pb2.NodeFacts(unschedulable=False)))
        self.name = name
        self._running: tuple[_sent.Running, ...] = ()

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
        changed._message.usage.CopyFrom(usage_message(usage))
        return changed

    def nominated(self, nominated: NodeUsage) -> TestNode:
        """With the requests of the pods that are nominated to it; without, they are unknown."""
        changed = self._copy()
        changed._message.nominated.CopyFrom(usage_message(nominated))
        return changed

    def image(self, image: NodeImage) -> TestNode:
        """With an image on it."""
        return self._facts(images=[fields(image)])

    def system_info(self, info: SystemInfo) -> TestNode:
        """With this status.nodeInfo."""
        return self._facts(system_info=node_pb2.SystemInfo(**fields(info)))

    def address(self, address: NodeAddress) -> TestNode:
        """With an address."""
        return self._facts(addresses=[fields(address)])

    def provider_id(self, provider_id: str) -> TestNode:
        """With this spec.providerID."""
        return self._facts(provider_id=provider_id)

    def running(self, pod: TestPod, pods: int = 1) -> TestNode:
        """With this many pods like this one on it, besides those that are there already.

        A verb that counts pods gets the counts that the gateway would send for a cluster of the nodes of the call; the
        usage stays as it is.
        """
        return self._with(_sent.Running(pod._message, pods, 0))

    def terminating(self, pod: TestPod, pods: int = 1) -> TestNode:
        """The same with pods that are being deleted."""
        return self._with(_sent.Running(pod._message, pods, pods))

    def _with(self, running: _sent.Running) -> TestNode:
        changed = self._copy()
        changed._running = (*self._running, running)
        return changed

    def _in_cluster(self) -> _sent.ClusterNode:
        return _sent.ClusterNode(self._message, self._running)


class TestPod(_Built[pod_pb2.Pod]):
    """A pod to test a policy with. Each method returns a changed copy."""

    def __init__(self, namespace: str) -> None:
        """A pod without labels, and without a name."""
        super().__init__(pod_pb2.Pod(facts=pod_pb2.PodFacts(namespace=namespace, priority=0)))
        self._call = _CALL

    def identity(self, name: str, uid: str, claims: Sequence[str] = (), created_seconds: int | None = None) -> TestPod:
        """With a name, a UID, claims whose names are derived from its name, and the time of its creation."""
        identity = pod_pb2.PodIdentity(name=name, uid=uid, claims=claims, created_seconds=created_seconds)
        changed = self._copy()
        changed._message.identity.CopyFrom(identity)
        return changed

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

    def volume(self, name: str, claim: str = "", source: str = "", driver: str = "") -> TestPod:
        """With a volume."""
        return self._facts(volumes=[fields(Volume(name, claim, source, driver))])

    def scheduler_name(self, name: str) -> TestPod:
        """With this spec.schedulerName."""
        return self._facts(scheduler_name=name)

    def container(self, container: Container) -> TestPod:
        """With a container, after the others."""
        return self._facts(containers=[fields(container)])

    def pod_affinity(self, affinity: PodAffinity) -> TestPod:
        """With an affinity to pods."""
        return self._facts(pod_affinity=pod_affinity_message(affinity))

    def topology_spread(self, constraint: TopologySpreadConstraint) -> TestPod:
        """With a constraint, after the others."""
        return self._facts(topology_spread=[fields(constraint)])

    def resource_claim(self, claim: ResourceClaim) -> TestPod:
        """With an entry of spec.resourceClaims."""
        return self._facts(resource_claims=[fields(claim)])

    def pod_group(self, name: str) -> TestPod:
        """In the PodGroup of this name."""
        return self._facts(pod_group_name=name)

    def runtime_class(self, name: str) -> TestPod:
        """With a runtime class of this name."""
        return self._facts(runtime_class_name=name)

    def preemption_policy(self, policy: str) -> TestPod:
        """With this spec.preemptionPolicy, such as "Never"."""
        return self._facts(preemption_policy=policy)

    def service_account(self, name: str) -> TestPod:
        """With a service account of this name."""
        return self._facts(service_account_name=name)

    def snapshot(self, name: str) -> TestPod:
        """In calls about the state with this name."""
        return self._in_call(policy_pb2.Call(snapshot=name))

    def cluster(self, name: str) -> TestPod:
        """In calls for the kube-scheduler of the cluster with this name."""
        return self._in_call(policy_pb2.Call(cluster=name))

    def call_id(self, call_id: str) -> TestPod:
        """In calls with this id; without, it is "test"."""
        return self._in_call(policy_pb2.Call(id=call_id))

    def _in_call(self, fields: policy_pb2.Call) -> TestPod:
        changed = self._copy()
        changed._call = copy.deepcopy(self._call)
        changed._call.MergeFrom(fields)
        return changed


def recorded(path: str | os.PathLike[str]) -> tuple[TestPod, list[TestNode]]:
    """The pod and the nodes that `extender-gateway try --objects FILE` has written, with everything that can be read.

    Raises `ValueError` for a file that is not whole. Counts of pods are not in it: add pods with `TestNode.running`.
    """
    try:
        request = policy_pb2.FilterRequest.FromString(Path(path).read_bytes())
    except DecodeError as error:
        raise _broken(path, f"not a FilterRequest: {error}") from error
    rows = request.nodes.rows.rows
    if not (request.pod.HasField("facts") and 0 < len(rows) == request.nodes.count):
        raise _broken(path, "without its pod or some of its nodes")
    if not all(row.name and row.HasField("facts") for row in rows):
        raise _broken(path, "with a node that lacks its name or its facts")
    request.pod.ClearField("topology_counts")
    pod, nodes = TestPod(""), [TestNode(row.name) for row in rows]
    pod._message = request.pod
    for node, row in zip(nodes, rows, strict=True):
        row.ClearField("pod_counts")
        node._message = row
    return pod, nodes


def _broken(path: str | os.PathLike[str], what: str) -> ValueError:
    return ValueError(
        f"{os.fspath(path)} is {what}; write it again with extender-gateway try --pod FILE --nodes FILE --objects FILE"
    )


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
            message.victims.add(uid=uid, pod=None if pod is None else _sent.sent_pod(pod._message, terms))
        return message


def info(backend: Backend | Policy) -> info_pb2.GetInfoResponse:
    """The policy's answer to the handshake."""
    return _prepared(backend_of(backend)).declaration.response


def with_args(backend: Backend, args: str) -> Backend:
    """The policy that `configured` builds from these args, as JSON.

    Raises `NoAnswer` with the text that the gateway would log, when the policy does not accept the args.
    """
    return Backend._of(_said("GetInfo", lambda: backend._versions(NamedArgs.whole(args.encode()))))


def everything(policy: Policy) -> Backend:
    """The policy as if it declared to read all that can be declared: it is sent pods and nodes as they are."""
    return Backend._of(Versions(policy, lambda policy: policy.info()._reading_everything()))


def filter(backend: Backend | Policy, pod: TestPod, nodes: Sequence[TestNode]) -> list[tuple[str, str]]:  # noqa: A001
    """The rejected nodes in the order given, each with its reason.

    Raises `NoAnswer` as the gateway would get it: the verb is not declared, the policy is not ready, it failed.
    """
    return [(node, rejection.reason) for node, rejection in rejections(backend, pod, nodes)]


class Rejected(NamedTuple):
    """Why a node is rejected."""

    reason: str
    rule: str
    unresolvable: bool
    """Whether no eviction of pods from the node would help."""
    retry_after: int | None
    """In how many seconds the verdict can be another one at the earliest; `None` if that is not said."""


def rejections(backend: Backend | Policy, pod: TestPod, nodes: Sequence[TestNode]) -> list[tuple[str, Rejected]]:
    """The rejected nodes in the order given, each with all that is said of it."""
    response = _asked(backend, "Filter", pod, nodes)
    unresolvable = policy_pb2.REJECTION_KIND_UNRESOLVABLE
    found = []
    for position, rejection in sorted(by_position(response).items()):
        after = rejection.retry_after_seconds if rejection.HasField("retry_after_seconds") else None
        rejected = Rejected(rejection.reason, rejection.rule, rejection.kind == unresolvable, after)
        found.append((nodes[position].name, rejected))
    return found


def score(backend: Backend | Policy, pod: TestPod, nodes: Sequence[TestNode]) -> list[int]:
    """The raw scores, one a node, in the order given, `NO_OPINION` as the policy returns it."""
    return list(by_position(_asked(backend, "Score", pod, nodes)).values())


def preempt(
    backend: Backend | Policy, pod: TestPod, candidates: Sequence[TestCandidate]
) -> list[tuple[str, list[str]]]:
    """The candidates that stay, in the order given: each node with the UIDs of the pods that are evicted there."""
    terms = _prepared(backend_of(backend)).declaration.terms.get("Preempt")
    given = [candidate._sent(terms) for candidate in candidates] if terms is not None else []
    nodes = [candidate._node for candidate in candidates]
    response = _asked(backend, "Preempt", pod, nodes, candidates=given)
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
    identity = pod._message.identity
    request = policy_pb2.BindRequest(
        call=call,
        namespace=pod._message.facts.namespace,
        name=identity.name or "pod",
        uid=identity.uid or "uid",
        node=node,
        pod=sent,
    )
    response = _run("Bind", _answer.bind_pod(source, request.SerializeToString()))
    if response.outcome == policy_pb2.BIND_OUTCOME_BOUND:
        return Bind.BOUND
    is_declined = response.outcome == policy_pb2.BIND_OUTCOME_DECLINED
    return Bind(response.message, is_declined=is_declined)


def before_filter(backend: Backend | Policy, pod: TestPod) -> PodChange | None:
    """What changes about the pod; `None` if nothing does."""
    return _changed_pod(_asked(backend, "BeforeFilter", pod, []))


def before_filter_nodes(
    backend: Backend | Policy, pod: TestPod, nodes: Sequence[TestNode]
) -> list[tuple[str, NodeChange]]:
    """The nodes that change in the order given, each with its change."""
    return _changed(_asked(backend, "BeforeFilterNodes", pod, nodes), nodes)


def before_score(
    backend: Backend | Policy, pod: TestPod, nodes: Sequence[TestNode]
) -> tuple[PodChange | None, list[tuple[str, NodeChange]]]:
    """What changes about the pod, and the nodes that change in the order given, each with its change."""
    response = _asked(backend, "BeforeScore", pod, nodes)
    return _changed_pod(response), _changed(response, nodes)


def _changed_pod(response: hooks_pb2.ChangeResponse) -> PodChange | None:
    return PodChange._of(response.pod) if response.HasField("pod") else None


def _changed(response: Message, nodes: Sequence[TestNode]) -> list[tuple[str, NodeChange]]:
    """The changes by node, as the policy returned them."""
    changes = sorted(by_position(response).items())
    return [(nodes[position].name, NodeChange._of(message)) for position, message in changes if position >= 0]


def observe(backend: Backend | Policy, *outcomes: Outcome) -> None:
    """Tells the policy these outcomes, as the gateway does in one request.

    Raises `NoAnswer` as the gateway would get it: the policy does not declare that it observes them, or it failed.
    """
    sent = [outcomes_pb2.Outcome(**outcome._asdict()) for outcome in outcomes]
    request = outcomes_pb2.ReportRequest(call=_CALL, outcomes=sent)
    _run("Report", _outcomes.report(backend_of(backend), request.SerializeToString()))


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
    answer = _introspect.introspect(backend_of(backend), request.SerializeToString())
    return json.loads(_run("Introspect", answer).json)


def _question(
    backend: Backend, verb: str, pod: TestPod, nodes: Sequence[TestNode]
) -> tuple[policy_pb2.Call, pod_pb2.Pod, node_pb2.Nodes]:
    """The common fields of all verbs, for a decision, as the gateway sends them for the declaration of the verb."""
    terms = _prepared(backend).declaration.terms.get(verb)
    call = copy.deepcopy(pod._call)
    cluster = [node._in_cluster() for node in nodes]
    if terms is None:
        # A verb that is not declared is not answered, whatever it is sent.
        return call, pod._message, node_pb2.Nodes()
    call.reads = terms.reads_digest
    rows = node_pb2.NodeRows(rows=[_sent.sent_row(node, terms) for node in cluster])
    return call, _sent.placed_pod(pod._message, terms, cluster), node_pb2.Nodes(count=len(nodes), rows=rows)


def _asked(backend: Backend | Policy, verb: str, pod: TestPod, nodes: Sequence[TestNode], **more: Any) -> Any:
    """The response to a verb or a hook with this request, if the contract allows it."""
    source = backend_of(backend)
    response = _answered(source, verb, pod, nodes, more)
    declaration = _prepared(source).declaration
    names = [node.name for node in nodes]
    if verb == "Score":
        declared = next(info for info in declaration.response.verbs if info.verb == VERBS[verb])
        check_scores(declared, by_position(response), names)
    elif verb == "Filter":
        check_reasons(by_position(response), names)
    elif verb in HOOKS:
        check_changes(in_sentence(verb), declaration.terms[verb].changes, response)
    if declaration.terms[verb].is_pure and not more:
        again = _answered(source, verb, pod, nodes[::-1], more)
        last = len(nodes) - 1
        moved = {at if at < 0 else last - at: answer for at, answer in by_position(again).items()}
        # What the time decides may have changed meanwhile.
        if again.result.revision == response.result.revision:
            check_pure(in_sentence(verb), by_position(response), moved, names)
    return response


def _answered(source: Backend, verb: str, pod: TestPod, nodes: Sequence[TestNode], more: Mapping[str, Any]) -> Any:
    call, sent, message = _question(source, verb, pod, nodes)
    fields = {"call": call, "pod": sent, **more}
    if verb != "BeforeFilter":
        fields["nodes"] = message
    if verb in HOOKS:
        method, encoded = CHANGE, hooks_pb2.ChangeRequest(hook=VERBS[verb], **fields).SerializeToString()
    else:
        method, encoded = verb, _REQUESTS[verb](**fields).SerializeToString()
    names = [node.name for node in nodes]
    return _run(verb, _verbs.answer(method, source, Tables(), encoded, names))


def _prepared(backend: Backend) -> Prepared:
    return _said("GetInfo", lambda: backend._policy_for(b""))


def _run(verb: str, answer: Coroutine[Any, Any, T]) -> T:
    return _said(verb, lambda: asyncio.run(answer))


def _said(verb: str, answer: Callable[[], T]) -> T:
    try:
        return answer()
    except (Exception, SystemExit) as error:
        raise NoAnswer(call_error(verb, error).detail) from (error.__cause__ or error)


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
    "observe",
    "preempt",
    "recorded",
    "rejections",
    "score",
    "with_args",
]
