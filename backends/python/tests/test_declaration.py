"""What a policy declares about itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from extender_policy import (
    Backend,
    ChangedPart,
    DeclarationError,
    Hook,
    Info,
    NodePart,
    Normalization,
    PodPart,
    Policy,
    Reads,
    Scale,
    Server,
    Verb,
    testing,
)
from extender_policy._api.v1beta1 import info_pb2
from extender_policy._declaration import Declaration

NODE_TABLE = "extender.policy.v1beta1.NodeTableService"
WATCH = "extender.policy.v1beta1.WatchService"


def pure() -> Info:
    return Info("p", "1").filters(Verb.per_node().pure())


def scores(scale: Scale) -> Info:
    return Info("p", "1").scores(Verb.per_node(), scale)


def before_filter(hook: Hook) -> Info:
    return Info("p", "1").before_filter(hook)


def before_filter_nodes(hook: Hook) -> Info:
    return Info("p", "1").before_filter_nodes(hook)


def before_score(hook: Hook) -> Info:
    return Info("p", "1").before_score(hook)


POD_LABELS = Hook.of_pod().changes(ChangedPart.POD_LABELS)
NODE_LABELS = Hook.per_node().changes(ChangedPart.NODE_LABELS)


@pytest.mark.parametrize("bounds", [(0, 2**40), (-(2**31) - 1, 0), (0, 0.5)])
def test_the_bounds_of_a_scale_are_integers_of_32_bits(bounds: tuple[Any, Any]) -> None:
    with pytest.raises(DeclarationError, match=f"the scale is {bounds[0]} to {bounds[1]}; expected integers from"):
        Declaration(scores(Scale.between(*bounds)))
    Declaration(scores(Scale.between(-(2**31), 2**31 - 1)))
    with pytest.raises(DeclarationError, match=r"Scale.between\(10, 0\): the least score is larger than the largest"):
        Declaration(scores(Scale.between(10, 0)))


def test_a_verb_that_is_pure_has_no_side_effects() -> None:
    both = Verb.per_node().pure().side_effects()
    with pytest.raises(DeclarationError) as raised:
        Declaration(pure().preempts(both).filters(both))
    assert sorted(raised.value.mistakes) == [
        f"Info.{declared} has a verb with pure() and side_effects(); expected at most one of them"
        for declared in ("filters", "preempts")
    ]


def test_of_two_equal_paths_the_first_is_shown() -> None:
    info = pure().shows("/a", "first", lambda _: 1).shows("/a", "second", lambda _: 2)
    assert Declaration(info).shown["/a"].description == "first"


def test_what_no_gateway_can_reject_is_named() -> None:
    shows: Any = 3
    with pytest.raises(DeclarationError) as raised:
        Declaration(Info("p", "1").shows("/a", "a", shows))
    assert raised.value.mistakes[0].startswith("no verb is declared; call Info.filters, Info.scores")
    assert raised.value.mistakes[1] == (
        'the path "/a" has no function; give Info.shows one that returns what the path shows'
    )


@pytest.mark.parametrize(
    ("declare", "given", "expected"),
    [
        (
            Info.filters,
            Hook.per_node(),
            "Info.filters takes a Verb, such as Verb.per_node(); it was given a value of type",
        ),
        (
            Info.preempts,
            Hook.per_node(),
            "Info.preempts takes a Verb, such as Verb.per_node(); it was given a value of",
        ),
        (Info.binds, Verb.per_node(), "Info.binds takes a Reads, or nothing; it was given a value of type Verb"),
        (Info.before_filter, Verb.per_node(), "Info.before_filter takes a Hook, such as Hook.of_pod(); it was given a"),
        (
            Info.before_filter_nodes,
            Verb.per_node(),
            "Info.before_filter_nodes takes a Hook, such as Hook.per_node(); it was given a value of type Verb",
        ),
        (Info.before_score, "hook", "Info.before_score takes a Hook, such as Hook.per_node(); it was given a value of"),
    ],
)
def test_a_hook_is_no_verb(declare: Callable[[Info, Any], Info], given: Any, expected: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        declare(Info("p", "1"), given)
    assert expected in str(raised.value)


def test_scores_take_a_verb_and_a_scale() -> None:
    unfit: Any = Hook.per_node()
    with pytest.raises(DeclarationError, match=r"Info.scores takes a Verb, such as Verb.per_node\(\)"):
        Info("p", "1").scores(unfit, Scale.unbounded())
    with pytest.raises(DeclarationError, match=r"Info.scores takes also a Scale, such as Scale.unbounded\(\)"):
        Info("p", "1").scores(Verb.per_node(), unfit)


class Nothing(Policy):
    """Has no methods, whatever it declares."""

    def __init__(self, info: Info) -> None:
        self._info = info

    def info(self) -> Info:
        return self._info


NO_METHODS: list[tuple[Info, str, tuple[str, ...]]] = [
    (
        Info("p", "1").filters(Verb.per_node()),
        "Info.filters",
        ("filter(self, pod, node)", "filter_all(self, pod, nodes)"),
    ),
    (scores(Scale.unbounded()), "Info.scores", ("score(self, pod, node)", "score_all(self, pod, nodes)")),
    (
        Info("p", "1").preempts(Verb.per_node()),
        "Info.preempts",
        ("preempt(self, pod, candidate)", "preempt_all(self, pod, candidates)"),
    ),
    (Info("p", "1").binds(), "Info.binds", ("bind(self, ask)",)),
    (before_filter(POD_LABELS), "Info.before_filter", ("before_filter(self, pod)",)),
    (
        before_filter_nodes(NODE_LABELS),
        "Info.before_filter_nodes",
        ("before_filter_node(self, pod, node)", "before_filter_nodes(self, pod, nodes)"),
    ),
    (before_score(NODE_LABELS), "Info.before_score", ("before_score(self, pod, nodes)",)),
]


@pytest.mark.parametrize(("info", "declared", "methods"), NO_METHODS)
def test_what_is_declared_has_a_method(info: Info, declared: str, methods: tuple[str, ...]) -> None:
    expected = f"Nothing declares {declared} and has no method for it; write {' or '.join(methods)}, or remove"
    for made in (Server, Backend, testing.info, testing.everything):
        with pytest.raises(DeclarationError) as raised:
            made(Nothing(info))
        assert expected in str(raised.value)
    # Each of them is enough, wherever it comes from.
    for method in methods:
        name = method.partition("(")[0]
        written = type("Written", (Nothing,), {name: lambda self, *arguments: None})
        Backend(type("Inherits", (written,), {})(info))
        given = Nothing(info)
        setattr(given, name, lambda *arguments: None)
        Backend(given)


def test_a_coroutine_function_needs_the_other_server() -> None:
    class Waits(Policy):
        def info(self) -> Info:
            return Info("waits", "1").binds()

        async def bind(self, ask: object) -> object:  # type: ignore[override]
            return None

    with pytest.raises(DeclarationError, match="bind: coroutine functions, .* use run_async or serve_async"):
        Server(Waits())


NODE_READS: list[tuple[Reads, bool]] = [
    (Reads(), False),
    (Reads().node(NodePart.NAME), False),
    (Reads().node(NodePart.USAGE), True),
    (Reads().node(NodePart.NAME, NodePart.RAW_JSON), True),
    (Reads.everything(), True),
]


@pytest.mark.parametrize(("reads", "has_table"), NODE_READS)
def test_there_are_tables_of_more_than_names(reads: Reads, has_table: bool) -> None:
    response = Declaration(Info("p", "1").filters(Verb.per_node().reads(reads))).response
    assert (NODE_TABLE in response.services) == has_table


def test_a_verb_that_declares_nothing_reads_nothing() -> None:
    hooks = Info("p", "1").before_filter(POD_LABELS).before_filter_nodes(NODE_LABELS).before_score(NODE_LABELS)
    verb = Verb.whole_set()
    response = Declaration(hooks.filters(verb).scores(verb, Scale.unbounded()).preempts(verb).binds()).response
    assert len(response.verbs) == 7
    assert all(verb.HasField("reads") and not verb.reads.ByteSize() for verb in response.verbs)


def test_a_verb_without_nodes_reads_everything_of_the_pod() -> None:
    hook = POD_LABELS.reads(Reads.everything().node(NodePart.USAGE).pod(PodPart.IDENTITY))
    response = Declaration(before_filter(hook).binds(Reads.everything())).response
    of_pod = info_pb2.PodReads(everything=True)
    assert response.verbs[0].reads == info_pb2.Reads(pod=of_pod)
    assert response.verbs[1].reads == info_pb2.Reads(
        pod=info_pb2.PodReads(everything=True, parts=["POD_PART_IDENTITY"])
    )
    # The gateway rejects what else is declared about nodes, so it must see it.
    bind = Declaration(Info("p", "1").binds(Reads().node(NodePart.NAME))).response.verbs[0]
    assert list(bind.reads.node.parts) == [info_pb2.NODE_PART_NAME]


def test_the_handshake_has_everything_that_is_declared() -> None:
    info = (
        Info("p", "1.2.3")
        .filters(Verb.whole_set().side_effects().reads(Reads.everything()))
        .scores(Verb.per_node(), Scale.unbounded().normalize(Normalization.MIN_MAX).reversed())
        .without_node_table()
        .binds(Reads().pod(PodPart.OWNER))
    )
    response = Declaration(info).response
    assert (response.revision, list(response.services)) == ("1.2.3", [WATCH])
    filters, score, bind = response.verbs
    assert (filters.scope, filters.reads.node.everything) == (info_pb2.SCOPE_WHOLE_SET, True)
    assert (filters.effects, score.effects) == (info_pb2.EFFECTS_CHANGES_OUTSIDE, info_pb2.EFFECTS_READS_OUTSIDE)
    assert score.scope == info_pb2.SCOPE_NODE
    assert (score.normalization, score.reversed) == (info_pb2.NORMALIZATION_MIN_MAX, True)
    assert (bind.verb, list(bind.reads.pod.parts)) == (info_pb2.VERB_BIND, [info_pb2.POD_PART_OWNER])
    bounds = Declaration(scores(Scale.between(-3, 7))).response.verbs[0]
    assert (bounds.score_min, bounds.score_max) == (-3, 7)


def test_hooks_are_declared_like_verbs() -> None:
    reads = Reads().node(NodePart.USAGE)
    reads.node_label("zone")
    info = (
        Info("p", "1")
        .before_filter(POD_LABELS.pure().changes(ChangedPart.POD_REQUESTS, ChangedPart.POD_LABELS))
        .before_filter_nodes(Hook.whole_set().reads(reads).changes(ChangedPart.NODE_TAINTS))
        .before_score(NODE_LABELS)
    )
    response = Declaration(info).response
    assert list(response.services) == [NODE_TABLE, "extender.policy.v1beta1.HookService", WATCH]
    of_pod, of_nodes, score = response.verbs
    assert (of_pod.verb, of_pod.effects) == (info_pb2.VERB_BEFORE_FILTER, info_pb2.EFFECTS_PURE)
    assert list(of_pod.changes) == [info_pb2.CHANGED_PART_POD_LABELS, info_pb2.CHANGED_PART_POD_REQUESTS]
    assert (of_nodes.verb, of_nodes.scope) == (info_pb2.VERB_BEFORE_FILTER_NODES, info_pb2.SCOPE_WHOLE_SET)
    assert of_nodes.effects == info_pb2.EFFECTS_READS_OUTSIDE
    assert list(of_nodes.reads.node.labels.keys) == ["zone"]
    assert (score.verb, score.scope) == (info_pb2.VERB_BEFORE_SCORE, info_pb2.SCOPE_NODE)
    assert list(score.changes) == [info_pb2.CHANGED_PART_NODE_LABELS]


def test_verbs_come_in_the_order_of_their_numbers_and_a_declaration_is_a_key() -> None:
    hooks = Info("p", "1").before_filter(POD_LABELS)
    one = hooks.binds().scores(Verb.per_node(), Scale.unbounded()).filters(Verb.per_node())
    two = hooks.filters(Verb.per_node()).scores(Verb.per_node(), Scale.unbounded()).binds()
    assert [verb.verb for verb in Declaration(one).response.verbs] == [
        info_pb2.VERB_FILTER,
        info_pb2.VERB_SCORE,
        info_pb2.VERB_BIND,
        info_pb2.VERB_BEFORE_FILTER,
    ]
    assert {one: "the same"}[two] == "the same"


def test_without_hooks_their_service_is_not_listed() -> None:
    response = Declaration(pure()).response
    assert list(response.services) == [WATCH]
    assert not response.verbs[0].changes


def test_parts_of_something_else_are_not_changed() -> None:
    with pytest.raises(TypeError, match="is no ChangedPart"):
        Hook.of_pod().changes(PodPart.REQUESTS)  # type: ignore[arg-type]


def test_a_hook_that_waits_needs_the_other_server() -> None:
    class Waits(Policy):
        def info(self) -> Info:
            return before_filter_nodes(NODE_LABELS)

        async def before_filter_node(self, pod: object, node: object) -> None:
            return None

    with pytest.raises(DeclarationError, match="before_filter_node: coroutine functions, .* use run_async"):
        Server(Waits())
