"""What hooks change about pods and nodes."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Any, ClassVar, Generic, TypeVar, final

from google.protobuf import text_format
from google.protobuf.message import Message

from ._api.v1beta1 import hooks_pb2, info_pb2, resources_pb2
from ._errors import cut
from ._limits import CHANGE_REASON_BYTES
from ._messages import fields, node_affinity_message, nonzero_message, pod_affinity_message, resources_message
from .reads import quoted
from .resources import (
    EFFECTS,
    HoldUser,
    NodeAffinity,
    NodeUsage,
    NonZero,
    PodAffinity,
    Resources,
    Toleration,
    TopologySpreadConstraint,
    check_toleration,
    given_toleration,
    named_amounts,
)

M = TypeVar("M", hooks_pb2.PodChange, hooks_pb2.NodeChange)
C = TypeVar("C", bound="_Change[Any]")


class ChangedPart(IntEnum):
    """A part of the pod or of nodes that a hook changes."""

    POD_LABELS = info_pb2.CHANGED_PART_POD_LABELS
    """`PodChange.set_label` and `PodChange.remove_label`."""
    POD_NODE_SELECTOR = info_pb2.CHANGED_PART_POD_NODE_SELECTOR
    """`PodChange.set_node_selector` and `PodChange.remove_node_selector`."""
    POD_NODE_AFFINITY = info_pb2.CHANGED_PART_POD_NODE_AFFINITY
    """`PodChange.set_node_affinity` and `PodChange.remove_node_affinity`."""
    POD_TOLERATIONS = info_pb2.CHANGED_PART_POD_TOLERATIONS
    """`PodChange.add_toleration` and `PodChange.remove_toleration`."""
    POD_REQUESTS = info_pb2.CHANGED_PART_POD_REQUESTS
    """`PodChange.add_requests`."""
    POD_ANNOTATIONS = info_pb2.CHANGED_PART_POD_ANNOTATIONS
    """`PodChange.set_annotation` and `PodChange.remove_annotation`."""
    POD_AFFINITY = info_pb2.CHANGED_PART_POD_AFFINITY
    """`PodChange.pod_affinity`."""
    POD_TOPOLOGY_SPREAD = info_pb2.CHANGED_PART_POD_TOPOLOGY_SPREAD
    """`PodChange.topology_spread`."""
    NODE_LABELS = info_pb2.CHANGED_PART_NODE_LABELS
    """`NodeChange.set_label` and `NodeChange.remove_label`."""
    NODE_TAINTS = info_pb2.CHANGED_PART_NODE_TAINTS
    """`NodeChange.add_taint` and `NodeChange.remove_taint`."""
    NODE_ALLOCATABLE = info_pb2.CHANGED_PART_NODE_ALLOCATABLE
    """`NodeChange.add_allocatable`."""
    NODE_USAGE = info_pb2.CHANGED_PART_NODE_USAGE
    """`NodeChange.add_usage`."""


def _part(kind: str, field: str) -> ChangedPart | None:
    """What a field of a change's message changes: a part has the name of its fields."""
    name = re.sub("^(add|set|remove|pod)_", "", field).replace("holds", "usage")
    return ChangedPart.__members__.get(f"{kind}_{name}".upper())


