"""Turns what a policy declares about itself into the contract's handshake.

What the contract does not allow to declare is rejected by the gateway, and named by policy-conformance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ._api.v1beta1 import info_pb2
from ._errors import cut
from ._layout import Layout
from ._limits import REJECTED_CONFIGURATION_BYTES
from .errors import DeclarationError
from .info import DECLARED_WITH, Hook, Info, Normalization, Scale
from .reads import quoted

API_VERSION = "extender.policy.v1beta1"
POLICY_SERVICE = f"{API_VERSION}.PolicyService"
NODE_TABLE_SERVICE = f"{API_VERSION}.NodeTableService"
INTROSPECTION_SERVICE = f"{API_VERSION}.IntrospectionService"
HOOK_SERVICE = f"{API_VERSION}.HookService"
OUTCOME_SERVICE = f"{API_VERSION}.OutcomeService"
WATCH_SERVICE = f"{API_VERSION}.WatchService"

CHANGE = "Change"
"""The only method of HookService."""

REPORT = "Report"
"""The only method of OutcomeService."""

MAX_MESSAGE_BYTES = 64 << 20
"""The largest message that is accepted, and sent."""

_NORMALIZATIONS = {
    Normalization.NONE: info_pb2.NORMALIZATION_NONE,
    Normalization.RANGE: info_pb2.NORMALIZATION_RANGE,
    Normalization.MAX: info_pb2.NORMALIZATION_MAX,
    Normalization.MIN_MAX: info_pb2.NORMALIZATION_MIN_MAX,
}

VERBS = {
    "Filter": info_pb2.VERB_FILTER,
    "Score": info_pb2.VERB_SCORE,
    "Preempt": info_pb2.VERB_PREEMPT,
    "Bind": info_pb2.VERB_BIND,
    "BeforeFilter": info_pb2.VERB_BEFORE_FILTER,
    "BeforeFilterNodes": info_pb2.VERB_BEFORE_FILTER_NODES,
    "BeforeScore": info_pb2.VERB_BEFORE_SCORE,
}
"""By their names in this package: those of the services' methods, and of hooks those of the numbers."""

HOOKS = ("BeforeFilter", "BeforeFilterNodes", "BeforeScore")
"""Those of the verbs that are hooks."""

WITHOUT_NODES = ("Bind", "BeforeFilter")
"""Those that are told nothing about nodes."""


class Terms:
    """What the declaration of a verb or a hook means for a call."""

    def __init__(self, name: str, hook: Hook) -> None:
        verb = hook.verb
        reads = verb.declared_reads
        layout = Layout(reads._without_nodes() if name in WITHOUT_NODES else reads)
        self.is_per_node = verb.is_per_node
        self.has_side_effects = verb.has_side_effects
        self.is_pure = verb.is_pure
        self.changes = hook.changed
        """What a hook may change."""
        self.reads = layout.message
        self.reads_digest = layout.digest
        """`Call.reads` of the requests to this verb."""
        self.rows_key = layout.rows_key
        """What a table of these nodes contains, as bytes."""
        self.pods = layout.pod
        self.nodes = layout.node
        self.rows = RowParts(layout.rows)

    def may_come_with(self, filter_terms: Terms) -> bool:
        """Whether these scores may be given with the verdicts, before the other policies have filtered."""
        alone = self.is_per_node and not self.has_side_effects
        return alone and self.reads_digest == filter_terms.reads_digest


class RowParts:
    """The parts that a row must have with this declaration."""

    def __init__(self, reads: info_pb2.NodeReads) -> None:
        self.name = reads.everything or info_pb2.NODE_PART_NAME in reads.parts
        # Rows without facts are names: no table, and no watch of nodes is needed for them.
        self.facts = reads not in (info_pb2.NodeReads(), info_pb2.NodeReads(parts=["NODE_PART_NAME"]))
        self.labels = len(reads.labels.keys)
        """The number of values of labels."""
        self.annotations = len(reads.annotations.keys)
        self.pods = len(reads.pod_counts)
        """The number of lists of counts of pods."""
        self.is_nothing = not (self.name or self.facts)
        """Nothing is required, so rows may be empty."""


