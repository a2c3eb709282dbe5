"""Nodes as a policy sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final, overload

from ._kubernetes import model
from ._labelled import UNREAD, Labelled
from ._layout import Access, SentCount
from ._row import Counts, Row, RowContent
from .counts import PodCount, PodsLike, like
from .reads import NodeKey, NodePart, NodePrefix, PodsKey
from .resources import NodeAddress, NodeImage, NodeUsage, Resources, SystemInfo, Taint

if TYPE_CHECKING:
    from .pod import Pod

_NAME = 1 << NodePart.NAME
_TAINTS = 1 << NodePart.TAINTS
_UNSCHEDULABLE = 1 << NodePart.UNSCHEDULABLE
_CONDITIONS = 1 << NodePart.CONDITIONS
_CAPACITY = 1 << NodePart.CAPACITY
_ALLOCATABLE = 1 << NodePart.ALLOCATABLE
_USAGE = 1 << NodePart.USAGE
_RAW_JSON = 1 << NodePart.RAW_JSON
_IMAGES = 1 << NodePart.IMAGES
_SYSTEM_INFO = 1 << NodePart.SYSTEM_INFO
_ADDRESSES = 1 << NodePart.ADDRESSES
_PROVIDER_ID = 1 << NodePart.PROVIDER_ID
_NOMINATED = 1 << NodePart.NOMINATED


@final
class Node(Labelled[NodeKey, NodePrefix]):
    """One node. It has what the verb declares with `Verb.reads`; all else raises `UndeclaredRead`.

    Values are decoded at their first use, and kept with the node as long as it does not change.
    """

    __slots__ = ("_content", "_row")

    _content: RowContent

    def __init__(self, row: Row, access: Access) -> None:
        self._row = row
        self._content = row.content
        self._access = access

    @property
    def name(self) -> str:
        """metadata.name."""
        if not self._access.parts & _NAME:
            self._access.undeclared_part(NodePart.NAME)
        return self._row.name

    @property
    def taints(self) -> tuple[Taint, ...]:
        """spec.taints, in order."""
        if not self._access.parts & _TAINTS:
            self._access.undeclared_part(NodePart.TAINTS)
        if self._content.taints is UNREAD:
            self._content.read("taints")
        return self._content.taints

    @property
    def unschedulable(self) -> bool:
        """spec.unschedulable: whether the node is cordoned."""
        if not self._access.parts & _UNSCHEDULABLE:
            self._access.undeclared_part(NodePart.UNSCHEDULABLE)
        if self._content.unschedulable is UNREAD:
            self._content.read("unschedulable")
        return self._content.unschedulable

    def condition(self, kind: str) -> str | None:
        """The status of a condition: "True", "False" or "Unknown"; `None` when it is not reported."""
        return self.conditions.get(kind)

    @property
    def conditions(self) -> Mapping[str, str]:
        """status.conditions: the status of each type."""
        if not self._access.parts & _CONDITIONS:
            self._access.undeclared_part(NodePart.CONDITIONS)
        if self._content.conditions is UNREAD:
            self._content.read("conditions")
        return self._content.conditions

    @property
    def capacity(self) -> Resources | None:
        """status.capacity; `None` while it is not reported."""
        if not self._access.parts & _CAPACITY:
            self._access.undeclared_part(NodePart.CAPACITY)
        if self._content.capacity is UNREAD:
            self._content.read("capacity")
        return self._content.capacity

    @property
    def allocatable(self) -> Resources | None:
        """status.allocatable, the total that pods may request; `None` while it is not reported."""
        if not self._access.parts & _ALLOCATABLE:
            self._access.undeclared_part(NodePart.ALLOCATABLE)
        if self._content.allocatable is UNREAD:
            self._content.read("allocatable")
        return self._content.allocatable

    @property
    def usage(self) -> NodeUsage | None:
        """What the pods on the node have requested; `None` when it is not known.

        It lags behind what kube-scheduler assumes, usually by some milliseconds: no basis for an exclusive allocation.
        """
        if not self._access.parts & _USAGE:
            self._access.undeclared_part(NodePart.USAGE)
        if self._content.usage is UNREAD:
            self._content.read("usage")
        return self._content.usage

    @property
    def nominated(self) -> NodeUsage | None:
        """What the pods that are nominated to the node (status.nominatedNodeName) request; `None` if it is not known.

        They wait for room there after preemption: not bound, not ended, and no part of `usage`. The pod to be placed
        is among them if it is nominated. `requested.pods` is their number. It lags behind like the usage.
        """
        if not self._access.parts & _NOMINATED:
            self._access.undeclared_part(NodePart.NOMINATED)
        if self._content.nominated is UNREAD:
            self._content.read("nominated")
        return self._content.nominated

    def pods_like(self, key: PodsKey, pod: Pod) -> PodsLike | None:
        """The pods on the node that are like this one.

        They have the same owner, namespace, value of the label or priority class, as the key declares. `None` if the
        pod lacks that: a pod without a controller has no siblings.

        Pods count from when they are bound until they have ended or are gone, also while they are being deleted; the
        pod of a call is none of them. The count lags behind what kube-scheduler assumes by the time that a Binding
        needs, usually some milliseconds: the pod that it placed before may be missing.
        """
        by = self._access.pods[key]
        attribute = pod._attribute(by.by)
        if attribute is None:
            return None
        counts = self._counts(by)
        return like(by, counts.find(attribute), attribute, counts.omitted_pods)

    def pod_counts(self, key: PodsKey) -> Iterator[PodCount]:
        """The pods on the node, counted as the key declares, by namespace and value.

        Not those of `omitted_pods`, and not those that lack what is counted by.
        """
        by = self._access.pods[key]
        return (PodCount(by, count, count.namespace, count.value) for count in self._counts(by))

    def omitted_pods(self, key: PodsKey) -> int:
        """How many pods `pod_counts` leaves out.

        The gateway sends at most 512 counts of a node, those with the most pods, and none whose value is longer than
        253 bytes: usually 0.
        """
        return self._counts(self._access.pods[key]).omitted_pods

    def _counts(self, by: SentCount) -> Counts:
        if self._content.counts is UNREAD:
            self._content.read("counts")
        return self._content.counts[by.position]

    @property
    def images(self) -> tuple[NodeImage, ...]:
        """status.images, in order."""
        if not self._access.parts & _IMAGES:
            self._access.undeclared_part(NodePart.IMAGES)
        if self._content.images is UNREAD:
            self._content.read("images")
        return self._content.images

    @property
    def system_info(self) -> SystemInfo | None:
        """status.nodeInfo; `None` while it is not reported."""
        if not self._access.parts & _SYSTEM_INFO:
            self._access.undeclared_part(NodePart.SYSTEM_INFO)
        if self._content.system_info is UNREAD:
            self._content.read("system_info")
        return self._content.system_info

    @property
    def addresses(self) -> tuple[NodeAddress, ...]:
        """status.addresses, in order."""
        if not self._access.parts & _ADDRESSES:
            self._access.undeclared_part(NodePart.ADDRESSES)
        if self._content.addresses is UNREAD:
            self._content.read("addresses")
        return self._content.addresses

    @property
    def provider_id(self) -> str | None:
        """spec.providerID; `None` if not set."""
        if not self._access.parts & _PROVIDER_ID:
            self._access.undeclared_part(NodePart.PROVIDER_ID)
        if self._content.provider_id is UNREAD:
            self._content.read("provider_id")
        return self._content.provider_id or None

    @property
    def raw_json(self) -> bytes | None:
        """The object's JSON, unchanged; `None` if the gateway does not have it."""
        if not self._access.parts & _RAW_JSON:
            self._access.undeclared_part(NodePart.RAW_JSON)
        if self._content.raw_json is UNREAD:
            self._content.read("raw_json")
        return self._content.raw_json or None

    def kubernetes(self) -> Any:
        """The object as `V1Node` of the package kubernetes, decoded with each call.

        `None` if there is no `raw_json`, which is to be declared. Needs the extra `kubernetes`.
        """
        return model(self.raw_json, "V1Node")

    def __repr__(self) -> str:
        return f"Node({self._row.name!r})"


@final
class Nodes(Sequence[Node]):
    """The nodes of one call, in the order of the request; never none of them."""

    __slots__ = ("_nodes",)

    def __init__(self, rows: Sequence[Row], access: Access) -> None:
        self._nodes = [Node(row, access) for row in rows]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, position: int) -> Node: ...

    @overload
    def __getitem__(self, position: slice) -> Sequence[Node]: ...

    def __getitem__(self, position: int | slice) -> Node | Sequence[Node]:
        return self._nodes[position]
