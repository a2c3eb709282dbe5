"""Pods as a policy sees them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, final

from ._api.v1beta1 import pod_pb2, policy_pb2
from ._kubernetes import model
from ._labelled import Content, Labelled, entries, values
from ._layout import Access, SentCount
from .counts import PodCount, PodsLike, like
from .errors import UndeclaredRead
from .node import Node
from .reads import PodKey, PodPart, PodPrefix, PodsBy, TopologyKey
from .resources import (
    Container,
    NodeAffinity,
    NonZero,
    OwnerReference,
    PodAffinity,
    ResourceClaim,
    Resources,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    mirrored,
    node_affinity,
    nonzero,
    resources,
)

_REQUESTS = 1 << PodPart.REQUESTS
_TOLERATIONS = 1 << PodPart.TOLERATIONS


class _PodContent(Content):
    """The values of a pod."""

    __slots__ = (
        "_message",
        "attributes",
        "containers",
        "domains",
        "node_affinity",
        "node_selector",
        "nonzero_requests",
        "owner",
        "pod_affinity",
        "requests",
        "resource_claims",
        "tolerations",
        "topology_spread",
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
    containers: tuple[Container, ...]
    pod_affinity: PodAffinity | None
    topology_spread: tuple[TopologySpreadConstraint, ...]
    resource_claims: tuple[ResourceClaim, ...]
    domains: tuple[Mapping[str, pod_pb2.DomainCount], ...]
    unlisted: tuple[int, ...]
    """For each list of domains, the most pods in one that is not listed: those with the fewest are left out."""

    decoders: ClassVar[Mapping[str, Callable[[Any], object]]] = {
        "label_values": lambda content: values(content._message.facts.labels),
        "annotation_values": lambda content: values(content._message.facts.annotations),
        "labels": lambda content: entries(content._message.facts.labels.entries),
        "annotations": lambda content: entries(content._message.facts.annotations.entries),
        "node_selector": lambda content: entries(content._message.facts.node_selector),
        "owner": lambda content: _present(content._message.facts, "owner"),
        "requests": lambda content: resources(content._message.facts.requests),
        "nonzero_requests": lambda content: nonzero(content._message.facts.nonzero_requests),
        "tolerations": lambda content: mirrored(content._message.facts.tolerations),
        "node_affinity": lambda content: (
            node_affinity(content._message.facts.node_affinity)
            if content._message.facts.HasField("node_affinity")
            else None
        ),
        "volumes": lambda content: mirrored(content._message.facts.volumes),
        "containers": lambda content: mirrored(content._message.facts.containers),
        "pod_affinity": lambda content: _present(content._message.facts, "pod_affinity"),
        "topology_spread": lambda content: mirrored(content._message.facts.topology_spread),
        "resource_claims": lambda content: mirrored(content._message.facts.resource_claims),
        "domains": lambda content: tuple(
            {domain.value: domain for domain in counts.domains} for counts in content._message.topology_counts
        ),
        "unlisted": lambda content: tuple(map(_unlisted, content._message.topology_counts)),
    }

    def __init__(self, message: pod_pb2.Pod) -> None:
        self._message = message
        self.attributes: dict[PodsBy, tuple[str, str] | None] = {}

    def __getattr__(self, name: str) -> Any:
        # An empty slot. There is one pod in a call, so that this takes longer than `UNREAD` does not matter.
        if name not in self.decoders:
            raise AttributeError(name)
        self.read(name)
        return getattr(self, name)


def _present(facts: pod_pb2.PodFacts, name: str) -> Any:
    return mirrored(getattr(facts, name)) if facts.HasField(name) else None


def _unlisted(counts: pod_pb2.TopologyCounts) -> int:
    return min([counts.omitted_pods, *(domain.pods for domain in counts.domains)]) if counts.omitted_pods else 0


@final
class Pod(Labelled[PodKey, PodPrefix]):
    """The pod to be placed, or one that would be evicted.

    It has what the verb declares with `Verb.reads`; all else raises `UndeclaredRead`.
    """

    __slots__ = ("_call_id", "_content", "_is_pure", "cluster", "snapshot")

    _content: _PodContent

    def __init__(
        self, message: pod_pb2.Pod, access: Access, call: policy_pb2.Call | None = None, *, is_pure: bool = False
    ) -> None:
        self._content = _PodContent(message)
        self._access = access
        self._call_id = None if call is None else call.id
        self._is_pure = is_pure
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
    def call_id(self) -> str | None:
        """The id of the call, as in `Outcome.call`; `None` for pods that would be evicted.

        To be kept with what the call has changed outside. A pure verb or hook cannot read it: `UndeclaredRead`.
        """
        if self._is_pure:
            raise UndeclaredRead(
                "call_id is another one in each call, which a pure verb cannot read; declare the verb without pure()"
            )
        return self._call_id

    @property
    def name(self) -> str | None:
        """metadata.name; `None` if the pod has none yet."""
        self._part(PodPart.IDENTITY)
        return self._content._message.identity.name or None

    @property
    def uid(self) -> str | None:
        """metadata.uid; `None` if the pod has none yet."""
        self._part(PodPart.IDENTITY)
        return self._content._message.identity.uid or None

    @property
    def created_seconds(self) -> int | None:
        """metadata.creationTimestamp, in seconds since 1970; `None` if the pod has none."""
        self._part(PodPart.IDENTITY)
        identity = self._content._message.identity
        return identity.created_seconds if identity.HasField("created_seconds") else None

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
        # Policies read this and the tolerations for each node.
        if not self._access.parts & _REQUESTS:
            self._access.undeclared_part(PodPart.REQUESTS)
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
        if not self._access.parts & _TOLERATIONS:
            self._access.undeclared_part(PodPart.TOLERATIONS)
        return self._content.tolerations

    def tolerates(self, taint: Taint) -> bool:
        """Whether one of the pod's tolerations tolerates the taint. Mirrors `ToleratesTaint` of k8s.io/api/core/v1."""
        for toleration in self.tolerations:  # noqa: SIM110 - a generator takes as long as the comparison
            if toleration.tolerates(taint):
                return True
        return False

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

        Also those derived from the pod's name: `PodPart.VOLUMES` and `PodPart.IDENTITY` declare them. A pure verb reads
        `volumes`.
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

    @property
    def containers(self) -> tuple[Container, ...]:
        """spec.initContainers and spec.containers, in this order."""
        self._part(PodPart.CONTAINERS)
        return self._content.containers

    @property
    def pod_affinity(self) -> PodAffinity | None:
        """spec.affinity.podAffinity and podAntiAffinity, as written in the pod; `None` if the pod has neither."""
        self._part(PodPart.POD_AFFINITY)
        return self._content.pod_affinity

    @property
    def topology_spread(self) -> tuple[TopologySpreadConstraint, ...]:
        """spec.topologySpreadConstraints, in order."""
        self._part(PodPart.TOPOLOGY_SPREAD)
        return self._content.topology_spread

    @property
    def resource_claims(self) -> tuple[ResourceClaim, ...]:
        """spec.resourceClaims, in order."""
        self._part(PodPart.RESOURCE_CLAIMS)
        return self._content.resource_claims

    @property
    def pod_group(self) -> str | None:
        """spec.schedulingGroup.podGroupName, the PodGroup of the pod; `None` if it is in none."""
        self._part(PodPart.POD_GROUP)
        return self._content._message.facts.pod_group_name or None

    @property
    def runtime_class(self) -> str | None:
        """spec.runtimeClassName; `None` if not set."""
        self._part(PodPart.RUNTIME_CLASS)
        return self._content._message.facts.runtime_class_name or None

    @property
    def preemption_policy(self) -> str | None:
        """spec.preemptionPolicy, such as "Never"; `None` if not set, which means "PreemptLowerPriority"."""
        self._part(PodPart.PREEMPTION_POLICY)
        return self._content._message.facts.preemption_policy or None

    @property
    def service_account(self) -> str | None:
        """spec.serviceAccountName; `None` if not set."""
        self._part(PodPart.SERVICE_ACCOUNT)
        return self._content._message.facts.service_account_name or None

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
        """The object's JSON, unchanged; `None` if the gateway does not have it."""
        self._part(PodPart.RAW_JSON)
        return self._content._message.raw_json or None

    def kubernetes(self) -> Any:
        """The object as `V1Pod` of the package kubernetes, decoded with each call.

        `None` if there is no `raw_json`, which is to be declared. Needs the extra `kubernetes`.
        """
        return model(self.raw_json, "V1Pod")

    def _asked_by(self, *, is_pure: bool) -> Pod:
        """The same pod in the same call, as another verb that reads the same of it may read it."""
        changed = copy.copy(self)
        changed._is_pure = is_pure
        return changed

    def _part(self, part: PodPart) -> None:
        if not self._access.parts >> part & 1:
            self._access.undeclared_part(part)

    def _attribute(self, by: PodsBy) -> tuple[str, str] | None:
        """What the pod has of an attribute by which pods are counted, if it has it."""
        attributes = self._content.attributes
        try:
            return attributes[by]
        except KeyError:
            return attributes.setdefault(by, self._find_attribute(by))

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

    def __str__(self) -> str:
        """Namespace and name, or what is read of them."""
        message = self._content._message
        return "/".join(filter(None, (message.facts.namespace, message.identity.name)))

    def __repr__(self) -> str:
        return f"Pod({self})"


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
