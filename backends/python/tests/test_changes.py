"""What hooks may change, and how much: the checks of what a policy returned."""

from __future__ import annotations

import re
from typing import Any

import pytest

from extender_policy import (
    ChangedPart,
    HoldUser,
    NodeAffinity,
    NodeChange,
    PodAffinity,
    PodChange,
    Resources,
    Toleration,
)
from extender_policy.testing import TestNode, TestPod


@pytest.mark.parametrize("effect", ["", "NoSchedul"])
def test_a_taint_has_an_effect_of_kubernetes(effect: str) -> None:
    with pytest.raises(ValueError, match=f'add_taint has the effect "{effect}"; expected one of NoSchedule'):
        NodeChange().add_taint("a", effect=effect)


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
    # What replaces by nothing is a change.
    assert PodChange().pod_affinity(PodAffinity()).parts == {ChangedPart.POD_AFFINITY}
    assert PodChange().topology_spread().parts == {ChangedPart.POD_TOPOLOGY_SPREAD}
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
