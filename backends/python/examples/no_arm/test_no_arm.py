"""The README's test."""

from no_arm import ARCH, NoArm

from extender_policy import testing
from extender_policy.testing import TestNode, TestPod


def test_arm_is_rejected() -> None:
    nodes = [TestNode(arch).label(ARCH, arch) for arch in ("amd64", "arm64")]
    assert testing.filter(NoArm(), TestPod("shop"), nodes) == [("arm64", "arm64 nodes are not in use yet")]
