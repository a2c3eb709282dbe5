"""The answers do not depend on the declaration."""

import pytest
from label_score import build

from extender_policy import configured, testing
from extender_policy.testing import TestNode, TestPod

ARGS = """{
    "refuse": {"key": "rack", "value": "r7"},
    "prefer": [{"key": "zone", "value": "a", "score": 3}, {"key": "rack", "value": "r1", "score": -1}],
    "declare": "%s"
}"""


@pytest.mark.parametrize("declare", ["Pure", "PerNode", "WholeSet"])
def test_labels_reject_and_score(declare: str) -> None:
    policy = testing.with_args(configured(build), ARGS % declare)
    nodes = [
        TestNode("refused").label("rack", "r7"),
        TestNode("both").label("rack", "r1").label("zone", "a"),
        TestNode("bare"),
    ]
    assert testing.filter(policy, TestPod("shop"), nodes) == [("refused", "label rack is r7")]
    assert testing.score(policy, TestPod("shop"), nodes) == [0, 2, 0]
