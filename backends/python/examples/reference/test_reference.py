"""The answers that the reference policy has in every language."""

import pytest
from reference import build

from extender_policy import Bind, NodeChange, NodeUsage, PodChange, Resources, configured, testing
from extender_policy.testing import NoAnswer, TestCandidate, TestNode, TestPod

REFERENCE = testing.with_args(configured(build), '{"zone": "z1"}')


def test_the_first_rule_that_holds_rejects() -> None:
    pod = TestPod("shop").owner("web").requests(milli_cpu=500)
    large = {"milli_cpu": 1000}
    nodes = [
        TestNode("closed").label("zone", "z1").taint("k"),
        TestNode("tainted").taint("k").allocatable(milli_cpu=1),
        TestNode("full").running(pod, 3),
        TestNode("crowded").allocatable(**large).running(pod, 3),
        TestNode("free").allocatable(**large).running(pod, 2).taint("k", "", "PreferNoSchedule"),
    ]
    found = [(node, *rejected) for node, rejected in testing.rejections(REFERENCE, pod, nodes)]
    assert found == [
        ("closed", "zone is closed", "zone", False),
        ("tainted", "taint is not tolerated", "taints", False),
        ("full", "not enough CPU", "cpu", True),
        ("crowded", "too many pods of one owner", "owner", False),
    ]


def test_scores_are_clamped() -> None:
    pod = TestPod("shop").label("app", "z2")
    nodes = [
        TestNode("a").allocatable(milli_cpu=1999).label("zone", "z2").taint("k"),
        TestNode("b").allocatable(milli_cpu=1 << 62),
        TestNode("c").allocatable(milli_cpu=-500),
    ]
    tainted = TestNode("d")
    for _ in range(30):
        tainted = tainted.taint("k")
    assert testing.score(REFERENCE, pod, [*nodes, tainted]) == [19 - 50 + 10, 1_000_000, 0, -1000]


def test_only_lower_priorities_are_evicted() -> None:
    pod = TestPod("shop").priority(5)
    candidates = [
        TestCandidate(TestNode("a")).victim("u1", TestPod("x").priority(3)).victim("u2", TestPod("x").priority(5)),
        TestCandidate(TestNode("b")).victim("u3"),
    ]
    assert testing.preempt(REFERENCE, pod, candidates) == [("a", ["u1"])]


def test_system_pods_are_bound_elsewhere() -> None:
    assert testing.bind(REFERENCE, TestPod("system"), "a") == Bind.declined("namespace system is bound elsewhere")
    assert testing.bind(REFERENCE, TestPod("shop"), "a") == Bind.BOUND
    with pytest.raises(NoAnswer, match="node broken refuses pods"):
        testing.bind(REFERENCE, TestPod("shop"), "broken")


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (TestPod("shop"), None),
        (TestPod("shop").label("app", "z1"), PodChange("the zone is no app").remove_label("app")),
        (
            TestPod("shop").label("app", "web"),
            PodChange("apps need more")
            .add_requests(milli_cpu=500)
            .set_node_selector("zone", "z1")
            .add_toleration(key="app", operator="Exists"),
        ),
    ],
)
def test_apps_need_more(pod: TestPod, expected: PodChange | None) -> None:
    assert testing.before_filter(REFERENCE, pod) == expected


def test_nodes_are_reserved_before_they_are_filtered() -> None:
    nodes = [TestNode("a"), TestNode("b").label("zone", "web"), TestNode("c").label("zone", "z1"), TestNode("d")]
    unzoned = NodeChange().add_taint("zone", effect="PreferNoSchedule").remove_taint("zoneless")
    slots = {"example.com/slots": 1}
    reserved = NodeChange("reserved for the app").add_allocatable(milli_cpu=1000, others=slots)
    without_app = [("a", unzoned), ("d", unzoned)]
    assert testing.before_filter_nodes(REFERENCE, TestPod("shop"), nodes) == without_app
    found = testing.before_filter_nodes(REFERENCE, TestPod("shop").label("app", "web"), nodes)
    assert found == [("a", unzoned), ("b", reserved), ("d", unzoned)]


def test_a_zone_is_closed_before_scores() -> None:
    nodes = [TestNode("a"), TestNode("b").label("zone", "z1"), TestNode("c").label("zone", "z2")]
    usage = NodeUsage(Resources(milli_cpu=-100, pods=-1))
    closed = NodeChange("closed").set_label("zone", "closed").add_usage(usage)
    changed = [("a", NodeChange().remove_label("zone")), ("b", closed)]
    assert testing.before_score(REFERENCE, TestPod("shop"), nodes) == (None, changed)
    pod = TestPod("shop").label("app", "web")
    assert testing.before_score(REFERENCE, pod, nodes) == (PodChange().set_label("app", "z1"), changed)


def test_the_args_are_shown() -> None:
    assert testing.introspect(REFERENCE, "/args") == {"zone": "z1", "most": 3}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("{}", "args: missing field `zone`, expected a text"),
        ('{"zone": "a", "most": 0}', "args.most: invalid value: 0, expected a number from 1 to 1000"),
        ('{"zone": "a", "more": 1}', "args.more: unknown field `more`, expected `most` or `zone`"),
    ],
)
def test_wrong_args_are_named(args: str, expected: str) -> None:
    with pytest.raises(NoAnswer) as raised:
        testing.with_args(configured(build), args)
    assert str(raised.value) == expected
