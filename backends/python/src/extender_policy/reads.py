"""What a verb reads of pods and nodes, declared once."""

from __future__ import annotations

import copy
from enum import IntEnum
from typing import ClassVar, NamedTuple, TypeVar, final

from ._api.v1beta1 import info_pb2
from ._limits import READ_KEYS

P = TypeVar("P", "NodePart", "PodPart")


class NodePart(IntEnum):
    """A part of a node besides labels and annotations."""

    TAINTS = info_pb2.NODE_PART_TAINTS
    """`Node.taints`."""
    UNSCHEDULABLE = info_pb2.NODE_PART_UNSCHEDULABLE
    """`Node.unschedulable`."""
    CONDITIONS = info_pb2.NODE_PART_CONDITIONS
    """`Node.condition` and `Node.conditions`."""
    CAPACITY = info_pb2.NODE_PART_CAPACITY
    """`Node.capacity`."""
    ALLOCATABLE = info_pb2.NODE_PART_ALLOCATABLE
    """`Node.allocatable`."""
    NAME = info_pb2.NODE_PART_NAME
    """`Node.name`."""
    USAGE = info_pb2.NODE_PART_USAGE
    """`Node.usage`. The gateway must watch pods.

    A pure verb may read it; the answer for a node is then cached until a pod is added to the node or removed from it.
    """
    RAW_JSON = info_pb2.NODE_PART_RAW_JSON
    """`Node.raw_json` and `Node.kubernetes`: several kilobytes per node. Not for a pure verb."""
    IMAGES = info_pb2.NODE_PART_IMAGES
    """`Node.images`: some kilobytes per node, which the gateway keeps in memory, too."""
    SYSTEM_INFO = info_pb2.NODE_PART_SYSTEM_INFO
    """`Node.system_info`."""
    ADDRESSES = info_pb2.NODE_PART_ADDRESSES
    """`Node.addresses`."""
    PROVIDER_ID = info_pb2.NODE_PART_PROVIDER_ID
    """`Node.provider_id`."""
    NOMINATED = info_pb2.NODE_PART_NOMINATED
    """`Node.nominated`. The gateway must watch pods. A pure verb may read it, as `USAGE`."""


class PodPart(IntEnum):
    """A part of a pod besides labels and annotations."""

    IDENTITY = info_pb2.POD_PART_IDENTITY
    """`Pod.name`, `Pod.uid`, `Pod.created_seconds`, and the claims whose name is derived from the pod's.

    Not for a pure verb.
    """
    NAMESPACE = info_pb2.POD_PART_NAMESPACE
    """`Pod.namespace`."""
    OWNER = info_pb2.POD_PART_OWNER
    """`Pod.owner`."""
    PRIORITY = info_pb2.POD_PART_PRIORITY
    """`Pod.priority`."""
    PRIORITY_CLASS = info_pb2.POD_PART_PRIORITY_CLASS_NAME
    """`Pod.priority_class`."""
    REQUESTS = info_pb2.POD_PART_REQUESTS
    """`Pod.requests`."""
    NONZERO_REQUESTS = info_pb2.POD_PART_NONZERO_REQUESTS
    """`Pod.nonzero_requests`."""
    TOLERATIONS = info_pb2.POD_PART_TOLERATIONS
    """`Pod.tolerations` and `Pod.tolerates`."""
    NODE_SELECTOR = info_pb2.POD_PART_NODE_SELECTOR
    """`Pod.node_selector`."""
    NODE_AFFINITY = info_pb2.POD_PART_NODE_AFFINITY
    """`Pod.node_affinity`."""
    VOLUMES = info_pb2.POD_PART_VOLUMES
    """`Pod.volumes` and, with `IDENTITY`, `Pod.claims`."""
    SCHEDULER_NAME = info_pb2.POD_PART_SCHEDULER_NAME
    """`Pod.scheduler_name`."""
    RAW_JSON = info_pb2.POD_PART_RAW_JSON
    """`Pod.raw_json` and `Pod.kubernetes`, for fields that the other parts omit. Not for a pure verb."""
    CONTAINERS = info_pb2.POD_PART_CONTAINERS
    """`Pod.containers`."""
    POD_AFFINITY = info_pb2.POD_PART_POD_AFFINITY
    """`Pod.pod_affinity`."""
    TOPOLOGY_SPREAD = info_pb2.POD_PART_TOPOLOGY_SPREAD
    """`Pod.topology_spread`."""
    RESOURCE_CLAIMS = info_pb2.POD_PART_RESOURCE_CLAIMS
    """`Pod.resource_claims`."""
    POD_GROUP = info_pb2.POD_PART_POD_GROUP_NAME
    """`Pod.pod_group`."""
    RUNTIME_CLASS = info_pb2.POD_PART_RUNTIME_CLASS_NAME
    """`Pod.runtime_class`."""
    PREEMPTION_POLICY = info_pb2.POD_PART_PREEMPTION_POLICY
    """`Pod.preemption_policy`."""
    SERVICE_ACCOUNT = info_pb2.POD_PART_SERVICE_ACCOUNT_NAME
    """`Pod.service_account`."""


