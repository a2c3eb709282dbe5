"""Pods as a policy sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, final

from ._api.v1alpha1 import pod_pb2
from ._kubernetes import model
from ._layout import Access, SentCount
from ._row import entries, values
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


class _Facts:
    """The values of a pod, each decoded at its first use."""

    def __init__(self, message: pod_pb2.Pod) -> None:
        self.message = message
        self.facts = message.facts
        self.attributes: dict[PodsBy, tuple[str, str] | None] = {}

    @cached_property
    def label_values(self) -> tuple[str | None, ...]:
        return values(self.facts.label_values, self.facts.absent_labels)

    @cached_property
    def annotation_values(self) -> tuple[str | None, ...]:
        return values(self.facts.annotation_values, self.facts.absent_annotations)

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return entries(self.facts.labels)

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        return entries(self.facts.annotations)

    @cached_property
    def node_selector(self) -> Mapping[str, str]:
        return entries(self.facts.node_selector)

    @cached_property
    def owner(self) -> OwnerReference | None:
        if not self.facts.HasField("owner"):
            return None
        owner = self.facts.owner
        return OwnerReference(owner.api_version, owner.kind, owner.name, owner.uid)

    @cached_property
    def requests(self) -> Resources:
        return resources(self.facts.requests)

    @cached_property
    def nonzero_requests(self) -> NonZero:
        return nonzero(self.facts.nonzero_requests)

    @cached_property
    def tolerations(self) -> tuple[Toleration, ...]:
        return tuple(
            Toleration(
                toleration.key,
                toleration.operator,
                toleration.value,
                toleration.effect,
                toleration.toleration_seconds if toleration.HasField("toleration_seconds") else None,
            )
            for toleration in self.facts.tolerations
        )

    @cached_property
    def node_affinity(self) -> NodeAffinity | None:
        return node_affinity(self.facts.node_affinity) if self.facts.HasField("node_affinity") else None

    @cached_property
    def volumes(self) -> tuple[Volume, ...]:
        return tuple(Volume(volume.name, volume.claim) for volume in self.facts.volumes)

    @cached_property
    def domains(self) -> tuple[Mapping[str, pod_pb2.DomainCount], ...]:
        return tuple({domain.value: domain for domain in counts.domains} for counts in self.message.topology_counts)

    @cached_property
    def unlisted(self) -> tuple[int, ...]:
        """For each list of domains, the most pods in one that is not listed: those with the fewest are left out."""
        return tuple(
            min([counts.omitted_pods, *(domain.pods for domain in counts.domains)]) if counts.omitted_pods else 0
            for counts in self.message.topology_counts
        )


@final
class Pod:
    """The pod to be placed, or one that would be evicted.

    In a verb with `Verb.reads`, everything that is not declared raises `UndeclaredRead`.
    """

    __slots__ = ("_access", "_facts", "snapshot")

    def __init__(self, message: pod_pb2.Pod, access: Access, snapshot: int = 0) -> None:
        self._facts = _Facts(message)
        self._access = access
        self.snapshot = snapshot
        """A number for the state of the nodes that this call is about, with their usage and counts of pods.

        Equal for two calls of one gateway about the same state, such as the filter and the score of a pod: to correlate
        calls, as in a log. Numbers have no order, and an answer must not depend on them. 0 if there is none:
        kube-scheduler's call brought the nodes, or the verb is told only their names, or it is another one than filter
        and score.
        """

    def get(self, key: PodKey) -> str | None:
        """The value of a declared label or annotation; `None` when the pod does not have it."""
        text, is_annotation = key
        return self.annotation(text) if is_annotation else self.label(text)

    def entries(self, prefix: PodPrefix) -> Mapping[str, str]:
        """The labels or annotations with a declared prefix, by key."""
        text, is_annotation = prefix
        places = self._access.annotations if is_annotation else self._access.labels
        places.check_prefix(text)
        found = self._facts.annotations if is_annotation else self._facts.labels
        return {key: value for key, value in found.items() if key.startswith(text)} if text else found

    @property
    def name(self) -> str | None:
        """metadata.name; `None` if the pod has none yet, and for pure verbs, which do not receive it."""
        self._part(PodPart.IDENTITY)
        return self._facts.message.identity.name or None

    @property
    def uid(self) -> str | None:
        """metadata.uid; `None` under the same conditions as `name`."""
        self._part(PodPart.IDENTITY)
        return self._facts.message.identity.uid or None

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        self._part(PodPart.NAMESPACE)
        return self._facts.facts.namespace

    def label(self, key: str) -> str | None:
        """The value of a label; `None` when the pod does not have it."""
        place = self._access.labels[key]
        return self._facts.label_values[place] if place >= 0 else self._facts.labels.get(key)

    @property
    def labels(self) -> Mapping[str, str]:
        """All labels, by key. A declaration has the prefix "" for them."""
        self._access.labels.check_prefix("")
        return self._facts.labels

    def annotation(self, key: str) -> str | None:
        """The value of an annotation; `None` when the pod does not have it.

        Without `Verb.reads`, only if `Info.annotations` asks for its prefix.
        """
        place = self._access.annotations[key]
        return self._facts.annotation_values[place] if place >= 0 else self._facts.annotations.get(key)

    @property
    def annotations(self) -> Mapping[str, str]:
        """All annotations that are sent, by key. A declaration has the prefix "" for them."""
        self._access.annotations.check_prefix("")
        return self._facts.annotations

    @property
    def owner(self) -> OwnerReference | None:
        """The owner that is the controller, such as a ReplicaSet; `None` for a pod without one."""
        self._part(PodPart.OWNER)
        return self._facts.owner

    @property
    def priority(self) -> int:
        """spec.priority; 0 if not set, as in kube-scheduler."""
        self._part(PodPart.PRIORITY)
        return self._facts.facts.priority

    @property
    def priority_class(self) -> str | None:
        """spec.priorityClassName; `None` if not set."""
        self._part(PodPart.PRIORITY_CLASS)
        return self._facts.facts.priority_class_name or None

    @property
    def requests(self) -> Resources:
        """What the pod needs from a node, as kube-scheduler counts it, in its units."""
        self._part(PodPart.REQUESTS)
        return self._facts.requests

    @property
    def nonzero_requests(self) -> NonZero:
        """CPU and memory as kube-scheduler's scores count them.

        These are `requests`, but a container that requests none counts with 100 thousandths of a CPU, and 200 MiB.
        """
        self._part(PodPart.NONZERO_REQUESTS)
        return self._facts.nonzero_requests

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """spec.tolerations, in order."""
        self._part(PodPart.TOLERATIONS)
        return self._facts.tolerations

    def tolerates(self, taint: Taint) -> bool:
        """Whether one of the pod's tolerations tolerates the taint. Mirrors `ToleratesTaint` of k8s.io/api/core/v1."""
        return any(toleration.tolerates(taint) for toleration in self.tolerations)

    @property
    def node_selector(self) -> Mapping[str, str]:
        """spec.nodeSelector, by key."""
        self._part(PodPart.NODE_SELECTOR)
        return self._facts.node_selector

    @property
    def node_affinity(self) -> NodeAffinity | None:
        """spec.affinity.nodeAffinity, as written in the pod; `None` if the pod has none."""
        self._part(PodPart.NODE_AFFINITY)
        return self._facts.node_affinity

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """spec.volumes, in order, without the service account's volume."""
        self._part(PodPart.VOLUMES)
        return self._facts.volumes

    @property
    def claims(self) -> tuple[str, ...]:
        """Names of the claims that the pod's volumes use.

        Also those derived from the pod's name, which pure verbs do not receive. A declaration has `PodPart.VOLUMES` and
        `PodPart.IDENTITY` for them; a pure verb with a declaration reads `volumes`.
        """
        self._part(PodPart.VOLUMES)
        self._part(PodPart.IDENTITY)
        named = (volume.claim for volume in self._facts.volumes if volume.claim)
        return (*named, *self._facts.message.identity.claims)

    @property
    def scheduler_name(self) -> str | None:
        """spec.schedulerName; `None` if not set."""
        self._part(PodPart.SCHEDULER_NAME)
        return self._facts.facts.scheduler_name or None

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
        if attribute is None or by.position >= len(self._facts.domains):
            return None
        return Domains(by, attribute, self._facts)

    @property
    def raw_json(self) -> bytes | None:
        """The object's JSON, unchanged; `None` unless `Info.raw_pod` asks for it."""
        return self._facts.message.raw_json or None

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
        attributes = self._facts.attributes
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
        facts = self._facts.facts
        return f"Pod({facts.namespace + '/' if facts.namespace else ''}{self._facts.message.identity.name})"


@final
class Domains:
    """The pods in the cluster that are like the pod to be placed, added up by the value of a label of nodes.

    One domain for each value. Without a topology key, the cluster is one domain, with an empty value.
    """

    __slots__ = ("_attribute", "_by", "_domains", "_topology", "_unlisted", "omitted_pods")

    def __init__(self, by: SentCount, attribute: tuple[str, str], facts: _Facts) -> None:
        self._by = by
        self._topology = by.topology
        self._attribute = attribute
        self._domains = facts.domains[by.position]
        self._unlisted = facts.unlisted[by.position]
        self.omitted_pods = facts.message.topology_counts[by.position].omitted_pods
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
