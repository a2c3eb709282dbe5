"""The other answers of the reference policy are compared with those of the other languages."""

import pytest
from reference import build

from extender_policy import Bind, configured, testing
from extender_policy.testing import NoAnswer, TestPod

REFERENCE = testing.with_args(configured(build), '{"zone": "z1"}')


def test_system_pods_are_bound_elsewhere() -> None:
    assert testing.bind(REFERENCE, TestPod("system"), "a") == Bind.declined("namespace system is bound elsewhere")
    assert testing.bind(REFERENCE, TestPod("shop"), "a") == Bind.BOUND
    with pytest.raises(NoAnswer, match="node broken refuses pods"):
        testing.bind(REFERENCE, TestPod("shop"), "broken")
