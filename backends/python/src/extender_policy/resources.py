"""The values that pods and nodes have. They mirror the contract, and are immutable.

Amounts are whole numbers in kube-scheduler's own units: thousandths of a CPU, bytes, whole values of other resources.
Fractions were rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from google.protobuf.message import Message

from ._api.v1beta1 import node_pb2, pod_pb2, resources_pb2
from ._labelled import entries
from .reads import quoted

NONE: Mapping[str, int] = MappingProxyType({})

_PLAIN = frozenset((str, int, bool, type(None)))
"""The types of fields that are no messages, lists or maps."""

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
"""Those of taints."""
OPERATORS = ("Equal", "Exists", "Lt", "Gt")
"""Those of tolerations."""


class Resources(NamedTuple):
    """Amounts of resources; 0 where nothing is said."""

    milli_cpu: int = 0
    """Thousandths of a CPU."""
    memory: int = 0
    """Bytes."""
    ephemeral_storage: int = 0
    """Bytes."""
    pods: int = 0
    """How many pods."""
    others: Mapping[str, int] = NONE
    """All others by name, such as "example.com/gpu". One that is missing is not offered, or not requested."""


class NonZero(NamedTuple):
    """CPU and memory as kube-scheduler's scores count them.

    A container without a request counts with 100 thousandths of a CPU or 200 MiB.
    """

    milli_cpu: int = 0
    """Thousandths of a CPU."""
    memory: int = 0
    """Bytes."""


class NodeUsage(NamedTuple):
    """The sums of what the pods on a node request. `requested.pods` is their number."""

    requested: Resources = Resources()
    nonzero: NonZero = NonZero()


class HoldUser(NamedTuple):
    """A pod for which a hold keeps room."""

    uid: str
    at_most: Resources | None = None
    """The most of its requests that are taken from the hold, `pods` aside; `None`: all of them."""


class Taint(NamedTuple):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"
    """ "NoSchedule", "PreferNoSchedule" or "NoExecute"."""


class Toleration(NamedTuple):
    """A taint that a pod tolerates."""

    key: str = ""
    """Empty: every key."""
    operator: str = ""
    """ "Equal", "Exists", or another operator of the cluster's version. Empty: "Equal"."""
    value: str = ""
    effect: str = ""
    """ "NoSchedule", "PreferNoSchedule" or "NoExecute". Empty: every effect."""
    toleration_seconds: int | None = None
    """Seconds that a NoExecute taint is tolerated; `None`: forever."""

    def tolerates(self, taint: Taint) -> bool:
        """Mirrors `ToleratesTaint` of k8s.io/api/core/v1.

        Other operators than "Exists" and "Equal" tolerate nothing.
        """
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in ("", "Equal") and self.value == taint.value


class OwnerReference(NamedTuple):
    """The object that created a pod."""

    api_version: str
    kind: str
    name: str
    uid: str


class Volume(NamedTuple):
    """A volume of a pod."""

    name: str
    claim: str = ""
    """The PersistentVolumeClaim's name; empty if it is none, or if its name is derived from the pod's."""
    source: str = ""
    """The name of the field that says what it is, such as "configMap", "hostPath" or "persistentVolumeClaim"."""
    driver: str = ""
    """The CSI driver of an inline volume; empty for all others."""


class NodeSelectorRequirement(NamedTuple):
    """One condition on labels or fields of a node."""

    key: str
    operator: str
    """ "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", or another of the cluster's version."""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(NamedTuple):
    """Nodes that match all of these. Without any, no node matches."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class PreferredSchedulingTerm(NamedTuple):
    """Nodes that the pod prefers."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(NamedTuple):
    """The nodes that a pod requires and prefers."""

    required: tuple[NodeSelectorTerm, ...] | None = None
    """Nodes that match one of the terms; `None`: every node matches, empty: no node does."""
    preferred: tuple[PreferredSchedulingTerm, ...] = ()


class HostPort(NamedTuple):
    """A port of the node that a container takes."""

    port: int
    protocol: str = "TCP"
    """ "TCP", "UDP" or "SCTP"."""
    ip: str = ""
    """The address of the node; empty: all of them."""


class Container(NamedTuple):
    """A container of a pod."""

    name: str
    image: str = ""
    init: bool = False
    """Whether it is one of spec.initContainers."""
    host_ports: tuple[HostPort, ...] = ()
    """Those of its ports that have a hostPort, which all have in a pod with hostNetwork."""


class LabelSelector(NamedTuple):
    """Selects objects whose labels match all of these. Without any, it selects everything."""

    match_labels: Mapping[str, str] = MappingProxyType({})
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    """Their operators are "In", "NotIn", "Exists" and "DoesNotExist"."""


class PodAffinityTerm(NamedTuple):
    """Pods near which, or away from which, a pod is placed."""

    topology_key: str
    """The key of a label of nodes."""
    selector: LabelSelector | None = None
    """The pods; `None`: none of them."""
    namespaces: tuple[str, ...] = ()
    """Those besides the ones of `namespace_selector`."""
    namespace_selector: LabelSelector | None = None
    """`None`: none; without `namespaces` either, the namespace of the pod."""
    match_label_keys: tuple[str, ...] = ()
    """Keys of labels whose values are those of the pod."""
    mismatch_label_keys: tuple[str, ...] = ()
    """Keys of labels whose values are not those of the pod."""


class WeightedPodAffinityTerm(NamedTuple):
    """The same as a preference."""

    weight: int
    term: PodAffinityTerm


class PodAffinity(NamedTuple):
    """spec.affinity.podAffinity, and podAntiAffinity."""

    required: tuple[PodAffinityTerm, ...] = ()
    preferred: tuple[WeightedPodAffinityTerm, ...] = ()
    anti_required: tuple[PodAffinityTerm, ...] = ()
    anti_preferred: tuple[WeightedPodAffinityTerm, ...] = ()


