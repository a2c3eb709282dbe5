"""Rejects the nodes with one label, and scores the others by further labels.

`make bench-sdk` measures it beside the same policy in Rust, so how its verbs are called is an argument:

    args: {refuse: {key: rack, value: r7}, prefer: [{key: zone, value: a, score: 3}], declare: PerNode}
"""

from dataclasses import dataclass, field
from enum import Enum

from extender_policy import Args, Info, Node, Pod, Policy, Reads, Scale, Verb, Verdict, configured, run


class Declare(Enum):
    """How the gateway may call the policy, which decides the same in each case."""

    PURE = "Pure"
    PER_NODE = "PerNode"
    WHOLE_SET = "WholeSet"

    def verb(self) -> Verb:
        """Both verbs."""
        if self is Declare.WHOLE_SET:
            return Verb.whole_set()
        return Verb.per_node().pure() if self is Declare.PURE else Verb.per_node()


@dataclass(frozen=True)
class Label:
    """A label with a value."""

    key: str
    value: str


@dataclass(frozen=True)
class Preference:
    """What a node with this label is worth."""

    key: str
    value: str
    score: int


@dataclass(frozen=True)
class Arguments:
    """The operator's args."""

    refuse: Label
    prefer: list[Preference] = field(default_factory=list)
    declare: Declare = Declare.PURE


class LabelScore(Policy):
    """Scores of the labels that a node has add up."""

    def __init__(self, arguments: Arguments) -> None:
        self._declare = arguments.declare
        self._reads = Reads()
        refuse = arguments.refuse
        self._refuse = self._reads.node_label(refuse.key), refuse.value
        self._rejection = Verdict.reject(f"label {refuse.key} is {refuse.value}", unresolvable=True)
        self._prefer = [(self._reads.node_label(met.key), met.value, met.score) for met in arguments.prefer]

    def info(self) -> Info:
        verb = self._declare.verb().reads(self._reads)
        return Info("label-score", "1.0.0").filters(verb).scores(verb, Scale.unbounded())

    def filter(self, pod: Pod, node: Node) -> Verdict:
        key, value = self._refuse
        return self._rejection if node.get(key) == value else Verdict.accept()

    def score(self, pod: Pod, node: Node) -> int:
        return sum(score for key, value, score in self._prefer if node.get(key) == value)


def build(args: Args) -> Policy:
    """The policy for these args."""
    return LabelScore(args.parse(Arguments))


if __name__ == "__main__":
    run(configured(build, name="label-score"))
