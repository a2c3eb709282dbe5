"""Checks what a policy declares about itself and turns it into the contract's handshake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ._api.v1alpha1 import info_pb2
from ._hook_rules import hook_mistakes
from ._layout import EVERYTHING_OF_NODES, EVERYTHING_OF_PODS, Layout
from ._paths import path_mistakes
from .changes import ChangedPart
from .errors import DeclarationError
from .info import Hook, Info, Normalization, Scale, Verb, View

API_VERSION = "extender.policy.v1alpha1"
POLICY_SERVICE = f"{API_VERSION}.PolicyService"
NODE_TABLE_SERVICE = f"{API_VERSION}.NodeTableService"
INTROSPECTION_SERVICE = f"{API_VERSION}.IntrospectionService"
HOOK_SERVICE = f"{API_VERSION}.HookService"

MAX_MESSAGE_BYTES = 64 << 20
"""The largest message that is accepted, and sent."""

# Limits of the contract, in bytes.
MAX_NAME = 63
MAX_VERSION = 64

_VIEWS = {
    View.NAME: info_pb2.NODE_VIEW_NAME,
    View.FACTS: info_pb2.NODE_VIEW_FACTS,
    View.FACTS_AND_RAW: info_pb2.NODE_VIEW_FACTS_AND_RAW,
}

_NORMALIZATIONS = {
    Normalization.NONE: info_pb2.NORMALIZATION_NONE,
    Normalization.RANGE: info_pb2.NORMALIZATION_RANGE,
    Normalization.MAX: info_pb2.NORMALIZATION_MAX,
    Normalization.MIN_MAX: info_pb2.NORMALIZATION_MIN_MAX,
}

INT32 = range(-(1 << 31), 1 << 31)

VERBS = {
    "Filter": info_pb2.VERB_FILTER,
    "Score": info_pb2.VERB_SCORE,
    "Preempt": info_pb2.VERB_PREEMPT,
    "Bind": info_pb2.VERB_BIND,
    "BeforeFilter": info_pb2.VERB_BEFORE_FILTER,
    "BeforeFilterNodes": info_pb2.VERB_BEFORE_FILTER_NODES,
    "BeforeScore": info_pb2.VERB_BEFORE_SCORE,
}
"""By the names of the services' methods."""

DECLARED_WITH = {
    "Filter": "Info.filters",
    "Score": "Info.scores",
    "Preempt": "Info.preempts",
    "Bind": "Info.binds",
    "BeforeFilter": "Info.before_filter",
    "BeforeFilterNodes": "Info.before_filter_nodes",
    "BeforeScore": "Info.before_score",
}
"""What declares them, by the same names."""


class Terms:
    """What a verb's declaration means for a call."""

    def __init__(self, verb: Verb, changes: frozenset[ChangedPart] = frozenset()) -> None:
        """`changes`: what a hook may change."""
        reads = verb.declared_reads
        # Rows without facts are names: no table, and no watch of nodes is needed for them.
        only_names = (
            verb.node_view is View.FACTS and not verb.wants_usage and reads is not None and not reads._reads_nodes()
        )
        self.view = View.NAME if only_names else verb.node_view
        self.is_per_node = verb.is_per_node
        self.has_side_effects = verb.has_side_effects
        self.is_pure = verb.is_pure
        self.wants_usage = verb.wants_usage
        self.changes = changes
        self.layout = None if reads is None else Layout(reads, with_nodes=self.view > View.NAME)
        self.reads_id = 0 if self.layout is None else self.layout.id
        self.rows_key = None if self.layout is None else self.layout.rows_key
        """What a table of these nodes contains, as bytes; `None`: everything."""
        self.pods = EVERYTHING_OF_PODS if self.layout is None else self.layout.pod
        self.nodes = EVERYTHING_OF_NODES if self.layout is None else self.layout.node
        self.rows = RowParts(self.view, None if self.layout is None else self.layout.rows)

    def may_come_with(self, filter_terms: Terms) -> bool:
        """Whether these scores may be given with the verdicts, before the other policies have filtered."""
        alone = self.is_per_node and not self.has_side_effects
        return alone and self.reads_id == filter_terms.reads_id


class RowParts:
    """The parts that a row must have, in this view with this declaration; `None`: everything that the view has."""

    def __init__(self, view: View, reads: info_pb2.NodeReads | None) -> None:
        has_facts = view > View.NAME
        reads = reads if has_facts else None
        self.name = reads is None or info_pb2.NODE_PART_NAME in reads.parts
        self.facts = has_facts and (reads is None or reads.ByteSize() > 0)
        self.labels = 0 if reads is None else len(reads.labels.keys)
        """The number of values of labels."""
        self.annotations = 0 if reads is None else len(reads.annotations.keys)
        self.pods = 0 if reads is None else len(reads.pod_counts)
        """The number of lists of counts of pods."""
        self.is_declared = reads is not None


