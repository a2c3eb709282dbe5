"""The README shows what is in the examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import extender_policy
from extender_policy import NodeChange, PodChange, testing
from extender_policy.testing import TestNode, TestPod

ROOT = Path(__file__).resolve().parent.parent


def test_the_first_policy_is_the_example() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    for shown, name in zip(blocks, ("no_arm.py", "test_no_arm.py"), strict=False):
        assert shown == (ROOT / "examples" / "no_arm" / name).read_text()
    lines = sum(block.count("\n") for block in blocks[:2])
    assert lines < 40


def shown(name: str) -> Any:
    """A policy of the README."""
    text = (ROOT / "README.md").read_text()
    (block,) = (found for found in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if f"class {name}(" in found)
    names = dict(vars(extender_policy))
    exec(block, names)
    return names[name]()


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