class Declaration:
    """An `Info` as the answer to the handshake, and what a call needs of it."""

    def __init__(self, info: Info, others: Iterable[str] = ()) -> None:
        """Reports all mistakes together. `others`: those that are not the `Info`'s."""
        mistakes = [*_mistakes(info), *others]
        if mistakes:
            raise DeclarationError(mistakes)
        served = sorted(info.served.items(), key=lambda item: VERBS[item[0]])
        self.terms = {name: Terms(name, hook) for name, hook in served}
        """By the names of `VERBS`, in the order of their numbers."""
        self.response = _response(info, self.terms)
        self.encoded = self.response.SerializeToString(deterministic=True)
        self.shown = {entry.path: entry for entry in reversed(info.shown)}
        """By the paths; the first of two equal ones."""
        self.observes_outcomes = info.is_observing
        self.name = info.name
        self.version = info.version
        self.revision = self.response.revision
        self.digests = {name: terms.reads_digest for name, terms in self.terms.items()}
        """Two declarations with the same digests can answer each other's requests."""


def _mistakes(info: Info) -> Iterator[str]:
    """What no gateway can reject, because there is nothing to ask it about."""
    if not info.served:
        yield (
            "no verb is declared; call Info.filters, Info.scores, Info.preempts or Info.binds, or declare a hook with "
            "Info.before_filter, Info.before_filter_nodes or Info.before_score"
        )
    for name, hook in info.served.items():
        # The contract has one field for both.
        if hook.verb.is_pure and hook.verb.has_side_effects:
            yield f"{DECLARED_WITH[name]} has a verb with pure() and side_effects(); expected at most one of them"
    if info.scale.bounds is not None:
        least, largest = info.scale.bounds
        if not (_is_score(least) and _is_score(largest)):
            yield f"the scale is {least} to {largest}; expected integers from {-(2**31)} to {2**31 - 1}"
        elif least > largest:
            yield f"Scale.between({least}, {largest}): the least score is larger than the largest"
    for entry in info.shown:
        show: object = entry.show
        if not callable(show):
            yield f"the path {quoted(entry.path)} has no function; give Info.shows one that returns what the path shows"


def _is_score(bound: object) -> bool:
    return isinstance(bound, int) and -(2**31) <= bound < 2**31


def _response(info: Info, terms: dict[str, Terms]) -> info_pb2.GetInfoResponse:
    # Tables are worth filling only if rows hold more than names.
    keeps_table = info.keeps_node_table and any(verb.rows.facts for verb in terms.values())
    services = [NODE_TABLE_SERVICE] if keeps_table else []
    if info.shown:
        services.append(INTROSPECTION_SERVICE)
    if not terms.keys().isdisjoint(HOOKS):
        services.append(HOOK_SERVICE)
    if info.is_observing:
        services.append(OUTCOME_SERVICE)
    services.append(WATCH_SERVICE)
    return info_pb2.GetInfoResponse(
        name=info.name,
        version=info.version,
        revision=info.version if info.declared_revision is None else info.declared_revision,
        api_version=API_VERSION,
        services=services,
        verbs=[_verb_info(name, verb, info.scale) for name, verb in terms.items()],
        max_request_bytes=MAX_MESSAGE_BYTES,
        introspection=[
            info_pb2.IntrospectionPath(path=entry.path, description=entry.description) for entry in info.shown
        ],
        rejected_configuration=cut(info.rejection, REJECTED_CONFIGURATION_BYTES),
    )


def _effects(terms: Terms) -> info_pb2.Effects:
    if terms.has_side_effects:
        return info_pb2.EFFECTS_CHANGES_OUTSIDE
    return info_pb2.EFFECTS_PURE if terms.is_pure else info_pb2.EFFECTS_READS_OUTSIDE


def _verb_info(name: str, terms: Terms, scale: Scale) -> info_pb2.VerbInfo:
    if name == "Bind":
        return info_pb2.VerbInfo(verb=VERBS[name], reads=terms.reads)
    message = info_pb2.VerbInfo(
        verb=VERBS[name],
        scope=info_pb2.SCOPE_NODE if terms.is_per_node else info_pb2.SCOPE_WHOLE_SET,
        effects=_effects(terms),
        reads=terms.reads,
        changes=[info_pb2.ChangedPart.Name(part) for part in sorted(terms.changes)],
    )
    if name == "Score":
        if scale.bounds is not None:
            message.score_min, message.score_max = scale.bounds
        message.normalization = _NORMALIZATIONS[scale.normalization]
        message.reversed = scale.is_reversed
    return message