class _Change(Generic[M]):
    """What both kinds of changes share: copies that differ, and comparison."""

    __slots__ = ("_message",)

    _KIND: ClassVar[str]
    _MESSAGE: ClassVar[type[Any]]
    _message: M

    def __init__(self, reason: str = "") -> None:
        """Nothing yet. The reason says why, for people: `explain` and the decision log show it, at most 200 bytes."""
        if not isinstance(reason, str):
            raise TypeError(f"the reason is {reason!r}; expected a text")
        self._message = self._MESSAGE(reason=cut(reason, CHANGE_REASON_BYTES))

    @classmethod
    def _of(cls: type[C], message: Message) -> C:
        """From the contract's message."""
        change = cls.__new__(cls)
        change._message = type(message)()
        change._message.CopyFrom(message)
        return change

    def _copy(self: C) -> C:
        return self._of(self._message)

    def _with(self: C, **added: Any) -> C:
        """With these entries of lists and maps."""
        changed = self._copy()
        changed._message.MergeFrom(type(self._message)(**added))
        return changed

    def set_label(self: C, key: str, value: str) -> C:
        """Adds or replaces a label."""
        return self._with(set_labels={key: value})

    def remove_label(self: C, key: str) -> C:
        """Removes a label, if it is set."""
        return self._with(remove_labels=[key])

    @property
    def parts(self) -> frozenset[ChangedPart]:
        """What it changes."""
        parts = (_part(self._KIND, field.name) for field, _ in self._message.ListFields())
        return frozenset(part for part in parts if part is not None)

    @property
    def reason(self) -> str:
        """Why, for people."""
        return self._message.reason

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bool(other._message == self._message)

    def __hash__(self) -> int:
        return hash(self._message.SerializeToString(deterministic=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({text_format.MessageToString(self._message, as_one_line=True, as_utf8=True)})"


@final
class PodChange(_Change[hooks_pb2.PodChange]):
    """What a hook changes about the pod. Each method returns a changed copy.

        PodChange("apps need more").set_label("size", "large").add_requests(milli_cpu=500)

    What is removed is removed before something is added. The limits of the policy API apply; no key may be empty.
    """

    __slots__ = ()

    _KIND = "POD"
    _MESSAGE = hooks_pb2.PodChange

    def set_annotation(self, key: str, value: str) -> PodChange:
        """Adds or replaces an annotation."""
        return self._with(set_annotations={key: value})

    def remove_annotation(self, key: str) -> PodChange:
        """Removes an annotation, if it is set."""
        return self._with(remove_annotations=[key])

    def set_node_selector(self, key: str, value: str) -> PodChange:
        """Adds or replaces an entry of the node selector."""
        return self._with(set_node_selector={key: value})

    def remove_node_selector(self, key: str) -> PodChange:
        """Removes an entry of the node selector, if the pod has it."""
        return self._with(remove_node_selector=[key])

    def set_node_affinity(self, affinity: NodeAffinity) -> PodChange:
        """Replaces the node affinity."""
        changed = self._copy()
        changed._message.ClearField("remove_node_affinity")
        changed._message.node_affinity.CopyFrom(node_affinity_message(affinity))
        return changed

    def remove_node_affinity(self) -> PodChange:
        """Removes the node affinity."""
        changed = self._copy()
        changed._message.ClearField("node_affinity")
        changed._message.remove_node_affinity = True
        return changed

    def pod_affinity(self, affinity: PodAffinity) -> PodChange:
        """Replaces the affinity and anti-affinity to pods; without terms the pod has none."""
        changed = self._copy()
        changed._message.pod_affinity.CopyFrom(pod_affinity_message(affinity))
        return changed

    def topology_spread(self, *constraints: TopologySpreadConstraint) -> PodChange:
        """Replaces all topology spread constraints; without any the pod has none."""
        changed = self._copy()
        changed._message.topology_spread.CopyFrom(hooks_pb2.TopologySpread(constraints=fields(constraints)))
        return changed

    def add_toleration(self, toleration: Toleration | None = None, **fields: Any) -> PodChange:
        """Adds a toleration, or one with these fields, behind those of the pod.

            PodChange("may run there").add_toleration(key="dedicated", operator="Exists", effect="NoSchedule")

        The operator is "Equal", "Exists", "Lt" or "Gt", or empty: "Equal". An empty effect stands for each.
        """
        given = given_toleration("add_toleration", toleration, fields)
        check_toleration("add_toleration", given)
        return self._with(add_tolerations=[given._asdict()])

    def remove_toleration(self, toleration: Toleration | None = None, **fields: Any) -> PodChange:
        """Removes the tolerations that are equal to this one, or to one with these fields, in all fields."""
        given = given_toleration("remove_toleration", toleration, fields)
        return self._with(remove_tolerations=[given._asdict()])

    def add_requests(self, **amounts: Any) -> PodChange:
        """Adds to the requests, and CPU and memory to the nonzero requests; the amounts are those of `Resources`.

        They may be negative; the pod's requests are at least 0 afterwards.
        """
        changed = self._copy()
        _add(changed._message.add_requests, named_amounts("add_requests", amounts))
        return changed


@final
class NodeChange(_Change[hooks_pb2.NodeChange]):
    """What a hook changes about a node. Each method returns a changed copy.

        NodeChange("in maintenance").add_taint("maintenance").remove_label("zone")

    What is removed is removed before something is added. The limits of the policy API apply; no key may be empty. A
    change may be returned for several nodes.
    """

    __slots__ = ()

    _KIND = "NODE"
    _MESSAGE = hooks_pb2.NodeChange

    def add_taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> NodeChange:
        """Adds a taint behind those of the node. Its effect is "NoSchedule", "PreferNoSchedule" or "NoExecute"."""
        if effect not in EFFECTS:
            raise ValueError(f"add_taint has the effect {quoted(str(effect))}; expected one of {', '.join(EFFECTS)}")
        return self._with(add_taints=[{"key": key, "value": value, "effect": effect}])

    def remove_taint(self, key: str, value: str = "", effect: str = "") -> NodeChange:
        """Removes the taints with this key and, unless they are empty, this value and this effect."""
        return self._with(remove_taints=[{"key": key, "value": value, "effect": effect}])

    def add_allocatable(self, **amounts: Any) -> NodeChange:
        """Adds to allocatable of a node that reports it; the amounts are those of `Resources`.

        They may be negative; what is allocatable is at least 0 afterwards.
        """
        changed = self._copy()
        _add(changed._message.add_allocatable, named_amounts("add_allocatable", amounts))
        return changed

    def add_usage(self, usage: NodeUsage) -> NodeChange:
        """Adds to the usage, for policies that are sent it.

        Amounts may be negative; the usage is at least 0 afterwards.
        """
        changed = self._copy()
        total = changed._message.add_usage
        total.SetInParent()
        if usage.requested != Resources():
            _add(total.requested, usage.requested)
        if usage.nonzero != NonZero():
            given = nonzero_message(usage.nonzero)
            total.nonzero.milli_cpu += given.milli_cpu
            total.nonzero.memory += given.memory
        return changed

    def hold(self, *users: str | HoldUser, **amounts: Any) -> NodeChange:
        """Keeps room for the pods with these UIDs: adds to the usage what they do not use of it on the node.

            NodeChange("reserved for team a").hold("5b1c", "77fe", milli_cpu=4000)

        The gateway does that with the usage of which it tells: when one of the pods ends, its usage goes and what is
        kept for the next one comes at the same time. Each pod is given by its UID, or as a `HoldUser` with the most
        that is taken for it; the amounts are those of `Resources`, none negative.
        """
        changed = self._copy()
        hold = changed._message.holds.add(users=map(_user, users))
        _add(hold.resources, named_amounts("hold", amounts))
        return changed


def _user(user: str | HoldUser) -> hooks_pb2.HoldUser:
    uid, at_most = user if isinstance(user, HoldUser) else (user, None)
    return hooks_pb2.HoldUser(uid=uid, at_most=None if at_most is None else resources_message(at_most))


def _add(total: resources_pb2.Resources, amounts: Resources) -> None:
    given = resources_message(amounts)
    total.SetInParent()
    for field in ("milli_cpu", "memory", "ephemeral_storage", "pods"):
        setattr(total, field, getattr(total, field) + getattr(given, field))
    for name, amount in given.others.items():
        total.others[name] += amount
