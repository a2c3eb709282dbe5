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
    PodsBy,
    Policy,
    Reads,
    Scale,
    Server,
    Verb,
    View,
    testing,
)
from extender_policy._api.v1alpha1 import info_pb2
from extender_policy._declaration import Declaration


def pure() -> Info:
    return Info("p", "1").filters(Verb.per_node().pure())


def scores(scale: Scale) -> Info:
    return Info("p", "1").scores(Verb.per_node(), scale)


def identity() -> Reads:
    return Reads().pod(PodPart.IDENTITY)


def topology() -> Reads:
    reads = Reads()
    reads.pods_by_topology(PodsBy.OWNER, "")
    return reads


def before_filter(hook: Hook) -> Info:
    return Info("p", "1").before_filter(hook)


def before_filter_nodes(hook: Hook) -> Info:
    return Info("p", "1").before_filter_nodes(hook)


def before_score(hook: Hook) -> Info:
    return Info("p", "1").before_score(hook)


POD_LABELS = Hook.of_pod().changes(ChangedPart.POD_LABELS)
NODE_LABELS = Hook.per_node().changes(ChangedPart.NODE_LABELS)


def nodes() -> Reads:
    return Reads().node(NodePart.TAINTS)


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        (Info("p", "1"), "no verb is declared; call Info.filters, Info.scores, Info.preempts or Info.binds"),
        (Info("", "1").filters(Verb.per_node()), "name has 0 bytes; expected 1 to 63"),
        (Info("n" * 64, "1").filters(Verb.per_node()), "name has 64 bytes"),
        (Info("p", "").filters(Verb.per_node()), "version has 0 bytes"),
        (pure().revision("ä" * 33), "revision has 66 bytes; expected 1 to 64"),
        (Info("p", "1").preempts(Verb.per_node().pure()), "preempt cannot be pure"),
        (pure().raw_pod(), "filter is pure and has Info.raw_pod"),
        (pure().filters(Verb.whole_set().pure()), "has Verb.whole_set"),
        (pure().filters(Verb.per_node().pure().side_effects()), "has Verb.side_effects"),
        (pure().filters(Verb.per_node().pure().view(View.FACTS_AND_RAW)), "has View.FACTS_AND_RAW"),
        (pure().filters(Verb.per_node().view(View.NAME).usage()), "filter has Verb.usage and View.NAME"),
        (pure().preempts(Verb.per_node().usage().view(View.NAME)), "preempt has Verb.usage"),
        (scores(Scale.unbounded().reversed()), "a reversed scale requires a normalization"),
        (scores(Scale.unbounded().normalize(Normalization.RANGE)), "needs Scale.between"),
        (scores(Scale.between(3, 3).normalize(Normalization.RANGE)), "two different bounds"),
        (scores(Scale.between(1, 0)), "the scale 1..=0 is empty"),
        (scores(Scale.between(0, 1 << 31)), "is too large; expected whole numbers of 32 bits"),
        (pure().filters(Verb.per_node().pure().reads(identity())), "filter is pure and reads PodPart.IDENTITY"),
        (pure().filters(Verb.per_node().view(View.NAME).reads(nodes())), "filter reads nodes and has View.NAME"),
        (pure().binds(nodes()), "bind reads nodes, but is sent only their names"),
        (pure().binds(topology()), "bind reads counts by topology, which only filter and score are sent"),
        (before_filter(Hook.of_pod()), "before_filter declares no changes; declare what it changes with Hook.changes"),
        (before_filter_nodes(Hook.per_node()), "before_filter_nodes declares no changes"),
        (before_score(Hook.per_node()), "before_score declares no changes"),
        (
            before_filter(POD_LABELS.changes(ChangedPart.NODE_USAGE, ChangedPart.NODE_LABELS)),
            "before_filter changes NODE_LABELS, NODE_USAGE, but can only change the pod; remove them from Hook.changes",
        ),
        (
            before_filter_nodes(NODE_LABELS.changes(ChangedPart.POD_REQUESTS)),
            "before_filter_nodes changes POD_REQUESTS, but can only change nodes",
        ),
        (
            before_score(NODE_LABELS.pure().changes(ChangedPart.POD_LABELS)),
            "before_score is pure and changes POD_LABELS, but a pure before_score can only change nodes; remove one",
        ),
        (before_filter(POD_LABELS.reads(topology())), "before_filter reads counts by topology"),
        (before_filter_nodes(NODE_LABELS.reads(topology())), "before_filter_nodes reads counts by topology"),
        (before_score(NODE_LABELS.reads(topology())), "before_score reads counts by topology, which only filter and"),
        (before_filter(POD_LABELS.reads(nodes())), "before_filter reads nodes, but is called without them"),
        (before_filter(POD_LABELS.reads(Reads().node(NodePart.NAME))), "before_filter reads nodes, but is called"),
        (before_filter(POD_LABELS.usage()), "before_filter has Hook.usage, but is called without nodes"),
        (before_filter(POD_LABELS.view(View.FACTS)), "before_filter is called without nodes; declare it with Hook.of_"),
        (
            before_filter(Hook.whole_set().view(View.NAME).changes(ChangedPart.POD_LABELS)),
            "before_filter is called without nodes; declare it with Hook.of_pod",
        ),
        (before_filter(POD_LABELS.pure()).raw_pod(), "before_filter is pure and has Info.raw_pod"),
        (before_filter(POD_LABELS.pure().reads(identity())), "before_filter is pure and reads PodPart.IDENTITY"),
        (
            before_filter_nodes(Hook.whole_set().pure().changes(ChangedPart.NODE_LABELS)),
            "before_filter_nodes is pure and has Hook.whole_set; remove one",
        ),
        (before_score(NODE_LABELS.usage().view(View.NAME)), "before_score has Hook.usage and View.NAME"),
        (before_score(NODE_LABELS.view(View.NAME).reads(nodes())), "before_score reads nodes and has View.NAME"),
        (
            before_filter_nodes(Hook.of_pod().changes(ChangedPart.NODE_LABELS)),
            "before_filter_nodes is declared with Hook.of_pod, which is for before_filter; use Hook.per_node or",
        ),
        (
            before_score(Hook.of_pod().changes(ChangedPart.POD_LABELS)),
            "before_score is declared with Hook.of_pod, which is for before_filter; use Hook.per_node or",
        ),
        (
            before_score(Hook(Verb.per_node().side_effects(), NODE_LABELS.changed)),
            "before_score has side effects, which hooks must not have; remove Verb.side_effects",
        ),
    ],
)
def test_each_mistake_is_named(info: Info, expected: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        Declaration(info)
    assert expected in str(raised.value)


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


def test_all_mistakes_come_together_when_the_server_is_made() -> None:
    class Wrong(Policy):
        def info(self) -> Info:
            return Info("", "1").scores(Verb.whole_set().pure(), Scale.unbounded().reversed())

        def score(self, pod: object, node: object) -> int:
            return 0

    with pytest.raises(DeclarationError) as raised:
        Server(Wrong())
    assert len(raised.value.mistakes) == 3
    assert str(raised.value).startswith("invalid policy info: name has 0 bytes; expected 1 to 63; score is pure")


def test_a_coroutine_function_needs_the_other_server() -> None:
    class Waits(Policy):
        def info(self) -> Info:
            return Info("waits", "1").binds()

        async def bind(self, ask: object) -> object:  # type: ignore[override]
            return None

    with pytest.raises(DeclarationError, match="bind: coroutine functions, .* use run_async or serve_async"):
        Server(Waits())


def test_nodes_of_which_nothing_is_read_are_names() -> None:
    def declared(verb: Verb) -> tuple[int, int]:
        response = Declaration(Info("p", "1").filters(verb.reads(Reads()))).response
        return response.verbs[0].node_view, len(response.services)

    assert declared(Verb.per_node()) == (info_pb2.NODE_VIEW_NAME, 0)
    assert declared(Verb.per_node().usage()) == (info_pb2.NODE_VIEW_FACTS, 1)
    assert declared(Verb.per_node().view(View.FACTS_AND_RAW)) == (info_pb2.NODE_VIEW_FACTS_AND_RAW, 1)


def test_names_alone_need_no_facts() -> None:
    def declared(verb: Verb) -> tuple[int, list[int] | None]:
        reads = Reads().node(NodePart.NAME)
        message = Declaration(Info("p", "1").filters(verb.reads(reads))).response.verbs[0]
        has_node = message.reads.HasField("node")
        return message.node_view, list(map(int, message.reads.node.parts)) if has_node else None

    assert declared(Verb.per_node()) == (info_pb2.NODE_VIEW_NAME, None)
    assert declared(Verb.per_node().view(View.NAME)) == (info_pb2.NODE_VIEW_NAME, None)
    assert declared(Verb.per_node().usage()) == (info_pb2.NODE_VIEW_FACTS, [6])


def test_the_handshake_has_everything_that_is_declared() -> None:
    info = (
        Info("p", "1.2.3")
        .filters(Verb.whole_set().side_effects().view(View.NAME))
        .scores(Verb.per_node(), Scale.unbounded().normalize(Normalization.MIN_MAX).reversed())
        .annotations("acme.io/")
        .annotations("b", "c")
        .raw_pod()
        .without_node_table()
        .binds(Reads())
    )
    response = Declaration(info).response
    assert (response.revision, response.pod_raw, list(response.services)) == ("1.2.3", True, [])
    assert list(response.annotation_prefixes) == ["acme.io/", "b", "c"]
    filters, score, bind = response.verbs
    assert (filters.scope, filters.node_view) == (info_pb2.SCOPE_WHOLE_SET, info_pb2.NODE_VIEW_NAME)
    assert (filters.side_effects, score.scope) == (True, info_pb2.SCOPE_NODE)
    assert (score.normalization, score.reversed) == (info_pb2.NORMALIZATION_MIN_MAX, True)
    assert (bind.verb, bind.HasField("reads"), bind.node_view) == (info_pb2.VERB_BIND, True, 0)
    bounds = Declaration(scores(Scale.between(-3, 7))).response.verbs[0]
    assert (bounds.score_min, bounds.score_max) == (-3, 7)


def test_hooks_are_declared_like_verbs() -> None:
    reads = Reads()
    reads.node_label("zone")
    info = (
        Info("p", "1")
        .before_filter(POD_LABELS.pure().changes(ChangedPart.POD_REQUESTS, ChangedPart.POD_LABELS))
        .before_filter_nodes(Hook.whole_set().usage().reads(reads).changes(ChangedPart.NODE_TAINTS))
        .before_score(NODE_LABELS.view(View.NAME))
    )
    response = Declaration(info).response
    assert list(response.services) == [
        "extender.policy.v1alpha1.NodeTableService",
        "extender.policy.v1alpha1.HookService",
    ]
    of_pod, of_nodes, score = response.verbs
    assert (of_pod.verb, of_pod.node_view, of_pod.pure) == (info_pb2.VERB_BEFORE_FILTER, 0, True)
    assert list(of_pod.changes) == [info_pb2.CHANGED_PART_POD_LABELS, info_pb2.CHANGED_PART_POD_REQUESTS]
    assert (of_nodes.verb, of_nodes.node_view) == (info_pb2.VERB_BEFORE_FILTER_NODES, info_pb2.NODE_VIEW_FACTS)
    assert (of_nodes.scope, of_nodes.usage, of_nodes.pure) == (info_pb2.SCOPE_WHOLE_SET, True, False)
    assert list(of_nodes.reads.node.labels.keys) == ["zone"]
    assert (score.verb, score.node_view, score.scope) == (
        info_pb2.VERB_BEFORE_SCORE,
        info_pb2.NODE_VIEW_NAME,
        info_pb2.SCOPE_NODE,
    )
    assert list(score.changes) == [info_pb2.CHANGED_PART_NODE_LABELS]


def test_without_hooks_their_service_is_not_listed() -> None:
    response = Declaration(pure()).response
    assert list(response.services) == ["extender.policy.v1alpha1.NodeTableService"]
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
