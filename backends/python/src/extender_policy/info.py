"""What a policy declares about itself, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, TypeVar

from ._api.v1beta1 import info_pb2
from .changes import ChangedPart
from .errors import DeclarationError
from .introspection import Show, Shown
from .reads import Reads

C = TypeVar("C", bound="_Called")

DECLARED_WITH = {
    "Filter": "Info.filters",
    "Score": "Info.scores",
    "Preempt": "Info.preempts",
    "Bind": "Info.binds",
    "BeforeFilter": "Info.before_filter",
    "BeforeFilterNodes": "Info.before_filter_nodes",
    "BeforeScore": "Info.before_score",
    "Report": "Info.observes_outcomes",
}
"""What declares verbs and hooks, by their names in this package, and outcomes."""

_NOTHING = Reads()


class Normalization(IntEnum):
    """How raw scores are normalized to 0 to 10, over the nodes of one prioritize call.

    The operator may override it.
    """

    NONE = info_pb2.NORMALIZATION_NONE
    """Unchanged: the operator's weight multiplies the raw score."""
    RANGE = info_pb2.NORMALIZATION_RANGE
    """10 * (s - least of the scale) / (largest - least of the scale). Needs `Scale.between`."""
    MAX = info_pb2.NORMALIZATION_MAX
    """10 * s / the largest of the call; 0 when that is not positive."""
    MIN_MAX = info_pb2.NORMALIZATION_MIN_MAX
    """10 * (s - least of the call) / (largest - least of the call); 0 when they are equal."""


@dataclass(frozen=True)
class Scale:
    """What the policy's scores mean."""

    bounds: tuple[int, int] | None = None
    normalization: Normalization = Normalization.NONE
    is_reversed: bool = False

    @staticmethod
    def between(least: int, largest: int) -> Scale:
        """Scores from the least to the largest, both included.

        The gateway clamps scores outside this range, and counts them.
        """
        return Scale(bounds=(least, largest))

    @staticmethod
    def unbounded() -> Scale:
        """Any scores of 32 bits but `NO_OPINION`."""
        return Scale()

    def normalize(self, normalization: Normalization) -> Scale:
        """How raw scores become 0 to 10. Default: `Normalization.NONE`."""
        return replace(self, normalization=normalization)

    def reversed(self) -> Scale:
        """The least raw score is the best. Only with a normalization."""
        return replace(self, is_reversed=True)


class _Called:
    """How a verb or a hook is called. Each method returns a changed copy."""

    def _with(self: C, **changed: Any) -> C:
        raise NotImplementedError

    def pure(self: C) -> C:
        """The answer for a node is a function of args, the pod's facts and that node.

        It may be cached. By far the fastest. Not with `whole_set` or `side_effects`, and not if the identity of the pod
        or JSON is read; not for a policy that uses the time, or anything outside that its revision does not name. A
        pure hook before score changes nodes alone.
        """
        return self._with(is_pure=True)

    def reads(self: C, reads: Reads) -> C:
        """What the verb reads of pods and nodes: this is sent, and nothing else can be read.

        Default: nothing. A verb that reads at most the name of nodes is also asked about nodes that the gateway does
        not know. Scores come in one round with the verdicts only if both verbs read the same.
        """
        return self._with(declared_reads=reads._copy())


@dataclass(frozen=True)
class Verb(_Called):
    """How a verb is called.

    The default suits most policies: each node on its own, and again for each call. What it reads is to be declared.
    """

    is_per_node: bool = True
    has_side_effects: bool = False
    is_pure: bool = False
    declared_reads: Reads = _NOTHING

    @staticmethod
    def per_node() -> Verb:
        """The answer about a node depends on the pod and that node alone."""
        return Verb()

    @staticmethod
    def whole_set() -> Verb:
        """The answer depends on all nodes of the request ("at most three of them").

        The policy is called after those before it, with the nodes that they left. Costs a separate round for each pod.
        """
        return Verb(is_per_node=False)

    def _with(self, **changed: Any) -> Verb:
        return replace(self, **changed)

    def side_effects(self) -> Verb:
        """A call changes something outside (a reservation, a quota).

        The policy is called in turn, only with the nodes that really remain, and only when kube-scheduler is deciding.
        Calls for any other purpose are rejected before they reach the policy.
        """
        return replace(self, has_side_effects=True)

    def _reading_everything(self) -> Verb:
        """The same, reading all that can be declared."""
        return replace(self, declared_reads=self.declared_reads._with_everything())


@dataclass(frozen=True)
class Hook(_Called):
    """How a hook is called, and what it changes.

        Hook.per_node().pure().reads(reads).changes(ChangedPart.NODE_TAINTS)

    A hook has no side effects, and counts no pods by topology. It may be a coroutine function, as the verbs may.
    """

    verb: Verb
    """What it has in common with verbs."""
    changed: frozenset[ChangedPart] = frozenset()

    @staticmethod
    def of_pod() -> Hook:
        """The hook depends on the pod alone: for `Info.before_filter`, which is called without nodes."""
        return Hook(Verb.per_node())

    @staticmethod
    def per_node() -> Hook:
        """What changes about a node depends on the pod and that node alone, and what about the pod on the pod alone."""
        return Hook(Verb.per_node())

    @staticmethod
    def whole_set() -> Hook:
        """What changes depends on all nodes of the request."""
        return Hook(Verb.whole_set())

    def changes(self, *parts: ChangedPart) -> Hook:
        """What the hook may change: at least one part. The gateway refuses an answer that changes anything else."""
        for part in parts:
            if not isinstance(part, ChangedPart):
                raise TypeError(f"{part!r} is no ChangedPart")
        return replace(self, changed=self.changed.union(parts))

    def _with(self, **changed: Any) -> Hook:
        return replace(self, verb=replace(self.verb, **changed))

    def _reading_everything(self) -> Hook:
        """The same, reading all that can be declared."""
        return replace(self, verb=self.verb._reading_everything())


