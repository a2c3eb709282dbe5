"""Pods as a policy sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, final

from ._api.v1beta1 import pod_pb2, policy_pb2
from ._kubernetes import model
from ._labelled import Content, Labelled, entries
from ._layout import Access, SentCount
from .counts import PodCount, PodsLike, like
from .node import Node
from .reads import PodKey, PodPart, PodPrefix, PodsBy, TopologyKey
from .resources import (
    NodeAffinity,
    NonZero,
    OwnerReference,
    Resources,
    Taint,
    Toleration,
    Volume,
    node_affinity,
    nonzero,
    resources,
)


class _PodContent(Content):
    """The values of a pod."""

    __slots__ = (
        "attributes",
        "domains",
        "node_affinity",
        "node_selector",
        "nonzero_requests",
        "owner",
        "requests",
        "tolerations",
        "unlisted",
        "volumes",
    )

    node_selector: Mapping[str, str]
    owner: OwnerReference | None
    requests: Resources
    nonzero_requests: NonZero
    tolerations: tuple[Toleration, ...]
    node_affinity: NodeAffinity | None
    volumes: tuple[Volume, ...]
    domains: tuple[Mapping[str, pod_pb2.DomainCount], ...]
    unlisted: tuple[int, ...]
    """For each list of domains, the most pods in one that is not listed: those with the fewest are left out."""

    decoders: ClassVar[Mapping[str, Callable[[Any], object]]] = {
        **Content.decoders,
        "node_selector": lambda content: entries(content._message.facts.node_selector),
        "owner": lambda content: _owner(content._message.facts),
        "requests": lambda content: resources(content._message.facts.requests),
        "nonzero_requests": lambda content: nonzero(content._message.facts.nonzero_requests),
        "tolerations": lambda content: tuple(map(_toleration, content._message.facts.tolerations)),
        "node_affinity": lambda content: (
            node_affinity(content._message.facts.node_affinity)
            if content._message.facts.HasField("node_affinity")
            else None
        ),
        "volumes": lambda content: tuple(
            Volume(volume.name, volume.claim) for volume in content._message.facts.volumes
        ),
        "domains": lambda content: tuple(
            {domain.value: domain for domain in counts.domains} for counts in content._message.topology_counts
        ),
        "unlisted": lambda content: tuple(map(_unlisted, content._message.topology_counts)),
    }

    def __init__(self, message: pod_pb2.Pod) -> None:
        self._message = message
        self.attributes: dict[PodsBy, tuple[str, str] | None] = {}


def _owner(facts: pod_pb2.PodFacts) -> OwnerReference | None:
    owner = facts.owner
    return OwnerReference(owner.api_version, owner.kind, owner.name, owner.uid) if facts.HasField("owner") else None


def _toleration(given: pod_pb2.Toleration) -> Toleration:
    seconds = given.toleration_seconds if given.HasField("toleration_seconds") else None
    return Toleration(given.key, given.operator, given.value, given.effect, seconds)


def _unlisted(counts: pod_pb2.TopologyCounts) -> int:
    return min([counts.omitted_pods, *(domain.pods for domain in counts.domains)]) if counts.omitted_pods else 0


@final
class Pod(Labelled[PodKey, PodPrefix]):
    """The pod to be placed, or one that would be evicted.

    In a verb with `Verb.reads`, everything that is not declared raises `UndeclaredRead`.
    """

    __slots__ = ("_content", "cluster", "snapshot")

    _content: _PodContent

    def __init__(self, message: pod_pb2.Pod, access: Access, call: policy_pb2.Call | None = None) -> None:
        self._content = _PodContent(message)
        self._access = access
        self.snapshot = None if call is None else call.snapshot or None
        """A name for the state of the nodes that this call is about, with their usage and counts of pods.

        Equal for two calls of one gateway about the same state, such as the filter and the score of a pod: to correlate
        calls, as in a log. An answer must not depend on it. `None` if there is none: kube-scheduler's call brought the
        nodes, or a hook has changed them, or the verb is told only their names, or it is another one than filter, score
        and hooks about nodes.
        """
        self.cluster = None if call is None else call.cluster or None
        """The cluster whose kube-scheduler calls, as the operator named it.

        `None` if it has no name, and for pods that would be evicted.
        """

    @property
    def name(self) -> str | None:
        """metadata.name; `None` if the pod has none yet, and for pure verbs, which do not receive it."""
        self._part(PodPart.IDENTITY)
        return self._content._message.identity.name or None

    @property
    def uid(self) -> str | None:
        """metadata.uid; `None` under the same conditions as `name`."""
        self._part(PodPart.IDENTITY)
        return self._content._message.identity.uid or None

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        self._part(PodPart.NAMESPACE)
        return self._content._message.facts.namespace

    @property
    def owner(self) -> OwnerReference | None:
        """The owner that is the controller, such as a ReplicaSet; `None` for a pod without one."""
        self._part(PodPart.OWNER)
        return self._content.owner

    @property
    def priority(self) -> int:
        """spec.priority; 0 if not set, as in kube-scheduler."""
        self._part(PodPart.PRIORITY)
        return self._content._message.facts.priority

    @property
    def priority_class(self) -> str | None:
        """spec.priorityClassName; `None` if not set."""
        self._part(PodPart.PRIORITY_CLASS)
        return self._content._message.facts.priority_class_name or None

    @property
    def requests(self) -> Resources:
        """What the pod needs from a node, as kube-scheduler counts it, in its units."""
        self._part(PodPart.REQUESTS)
        return self._content.requests

    @property
    def nonzero_requests(self) -> NonZero:
        """CPU and memory as kube-scheduler's scores count them.

        These are `requests`, but a container that requests none counts with 100 thousandths of a CPU, and 200 MiB.
        """
        self._part(PodPart.NONZERO_REQUESTS)
        return self._content.nonzero_requests

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """spec.tolerations, in order."""
        self._part(PodPart.TOLERATIONS)
        return self._content.tolerations

    def tolerates(self, taint: Taint) -> bool:
        """Whether one of the pod's tolerations tolerates the taint. Mirrors `ToleratesTaint` of k8s.io/api/core/v1."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

    @property
    def node_selector(self) -> Mapping[str, str]:
        """spec.nodeSelector, by key."""
        self._part(PodPart.NODE_SELECTOR)
        return self._content.node_selector

    @property
    def node_affinity(self) -> NodeAffinity | None:
        """spec.affinity.nodeAffinity, as written in the pod; `None` if the pod has none."""
        self._part(PodPart.NODE_AFFINITY)
        return self._content.node_affinity

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """spec.volumes, in order, without the service account's volume."""
        self._part(PodPart.VOLUMES)
        return self._content.volumes

    @property
    def claims(self) -> tuple[str, ...]:
        """Names of the claims that the pod's volumes use.

        Also those derived from the pod's name, which pure verbs do not receive. A declaration has `PodPart.VOLUMES` and
        `PodPart.IDENTITY` for them; a pure verb with a declaration reads `volumes`.
        """
        self._part(PodPart.VOLUMES)
        self._part(PodPart.IDENTITY)
        named = (volume.claim for volume in self._content.volumes if volume.claim)
        return (*named, *self._content._message.identity.claims)

    @property
    def scheduler_name(self) -> str | None:
        """spec.schedulerName; `None` if not set."""
        self._part(PodPart.SCHEDULER_NAME)
        return self._content._message.facts.scheduler_name or None

    def pods_like(self, key: TopologyKey) -> Domains | None:
        """The pods in the cluster that are like this one, added up by topology, as the key declares.

        They have the same owner, namespace, value of the label or priority class. `None` if the pod lacks that: a pod
        without a controller has no siblings. Only of the pod to be placed.

        Pods count from when they are bound until they have ended or are deleted; the pod of a call is none of them, and
        neither are pods on nodes without the label. The counts lag behind like those of `Node.pods_like`.
        """
        by = self._access.topology(key)
        attribute = self._attribute(key.by)
        # A victim has no counts, and verbs with victims declare none.
        if attribute is None or by.position >= len(self._content.domains):
            return None
        return Domains(by, attribute, self._content)

    @property
    def raw_json(self) -> bytes | None:
        """The object's JSON, unchanged; `None` unless `Info.raw_pod` asks for it."""
        return self._content._message.raw_json or None

    def kubernetes(self) -> Any:
        """The object as `V1Pod` of the package kubernetes, decoded with each call.

        `None` unless `Info.raw_pod` asks for its JSON. Needs the extra `kubernetes`.
        """
        return model(self.raw_json, "V1Pod")

    def _part(self, part: PodPart) -> None:
        if not self._access.parts >> part & 1:
            self._access.undeclared_part(part)

    def _attribute(self, by: PodsBy) -> tuple[str, str] | None:
        """What the pod has of an attribute by which pods are counted, if it has it."""
        attributes = self._content.attributes
        if by not in attributes:
            attributes[by] = self._find_attribute(by)
        return attributes[by]

    def _find_attribute(self, by: PodsBy) -> tuple[str, str] | None:
        if by.is_label:
            # The value of a label may be empty.
            labelled = self.label(by.key)
            return None if labelled is None else (self.namespace, labelled)
        if by == PodsBy.OWNER:
            value = self.owner.uid if self.owner is not None else None
        elif by == PodsBy.NAMESPACE:
            value = self.namespace
        else:
            value = self.priority_class
        return ("", value) if value else None

    def __repr__(self) -> str:
        facts = self._content._message.facts
        return f"Pod({facts.namespace + '/' if facts.namespace else ''}{self._content._message.identity.name})"


