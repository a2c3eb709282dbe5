"""The methods of HookService, over sockets, with both servers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
import pytest
from changing import POD_PARTS, Changing, everything
from client import EVERYTHING_OF_PODS, Client, by_table, call, inline, pod, reads_of, row, status, values
from conftest import Serve
from grpc import StatusCode
from servers import serving

from extender_policy import (
    ChangedPart,
    Hook,
    Info,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeChange,
    NodePart,
    Nodes,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeUsage,
    NonZero,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodChange,
    Policy,
    Reads,
    Resources,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    testing,
)
from extender_policy._api.v1beta1 import (
    hooks_pb2,
    info_pb2,
    node_pb2,
    pod_pb2,
    policy_pb2,
    resources_pb2,
)
from extender_policy.testing import NoAnswer, TestNode, TestPod


def asking(hook: Any, nodes: node_pb2.Nodes | None = None, **fields: Any) -> hooks_pb2.ChangeRequest:
    return hooks_pb2.ChangeRequest(call=call(**fields), pod=pod(), nodes=nodes, hook=hook)


def of_pod(placed: pod_pb2.Pod | None = None, **fields: Any) -> hooks_pb2.ChangeRequest:
    request = asking(info_pb2.VERB_BEFORE_FILTER, **{"reads": EVERYTHING_OF_PODS, **fields})
    request.pod.CopyFrom(placed or pod())
    return request


def of_nodes(nodes: node_pb2.Nodes, **fields: Any) -> hooks_pb2.ChangeRequest:
    return asking(info_pb2.VERB_BEFORE_FILTER_NODES, nodes, **fields)


def of_scores(nodes: node_pb2.Nodes, **fields: Any) -> hooks_pb2.ChangeRequest:
    return asking(info_pb2.VERB_BEFORE_SCORE, nodes, **fields)


def failing(answer: Callable[[], object]) -> tuple[StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        answer()
    return status(raised.value)


def rows(*names: str) -> node_pb2.Nodes:
    return inline([row(name) for name in names])


SELECTOR = LabelSelector({"app": "web"})
NEAR = PodAffinityTerm("zone", SELECTOR, ("shop",))
SPREAD = (
    TopologySpreadConstraint(1, "zone", "DoNotSchedule", SELECTOR, min_domains=0),
    TopologySpreadConstraint(2, "rack", ""),
)


def test_a_pod_is_changed(serve: Serve) -> None:
    affinity = NodeAffinity(required=(NodeSelectorTerm((NodeSelectorRequirement("a", "In", ("b",)),)),))
    change = (
        PodChange("why")
        .set_label("a", "")
        .remove_label("b")
        .set_node_selector("c", "d")
        .remove_node_selector("e")
        .set_node_affinity(affinity)
        .add_toleration(operator="Exists")
        .remove_toleration(Toleration("f", toleration_seconds=0))
        .add_requests(milli_cpu=-5, others={"x": 1})
        .add_requests(milli_cpu=2, memory=7, others={"x": 1})
        .set_annotation("g", "h")
        .remove_annotation("i")
        .pod_affinity(PodAffinity())
        .pod_affinity(PodAffinity(required=(NEAR,), anti_preferred=(WeightedPodAffinityTerm(5, NEAR),)))
        .topology_spread()
        .topology_spread(*SPREAD)
    )
    client = serve(Changing(change))
    answer = client.change(of_pod())
    assert (answer.result.evaluated, answer.result.revision) == (1, "r1")
    term = pod_pb2.NodeSelectorTerm(
        match_expressions=[pod_pb2.NodeSelectorRequirement(key="a", operator="In", values=["b"])]
    )
    selector = pod_pb2.LabelSelector(match_labels={"app": "web"})
    near = pod_pb2.PodAffinityTerm(topology_key="zone", selector=selector, namespaces=["shop"])
    spread = pod_pb2.TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule", selector=selector, min_domains=0
    )
    expected = hooks_pb2.PodChange(
        reason="why",
        set_labels={"a": ""},
        remove_labels=["b"],
        set_node_selector={"c": "d"},
        remove_node_selector=["e"],
        node_affinity=pod_pb2.NodeAffinity(required=pod_pb2.NodeSelector(terms=[term])),
        add_tolerations=[pod_pb2.Toleration(operator="Exists")],
        remove_tolerations=[pod_pb2.Toleration(key="f", toleration_seconds=0)],
        add_requests=resources_pb2.Resources(milli_cpu=-3, memory=7, others={"x": 2}),
        set_annotations={"g": "h"},
        remove_annotations=["i"],
        pod_affinity=pod_pb2.PodAffinity(
            required=[near], anti_preferred=[pod_pb2.WeightedPodAffinityTerm(weight=5, term=near)]
        ),
        topology_spread=hooks_pb2.TopologySpread(constraints=[spread, {"max_skew": 2, "topology_key": "rack"}]),
    )
    assert change.parts == set(POD_PARTS)
    assert answer.pod == expected
    scored = client.change(of_scores(rows("a", "b")))
    assert (scored.result.evaluated, scored.pod, len(scored.nodes)) == (2, expected, 0)


def test_nodes_are_changed(serve: Serve) -> None:
    change = (
        NodeChange("why")
        .set_label("a", "b")
        .remove_label("c")
        .add_taint("d")
        .remove_taint("e")
        .add_allocatable(pods=-1, others={"x": 1})
        .add_usage(NodeUsage(Resources(pods=1), NonZero(memory=-2)))
        .add_usage(NodeUsage(Resources(pods=1), NonZero(memory=-1)))
    )
    client = serve(Changing(of_node=lambda node: change))
    answer = client.change(of_nodes(rows("a", "b")))
    assert (answer.result.evaluated, answer.result.revision) == (2, "r1")
    expected = hooks_pb2.NodeChange(
        positions=[0, 1],
        reason="why",
        set_labels={"a": "b"},
        remove_labels=["c"],
        add_taints=[node_pb2.Taint(key="d", effect="NoSchedule")],
        remove_taints=[node_pb2.Taint(key="e")],
        add_allocatable=resources_pb2.Resources(pods=-1, others={"x": 1}),
        add_usage=node_pb2.NodeUsage(
            requested=resources_pb2.Resources(pods=2), nonzero=resources_pb2.NonZero(memory=-3)
        ),
    )
    assert list(answer.nodes) == [expected]
    scored = client.change(of_scores(rows("a", "b")))
    assert (scored.result.evaluated, scored.HasField("pod"), list(scored.nodes)) == (2, False, [expected])


def test_equal_changes_of_nodes_are_grouped(serve: Serve) -> None:
    def changed(node: Node) -> NodeChange | None:
        return None if node.name == "same" else NodeChange().set_label("a", node.name).set_label("b", "")

    client = serve(Changing(of_node=changed))
    answer = client.change(of_nodes(rows("x", "y", "same", "x", "y", "x")))
    assert answer.result.evaluated == 6
    assert [(list(change.positions), change.set_labels["a"]) for change in answer.nodes] == [
        ([0, 3, 5], "x"),
        ([1, 4], "y"),
    ]


def test_nothing_changes_where_nothing_is_returned(serve: Serve) -> None:
    for policy in (Changing(), Changing(PodChange("why"), lambda node: NodeChange("why"))):
        client = serve(policy)
        answer = client.change(of_pod())
        assert (answer.result.evaluated, answer.HasField("pod")) == (1, False)
        nothing = hooks_pb2.ChangeResponse(result=answer.result)
        assert client.change(of_nodes(rows("a"))) == client.change(of_scores(rows("a"))) == nothing


def test_a_request_is_for_a_hook_and_has_what_this_one_is_about(serve: Serve) -> None:
    client = serve(Changing())
    for request, expected in [
        (asking(info_pb2.VERB_UNSPECIFIED), "hook is missing; every request has it"),
        (asking(info_pb2.VERB_FILTER), "hook is 1; expected VERB_BEFORE_FILTER, VERB_BEFORE_FILTER_NODES or"),
        (asking(99), "hook is 99; expected VERB_BEFORE_FILTER"),
        (
            asking(info_pb2.VERB_BEFORE_FILTER, rows("a"), reads=EVERYTHING_OF_PODS),
            "nodes is set; VERB_BEFORE_FILTER is about the pod",
        ),
        (asking(info_pb2.VERB_BEFORE_FILTER_NODES), "nodes is missing; every request has it"),
        (asking(info_pb2.VERB_BEFORE_SCORE), "nodes is missing; every request has it"),
        (of_nodes(inline([])), "nodes.count is 0"),
    ]:
        code, text = failing(partial(client.change, request))
        assert (code, text.startswith(expected)) == (StatusCode.INVALID_ARGUMENT, True), text


def test_a_hook_that_is_not_declared_is_not_served(serve: Serve) -> None:
    hook = Hook.per_node().reads(Reads.everything()).changes(ChangedPart.NODE_LABELS)
    client = serve(Changing(info=Info("p", "1").before_filter_nodes(hook)))
    assert client.change(of_nodes(rows("a"))).result.evaluated == 1
    for request in (of_pod(), of_scores(rows("a"))):
        assert failing(partial(client.change, request))[0] is StatusCode.UNIMPLEMENTED


def test_a_miss_has_nothing_else(serve: Serve) -> None:
    client = serve(Changing(of_node=lambda node: NodeChange().set_label("a", "b")))
    missed = hooks_pb2.ChangeResponse(result=policy_pb2.Result(miss=policy_pb2.MISS_TABLE_UNKNOWN))
    for ask in (of_nodes, of_scores):
        assert client.change(ask(by_table("gone", [1]))) == missed


def test_long_reasons_are_cut(serve: Serve) -> None:
    client = serve(Changing(PodChange("ä" * 150).set_label("a", "b")))
    assert client.change(of_pod()).pod.reason == "ä" * 100


def test_a_mistake_fails_the_call_and_is_logged(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    wrong: Any = 3
    client = serve(Changing(wrong, lambda node: wrong))
    of_the_pod = "before_filter returned 3 for the pod; expected a PodChange or None"
    of_a_node = 'before_filter_node returned 3 for node "a"; expected a NodeChange or None'
    with caplog.at_level(logging.ERROR, "extender_policy"):
        assert failing(lambda: client.change(of_pod())) == (StatusCode.INTERNAL, of_the_pod)
        assert failing(lambda: client.change(of_nodes(rows("a")))) == (StatusCode.INTERNAL, of_a_node)
    assert [record.getMessage() for record in caplog.records] == [
        f"{of_the_pod}; the call fails with INTERNAL",
        f"{of_a_node}; the call fails with INTERNAL",
    ]


class Answers(Policy):
    """Whole-set answers that are wrong."""

    def __init__(self, answers: Any) -> None:
        self._answers = answers

    def info(self) -> Info:
        return everything()

    def before_filter(self, pod: Pod) -> Any:
        return self._answers

    def before_filter_nodes(self, pod: Pod, nodes: Nodes) -> Any:
        return self._answers

    def before_score(self, pod: Pod, nodes: Nodes) -> Any:
        return self._answers


PAIR = "expected a pair: a PodChange or None, and a list with a NodeChange or None per node"


@pytest.mark.parametrize(
    ("ask", "answers", "expected"),
    [
        (of_pod, True, "before_filter returned True for the pod; expected a PodChange or None"),
        (of_nodes, [None], "before_filter_nodes returned 1 answers for 2 nodes; expected one per"),
        (of_nodes, [], "before_filter_nodes returned 0 answers for 2 nodes; expected one per node"),
        (of_nodes, None, "before_filter_nodes returned None; expected a list with one answer per"),
        (
            of_nodes,
            [None, PodChange()],
            'before_filter_nodes returned PodChange() for node "b"; expected a NodeChange or None',
        ),
        (of_scores, None, f"before_score returned None; {PAIR}"),
        (of_scores, (None, (), ()), f"before_score returned (None, (), ()); {PAIR}"),
        (of_scores, (None, None), "before_score returned None; expected a list with one answer per node"),
        (of_scores, (None, [None]), "before_score returned 1 answers for 2 nodes; expected one per node"),
        (of_scores, (7, ()), "before_score returned 7 for the pod; expected a PodChange or None"),
        (of_scores, (None, [None, 7]), 'before_score returned 7 for node "b"; expected a NodeChange or None'),
    ],
)
def test_answers_of_another_kind_are_errors(serve: Serve, ask: Any, answers: Any, expected: str) -> None:
    client = serve(Answers(answers))
    request = of_pod() if ask is of_pod else ask(rows("a", "b"))
    code, text = failing(lambda: client.change(request))
    assert (code, expected in text) == (StatusCode.INTERNAL, True), text


def test_a_whole_set_may_be_answered_by_a_generator() -> None:
    class Generator(Answers):
        def before_filter_nodes(self, pod: Pod, nodes: Nodes) -> Any:
            return (NodeChange().set_label("nodes", str(len(nodes))) for _ in nodes)

        def before_score(self, pod: Pod, nodes: Nodes) -> Any:
            return None, self.before_filter_nodes(pod, nodes)

    nodes, change = [TestNode("a"), TestNode("b")], NodeChange().set_label("nodes", "2")
    changed = [("a", change), ("b", change)]
    assert testing.before_filter_nodes(Generator(None), TestPod("shop"), nodes) == changed
    assert testing.before_score(Generator(None), TestPod("shop"), nodes) == (None, changed)


class Waiting(Policy):
    """All hooks as coroutines."""

    def info(self) -> Info:
        return everything()

    async def before_filter(self, pod: Pod) -> PodChange | None:
        return PodChange().set_label("namespace", pod.namespace)

    async def before_filter_node(self, pod: Pod, node: Node) -> NodeChange | None:
        return None if node.name == "a" else NodeChange().set_label("name", node.name)

    async def before_score(self, pod: Pod, nodes: Nodes) -> tuple[PodChange | None, list[NodeChange | None]]:
        return None, [await self.before_filter_node(pod, node) for node in nodes]


def test_hooks_may_be_coroutines() -> None:
    change = NodeChange().set_label("name", "b")
    nodes = [TestNode("a"), TestNode("b")]
    assert testing.before_filter(Waiting(), TestPod("shop")) == PodChange().set_label("namespace", "shop")
    assert testing.before_filter_nodes(Waiting(), TestPod("shop"), nodes) == [("b", change)]
    assert testing.before_score(Waiting(), TestPod("shop"), nodes) == (None, [("b", change)])
    with serving("loop", Waiting()) as address, Client(address) as client:
        assert client.change(of_pod()).pod.set_labels == {"namespace": "shop"}
        answer = client.change(of_nodes(rows("a", "b")))
        assert [list(changed.positions) for changed in answer.nodes] == [[1]]
        assert [list(changed.positions) for changed in client.change(of_scores(rows("b", "a"))).nodes] == [[0]]


class Zones(Policy):
    """Reads the pod's app and the nodes' zones."""

    def info(self) -> Info:
        reads = Reads().node(NodePart.NAME)
        reads.node_label("zone")
        reads.pod_label("app")
        app = Reads()
        app.pod_label("app")
        return (
            Info("zones", "1")
            .before_filter(Hook.of_pod().pure().reads(app).changes(ChangedPart.POD_LABELS))
            .before_filter_nodes(Hook.per_node().pure().reads(reads).changes(ChangedPart.NODE_LABELS))
            .before_score(Hook.per_node().reads(reads).changes(ChangedPart.NODE_LABELS))
        )

    def before_filter(self, pod: Pod) -> PodChange:
        return PodChange().set_label("found", pod.label("app") or "none")

    def before_filter_node(self, pod: Pod, node: Node) -> NodeChange:
        return NodeChange().set_label(node.name, f"{node.label('zone')} {pod.label('app')}")

    def before_score(self, pod: Pod, nodes: Nodes) -> tuple[PodChange | None, list[NodeChange | None]]:
        return None, [self.before_filter_node(pod, node) for node in nodes]


def test_a_declaration_has_a_digest(serve: Serve) -> None:
    client = serve(Zones())
    reads = reads_of(client, info_pb2.VERB_BEFORE_FILTER)
    placed = pod_pb2.Pod(facts=pod_pb2.PodFacts(labels=values("web")))
    request = of_pod(placed, reads=reads)
    assert client.change(request).pod.set_labels == {"found": "web"}
    request.call.reads = reads_of(client, info_pb2.VERB_BEFORE_SCORE)
    code, text = failing(lambda: client.change(request))
    assert (code, text.endswith("repeat the handshake")) == (StatusCode.FAILED_PRECONDITION, True)
    request = of_pod(pod_pb2.Pod(facts=pod_pb2.PodFacts()), reads=reads)
    assert failing(lambda: client.change(request)) == (
        StatusCode.INVALID_ARGUMENT,
        "pod.facts.labels.values has 0 values, and 1 keys are declared",
    )


def test_what_is_not_declared_cannot_be_read() -> None:
    class Careless(Changing):
        def before_filter(self, pod: Pod) -> Any:
            return PodChange().set_label("a", pod.namespace)

    hook = Hook.of_pod().reads(Reads()).changes(ChangedPart.POD_LABELS)
    policy = Careless(info=Info("p", "1").before_filter(hook))
    with pytest.raises(NoAnswer, match="NAMESPACE of the pod is read and not declared"):
        testing.before_filter(policy, TestPod("shop"))
    expected = PodChange().set_label("a", "shop")
    assert testing.before_filter(testing.everything(policy), TestPod("shop")) == expected


class Whole(Changing):
    """Answers about all nodes at once, and reads no names."""

    def before_filter_nodes(self, pod: Pod, nodes: Nodes) -> Any:
        return [self.before_filter_node(pod, node) for node in nodes]


def test_a_mistake_names_the_node_and_the_method_that_was_written(serve: Serve) -> None:
    reads = Reads()
    zone = reads.node_label("zone")
    hook = Hook.per_node().reads(reads).changes(ChangedPart.NODE_LABELS)

    def tainted(node: Node) -> Any:
        return 3 if node.get(zone) == "z" else None

    nodes = [TestNode("a"), TestNode("b").label("zone", "z")]
    changes = "returned 3 for {}; expected a NodeChange or None"
    info = Info("p", "1").before_filter_nodes(hook)
    for policy, method in (
        (Changing(of_node=tainted, info=info), "before_filter_node"),
        (Whole(of_node=tainted, info=info), "before_filter_nodes"),
    ):
        with pytest.raises(NoAnswer, match=f"^{method} {changes}".format('node "b"')):
            testing.before_filter_nodes(policy, TestPod("shop"), nodes)
    # In service the names are not sent unless they are read.
    client = serve(Whole(of_node=tainted, info=info))
    sent = inline([node_pb2.NodeRow(facts=node_pb2.NodeFacts(labels=values("z")))])
    request = of_nodes(sent, reads=reads_of(client))
    code, text = failing(lambda: client.change(request))
    assert code is StatusCode.INTERNAL
    assert text.startswith("before_filter_nodes " + changes.format("position 0"))


def test_an_exception_names_the_hook_that_failed(serve: Serve) -> None:
    class Raises(Answers):
        def before_filter(self, pod: Pod) -> Any:
            raise KeyError("boom of the pod")

        def before_filter_nodes(self, pod: Pod, nodes: Nodes) -> Any:
            yield self._answers["boom of the nodes"]

    with pytest.raises(NoAnswer, match="^beforeFilter failed: KeyError: 'boom of the pod'$"):
        testing.before_filter(Raises(None), TestPod("shop"))
    with pytest.raises(NoAnswer, match="^beforeFilterNodes failed: KeyError: 'boom of the nodes'$"):
        testing.before_filter_nodes(Raises({}), TestPod("shop"), [TestNode("a")])
    client = serve(Raises({}))
    text = "failed (KeyError); see the policy's log"
    assert failing(lambda: client.change(of_pod())) == (StatusCode.INTERNAL, f"beforeFilter {text}")
    assert failing(lambda: client.change(of_nodes(rows("a")))) == (StatusCode.INTERNAL, f"beforeFilterNodes {text}")