class _PodsBy(NamedTuple):
    number: info_pb2.PodCountBy
    """The number of the contract."""
    key: str = ""
    """The key of the label; empty for other attributes."""


@final
class PodsBy(_PodsBy):
    """An attribute of pods by which pods are counted. Pods without it are not counted."""

    __slots__ = ()

    OWNER: ClassVar[PodsBy]
    """The UID of the owner that is the controller, such as a ReplicaSet."""
    NAMESPACE: ClassVar[PodsBy]
    """metadata.namespace."""
    PRIORITY_CLASS: ClassVar[PodsBy]
    """spec.priorityClassName."""

    @staticmethod
    def label(key: str) -> PodsBy:
        """The namespace and the value of the label with this key: equal values in two namespaces are counted apart."""
        return PodsBy(info_pb2.POD_COUNT_BY_LABEL, key)

    @property
    def is_label(self) -> bool:
        """Whether this is the value of a label."""
        return self.number == info_pb2.POD_COUNT_BY_LABEL

    def __repr__(self) -> str:
        if self.is_label:
            return f"PodsBy.label({quoted(self.key)})"
        return f"PodsBy.{_BY[self.number]}"


_BY = {
    info_pb2.POD_COUNT_BY_OWNER: "OWNER",
    info_pb2.POD_COUNT_BY_NAMESPACE: "NAMESPACE",
    info_pb2.POD_COUNT_BY_PRIORITY_CLASS_NAME: "PRIORITY_CLASS",
}
PodsBy.OWNER = PodsBy(info_pb2.POD_COUNT_BY_OWNER)
PodsBy.NAMESPACE = PodsBy(info_pb2.POD_COUNT_BY_NAMESPACE)
PodsBy.PRIORITY_CLASS = PodsBy(info_pb2.POD_COUNT_BY_PRIORITY_CLASS_NAME)


class NodeKey(NamedTuple):
    """A declared label or annotation of nodes: what `Node.get` reads."""

    text: str
    is_annotation: bool


class PodKey(NamedTuple):
    """A declared label or annotation of pods: what `Pod.get` reads."""

    text: str
    is_annotation: bool


class NodePrefix(NamedTuple):
    """Declared labels or annotations of nodes with a prefix: what `Node.entries` reads."""

    text: str
    is_annotation: bool


class PodPrefix(NamedTuple):
    """Declared labels or annotations of pods with a prefix: what `Pod.entries` reads."""

    text: str
    is_annotation: bool


class PodsKey(NamedTuple):
    """A declared count of the pods on each node: what `Node.pods_like` and `Node.pod_counts` read."""

    by: PodsBy


class TopologyKey(NamedTuple):
    """A declared count of the pods in the cluster: what `Pod.pods_like` reads."""

    by: PodsBy
    topology: str
    """The key of a label of nodes; empty for the whole cluster."""

    def __str__(self) -> str:
        return f"{self.by!r}, {quoted(self.topology)}"


class Declared:
    """What is read of one kind of object, as declared."""

    def __init__(self, facts: frozenset[NodePart | PodPart]) -> None:
        """`facts`: the parts that everything includes."""
        self.everything = False
        self.facts = facts
        self.parts: set[NodePart | PodPart] = set()
        self.labels: set[str] = set()
        self.label_prefixes: set[str] = set()
        self.annotations: set[str] = set()
        self.annotation_prefixes: set[str] = set()
        self.pods: dict[PodsKey, bool] = {}
        """Of nodes alone: how the pods on them are counted, and whether their requests are read."""
        self.topologies: dict[TopologyKey, bool] = {}
        """Of the pod to be placed alone: how the pods in the cluster that are like it are counted."""

    @property
    def readable(self) -> set[NodePart | PodPart]:
        """The parts that may be read."""
        return self.parts | self.facts if self.everything else self.parts

    @property
    def sent(self) -> list[NodePart | PodPart]:
        """The parts as they are sent, in ascending order: without those that everything includes."""
        return sorted(self.parts - self.facts if self.everything else self.parts)


