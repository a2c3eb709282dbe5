"""The policy without a server."""

import pytest
from policy import build

from extender_policy import configured, testing
from extender_policy.testing import NoAnswer, TestNode, TestPod


def test_nodes_of_closed_zones_are_rejected() -> None:
    policy = testing.with_args(configured(build), '{"label": "zone", "closed": ["a"]}')
    nodes = [TestNode("n1").label("zone", "a"), TestNode("n2").label("zone", "b"), TestNode("n3")]
    assert testing.filter(policy, TestPod("shop"), nodes) == [("n1", "zone is closed")]


def test_wrong_args_are_named() -> None:
    with pytest.raises(NoAnswer, match="close"):
        testing.with_args(configured(build), '{"label": "zone", "close": ["a"]}')