class Declaration:
    """A checked `Info`: the answer to the handshake, and what a call needs of it."""

    def __init__(self, info: Info, others: Iterable[str] = ()) -> None:
        """Checks everything and reports all mistakes together. `others`: those that are not the `Info`'s."""
        mistakes = [*_mistakes(info), *others]
        if mistakes:
            raise DeclarationError(mistakes)
        self.terms = {name: Terms(verb) for name, verb in _verbs(info).items()}
        """By the names of the services' methods."""
        self.terms |= {name: Terms(hook.verb, hook.changed) for name, hook in _hooks(info).items()}
        self.response = _response(info, self.terms)
        self.shown = {entry.path: entry for entry in info.shown}
        """By the paths."""
        self.name = info.name
        self.version = info.version
        self.revision = self.response.revision
        self.ids = {name: terms.reads_id for name, terms in self.terms.items()}
        """Two declarations with the same ids can answer each other's requests."""


def declared(info: Info) -> Iterator[str]:
    """The names of the services' methods that are declared."""
    yield from _verbs(info)
    yield from _hooks(info)


def _verbs(info: Info) -> dict[str, Verb]:
    """The declared verbs that are no hooks, by the names of the service's methods."""
    verbs = {"Filter": info.filter, "Score": info.score, "Preempt": info.preempt, "Bind": info.bind}
    return {name: verb for name, verb in verbs.items() if verb is not None}


def _hooks(info: Info) -> dict[str, Hook]:
    """The declared hooks, by the names of the service's methods."""
    hooks = {
        "BeforeFilter": info.hook_before_filter,
        "BeforeFilterNodes": info.hook_before_filter_nodes,
        "BeforeScore": info.hook_before_score,
    }
    return {name: hook for name, hook in hooks.items() if hook is not None}


def _mistakes(info: Info) -> Iterator[str]:
    yield from _text_mistakes(info)
    if not (info.filter or info.score or info.preempt or info.bind or _hooks(info)):
        yield (
            "no verb is declared; call Info.filters, Info.scores, Info.preempts or Info.binds, or declare a hook with "
            "Info.before_filter, Info.before_filter_nodes or Info.before_score"
        )
    if info.preempt is not None:
        if info.preempt.is_pure:
            yield "preempt cannot be pure, because its answers depend on the victims; remove Verb.pure"
        yield from _usage_mistakes("preempt", info.preempt)
        yield from _reads_mistakes("preempt", info.preempt)
    if info.bind is not None:
        yield from _reads_mistakes("bind", info.bind)
    if info.filter is not None:
        yield from _verb_mistakes("filter", info.filter, info)
    if info.score is not None:
        yield from _verb_mistakes("score", info.score, info)
        yield from _scale_mistakes(info.scale)
    yield from _mistakes_of_hooks(info)
    yield from path_mistakes(info.shown)


def _mistakes_of_hooks(info: Info) -> Iterator[str]:
    if info.hook_before_filter is not None:
        # It has no nodes, so most of what is wrong with a view of nodes cannot be wrong here.
        yield from hook_mistakes("before_filter", info.hook_before_filter)
        yield from _memory_mistakes("before_filter", info.hook_before_filter.verb, info, "Hook")
        yield from _reads_mistakes("before_filter", info.hook_before_filter.verb)
    if info.hook_before_filter_nodes is not None:
        yield from hook_mistakes("before_filter_nodes", info.hook_before_filter_nodes)
        yield from _verb_mistakes("before_filter_nodes", info.hook_before_filter_nodes.verb, info, "Hook")
    if info.hook_before_score is not None:
        yield from hook_mistakes("before_score", info.hook_before_score)
        yield from _verb_mistakes("before_score", info.hook_before_score.verb, info, "Hook")


def _text_mistakes(info: Info) -> Iterator[str]:
    revision = info.version if info.declared_revision is None else info.declared_revision
    limits = (
        ("name", info.name, MAX_NAME),
        ("version", info.version, MAX_VERSION),
        ("revision", revision, MAX_VERSION),
    )
    for what, text, limit in limits:
        size = len(text.encode())
        if not 1 <= size <= limit:
            yield f"{what} has {size} bytes; expected 1 to {limit}"


def _verb_mistakes(name: str, verb: Verb, info: Info, kind: str = "Verb") -> Iterator[str]:
    """`kind`: the class with which it is declared."""
    yield from _usage_mistakes(name, verb, kind)
    yield from _memory_mistakes(name, verb, info, kind)
    yield from _reads_mistakes(name, verb)