@final
class Domains:
    """The pods in the cluster that are like the pod to be placed, added up by the value of a label of nodes.

    One domain for each value. Without a topology key, the cluster is one domain, with an empty value.
    """

    __slots__ = ("_attribute", "_by", "_domains", "_topology", "_unlisted", "omitted_pods")

    def __init__(self, by: SentCount, attribute: tuple[str, str], content: _PodContent) -> None:
        self._by = by
        self._topology = by.topology
        self._attribute = attribute
        self._domains = content.domains[by.position]
        self._unlisted = content.unlisted[by.position]
        self.omitted_pods = content._message.topology_counts[by.position].omitted_pods
        """How many pods are in domains that are left out.

        The gateway sends at most 4,096 domains, those with the most pods: usually 0.
        """

    def of(self, node: Node) -> PodsLike | None:
        """The pods in the domain of this node, on all its nodes.

        `None` if the node lacks the label, and so is in no domain.
        """
        value = node.label(self._topology) if self._topology else ""
        if value is None:
            return None
        return like(self._by, self._domains.get(value), self._attribute, self._unlisted)

    def __iter__(self) -> Iterator[tuple[str, PodCount]]:
        """The domains with at least one such pod, in ascending order of their values, the values of the label.

        Not those of `omitted_pods`. The namespace and the value of a count are those of the pods.
        """
        for value, domain in self._domains.items():
            yield value, PodCount(self._by, domain, *self._attribute)

    def __len__(self) -> int:
        return len(self._domains)
