"""The README shows what is in the examples."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import extender_policy
from extender_policy import Backend, NodeChange, NodePart, Outcome, OutcomeKind, PodChange, PodPart, testing
from extender_policy._api.v1beta1 import info_pb2
from extender_policy.testing import TestNode, TestPod

ROOT = Path(__file__).resolve().parent.parent


def test_the_first_policy_is_the_example() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    for shown, name in zip(blocks, ("no_arm.py", "test_no_arm.py"), strict=False):
        assert shown == (ROOT / "examples" / "no_arm" / name).read_text()
    lines = sum(block.count("\n") for block in blocks[:2])
    assert lines < 40


def shown(name: str, *arguments: object) -> Any:
    """A policy of the README."""
    text = (ROOT / "README.md").read_text()
    (block,) = (
        found
        for found in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        if re.search(rf"(class|def) {name}\(", found)
    )
    names = {**vars(extender_policy), "Callable": Callable, "threading": threading, "time": time}
    exec(block, names)
    return names[name](*arguments)


def test_the_policy_with_a_clock_works() -> None:
    now = 2 * 3600.0
    backend = Backend(shown("Windows", lambda: now))
    nodes = [TestNode(hour).label("maintenance-hour", hour) for hour in ("02", "03")]
    assert testing.filter(backend, TestPod("shop"), nodes) == [("02", "maintenance window is open")]
    before = testing.info(backend)
    now += 3599
    assert testing.info(backend) == before
    now += 1
    assert testing.info(backend).revision != before.revision
    assert testing.info(backend).verbs[0].effects == info_pb2.EFFECTS_PURE
    assert testing.filter(backend, TestPod("shop"), nodes) == [("03", "maintenance window is open")]


def test_free_cpu_is_scored() -> None:
    shown("test_free_cpu")


def test_the_table_of_parts_is_complete() -> None:
    rows = re.findall(r"^\| `(\w+)Part\.(.*?) \| (.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    found = [(kind, name, read) for kind, names, read in rows for name in re.findall(r"\w+", names)]
    assert {one[:2] for one in found} == {(type(part).__name__[:-4], part.name) for part in (*NodePart, *PodPart)}
    same = [getattr(extender_policy, kind).__dict__[name.lower()] for kind, name, read in found if "lower case" in read]
    assert len(same) == 33


def test_the_hooks_work() -> None:
    pod = TestPod("shop").label("team", "a")
    nodes = [TestNode("a").label("reserved-for", "a"), TestNode("b").label("reserved-for", "b")]
    reserved = NodeChange("reserved for the team").add_allocatable(milli_cpu=2000)
    assert testing.before_filter_nodes(shown("Reserve"), pod, nodes) == [("a", reserved)]
    tolerates = PodChange("nodes of the team").add_requests(milli_cpu=500, others={"example.com/slots": 1})
    assert testing.before_filter(shown("Dedicated"), pod) == tolerates.add_toleration(
        key="dedicated", operator="Equal", value="a", effect="NoSchedule"
    )
    assert testing.before_filter(shown("Dedicated"), TestPod("shop")) is None


def test_the_licences_follow_the_outcomes() -> None:
    policy = shown("Licences", 1)

    def is_accepted(uid: str, call: str = "c1") -> bool:
        return testing.filter(policy, TestPod("shop").identity("web", uid).call_id(call), [TestNode("a")]) == []

    end = Outcome("c1", "shop", "web", "u1", OutcomeKind.NOT_BOUND)
    assert (is_accepted("u1"), is_accepted("u2"), is_accepted("u1")) == (True, False, True)
    testing.observe(policy, end, end)
    assert (is_accepted("u2"), is_accepted("u2", "c2")) == (True, True)
    end = end._replace(uid="u2", kind=OutcomeKind.SUPERSEDED)
    # The second call has taken the licence again.
    testing.observe(policy, end, end._replace(kind=OutcomeKind.NOT_BOUND))
    assert not is_accepted("u1")
    testing.observe(policy, end._replace(call="c2"))
    assert (is_accepted("u1"), is_accepted("u2")) == (True, False)
    bound = end._replace(uid="u1", call="c0", kind=OutcomeKind.BOUND, node="a")
    testing.observe(policy, bound, *(end._replace(uid="u1", call=call) for call in ("c0", "c1")))
    assert not is_accepted("u2")
    testing.observe(policy, end._replace(uid="u1", call="c0", kind=OutcomeKind.DELETED))
    assert is_accepted("u2")
