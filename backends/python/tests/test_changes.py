"""What hooks may change, and how much: the checks of what a policy returned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from changing import NODE_PARTS, POD_PARTS, Changing

from extender_policy import (
    ChangedPart,
    HoldUser,
    Hook,
    Info,
    Node,
    NodeAffinity,
    NodeChange,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeUsage,
    PodChange,
    PreferredSchedulingTerm,
    Resources,
    Toleration,
    testing,
)
from extender_policy.testing import NoAnswer, TestNode, TestPod

UNDECLARED_POD: list[tuple[ChangedPart, PodChange]] = [
    (ChangedPart.POD_LABELS, PodChange().set_label("a", "b")),
    (ChangedPart.POD_LABELS, PodChange().remove_label("a")),
    (ChangedPart.POD_NODE_SELECTOR, PodChange().set_node_selector("a", "b")),
    (ChangedPart.POD_NODE_SELECTOR, PodChange().remove_node_selector("a")),
    (ChangedPart.POD_NODE_AFFINITY, PodChange().set_node_affinity(NodeAffinity())),
    (ChangedPart.POD_NODE_AFFINITY, PodChange().remove_node_affinity()),
    (ChangedPart.POD_TOLERATIONS, PodChange().add_toleration(key="a")),
    (ChangedPart.POD_TOLERATIONS, PodChange().remove_toleration(key="a")),
    (ChangedPart.POD_REQUESTS, PodChange().add_requests(memory=1)),
]

UNDECLARED_NODE: list[tuple[ChangedPart, NodeChange]] = [
    (ChangedPart.NODE_LABELS, NodeChange().set_label("a", "b")),
    (ChangedPart.NODE_LABELS, NodeChange().remove_label("a")),
    (ChangedPart.NODE_TAINTS, NodeChange().add_taint("a")),
    (ChangedPart.NODE_TAINTS, NodeChange().remove_taint("a")),
    (ChangedPart.NODE_ALLOCATABLE, NodeChange().add_allocatable(pods=1)),
    (ChangedPart.NODE_USAGE, NodeChange().add_usage(NodeUsage(Resources(1)))),
    (ChangedPart.NODE_USAGE, NodeChange().hold("u", milli_cpu=1)),
]


@pytest.mark.parametrize(("part", "change"), UNDECLARED_POD)
def test_only_declared_parts_of_the_pod_change(part: ChangedPart, change: PodChange) -> None:
    others = [other for other in POD_PARTS if other is not part]
    policy = Changing(change, info=Info("p", "1").before_filter(Hook.of_pod().changes(*others)))
    expected = (
        f"before_filter returned a PodChange that changes {part.name}, which is not declared; "
        f"declare it with Hook.changes\\(ChangedPart.{part.name}\\)"
    )
    with pytest.raises(NoAnswer, match=expected):
        testing.before_filter(policy, TestPod("shop"))
    assert testing.before_filter(Changing(change), TestPod("shop")) == change


@pytest.mark.parametrize(("part", "change"), UNDECLARED_NODE)
def test_only_declared_parts_of_nodes_change(part: ChangedPart, change: NodeChange) -> None:
    others = [other for other in NODE_PARTS if other is not part]
    hook = Hook.per_node().changes(*others)
    info = Info("p", "1").before_filter_nodes(hook).before_score(hook)
    policy = Changing(of_node=lambda node: change if node.name == "b" else None, info=info)
    nodes = [TestNode("a"), TestNode("b")]
    expected = (
        f'a NodeChange for node "b" that changes {part.name}, which is not declared; declare it with Hook.changes'
    )
    with pytest.raises(NoAnswer, match=f"^before_filter_node returned {expected}"):
        testing.before_filter_nodes(policy, TestPod("shop"), nodes)
    with pytest.raises(NoAnswer, match=f"^before_score returned {expected}"):
        testing.before_score(policy, TestPod("shop"), nodes)
    everywhere = Changing(of_node=lambda node: change)
    assert testing.before_filter_nodes(everywhere, TestPod("shop"), nodes) == [("a", change), ("b", change)]


def test_a_pod_changes_before_scores_only_if_it_is_declared() -> None:
    info = Info("p", "1").before_score(Hook.per_node().pure().changes(ChangedPart.NODE_LABELS))
    policy = Changing(PodChange().set_label("a", "b"), info=info)
    with pytest.raises(NoAnswer, match="before_score returned a PodChange that changes POD_LABELS"):
        testing.before_score(policy, TestPod("shop"), [TestNode("a")])


def requirement(key: str = "a", values: Sequence[str] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm((NodeSelectorRequirement(key, "In", tuple(values)),))


def affinity(*terms: NodeSelectorTerm) -> PodChange:
    return PodChange().set_node_affinity(NodeAffinity(required=terms))


def labels(count: int) -> PodChange:
    change = PodChange()
    for number in range(count):
        change = change.set_label(f"l{number}", "")
    return change


KEY, VALUE = "k" * 317, "v" * 256
MANY = {f"r{number}": 1 for number in range(65)}

POD_LIMITS: list[tuple[PodChange, str]] = [
    (labels(65), "with 65 entries; at most 64 are allowed"),
    (
        labels(60)
        .remove_label("a")
        .set_node_selector("a", "")
        .remove_node_selector("b")
        .add_toleration()
        .remove_toleration(),
        "with 65 entries",
    ),
    (PodChange().add_requests(others=MANY), "with 65 entries"),
    (PodChange().set_label("", ""), 'with a key of 0 bytes in set_labels: ""; expected 1 to 317'),
    (PodChange().set_label("ä" * 159, ""), "with a key of 318 bytes in set_labels"),
    (PodChange().remove_label(""), "with a key of 0 bytes in remove_labels"),
    (PodChange().set_node_selector("", ""), "with a key of 0 bytes in set_node_selector"),
    (PodChange().remove_node_selector(KEY + "k"), "with a key of 318 bytes in remove_node_selector"),
    (PodChange().add_toleration(key=KEY + "k"), 'with a key of 318 bytes in add_tolerations: "k.*; expected 0 to 317'),
    (PodChange().remove_toleration(key=KEY + "k"), "with a key of 318 bytes in remove_tolerations"),
    (PodChange().add_requests(others={"": 1}), "with a key of 0 bytes in add_requests"),
    (affinity(requirement("")), "with a key of 0 bytes in node_affinity"),
    (PodChange().set_label("a", VALUE + "v"), 'with a value of 257 bytes in set_labels: "v.*; expected at most 256'),
    (PodChange().set_node_selector("a", VALUE + "v"), "with a value of 257 bytes in set_node_selector"),
    (PodChange().add_toleration(value=VALUE + "v"), "with a value of 257 bytes in add_tolerations"),
    (PodChange().remove_toleration(operator=VALUE + "v"), "with a value of 257 bytes in remove_tolerations"),
    (PodChange().remove_toleration(effect=VALUE + "v"), "with a value of 257 bytes in remove_tolerations"),
    (affinity(requirement(values=[VALUE + "v"])), "with a value of 257 bytes in node_affinity"),
    (
        affinity(*[requirement()] * 512, NodeSelectorTerm()),
        "with 1025 terms, requirements and values in node_affinity; at most 1024 are allowed",
    ),
    (affinity(requirement(values=[""] * 1023)), "with 1025 terms, requirements and values"),
    (
        PodChange().set_node_affinity(NodeAffinity(preferred=(PreferredSchedulingTerm(1, NodeSelectorTerm()),) * 513)),
        "with 1026 terms, requirements and values",
    ),
    (affinity(requirement(values=[VALUE] * 260)), "with a node_affinity of [0-9]+ bytes; at most 65536 are allowed"),
]


@pytest.mark.parametrize(("change", "expected"), POD_LIMITS)
def test_a_change_of_the_pod_has_limits(change: PodChange, expected: str) -> None:
    with pytest.raises(NoAnswer, match=f"^before_filter returned a PodChange {expected}"):
        testing.before_filter(Changing(change), TestPod("shop"))
    with pytest.raises(NoAnswer, match=f"^before_score returned a PodChange {expected}"):
        testing.before_score(Changing(change), TestPod("shop"), [TestNode("a")])


def tainted(count: int) -> NodeChange:
    change = NodeChange()
    for number in range(count):
        change = change.add_taint(f"t{number}")
    return change


NODE_LIMITS: list[tuple[NodeChange, str]] = [
    (tainted(65), "with 65 entries; at most 64 are allowed"),
    (tainted(62).set_label("a", "").remove_label("b").remove_taint("c"), "with 65 entries"),
    (NodeChange().add_allocatable(others=MANY), "with 65 entries"),
    (NodeChange().add_usage(NodeUsage(Resources(others=MANY))), "with 65 entries"),
    (NodeChange().hold(others=MANY), "with 66 entries"),
    (NodeChange().hold(memory=-1), "with a negative amount in a hold"),
    (NodeChange().hold(""), "with a user of a hold that has a UID of 0 bytes; expected 1 to 64"),
    (NodeChange().hold(*map(str, range(1025))), "with 1025 users of holds; at most 1024 are allowed"),
    (NodeChange().set_label("", ""), "with a key of 0 bytes in set_labels"),
    (NodeChange().remove_label(KEY + "k"), "with a key of 318 bytes in remove_labels"),
    (NodeChange().add_taint(""), "with a key of 0 bytes in add_taints"),
    (NodeChange().remove_taint(""), "with a key of 0 bytes in remove_taints"),
    (NodeChange().add_allocatable(others={KEY + "k": 1}), "with a key of 318 bytes in add_allocatable"),
    (NodeChange().add_usage(NodeUsage(Resources(others={"": 1}))), "with a key of 0 bytes in add_usage"),
    (NodeChange().set_label("a", VALUE + "v"), "with a value of 257 bytes in set_labels"),
    (NodeChange().add_taint("a", VALUE + "v"), "with a value of 257 bytes in add_taints"),
    (NodeChange().remove_taint("a", VALUE + "v"), "with a value of 257 bytes in remove_taints"),
    (
        NodeChange().add_taint("a", effect=""),
        'with the effect "" in add_taints; expected one of NoSchedule, PreferNoSchedule, NoExecute',
    ),
]


@pytest.mark.parametrize(("change", "expected"), NODE_LIMITS)
def test_a_change_of_a_node_has_limits(change: NodeChange, expected: str) -> None:
    policy = Changing(of_node=lambda node: change)
    with pytest.raises(NoAnswer, match=f'^before_filter_node returned a NodeChange for node "a" {expected}'):
        testing.before_filter_nodes(policy, TestPod("shop"), [TestNode("a")])


def test_the_largest_changes_are_allowed() -> None:
    change = labels(61).set_label(KEY, VALUE).add_toleration(value=VALUE).set_node_selector(KEY, VALUE)
    change = change.set_node_affinity(NodeAffinity(required=(requirement(KEY, [""] * 1022),)))
    assert testing.before_filter(Changing(change), TestPod("shop")) == change
    of_node = tainted(62).set_label(KEY, VALUE).remove_taint(KEY, VALUE)
    changed = testing.before_filter_nodes(Changing(of_node=lambda node: of_node), TestPod("shop"), [TestNode("a")])
    assert changed == [("a", of_node)]


def test_all_changes_together_have_a_limit() -> None:
    def large(node: Node) -> NodeChange:
        change = NodeChange(node.name)
        for number in range(10):
            change = change.set_label(f"l{number}", VALUE)
        return change

    nodes = [TestNode(f"n{number}") for number in range(100)]
    with pytest.raises(
        NoAnswer, match="before_filter_nodes returned changes that take [0-9]+ bytes; at most 167936 are"
    ):
        testing.before_filter_nodes(Changing(of_node=large), TestPod("shop"), nodes)
    with pytest.raises(NoAnswer, match="before_score returned changes that take [0-9]+ bytes; at most 167936 are"):
        testing.before_score(Changing(of_node=large), TestPod("shop"), nodes)
    assert len(testing.before_filter_nodes(Changing(of_node=large), TestPod("shop"), nodes[:30])) == 30


def test_all_changes_together_have_a_number_of_entries() -> None:
    def many(node: Node) -> NodeChange:
        change = NodeChange()
        for number in range(64 if node.name != "n68" else 20):
            change = change.remove_label(f"{node.name}-{number}")
        return change

    # 64 entries of each of 68 nodes, and 20 of another one, are 4,372: 4,096 and 4 for each of 69 nodes.
    nodes = [TestNode(f"n{number}") for number in range(69)]
    assert len(testing.before_filter_nodes(Changing(of_node=many), TestPod("shop"), nodes)) == 69
    assert len(testing.before_score(Changing(of_node=many), TestPod("shop"), nodes)[1]) == 69
    with pytest.raises(NoAnswer, match="before_score returned changes with 4373 entries; at most 4372 are allowed"):
        testing.before_score(Changing(PodChange().remove_label("a"), many), TestPod("shop"), nodes)
    nodes = [TestNode(f"n{number}") for number in range(69, 138)]
    with pytest.raises(NoAnswer, match="before_filter_nodes returned changes with 4416 entries; at most 4372 are"):
        testing.before_filter_nodes(Changing(of_node=many), TestPod("shop"), nodes)


def test_before_filter_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # The limits of its parts are narrower.
    monkeypatch.setattr("extender_policy._hooks.MAX_POD_RESPONSE_BYTES", 100)
    with pytest.raises(
        NoAnswer, match="before_filter returned changes that take [0-9]+ bytes; at most 100 are allowed"
    ):
        testing.before_filter(Changing(PodChange().set_label("a", VALUE)), TestPod("shop"))


def test_changes_are_values() -> None:
    change = NodeChange("why").set_label("a", "b")
    assert (
        change.set_label("c", "d")
        != change
        == NodeChange("why").set_label("a", "b")
        != NodeChange().set_label("a", "b")
    )
    assert len({change, NodeChange("why").set_label("a", "b"), change.remove_label("a")}) == 2
    assert change.parts == {ChangedPart.NODE_LABELS}
    assert change.reason == "why"
    assert repr(change) == 'NodeChange(set_labels { key: "a" value: "b" } reason: "why")'
    assert PodChange() != NodeChange()
    assert PodChange().remove_node_affinity().set_node_affinity(NodeAffinity()) == PodChange().set_node_affinity(
        NodeAffinity()
    )
    assert PodChange().set_node_affinity(NodeAffinity()).remove_node_affinity() == PodChange().remove_node_affinity()
    with pytest.raises(TypeError, match="the reason is None; expected a text"):
        PodChange(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("operator", ["", "Equal", "Exists", "Lt", "Gt"])
def test_tolerations_have_the_operators_and_effects_of_kubernetes(operator: str) -> None:
    for effect in ("", "NoSchedule", "PreferNoSchedule", "NoExecute"):
        toleration = Toleration("dedicated", operator, "a", effect)
        added = PodChange().add_toleration(toleration)
        assert added == PodChange().add_toleration(**toleration._asdict()) != PodChange()


UNKNOWN_TOLERATIONS: list[tuple[dict[str, Any], str]] = [
    ({"operator": "Equals"}, 'the operator "Equals"; expected one of Equal, Exists, Lt, Gt, or "" for Equal'),
    ({"effect": "Nope"}, 'the effect "Nope"; expected one of NoSchedule, PreferNoSchedule, NoExecute, or "" for every'),
]


@pytest.mark.parametrize(("fields", "expected"), UNKNOWN_TOLERATIONS)
def test_other_tolerations_are_not_added(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=f"^add_toleration has {expected}"):
        PodChange().add_toleration(key="dedicated", **fields)
    with pytest.raises(ValueError, match=f"^add_toleration has {expected}"):
        PodChange().add_toleration(Toleration("dedicated", **fields))
    # The pod may have it.
    assert PodChange().remove_toleration(**fields).parts == {ChangedPart.POD_TOLERATIONS}


def test_a_toleration_is_a_value_or_its_fields() -> None:
    key: Any = "dedicated"
    for name, method in (
        ("add_toleration", PodChange().add_toleration),
        ("remove_toleration", PodChange().remove_toleration),
        ("toleration", TestPod("shop").toleration),
    ):
        takes = f'{name} takes a Toleration, or its fields by name, such as {name}(key="dedicated", operator="Exists")'
        with pytest.raises(TypeError, match=re.escape(f"{takes}; it was given 'dedicated'")):
            method(key)
        with pytest.raises(TypeError, match=re.escape(f"{takes}; it was given both")):
            method(Toleration("a"), operator="Exists")
        with pytest.raises(
            TypeError, match=f"^{name} does not know seconds; it takes key, operator, value, effect, tol"
        ):
            method(key="a", seconds=3)


def test_amounts_have_the_names_of_resources() -> None:
    for name, method in (
        ("add_requests", PodChange().add_requests),
        ("add_allocatable", NodeChange().add_allocatable),
        ("capacity", TestNode("a").capacity),
        ("allocatable", TestNode("a").allocatable),
        ("requests", TestPod("shop").requests),
    ):
        expected = (
            f"{name} does not know cpu; it takes milli_cpu, memory, ephemeral_storage, pods, others; "
            "CPU is milli_cpu, in thousandths: milli_cpu=4000 is 4 CPUs"
        )
        with pytest.raises(TypeError, match=f"^{expected}$"):
            method(cpu=4)


def test_what_is_taken_of_a_hold_may_have_a_limit() -> None:
    hold = NodeChange().hold("a", HoldUser("b", at_most=Resources(milli_cpu=500)), milli_cpu=4000)._message.holds[0]
    assert [(user.uid, user.HasField("at_most"), user.at_most.milli_cpu) for user in hold.users] == [
        ("a", False, 0),
        ("b", True, 500),
    ]