class TopologySpreadConstraint(NamedTuple):
    """How evenly pods are spread over the values of a label of nodes."""

    max_skew: int
    topology_key: str
    """The key of a label of nodes."""
    when_unsatisfiable: str
    """ "DoNotSchedule" or "ScheduleAnyway"."""
    selector: LabelSelector | None = None
    """The pods that are counted; `None`: none of them."""
    min_domains: int | None = None
    """`None`: 1."""
    node_affinity_policy: str = ""
    """ "Honor" or "Ignore". Empty: "Honor"."""
    node_taints_policy: str = ""
    """ "Honor" or "Ignore". Empty: "Ignore"."""
    match_label_keys: tuple[str, ...] = ()
    """Keys of labels whose values are those of the pod."""


class ResourceClaim(NamedTuple):
    """A claim of a pod for devices."""

    name: str
    """The name within the pod."""
    claim: str = ""
    """The ResourceClaim's name; empty if it is made from the template."""
    template: str = ""
    """The ResourceClaimTemplate's name; empty if there is none."""


class NodeImage(NamedTuple):
    """An image on a node."""

    names: tuple[str, ...]
    """With tags and digests."""
    bytes: int = 0
    """Its size; 0 if it is not known."""


class SystemInfo(NamedTuple):
    """What runs on a node. Each text is empty if it is not reported."""

    architecture: str = ""
    """Such as "amd64"."""
    operating_system: str = ""
    os_image: str = ""
    kernel_version: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""


class NodeAddress(NamedTuple):
    """An address of a node."""

    type: str
    """ "Hostname", "InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS", or another."""
    address: str


def named_amounts(method: str, amounts: Mapping[str, Any]) -> Resources:
    """The amounts that this method is given by name."""
    hint = "; CPU is milli_cpu, in thousandths: milli_cpu=4000 is 4 CPUs"
    _check_names(method, amounts, Resources._fields, hint)
    return Resources(**amounts)


def given_toleration(method: str, toleration: Toleration | None, fields: Mapping[str, Any]) -> Toleration:
    """The toleration that this method is given, or one of the given fields."""
    _check_names(method, fields, Toleration._fields)
    if toleration is None:
        return Toleration(**fields)
    if not isinstance(toleration, Toleration) or fields:
        given = "both" if isinstance(toleration, Toleration) else repr(toleration)
        example = f'{method}(key="dedicated", operator="Exists")'
        raise TypeError(f"{method} takes a Toleration, or its fields by name, such as {example}; it was given {given}")
    return toleration


def check_toleration(method: str, toleration: Toleration) -> None:
    """Raises `ValueError` for an operator or effect that Kubernetes does not have."""
    _check_word(f"{method} has the operator", toleration.operator, OPERATORS, "Equal")
    _check_word(f"{method} has the effect", toleration.effect, EFFECTS, "every effect")


def _check_word(what: str, given: str, known: tuple[str, ...], empty: str) -> None:
    if given not in ("", *known):
        raise ValueError(f'{what} {quoted(str(given))}; expected one of {", ".join(known)}, or "" for {empty}')


def _check_names(method: str, given: Iterable[str], known: tuple[str, ...], hint: str = "") -> None:
    unknown = ", ".join(name for name in given if name not in known)
    if unknown:
        raise TypeError(f"{method} does not know {unknown}; it takes {', '.join(known)}{hint}")


def resources(message: resources_pb2.Resources) -> Resources:
    """From the contract's message."""
    given = message.others
    # dict() of a map of protobuf takes three times as long.
    others = MappingProxyType({name: given[name] for name in given}) if given else NONE
    return Resources(message.milli_cpu, message.memory, message.ephemeral_storage, message.pods, others)


def nonzero(message: resources_pb2.NonZero) -> NonZero:
    """From the contract's message."""
    return NonZero(message.milli_cpu, message.memory)


def usage(message: node_pb2.NodeUsage) -> NodeUsage:
    """From the contract's message."""
    return NodeUsage(resources(message.requested), nonzero(message.nonzero))


def node_affinity(message: pod_pb2.NodeAffinity) -> NodeAffinity:
    """From the contract's message."""
    required = mirrored(message.required.terms) if message.HasField("required") else None
    return NodeAffinity(required, mirrored(message.preferred))


_MIRRORS: Mapping[str, tuple[Any, frozenset[str]]] = {
    kind.__name__: (kind, frozenset(name for name, default in kind._field_defaults.items() if default is None))
    for kind in (
        Container,
        HostPort,
        LabelSelector,
        NodeAddress,
        NodeImage,
        NodeSelectorRequirement,
        NodeSelectorTerm,
        OwnerReference,
        PodAffinity,
        PodAffinityTerm,
        PreferredSchedulingTerm,
        ResourceClaim,
        SystemInfo,
        Toleration,
        TopologySpreadConstraint,
        Volume,
        WeightedPodAffinityTerm,
    )
}
"""The values with the names and fields of messages, by these names, each with the fields that may be absent."""


def mirrored(given: Any) -> Any:
    """A message, or what is in one of its fields, as the value that mirrors it.

    What is absent is `None` where this is the default of the value, and otherwise empty.
    """
    if isinstance(given, Message):
        kind, optional = _MIRRORS[given.DESCRIPTOR.name]
        values = [
            None if name in optional and not given.HasField(name) else getattr(given, name) for name in kind._fields
        ]
        return kind._make([value if type(value) in _PLAIN else mirrored(value) for value in values])
    if isinstance(given, Mapping):
        return entries(given)
    return tuple(one if type(one) in _PLAIN else mirrored(one) for one in given)