def _usage_mistakes(name: str, verb: Verb, kind: str = "Verb") -> Iterator[str]:
    """A view of names works even if the gateway knows no nodes, and so no pods on them."""
    if verb.wants_usage and verb.node_view is View.NAME:
        yield f"{name} has {kind}.usage and View.NAME; use View.FACTS"


def _memory_mistakes(name: str, verb: Verb, info: Info, kind: str = "Verb") -> Iterator[str]:
    """What a pure verb excludes: each of these makes an answer depend on more than the cache key."""
    excluded = (
        (not verb.is_per_node, f"{kind}.whole_set"),
        (verb.has_side_effects, f"{kind}.side_effects"),
        (verb.node_view is View.FACTS_AND_RAW, "View.FACTS_AND_RAW"),
        (info.wants_raw_pod, "Info.raw_pod"),
    )
    for found, what in excluded:
        if verb.is_pure and found:
            yield f"{name} is pure and has {what}; remove one"


def _reads_mistakes(name: str, verb: Verb) -> Iterator[str]:
    reads = verb.declared_reads
    if reads is None:
        return
    # That of before_filter is named elsewhere.
    if reads._reads_nodes() and verb.node_view is View.NAME and name != "before_filter":
        if name == "bind":
            yield "bind reads nodes, but is sent only their names; declare what it reads of the pod"
        else:
            yield f"{name} reads nodes and has View.NAME; use View.FACTS"
    if reads._reads_identity() and verb.is_pure:
        yield (
            f"{name} is pure and reads PodPart.IDENTITY, but a pure verb is not sent the pod's name and UID; remove one"
        )
    if reads._counts_topologies() and name not in ("filter", "score"):
        yield (
            f"{name} reads counts by topology, which only filter and score are sent; "
            "remove Reads.pods_by_topology from its declaration"
        )
    for mistake in reads._mistakes():
        yield f"{name} reads: {mistake}"


def _scale_mistakes(scale: Scale) -> Iterator[str]:
    if scale.bounds is not None:
        least, largest = scale.bounds
        if least > largest:
            yield f"the scale {least}..={largest} is empty; expected min..=max"
        if least not in INT32 or largest not in INT32:
            yield f"the scale {least}..={largest} is too large; expected whole numbers of 32 bits"
    if scale.normalization is Normalization.RANGE and (scale.bounds is None or scale.bounds[0] == scale.bounds[1]):
        yield "Normalization.RANGE needs Scale.between with two different bounds"
    if scale.is_reversed and scale.normalization is Normalization.NONE:
        yield "a reversed scale requires a normalization, such as Normalization.MIN_MAX"


def _response(info: Info, terms: dict[str, Terms]) -> info_pb2.GetInfoResponse:
    # Tables are worth filling only if rows hold more than names.
    keeps_table = info.keeps_node_table and any(verb.view > View.NAME for verb in terms.values())
    services = [NODE_TABLE_SERVICE] if keeps_table else []
    if info.shown:
        services.append(INTROSPECTION_SERVICE)
    if _hooks(info):
        services.append(HOOK_SERVICE)
    return info_pb2.GetInfoResponse(
        name=info.name,
        version=info.version,
        revision=info.version if info.declared_revision is None else info.declared_revision,
        api_version=API_VERSION,
        services=services,
        verbs=[_verb_info(name, verb, info.scale) for name, verb in terms.items()],
        pod_raw=info.wants_raw_pod,
        annotation_prefixes=info.annotation_prefixes,
        max_request_bytes=MAX_MESSAGE_BYTES,
        introspection=[
            info_pb2.IntrospectionPath(path=entry.path, description=entry.description) for entry in info.shown
        ],
        rejected_configuration=info.rejection.encode(errors="replace")[:1024].decode(errors="ignore"),
    )


def _verb_info(name: str, terms: Terms, scale: Scale) -> info_pb2.VerbInfo:
    reads = None if terms.layout is None else terms.layout.message
    if name == "Bind":
        return info_pb2.VerbInfo(verb=VERBS[name], reads=reads)
    message = info_pb2.VerbInfo(
        verb=VERBS[name],
        # This hook has no nodes.
        node_view=info_pb2.NODE_VIEW_UNSPECIFIED if name == "BeforeFilter" else _VIEWS[terms.view],
        scope=info_pb2.SCOPE_NODE if terms.is_per_node else info_pb2.SCOPE_WHOLE_SET,
        side_effects=terms.has_side_effects,
        pure=terms.is_pure,
        usage=terms.wants_usage,
        reads=reads,
        changes=[info_pb2.ChangedPart.Name(part) for part in sorted(terms.changes)],
    )
    if name == "Score":
        if scale.bounds is not None:
            message.score_min, message.score_max = scale.bounds
        message.normalization = _NORMALIZATIONS[scale.normalization]
        message.reversed = scale.is_reversed
    return message