class Reads:
    """What a verb reads of pods and nodes.

    The gateway sends this and nothing else, so the less a verb reads, the more calls a cached answer serves and the
    fewer rows of the node table change.

    Each method returns a key, with which the policy reads:

        reads = Reads()
        rack = reads.node_label("topology.acme.io/rack")
        reads.node(NodePart.TAINTS)
        ...
        node.get(rack)

    `node.label("topology.acme.io/rack")` gives the same value. Reading anything else raises `UndeclaredRead`.
    """

    MAX_KEYS: ClassVar[int] = READ_KEYS
    """The most keys and prefixes of one declaration, those of pods and nodes together. A prefix takes the place of all
    keys that begin with it."""

    def __init__(self) -> None:
        """Nothing yet: with this a verb knows how many nodes there are, and nothing else."""
        self._pod = Declared(frozenset(PodPart) - {PodPart.IDENTITY, PodPart.RAW_JSON})
        beside = {NodePart.USAGE, NodePart.NOMINATED, NodePart.RAW_JSON, NodePart.IMAGES}
        self._node = Declared(frozenset(NodePart) - beside)

    @staticmethod
    def everything() -> Reads:
        """All facts and all labels of pods and nodes, the nodes' names included.

        Not included are the identity of the pod, annotations, usage, nominated pods, JSON, counts of pods and the
        images of nodes: they are declared beside it. Labels may be declared, too, for their keys. For `Info.binds` and
        `Info.before_filter`, which have no nodes, it is everything of the pod.

        For policies that cannot know before what they read: cached answers serve fewer pods, and rows of the node table
        change more often.
        """
        reads = Reads()
        reads._pod.everything = reads._node.everything = True
        return reads

    def node_label(self, key: str) -> NodeKey:
        """A label of nodes. Declared twice, it is the same key."""
        self._node.labels.add(key)
        return NodeKey(key, is_annotation=False)

    def node_labels(self, prefix: str) -> NodePrefix:
        """The labels of nodes whose key begins with this; "" is all of them."""
        self._node.label_prefixes.add(prefix)
        return NodePrefix(prefix, is_annotation=False)

    def node_annotation(self, key: str) -> NodeKey:
        """An annotation of nodes."""
        self._node.annotations.add(key)
        return NodeKey(key, is_annotation=True)

    def node_annotations(self, prefix: str) -> NodePrefix:
        """The annotations of nodes whose key begins with this; "" is all of them."""
        self._node.annotation_prefixes.add(prefix)
        return NodePrefix(prefix, is_annotation=True)

    def node(self, *parts: NodePart) -> Reads:
        """Parts of nodes."""
        self._node.parts.update(_checked(NodePart, part) for part in parts)
        return self

    def pod_label(self, key: str) -> PodKey:
        """A label of the pod, and of victims."""
        self._pod.labels.add(key)
        return PodKey(key, is_annotation=False)

    def pod_labels(self, prefix: str) -> PodPrefix:
        """The labels of the pod, and of victims, whose key begins with this; "" is all of them."""
        self._pod.label_prefixes.add(prefix)
        return PodPrefix(prefix, is_annotation=False)

    def pod_annotation(self, key: str) -> PodKey:
        """An annotation of the pod, and of victims.

        In a pure verb, one that the pods of a template share: otherwise no cached answer serves a second pod.
        """
        self._pod.annotations.add(key)
        return PodKey(key, is_annotation=True)

    def pod_annotations(self, prefix: str) -> PodPrefix:
        """The annotations of the pod, and of victims, whose key begins with this; "" is all of them."""
        self._pod.annotation_prefixes.add(prefix)
        return PodPrefix(prefix, is_annotation=True)

    def pod(self, *parts: PodPart) -> Reads:
        """Parts of the pod, and of victims."""
        self._pod.parts.update(_checked(PodPart, part) for part in parts)
        return self

    def pods_by(self, by: PodsBy) -> PodsKey:
        """The pods on each node, counted by this.

        Declares the attribute of the pod, too, with which `Node.pods_like` finds the pods that are like it. At most 8
        different attributes. The gateway must watch pods. The verb may be pure: the answer for a node is then cached
        until a pod is added to the node or removed from it. The counts lag behind what kube-scheduler assumes by the
        time that a Binding needs, usually some milliseconds: two pods in a row can both see room for one. A gateway
        that binds asks again before each Binding.
        """
        return self._counted(by, requests=False)

    def pods_and_requests_by(self, by: PodsBy) -> PodsKey:
        """The same with the sums of the pods' requests, for `PodCount.requested`.

        The requests of the pod to be placed are `PodPart.REQUESTS`, to be declared besides.
        """
        return self._counted(by, requests=True)

    def pods_by_topology(self, by: PodsBy, topology_key: str) -> TopologyKey:
        """The pods in the cluster that are like the pod, added up by the value of a label of nodes.

        The label is such as `topology.kubernetes.io/zone`; with an empty topology key, the pods on all nodes of the
        cluster are added up. Declares the attribute of the pod and the label of nodes, too. At most 8 different pairs.
        For filter and score only; the gateway must watch pods, and know the nodes from more than the calls.

        The counts are those of the whole cluster at the moment of the call. So the answer for a node depends on the
        pod, the counts that come with it, and that node: the verb is per node. It may be pure, but each change of a
        count begins a new class of pods, for which nothing is cached yet.
        """
        return self._added_up(by, topology_key, requests=False)

    def pods_and_requests_by_topology(self, by: PodsBy, topology_key: str) -> TopologyKey:
        """The same with the sums of the pods' requests, for `PodCount.requested`."""
        return self._added_up(by, topology_key, requests=True)

    def _counted(self, by: PodsBy, *, requests: bool) -> PodsKey:
        key = PodsKey(by)
        self._attribute(by)
        self._node.pods[key] = self._node.pods.get(key, False) or requests
        return key

    def _added_up(self, by: PodsBy, topology: str, *, requests: bool) -> TopologyKey:
        key = TopologyKey(by, topology)
        self._attribute(by)
        if topology:
            self.node_label(topology)
        self._pod.topologies[key] = self._pod.topologies.get(key, False) or requests
        return key

    def _attribute(self, by: PodsBy) -> None:
        """What pods are counted by, of the pod to be placed."""
        if by == PodsBy.OWNER:
            self.pod(PodPart.OWNER)
        elif by == PodsBy.NAMESPACE:
            self.pod(PodPart.NAMESPACE)
        elif by == PodsBy.PRIORITY_CLASS:
            self.pod(PodPart.PRIORITY_CLASS)
        else:
            self.pod(PodPart.NAMESPACE)
            self.pod_label(by.key)

    def _copy(self) -> Reads:
        return copy.deepcopy(self)

    def _without_nodes(self) -> Reads:
        """The same for a verb without nodes, where everything is that of the pod.

        What else is declared about nodes stays, for the gateway to reject.
        """
        if not self._node.everything:
            return self
        reads = Reads()
        reads._pod = self._pod
        return reads

    def _with_everything(self) -> Reads:
        """Everything that can be declared, with the same counts of pods."""
        reads = self._copy()
        for declared in (reads._pod, reads._node):
            declared.everything = True
            declared.annotation_prefixes.add("")
        return reads.node(*NodePart).pod(*PodPart)


def _checked(kind: type[P], part: object) -> P:
    # Parts of pods and nodes have equal numbers.
    if not isinstance(part, kind):
        raise TypeError(f"{part!r} is no {kind.__name__}")
    return part


def canonical(prefixes: set[str]) -> tuple[str, ...]:
    """Ascending, without those that begin with another one. Texts compare like their bytes in UTF-8."""
    minimal: list[str] = []
    for prefix in sorted(prefixes):
        if not minimal or not prefix.startswith(minimal[-1]):
            minimal.append(prefix)
    return tuple(minimal)


def size(text: str) -> int:
    """In bytes."""
    return len(text.encode(errors="surrogatepass"))


def quoted(text: str) -> str:
    """For a sentence; a long text is cut."""
    return f'"{text[:64]}"'
