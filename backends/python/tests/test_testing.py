"""The module with which authors test, and what policies see."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from changing import Changing

import extender_policy
from extender_policy import (
    NO_OPINION,
    Bind,
    BindAsk,
    BindFailed,
    Candidate,
    ChangedPart,
    Container,
    Eviction,
    Hook,
    HostPort,
    Info,
    LabelSelector,
    Node,
    NodeAddress,
    NodeAffinity,
    NodeChange,
    NodeImage,
    NodePart,
    Nodes,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeUsage,
    NonZero,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodChange,
    PodPart,
    PodsBy,
    Policy,
    PreferredSchedulingTerm,
    Reads,
    ResourceClaim,
    Resources,
    Scale,
    SystemInfo,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    UndeclaredRead,
    Verb,
    Verdict,
    Volume,
    WeightedPodAffinityTerm,
    testing,
)
from extender_policy._api.v1beta1 import info_pb2, node_pb2, policy_pb2
from extender_policy.testing import NoAnswer, Rejected, TestCandidate, TestNode, TestPod

VERB = Verb.per_node().reads(Reads.everything())
NODES = [TestNode(name) for name in ("a", "b", "c")]


class Recorder(Policy):
    """Runs a function on each pod and node."""

    def __init__(self, info: Info, see: object) -> None:
        self._info, self._see = info, see

    def info(self) -> Info:
        return self._info

    def filter(self, pod: Pod, node: Node) -> Verdict:
        self._see(pod, node)  # type: ignore[operator]
        return Verdict.accept()


AFFINITY = NodeAffinity(
    required=(NodeSelectorTerm(match_expressions=(NodeSelectorRequirement("a", "In", ("b", "c")),)),),
    preferred=(
        PreferredSchedulingTerm(
            7, NodeSelectorTerm(match_fields=(NodeSelectorRequirement("metadata.name", "In", ("n",)),))
        ),
    ),
)

SELECTOR = LabelSelector({"app": "web"}, (NodeSelectorRequirement("tier", "Exists"),))
NEAR = PodAffinityTerm("zone", SELECTOR, ("shop",), LabelSelector(), ("version",), ("canary",))
PODS = PodAffinity(
    required=(NEAR, PodAffinityTerm("rack")),
    anti_preferred=(WeightedPodAffinityTerm(5, NEAR),),
)
CONTAINERS = (Container("init", init=True), Container("web", "web:1", host_ports=(HostPort(80, "TCP", "10.0.0.1"),)))
SPREAD = (
    TopologySpreadConstraint(1, "zone", "DoNotSchedule", SELECTOR, 0, "Ignore", "Honor", ("version",)),
    TopologySpreadConstraint(2, "rack", "ScheduleAnyway"),
)
CLAIMS = (ResourceClaim("gpu", "shared"), ResourceClaim("nic", template="nics"))
SYSTEM = SystemInfo("amd64", "linux", "Debian", "6.1", "v1.34.0", "containerd://2.0")

FULL_POD = (
    TestPod("shop")
    .identity("web-0", "u-1", ["disk-web-0"], created_seconds=0)
    .label("app", "web")
    .annotation("acme.io/a", "1")
    .toleration(key="k", operator="Exists", toleration_seconds=0)
    .owner("rs-1")
    .priority(-5)
    .priority_class("low")
    .requests(milli_cpu=100, memory=7, others={"example.com/gpu": 2})
    .nonzero_requests(100, 200)
    .node_selector("disk", "ssd")
    .node_affinity(AFFINITY)
    .volume("v", "shared")
    .volume("w", source="csi", driver="disk.acme.io")
    .scheduler_name("other")
    .container(CONTAINERS[0])
    .container(CONTAINERS[1])
    .pod_affinity(PodAffinity())
    .pod_affinity(PODS)
    .topology_spread(SPREAD[0])
    .topology_spread(SPREAD[1])
    .resource_claim(CLAIMS[0])
    .resource_claim(CLAIMS[1])
    .pod_group("gang")
    .runtime_class("gvisor")
    .preemption_policy("Never")
    .service_account("robot")
    .raw_json(b'{"kind": "Pod", "metadata": {"name": "web-0"}}')
)

FULL_NODE = (
    TestNode("n1")
    .label("zone", "z1")
    .annotation("acme.io/b", "2")
    .taint("t", "v", "NoExecute")
    .unschedulable()
    .condition("Ready", "False")
    .capacity(milli_cpu=2000)
    .allocatable(milli_cpu=1000, others={"example.com/gpu": 4})
    .usage(NodeUsage(Resources(milli_cpu=5), NonZero(6, 7)))
    .nominated(NodeUsage(Resources(milli_cpu=8, pods=1), NonZero(9, 10)))
    .image(NodeImage(("web:1", "web@sha256:1"), 5))
    .system_info(SYSTEM)
    .address(NodeAddress("InternalIP", "10.0.0.1"))
    .provider_id("acme://n1")
    .raw_json(b'{"kind": "Node", "metadata": {"name": "n1", "labels": {"zone": "z1"}}}')
)


def see_everything(pod: Pod, node: Node) -> None:
    assert (pod.namespace, pod.name, pod.uid) == ("shop", "web-0", "u-1")
    assert (pod.labels, pod.label("app"), pod.label("b")) == ({"app": "web"}, "web", None)
    assert (pod.annotations, pod.annotation("acme.io/a")) == ({"acme.io/a": "1"}, "1")
    assert pod.tolerations == (Toleration("k", "Exists", toleration_seconds=0),)
    assert pod.tolerates(Taint("k", "x")) and not pod.tolerates(Taint("l"))
    assert pod.owner == OwnerReference("apps/v1", "ReplicaSet", "owner", "rs-1")
    assert (pod.priority, pod.priority_class, pod.scheduler_name) == (-5, "low", "other")
    assert pod.requests == Resources(100, 7, others={"example.com/gpu": 2})
    assert pod.nonzero_requests == NonZero(100, 200)
    assert pod.node_selector == {"disk": "ssd"}
    assert pod.node_affinity == AFFINITY
    assert pod.volumes == (Volume("v", "shared"), Volume("w", "", "csi", "disk.acme.io"))
    assert pod.created_seconds == 0
    assert (pod.containers, pod.pod_affinity) == (CONTAINERS, PODS)
    assert (pod.topology_spread, pod.resource_claims) == (SPREAD, CLAIMS)
    assert (pod.pod_group, pod.runtime_class, pod.preemption_policy) == ("gang", "gvisor", "Never")
    assert pod.service_account == "robot"
    assert pod.claims == ("shared", "disk-web-0")
    assert pod.kubernetes().metadata.name == "web-0"
    assert node.name == "n1"
    assert (node.labels, node.label("zone"), node.label("b")) == ({"zone": "z1"}, "z1", None)
    assert (node.annotations, node.annotation("acme.io/b")) == ({"acme.io/b": "2"}, "2")
    assert node.taints == (Taint("t", "v", "NoExecute"),)
    assert node.unschedulable
    assert (node.condition("Ready"), node.condition("Other")) == ("False", None)
    assert node.capacity == Resources(2000)
    assert node.allocatable == Resources(1000, others={"example.com/gpu": 4})
    assert node.usage == NodeUsage(Resources(5), NonZero(6, 7))
    assert node.nominated == NodeUsage(Resources(8, pods=1), NonZero(9, 10))
    assert (node.images, node.system_info) == ((NodeImage(("web:1", "web@sha256:1"), 5),), SYSTEM)
    assert (node.addresses, node.provider_id) == ((NodeAddress("InternalIP", "10.0.0.1"),), "acme://n1")
    assert node.kubernetes().metadata.labels == {"zone": "z1"}


def test_with_everything_declared_everything_is_seen() -> None:
    declared = Reads().node(*NodePart).pod(*PodPart)
    declared.node_labels("")
    declared.pod_labels("")
    everything = Reads.everything().node(NodePart.USAGE, NodePart.NOMINATED, NodePart.IMAGES, NodePart.RAW_JSON)
    everything.pod(PodPart.IDENTITY, PodPart.RAW_JSON)
    for reads in (declared, everything):
        reads.node_annotations("")
        reads.pod_annotations("")
        verb = Verb.per_node().reads(reads)
        assert testing.filter(Recorder(Info("p", "1").filters(verb), see_everything), FULL_POD, [FULL_NODE]) == []
    nothing = Recorder(Info("p", "1").filters(Verb.per_node()), see_everything)
    assert testing.filter(testing.everything(nothing), FULL_POD, [FULL_NODE]) == []


def test_everything_is_all_facts_and_all_labels() -> None:
    reads = Reads.everything()
    zone, app, all_labels = reads.node_label("zone"), reads.pod_label("app"), reads.node_labels("z")
    undeclared = []

    def see(pod: Pod, node: Node) -> None:
        assert (node.get(zone), pod.get(app), node.entries(all_labels)) == ("z1", "web", {"zone": "z1"})
        assert (node.labels, pod.labels, node.label("other")) == ({"zone": "z1"}, {"app": "web"}, None)
        for part, names in PARTS:
            try:
                assert getattr(pod if isinstance(part, PodPart) else node, names[0])
            except UndeclaredRead:
                undeclared.append(part)
        with pytest.raises(UndeclaredRead, match='annotation "acme.io/a" of the pod is read and not declared'):
            pod.annotation("acme.io/a")

    testing.filter(Recorder(Info("p", "1").filters(Verb.per_node().reads(reads)), see), FULL_POD, [FULL_NODE])
    beside = [NodePart.USAGE, NodePart.RAW_JSON, NodePart.IMAGES, NodePart.NOMINATED]
    assert undeclared == [PodPart.IDENTITY, PodPart.RAW_JSON, *beside]


def test_what_is_not_set_is_none_or_empty() -> None:
    def see(pod: Pod, node: Node) -> None:
        assert (pod.created_seconds, pod.pod_affinity, pod.pod_group, pod.runtime_class) == (None, None, None, None)
        assert (pod.preemption_policy, pod.service_account, node.system_info, node.provider_id) == (None,) * 4
        assert (node.usage, node.nominated) == (None, None)
        assert (pod.containers, pod.topology_spread, pod.resource_claims, node.images, node.addresses) == ((),) * 5

    nothing = testing.everything(Recorder(Info("p", "1").filters(Verb.per_node()), see))
    assert testing.filter(nothing, TestPod("shop"), NODES) == []


def test_zeros_are_there_if_they_are_declared() -> None:
    present = []

    def see(pod: Pod, node: Node) -> None:
        of_pod, of_node = pod._content._message.facts, node_pb2.NodeRow.FromString(node._content._encoded).facts
        present.append((of_pod.HasField("priority"), of_node.HasField("unschedulable")))
        present.append((of_pod.HasField("labels"), of_node.HasField("labels")))

    keys = Reads().pod(PodPart.PRIORITY).node(NodePart.UNSCHEDULABLE)
    keys.pod_label("a")
    keys.node_label("a")
    for reads in (Reads.everything(), keys, Reads().node(NodePart.TAINTS)):
        verb = Verb.per_node().reads(reads)
        testing.filter(Recorder(Info("p", "1").filters(verb), see), TestPod("shop"), [TestNode("a")])
    # Labels are absent if the object has none of what is read, unless keys are declared.
    assert present == [(True, True), (False, False), (True, True), (True, True), (False, False), (False, False)]


PARTS: list[tuple[PodPart | NodePart, tuple[str, ...]]] = [
    (PodPart.IDENTITY, ("name", "uid")),
    (PodPart.NAMESPACE, ("namespace",)),
    (PodPart.OWNER, ("owner",)),
    (PodPart.PRIORITY, ("priority",)),
    (PodPart.PRIORITY_CLASS, ("priority_class",)),
    (PodPart.REQUESTS, ("requests",)),
    (PodPart.NONZERO_REQUESTS, ("nonzero_requests",)),
    (PodPart.TOLERATIONS, ("tolerations",)),
    (PodPart.NODE_SELECTOR, ("node_selector",)),
    (PodPart.NODE_AFFINITY, ("node_affinity",)),
    (PodPart.VOLUMES, ("volumes",)),
    (PodPart.SCHEDULER_NAME, ("scheduler_name",)),
    (PodPart.RAW_JSON, ("raw_json",)),
    (PodPart.CONTAINERS, ("containers",)),
    (PodPart.POD_AFFINITY, ("pod_affinity",)),
    (PodPart.TOPOLOGY_SPREAD, ("topology_spread",)),
    (PodPart.RESOURCE_CLAIMS, ("resource_claims",)),
    (PodPart.POD_GROUP, ("pod_group",)),
    (PodPart.RUNTIME_CLASS, ("runtime_class",)),
    (PodPart.PREEMPTION_POLICY, ("preemption_policy",)),
    (PodPart.SERVICE_ACCOUNT, ("service_account",)),
    (NodePart.NAME, ("name",)),
    (NodePart.TAINTS, ("taints",)),
    (NodePart.UNSCHEDULABLE, ("unschedulable",)),
    (NodePart.CONDITIONS, ("conditions",)),
    (NodePart.CAPACITY, ("capacity",)),
    (NodePart.ALLOCATABLE, ("allocatable",)),
    (NodePart.USAGE, ("usage",)),
    (NodePart.RAW_JSON, ("raw_json",)),
    (NodePart.IMAGES, ("images",)),
    (NodePart.SYSTEM_INFO, ("system_info",)),
    (NodePart.ADDRESSES, ("addresses",)),
    (NodePart.PROVIDER_ID, ("provider_id",)),
    (NodePart.NOMINATED, ("nominated",)),
]


@pytest.mark.parametrize(("part", "expected"), PARTS, ids=repr)
def test_each_part_is_seen_only_if_it_is_declared(part: PodPart | NodePart, expected: tuple[str, ...]) -> None:
    reads = Reads()
    reads.node_label("other")
    (reads.pod if isinstance(part, PodPart) else reads.node)(part)  # type: ignore[arg-type]
    seen: dict[str, object] = {}

    def see(pod: Pod, node: Node) -> None:
        for one, names in PARTS:
            for name in names:
                try:
                    seen[f"{one!r} {name}"] = getattr(pod if isinstance(one, PodPart) else node, name)
                except UndeclaredRead as error:
                    assert f"{one.name} of the" in str(error)

    testing.filter(Recorder(Info("p", "1").filters(Verb.per_node().reads(reads)), see), FULL_POD, [FULL_NODE])
    assert list(seen) == [f"{part!r} {name}" for name in expected]
    assert all(seen.values())


def test_no_part_is_forgotten() -> None:
    assert {part for part, _ in PARTS} == {*PodPart, *NodePart}
    for kind, contract in ((PodPart, info_pb2.PodPart), (NodePart, info_pb2.NodePart)):
        assert {0, *kind} == set(contract.values())


def test_keys_and_prefixes_are_read() -> None:
    reads = Reads()
    zone, room = reads.node_label("zone"), reads.node_label("room")
    node_prefix, pod_prefix = reads.node_annotations("acme.io/"), reads.pod_labels("")
    app, note = reads.pod_label("app"), reads.pod_annotation("acme.io/a")

    def see(pod: Pod, node: Node) -> None:
        assert (node.get(zone), node.get(room), node.label("zone")) == ("z1", None, "z1")
        assert node.entries(node_prefix) == {"acme.io/b": "2"}
        assert node.annotation("acme.io/b") == "2"
        assert (pod.get(app), pod.get(note), pod.entries(pod_prefix)) == ("web", "1", {"app": "web"})
        with pytest.raises(UndeclaredRead, match="Reads.node_labels$"):
            node.labels  # noqa: B018
        with pytest.raises(UndeclaredRead, match='label "other" of the node'):
            node.label("other")

    testing.filter(Recorder(Info("p", "1").filters(Verb.per_node().reads(reads)), see), FULL_POD, [FULL_NODE])


def test_an_undeclared_read_fails_the_test_at_once() -> None:
    class Careless(Policy):
        def info(self) -> Info:
            return Info("careless", "1").filters(Verb.per_node().reads(Reads()))

        def filter(self, pod: Pod, node: Node) -> Verdict:
            return Verdict.reject(pod.namespace)

    with pytest.raises(NoAnswer, match="NAMESPACE of the pod is read and not declared") as raised:
        testing.filter(Careless(), TestPod("shop"), [TestNode("a")])
    assert isinstance(raised.value.__cause__, UndeclaredRead)
    assert testing.filter(testing.everything(Careless()), TestPod("shop"), [TestNode("a")]) == [("a", "shop")]


def test_running_pods_are_counted() -> None:
    reads = Reads()
    by_owner = reads.pods_and_requests_by(PodsBy.OWNER)
    by_app = reads.pods_by(PodsBy.label("app"))
    by_namespace, by_class = reads.pods_by(PodsBy.NAMESPACE), reads.pods_by(PodsBy.PRIORITY_CLASS)
    racks = reads.pods_and_requests_by_topology(PodsBy.OWNER, "rack")
    cluster = reads.pods_by_topology(PodsBy.label("app"), "")
    web = TestPod("shop").owner("u1").label("app", "").requests(milli_cpu=100, others={"gpu": 1, "x": 1})
    other = TestPod("test").owner("u2").label("app", "").priority_class("low")
    nodes = [
        TestNode("a").label("rack", "r1").allocatable(others={"x": 1}).running(web, 2).terminating(web).running(other),
        TestNode("b").label("rack", "r1").running(web),
        TestNode("c").running(web, 5),
    ]
    seen = {}

    def see(pod: Pod, node: Node) -> None:
        like, app = node.pods_like(by_owner, pod), node.pods_like(by_app, pod)
        assert like is not None and app is not None and like.counted is not None
        assert node.pods_like(by_class, pod) is None
        domains, whole = pod.pods_like(racks), pod.pods_like(cluster)
        assert domains is not None and whole is not None
        rack, everywhere = domains.of(node), whole.of(node)
        assert everywhere is not None
        seen[like.counted.requested.milli_cpu] = (
            (like.at_most, like.at_least, like.counted.terminating, like.counted.requested.others),
            (app.at_most, [(count.namespace, count.value, count.pods) for count in node.pod_counts(by_app)]),
            [(count.namespace, count.pods) for count in node.pod_counts(by_namespace)],
            [(count.namespace, count.value) for count in node.pod_counts(by_class)],
            (rack and rack.at_most, everywhere.at_most, [(value, count.pods) for value, count in domains]),
            rack and rack.counted and rack.counted.requested,
        )
        assert (node.omitted_pods(by_owner), domains.omitted_pods, len(domains)) == (0, 0, 1)
        with pytest.raises(UndeclaredRead, match=r"declare it with Reads.pods_and_requests_by\(PodsBy.label"):
            app.counted.requested  # type: ignore[union-attr]  # noqa: B018

    testing.filter(Recorder(Info("p", "1").filters(Verb.per_node().pure().reads(reads)), see), web, nodes)
    requested = Resources(400, others={"gpu": 4, "x": 4})
    assert seen == {
        300: (
            (3, 3, 1, {"x": 3}),
            (3, [("shop", "", 3), ("test", "", 1)]),
            [("shop", 3), ("test", 1)],
            [(None, "low")],
            (4, 9, [("r1", 4)]),
            requested,
        ),
        100: ((1, 1, 0, {}), (1, [("shop", "", 1)]), [("shop", 1)], [], (4, 9, [("r1", 4)]), requested),
        500: ((5, 5, 0, {}), (5, [("shop", "", 5)]), [("shop", 5)], [], (None, 9, [("r1", 4)]), None),
    }


def test_counts_that_are_left_out_are_not_0() -> None:
    reads = Reads()
    by_app = reads.pods_by(PodsBy.label("app"))
    node = TestNode("a")
    for number in range(520):
        node = node.running(TestPod("shop").label("app", f"app-{number:03}"), 2 if number < 512 else 1)
    bounds = []

    def see(pod: Pod, node: Node) -> None:
        like = node.pods_like(by_app, pod)
        assert like is not None
        bounds.append((like.at_least, like.at_most, like.counted is None, node.omitted_pods(by_app)))

    policy = Recorder(Info("p", "1").filters(Verb.per_node().reads(reads)), see)
    for app in ("app-003", "app-515"):
        testing.filter(policy, TestPod("shop").label("app", app), [node])
    assert bounds == [(2, 2, False, 8), (0, 8, True, 8)]


class All(Policy):
    """All verbs as coroutines."""

    def info(self) -> Info:
        return Info("all", "1").filters(VERB).scores(VERB, Scale.unbounded()).preempts(VERB).binds()

    async def filter(self, pod: Pod, node: Node) -> Verdict:
        return Verdict.reject(node.name) if node.name == "b" else Verdict.accept()

    async def score(self, pod: Pod, node: Node) -> int:
        return len(node.name)

    async def preempt(self, pod: Pod, candidate: Candidate) -> Eviction:
        return Eviction.of(candidate, lambda victim: victim.uid != "stays")

    async def bind(self, ask: BindAsk) -> Bind:
        if ask.node == "fails":
            raise BindFailed(f"{ask.node} refuses {ask.namespace}/{ask.name} {ask.uid}")
        if ask.node == "full":
            return Bind.not_bound("no room is left")
        return Bind.BOUND if ask.node == "a" else Bind.declined("another node")


def test_coroutines_are_tested_like_functions() -> None:
    pod, nodes = TestPod("shop"), [TestNode("a"), TestNode("b"), TestNode("ccc")]
    assert testing.filter(All(), pod, nodes) == [("b", "b")]
    assert testing.score(All(), pod, nodes) == [1, 1, 3]
    candidates = [
        TestCandidate(nodes[0]).victim("x").victim("stays"),
        TestCandidate(nodes[1]).victim("stays").pdb_violations(1),
        TestCandidate(nodes[2]).victim("y", pod.priority(1)),
    ]
    assert testing.preempt(All(), pod, candidates) == [("a", ["x"]), ("ccc", ["y"])]
    assert testing.bind(All(), pod, "a") == Bind.BOUND
    assert testing.bind(All(), pod, "b") == Bind.declined("another node")
    assert testing.bind(All(), pod, "full") == Bind.not_bound("no room is left") != Bind.declined("no room is left")
    with pytest.raises(NoAnswer, match="^fails refuses shop/pod uid$"):
        testing.bind(All(), pod, "fails")


def test_a_rejection_says_whether_an_eviction_could_help() -> None:
    class Rejects(Policy):
        def info(self) -> Info:
            return Info("p", "1").filters(VERB)

        def filter(self, pod: Pod, node: Node) -> Verdict:
            is_arm = node.label("arch") is not None
            return Verdict.reject("no", rule="r", unresolvable=is_arm, retry_after=89.5 if is_arm else None)

    nodes = [TestNode("full"), TestNode("arm").label("arch", "arm64")]
    found = testing.rejections(Rejects(), TestPod("shop"), nodes)
    assert found == [("full", Rejected("no", "r", False, None)), ("arm", Rejected("no", "r", True, 90))]


def test_a_verb_that_is_not_declared_is_named_with_its_remedy() -> None:
    policy = Recorder(Info("p", "1").filters(Verb.per_node()), lambda pod, node: None)
    pod, nodes = TestPod("shop"), [TestNode("a")]
    asked: list[tuple[str, str, Callable[[], object]]] = [
        ("Score", "Info.scores", lambda: testing.score(policy, pod, nodes)),
        ("Preempt", "Info.preempts", lambda: testing.preempt(policy, pod, [TestCandidate(nodes[0])])),
        ("Bind", "Info.binds", lambda: testing.bind(policy, pod, "a")),
        ("BeforeFilter", "Info.before_filter", lambda: testing.before_filter(policy, pod)),
        ("BeforeFilterNodes", "Info.before_filter_nodes", lambda: testing.before_filter_nodes(policy, pod, nodes)),
        ("BeforeScore", "Info.before_score", lambda: testing.before_score(policy, pod, nodes)),
    ]
    for verb, declares, ask in asked:
        with pytest.raises(NoAnswer, match=f"^this policy does not serve {verb}; .*, declare it with {declares}$"):
            ask()
    with pytest.raises(NoAnswer, match="declare it with Info.filters$"):
        testing.filter(Binds(), pod, nodes)


class Wrong(Policy):
    """Answers what the contract forbids, about each node by a function."""

    def __init__(self, answer: Callable[[Node], Any], verb: Verb = VERB) -> None:
        self._answer, self._verb = answer, verb

    def info(self) -> Info:
        return Info("wrong", "1").filters(self._verb).scores(self._verb, Scale.between(0, 10))

    def filter(self, pod: Pod, node: Node) -> Verdict:
        return Verdict.reject(self._answer(node))

    def score(self, pod: Pod, node: Node) -> int:
        return int(self._answer(node))


def counter() -> Callable[[Node], str]:
    calls = itertools.count()
    return lambda node: "ab"[next(calls) % 2]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda node: " ", 'filter rejects node "a" without a reason; say in a constant text what'),
        (
            lambda node: "x\0",
            'filter rejects node "a" with the reason "x\\u0000", which has control characters; write one',
        ),
        (
            lambda node: f"{ord(node.name) - 96} of 5 slots used",
            'filter rejects node "a" with the reason "1 of 5 slots used" and node "b" with "2 of 5 slots used"; leave',
        ),
    ],
)
def test_reasons_are_constant_texts(answer: Callable[[Node], str], expected: str) -> None:
    with pytest.raises(AssertionError) as raised:
        testing.filter(Wrong(answer), TestPod("shop"), NODES)
    assert str(raised.value).startswith(expected)
    # Names may have digits.
    assert len(testing.filter(Wrong(lambda node: f"not in pool-{ord(node.name)}"), TestPod("shop"), NODES)) == 3


def test_scores_are_on_the_declared_scale() -> None:
    with pytest.raises(AssertionError, match='^score returned 11 for node "c"; the declared scale is 0 to 10: clamp'):
        testing.score(Wrong(lambda node: 11 if node.name == "c" else 10), TestPod("shop"), NODES)


def test_an_answer_of_another_kind_names_its_node() -> None:
    class Sloppy(All):
        def filter_all(self, pod: Pod, nodes: object) -> Any:
            return [Verdict.accept(), True]

        def score_all(self, pod: Pod, nodes: object) -> Any:
            return [0, 2**40]

        def preempt_all(self, pod: Pod, candidates: object) -> Any:
            return [Eviction.ALL, Eviction.only([1])]

    pod, nodes = TestPod("shop"), [TestNode("a"), TestNode("b")]
    with pytest.raises(NoAnswer, match='^filter returned True for node "b"; expected a Verdict'):
        testing.filter(Sloppy(), pod, nodes)
    with pytest.raises(NoAnswer, match='^score returned 1099511627776 for node "b"; expected'):
        testing.score(Sloppy(), pod, nodes)
    with pytest.raises(NoAnswer, match=r'^preempt returned victims \[1\] for node "b", which has 1; expected'):
        testing.preempt(Sloppy(), pod, [TestCandidate(node).victim("u") for node in nodes])


@pytest.mark.parametrize("verb", [VERB, VERB.pure()])
def test_no_opinion_is_returned_as_it_is(verb: Verb) -> None:
    policy = Wrong(lambda node: NO_OPINION if node.name == "b" else 10, verb)
    assert testing.score(policy, TestPod("shop"), NODES) == [10, NO_OPINION, 10]


def test_a_pure_verb_gives_the_same_answer_again_and_in_another_order() -> None:
    fine = Wrong(lambda node: node.name, VERB.pure())
    assert testing.filter(fine, TestPod("shop"), NODES) == [("a", "a"), ("b", "b"), ("c", "c")]
    with pytest.raises(AssertionError) as raised:
        testing.filter(Wrong(counter(), VERB.pure()), TestPod("shop"), NODES)
    assert str(raised.value).startswith(
        'filter is declared pure and gave another answer about node "a" when it was asked again; a pure verb depends'
    )
    order = itertools.count()
    with pytest.raises(AssertionError, match='^score is declared pure and gave another answer about node "a" when'):
        testing.score(Wrong(lambda node: next(order), VERB.pure()), TestPod("shop"), NODES)
    # Without pure() it is asked once.
    assert testing.score(Wrong(lambda node: next(order)), TestPod("shop"), NODES) == [6, 7, 8]


def test_a_pure_hook_gives_the_same_answer_again() -> None:
    count = itertools.count()
    hook = Hook.of_pod().pure().changes(ChangedPart.POD_LABELS)

    class Hooked(Changing):
        def before_filter(self, pod: Pod) -> PodChange:
            return PodChange().set_label("a", str(next(count)))

    with pytest.raises(AssertionError, match="^beforeFilter is declared pure and gave another answer about the pod"):
        testing.before_filter(Hooked(info=Info("p", "1").before_filter(hook)), TestPod("shop"))


def recording() -> policy_pb2.FilterRequest:
    """What the gateway writes of the full objects."""
    nodes = node_pb2.Nodes(count=2, rows=node_pb2.NodeRows(rows=[FULL_NODE._message, TestNode("bare")._message]))
    for row in nodes.rows.rows:
        row.pod_counts.add()
    request = policy_pb2.FilterRequest(pod=FULL_POD._message, nodes=nodes)
    request.pod.topology_counts.add()
    return request


def test_objects_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "objects.binpb"
    path.write_bytes(recording().SerializeToString())
    pod, nodes = testing.recorded(path)
    assert [node.name for node in nodes] == ["n1", "bare"]
    nothing = Recorder(Info("p", "1").filters(Verb.per_node()), see_everything)
    assert testing.filter(testing.everything(nothing), pod, nodes[:1]) == []
    # They are reduced to what is declared, and can be changed, as all others.
    counted = Reads().node(NodePart.NAME)
    by = counted.pods_by(PodsBy.NAMESPACE)

    def see(pod: Pod, node: Node) -> None:
        like = node.pods_like(by, pod)
        assert (node.name, like and like.at_most) in {("n1", 3), ("bare", 0)}
        with pytest.raises(UndeclaredRead):
            node.label("zone")

    policy = Recorder(Info("p", "1").filters(Verb.per_node().reads(counted)), see)
    assert testing.filter(policy, pod, [nodes[0].running(TestPod("shop"), 3), nodes[1]]) == []


WHOLE = recording().SerializeToString()
PARTLY = "without its pod or some of its nodes"
LACKING = {"count": 3, "rows": {"rows": [{"name": "x"}]}}
BROKEN = [
    (b"apiVersion: v1", "not a FilterRequest"),
    (WHOLE[:-1], "not a FilterRequest"),
    (policy_pb2.FilterRequest(pod=FULL_POD._message).SerializeToString(), PARTLY),
    (policy_pb2.FilterRequest(nodes=recording().nodes).SerializeToString(), PARTLY),
    (WHOLE + policy_pb2.FilterRequest(nodes={"count": 3}).SerializeToString(), PARTLY),
    (WHOLE + policy_pb2.FilterRequest(nodes=LACKING).SerializeToString(), "with a node that lacks its name or its"),
]


@pytest.mark.parametrize(("content", "expected"), BROKEN, ids=range(len(BROKEN)))
def test_a_file_that_is_not_whole_is_named(content: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "objects.binpb"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} is {expected}.*; write it again with extender-gate"):
        testing.recorded(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=re.escape(str(path))):
        testing.recorded(str(path))


def test_a_hook_changes_what_it_declares() -> None:
    change, on_node = PodChange().topology_spread(), NodeChange().remove_label("a")
    hook = Hook.whole_set().changes(ChangedPart.POD_TOPOLOGY_SPREAD)
    hooked = Changing(change, lambda node: on_node, Info("p", "1").before_score(hook))
    with pytest.raises(AssertionError, match="^beforeScore changes what it does not declare; add ChangedPart.NODE_LAB"):
        testing.before_score(hooked, TestPod("shop"), NODES)
    both = Info("p", "1").before_score(hook.changes(ChangedPart.NODE_LABELS))
    changed = testing.before_score(Changing(change, lambda node: on_node, both), TestPod("shop"), NODES)
    assert changed == (change, [(node.name, on_node) for node in NODES])


BESIDE: list[tuple[Callable[[Pod, Node], object], str]] = [
    (
        lambda pod, node: node.usage,
        "USAGE of the node is read and not declared; declare it with Reads.node(NodePart.US",
    ),
    (lambda pod, node: node.kubernetes(), "RAW_JSON of the node is read and not declared; declare it with Reads.node("),
    (
        lambda pod, node: pod.raw_json,
        "RAW_JSON of the pod is read and not declared; declare it with Reads.pod(PodPart.R",
    ),
]


@pytest.mark.parametrize(("see", "expected"), BESIDE)
def test_usage_and_json_are_read_only_if_they_are_declared(see: Callable[[Pod, Node], object], expected: str) -> None:
    policy = Recorder(Info("p", "1").filters(VERB), see)
    with pytest.raises(NoAnswer, match="^" + re.escape(f"filter failed: {expected}")):
        testing.filter(policy, FULL_POD, [FULL_NODE])
    assert testing.filter(testing.everything(policy), FULL_POD, [FULL_NODE]) == []


class Binds(Policy):
    """Serves one verb, and fails."""

    def __init__(self, ready: Callable[[], None] = lambda: None) -> None:
        self._ready = ready

    def info(self) -> Info:
        return Info("binds", "1").binds()

    def bind(self, ask: BindAsk) -> Bind:
        raise KeyError("boom")

    def ready(self) -> None:
        self._ready()


def test_an_exception_names_its_verb() -> None:
    def not_ready() -> None:
        raise OSError("no data")

    with pytest.raises(NoAnswer, match="^bind failed: KeyError: 'boom'$"):
        testing.bind(Binds(), TestPod("shop"), "a")
    with pytest.raises(NoAnswer, match="^bind failed: OSError: no data$"):
        testing.bind(Binds(not_ready), TestPod("shop"), "a")

    class Whole(Recorder):
        def filter_all(self, pod: Pod, nodes: Nodes) -> Any:
            raise ValueError(len(nodes))

    info = Info("p", "1").filters(Verb.per_node())
    with pytest.raises(NoAnswer, match="^filter failed: ValueError: 1$"):
        testing.filter(Whole(info, None), TestPod("shop"), [TestNode("a")])
    with pytest.raises(NoAnswer, match="^filter failed: TypeError: "):
        testing.filter(Recorder(info, None), TestPod("shop"), [TestNode("a")])


def test_the_declaration_of_the_reference_is_complete() -> None:
    import reference

    arguments = reference.Arguments(zone="z1", most=2)
    chance = random.Random(7)
    effects, keys = ["NoSchedule", "PreferNoSchedule", "NoExecute"], ["a", "b"]

    def pod() -> TestPod:
        made = TestPod(chance.choice(["shop", "system"])).requests(milli_cpu=chance.choice([0, 500, 5000]))
        if chance.random() < 0.7:
            made = made.owner(chance.choice(keys))
        if chance.random() < 0.5:
            made = made.label("app", chance.choice(["z1", "z2"]))
        for _ in range(chance.randint(0, 2)):
            operator = chance.choice(["", "Equal", "Exists", "Lt"])
            made = made.toleration(
                key=chance.choice(["", *keys]),
                operator=operator,
                value=chance.choice(keys),
                effect=chance.choice(["", *effects]),
            )
        return made

    def node(at: int) -> TestNode:
        made = TestNode(f"n{at}").label("other", "x").running(pod(), chance.randint(0, 2)).running(pod(), 1)
        if chance.random() < 0.8:
            made = made.label("zone", chance.choice(["z1", "z2", ""]))
        if chance.random() < 0.8:
            made = made.allocatable(milli_cpu=chance.choice([0, 1000, 1 << 62]))
        for _ in range(chance.randint(0, 2)):
            made = made.taint(chance.choice(keys), chance.choice(keys), chance.choice(effects))
        return made

    declared = reference.Reference(arguments)
    everything = testing.everything(declared)
    rules: set[str] = set()
    for _ in range(200):
        placed, nodes = pod(), [node(at) for at in range(5)]
        found = testing.rejections(declared, placed, nodes)
        rules.update(rejected.rule for _, rejected in found)
        assert found == testing.rejections(everything, placed, nodes)
        assert testing.score(declared, placed, nodes) == testing.score(everything, placed, nodes)
        assert testing.before_filter(declared, placed) == testing.before_filter(everything, placed)
        of_nodes = testing.before_filter_nodes(declared, placed, nodes)
        assert of_nodes == testing.before_filter_nodes(everything, placed, nodes)
        assert testing.before_score(declared, placed, nodes) == testing.before_score(everything, placed, nodes)
    assert rules == {"zone", "taints", "cpu", "owner"}


def test_the_package_has_what_it_names() -> None:
    assert all(hasattr(extender_policy, name) for name in extender_policy.__all__)
    assert all(hasattr(testing, name) for name in testing.__all__)


def test_values_say_what_they_are() -> None:
    assert repr(Verdict.reject("no", rule="r", unresolvable=True)) == (
        "Verdict.reject('no', rule='r', unresolvable=True)"
    )
    assert repr(Verdict.reject("no", retry_after=1.5)) == "Verdict.reject('no', retry_after=2)"
    assert Verdict.reject("no") is Verdict.reject("no") != Verdict.accept()
    for seconds in ("3", float("nan")):
        with pytest.raises(TypeError, match=rf"retry_after={seconds!r}\): expected a number of seconds"):
            Verdict.reject("no", retry_after=seconds)  # type: ignore[arg-type]
    assert (Verdict.accept().accepts, Verdict.reject("").accepts) == (True, False)
    with pytest.raises(TypeError, match="expected two texts"):
        Verdict.reject(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="use Eviction.SPARE"):
        Eviction.only([])
    assert [repr(one) for one in (Eviction.ALL, Eviction.SPARE, Eviction.only([1]))] == [
        "Eviction.ALL",
        "Eviction.SPARE",
        "Eviction.only([1])",
    ]
    binds = (Bind.BOUND, Bind.declined("x"), Bind.not_bound("x"))
    assert [repr(one) for one in binds] == ["Bind.BOUND", "Bind.declined('x')", "Bind.not_bound('x')"]
