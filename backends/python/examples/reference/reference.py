"""The reference policy: the same behavior in every language, so that their answers can be compared."""

from dataclasses import dataclass
from typing import Annotated

from extender_policy import (
    Args,
    Between,
    Bind,
    BindAsk,
    BindFailed,
    Candidate,
    Eviction,
    Info,
    Node,
    NodePart,
    Normalization,
    Pod,
    PodPart,
    PodsBy,
    Policy,
    Reads,
    Scale,
    Verb,
    Verdict,
    Victim,
    View,
    configured,
    run,
)

LEAST, LARGEST = -1000, 1_000_000
MOST_MILLI_CPU = 2_000_000_000

CLOSED = Verdict.reject("zone is closed", rule="zone")
TAINTED = Verdict.reject("taint is not tolerated", rule="taints")
FULL = Verdict.reject("not enough CPU", rule="cpu", preemption_may_help=True)
CROWDED = Verdict.reject("too many pods of one owner", rule="owner")


@dataclass(frozen=True)
class Arguments:
    """The operator's args."""

    zone: str
    most: Annotated[int, Between(1, 1000)] = 3


class Reference(Policy):
    """Serves all verbs."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._reads = Reads()
        self._zone = self._reads.node_label("zone")
        self._reads.node(NodePart.TAINTS, NodePart.ALLOCATABLE, NodePart.NAME)
        self._reads.pod(PodPart.REQUESTS, PodPart.TOLERATIONS)
        self._app = self._reads.pod_label("app")
        self._owner = self._reads.pods_by(PodsBy.OWNER)

    def info(self) -> Info:
        decides = Verb.per_node().pure().reads(self._reads)
        priorities = Reads().pod(PodPart.PRIORITY)
        return (
            Info("reference", "1")
            .revision("reference-1")
            .filters(decides)
            .scores(decides, Scale.between(LEAST, LARGEST).normalize(Normalization.MIN_MAX))
            .preempts(Verb.per_node().view(View.NAME).reads(priorities))
            .binds(Reads())
            .shows("/args", "the args, with their defaults", lambda ask: self._arguments)
        )

    def filter(self, pod: Pod, node: Node) -> Verdict:
        if node.get(self._zone) == self._arguments.zone:
            return CLOSED
        for taint in node.taints:
            if taint.effect in ("NoSchedule", "NoExecute") and not pod.tolerates(taint):
                return TAINTED
        allocatable = node.allocatable
        if pod.requests.milli_cpu > (0 if allocatable is None else allocatable.milli_cpu):
            return FULL
        like = node.pods_like(self._owner, pod)
        if like is not None and like.at_most >= self._arguments.most:
            return CROWDED
        return Verdict.accept()

    def score(self, pod: Pod, node: Node) -> int:
        allocatable = node.allocatable
        milli_cpu = 0 if allocatable is None else allocatable.milli_cpu
        score = min(max(milli_cpu, 0), MOST_MILLI_CPU) // 100 - 50 * len(node.taints)
        app = pod.get(self._app)
        if app is not None and app == node.get(self._zone):
            score += 10
        return min(max(score, LEAST), LARGEST)

    def preempt(self, pod: Pod, candidate: Candidate) -> Eviction:
        def is_lower(victim: Victim) -> bool:
            return victim.pod is not None and victim.pod.priority < pod.priority

        return Eviction.of(candidate, is_lower)

    def bind(self, ask: BindAsk) -> Bind:
        if ask.namespace == "system":
            return Bind.declined("namespace system is bound elsewhere")
        if ask.node == "broken":
            raise BindFailed("node broken refuses pods")
        return Bind.BOUND


def build(args: Args) -> Policy:
    """The policy for these args."""
    return Reference(args.parse(Arguments))


if __name__ == "__main__":
    run(configured(build, name="reference"))