@dataclass(frozen=True)
class Info:
    """What a policy is, and which data it needs. A verb that is not declared here is never called.

        Info("no-arm", "1.0.0").filters(Verb.per_node().pure().reads(reads))
        Info("near", "1.0.0").scores(Verb.per_node().reads(reads), Scale.between(0, 10))

    The name is what the policy calls itself, such as "label-rules"; the version is that of the program. Neither may be
    empty; at most 63 and 64 bytes.
    """

    name: str
    version: str
    declared_revision: str | None = field(default=None, kw_only=True)
    rejection: str = field(default="", kw_only=True)
    served: Mapping[str, Hook] = field(default_factory=dict, kw_only=True, hash=False)
    """Verbs and hooks, by their names in this package; a verb changes nothing."""
    scale: Scale = field(default=Scale(), kw_only=True)
    keeps_node_table: bool = field(default=True, kw_only=True)
    shown: tuple[Shown, ...] = field(default=(), kw_only=True)
    is_observing: bool = field(default=False, kw_only=True)

    def revision(self, revision: str) -> Info:
        """Names everything that the answers depend on besides the request.

        That is code, rule files and what the time decides, not the operator's args. At most 64 bytes. Default: the
        version and a digest of the source files of the policy's package, or of the modules beside it, which is right
        for a policy that reads nothing else.
        """
        return replace(self, declared_revision=revision)

    def rejected_configuration(self, why: str) -> Info:
        """Says why a configuration of the policy's own, such as a changed rule file, is not used.

        One line for operators: the gateway's `status` shows it. At most 1,024 bytes are sent.
        """
        return replace(self, rejection=why)

    def filters(self, verb: Verb) -> Info:
        """The policy rejects nodes."""
        return self._serving("Filter", Verb, verb)

    def scores(self, verb: Verb, scale: Scale) -> Info:
        """The policy scores nodes, on this scale."""
        _check_kind("Info.scores", Scale, "also a Scale, such as Scale.unbounded()", scale)
        return replace(self, scale=scale)._serving("Score", Verb, verb)

    def preempts(self, verb: Verb) -> Info:
        """The policy decides which pods may be evicted to make room.

        Not a pure verb: its answer depends on the victims, too. More than the names of nodes can be read only if the
        gateway watches nodes.
        """
        return self._serving("Preempt", Verb, verb)

    def binds(self, reads: Reads | None = None) -> Info:
        """The policy binds pods, and reads this of them; default: nothing.

        `BindAsk` has namespace, name, UID and node in any case. Nothing is read of nodes.
        """
        verb = Verb.per_node()
        if reads is not None:
            _check_kind("Info.binds", Reads, "a Reads, or nothing", reads)
            verb = verb.reads(reads)
        return self._serving("Bind", Verb, verb)

    def before_filter(self, hook: Hook) -> Info:
        """The policy changes the pod that the filters of all policies are told about.

        It is called without nodes: declare it with `Hook.of_pod`.
        """
        return self._serving("BeforeFilter", Hook, hook)

    def before_filter_nodes(self, hook: Hook) -> Info:
        """The policy changes nodes that the filters of all policies are told about."""
        return self._serving("BeforeFilterNodes", Hook, hook)

    def before_score(self, hook: Hook) -> Info:
        """The policy changes the pod and nodes that the scores of all policies are told about."""
        return self._serving("BeforeScore", Hook, hook)

    def observes_outcomes(self) -> Info:
        """The policy learns how attempts to place pods ended, with `Policy.observe`.

        For one with side effects: so it can undo what it has changed outside, such as a reservation. These are the pods
        about which the gateway has asked it to filter or bind.
        """
        return replace(self, is_observing=True)

    def without_node_table(self) -> Info:
        """Nodes come with each call in full.

        Without this, a policy that reads more of nodes than their names holds what it reads, up to some kilobytes of
        memory for each, and receives changes.
        """
        return replace(self, keeps_node_table=False)

    def shows(self, path: str, description: str, show: Show) -> Info:
        """The policy shows people a part of its state.

            Info(...).shows("/quotas/:namespace", "the quota of a namespace", self.show_quota)

        The gateway serves the path below `/apis/v1/plugins/BACKEND` of its admin address, to everybody who may read
        that: show no secrets. Segments are letters, digits, "-", ".", "_" and "~", or a parameter, a colon with a name.
        The description is one line. Both have at most 256 bytes; at most 64 paths.

        The function gets an `IntrospectAsk` and returns the value: what `json` writes, dataclasses, mappings and sets,
        at most 4 MiB of it. It raises `NotFound`, `InvalidParameter` or `NotReady`. It must be free of side effects,
        and is called also while the policy is not ready. With `run_async` and `serve_async` it may be a coroutine
        function.
        """
        return replace(self, shown=(*self.shown, Shown(path, description, show)))

    def _reading_everything(self) -> Info:
        """The same, reading all that can be declared."""
        return replace(self, served={name: hook._reading_everything() for name, hook in self.served.items()})

    def _serving(self, name: str, kind: type[Verb] | type[Hook], given: Any) -> Info:
        example = "of_pod" if name == "BeforeFilter" else "per_node"
        _check_kind(DECLARED_WITH[name], kind, f"a {kind.__name__}, such as {kind.__name__}.{example}()", given)
        return replace(self, served={**self.served, name: given if kind is Hook else Hook(given)})


def _check_kind(method: str, kind: type, takes: str, given: Any) -> None:
    if not isinstance(given, kind):
        raise DeclarationError([f"{method} takes {takes}; it was given a value of type {type(given).__name__}"])
