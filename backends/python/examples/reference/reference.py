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
    ChangedPart,
    Eviction,
    Hook,
    Info,
    Node,
    NodeChange,
    NodePart,
    Nodes,
    NodeUsage,
    Normalization,
    Pod,
    PodChange,
    PodPart,
    PodsBy,
    Policy,
    Reads,
    Resources,
    Scale,
    Verb,
    Verdict,
    Victim,
    configured,
    run,
)

LEAST, LARGEST = -1000, 1_000_000
MOST_MILLI_CPU = 2_000_000_000

CLOSED = Verdict.reject("zone is closed", rule="zone", unresolvable=True)
TAINTED = Verdict.reject("taint is not tolerated", rule="taints", unresolvable=True)
FULL = Verdict.reject("not enough CPU", rule="cpu")
CROWDED = Verdict.reject("too many pods of one owner", rule="owner", unresolvable=True)

NO_APP = PodChange("the zone is no app").remove_label("app")
UNZONED = NodeChange().add_taint("zone", effect="PreferNoSchedule").remove_taint("zoneless")
RESERVED = NodeChange("reserved for the app").add_allocatable(milli_cpu=1000, others={"example.com/slots": 1})
CLOSED_ZONE = NodeChange("closed").set_label("zone", "closed").add_usage(NodeUsage(Resources(milli_cpu=-100, pods=-1)))
WITHOUT_ZONE = NodeChange().remove_label("zone")


@dataclass(frozen=True)
class Arguments:
    """The operator's args."""

    zone: str
    most: Annotated[int, Between(1, 1000)] = 3


class Reference(Policy):
    """Serves all verbs and hooks."""

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
            .preempts(Verb.per_node().reads(priorities))
            .binds()
            .before_filter(before_filter_hook())
            .before_filter_nodes(before_filter_nodes_hook())
            .before_score(before_score_hook())
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

    def before_filter(self, pod: Pod) -> PodChange | None:
        app = pod.label("app")
        if app is None:
            return None
        if app == self._arguments.zone:
            return NO_APP
        return (
            PodChange("apps need more")
            .add_requests(milli_cpu=500)
            .set_node_selector("zone", self._arguments.zone)
            .add_toleration(key="app", operator="Exists")
        )

    def before_filter_node(self, pod: Pod, node: Node) -> NodeChange | None:
        zone = node.label("zone")
        if zone is None:
            return UNZONED
        return RESERVED if zone == pod.label("app") else None

    def before_score(self, pod: Pod, nodes: Nodes) -> tuple[PodChange | None, list[NodeChange | None]]:
        of_pod = None if pod.label("app") is None else PodChange().set_label("app", self._arguments.zone)
        return of_pod, [self._closed(node) for node in nodes]

    def _closed(self, node: Node) -> NodeChange | None:
        zone = node.label("zone")
        if zone is None:
            return WITHOUT_ZONE
        return CLOSED_ZONE if zone == self._arguments.zone else None


def before_filter_hook() -> Hook:
    """What before_filter reads and changes."""
    reads = Reads()
    reads.pod_label("app")
    changes = (
        ChangedPart.POD_LABELS,
        ChangedPart.POD_NODE_SELECTOR,
        ChangedPart.POD_TOLERATIONS,
        ChangedPart.POD_REQUESTS,
    )
    return Hook.of_pod().pure().reads(reads).changes(*changes)


def before_filter_nodes_hook() -> Hook:
    """What before_filter_node reads and changes."""
    changes = ChangedPart.NODE_ALLOCATABLE, ChangedPart.NODE_TAINTS
    return Hook.per_node().pure().reads(app_and_zone()).changes(*changes)


def before_score_hook() -> Hook:
    """What before_score reads and changes."""
    changes = ChangedPart.POD_LABELS, ChangedPart.NODE_LABELS, ChangedPart.NODE_USAGE
    return Hook.per_node().reads(app_and_zone()).changes(*changes)


def app_and_zone() -> Reads:
    """The pod's app and the node's zone."""
    reads = Reads()
    reads.pod_label("app")
    reads.node_label("zone")
    return reads


def build(args: Args) -> Policy:
    """The policy for these args."""
    return Reference(args.parse(Arguments))


if __name__ == "__main__":
    run(configured(build, name="reference"))
