"""One row of a request or of a table: checked once, then decoded piece by piece when a policy reads it."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from google.protobuf.message import DecodeError

from ._api.v1beta1 import map_pb2, node_pb2
from ._declaration import RowParts
from ._labelled import Content, entries
from .resources import NodeAddress, NodeImage, NodeUsage, Resources, SystemInfo, Taint, mirrored, resources, usage


class RowError(Exception):
    """What is wrong with a row. The text continues the path of the row."""


class RowContent(Content):
    """Everything of a row but its name. Nodes of a table with equal contents share one."""

    __slots__ = (
        "_encoded",
        "addresses",
        "allocatable",
        "capacity",
        "conditions",
        "counts",
        "images",
        "nominated",
        "provider_id",
        "raw_json",
        "system_info",
        "taints",
        "unschedulable",
        "usage",
    )

    _encoded: bytes
    _message: node_pb2.NodeRow
    taints: tuple[Taint, ...]
    unschedulable: bool
    conditions: Mapping[str, str]
    capacity: Resources | None
    allocatable: Resources | None
    usage: NodeUsage | None
    nominated: NodeUsage | None
    images: tuple[NodeImage, ...]
    system_info: SystemInfo | None
    addresses: tuple[NodeAddress, ...]
    provider_id: str
    raw_json: bytes
    counts: tuple[Counts, ...]

    decoders: ClassVar[Mapping[str, Callable[[Any], object]]] = {
        **Content.decoders,
        "_message": lambda content: node_pb2.NodeRow.FromString(content._encoded),
        "conditions": lambda content: entries(content._message.facts.conditions),
        "taints": lambda content: tuple(
            Taint(taint.key, taint.value, taint.effect) for taint in content._message.facts.taints
        ),
        "unschedulable": lambda content: content._message.facts.unschedulable,
        "capacity": lambda content: _amounts(content._message.facts, "capacity"),
        "allocatable": lambda content: _amounts(content._message.facts, "allocatable"),
        "usage": lambda content: _usage(content._message, "usage"),
        "nominated": lambda content: _usage(content._message, "nominated"),
        "images": lambda content: mirrored(content._message.facts.images),
        "system_info": lambda content: (
            mirrored(content._message.facts.system_info) if content._message.facts.HasField("system_info") else None
        ),
        "addresses": lambda content: mirrored(content._message.facts.addresses),
        "provider_id": lambda content: content._message.facts.provider_id,
        "raw_json": lambda content: content._message.raw_json,
        "counts": lambda content: tuple(Counts(counts) for counts in content._message.pod_counts),
    }

    def __init__(self, message: node_pb2.NodeRow | None = None, encoded: bytes = b"") -> None:
        """From a decoded row, or from an encoded one, which takes a third of the memory."""
        if message is None:
            self._encoded = encoded
        else:
            self._message = message


def _amounts(facts: node_pb2.NodeFacts, name: str) -> Resources | None:
    return resources(getattr(facts, name)) if facts.HasField(name) else None


def _usage(row: node_pb2.NodeRow, name: str) -> NodeUsage | None:
    return usage(getattr(row, name)) if row.HasField(name) else None


class Counts:
    """One list of counts of the pods on a node."""

    __slots__ = ("_index", "_message", "_was_searched", "omitted_pods")

    def __init__(self, message: node_pb2.PodCounts) -> None:
        self._message = message
        self.omitted_pods = message.omitted_pods
        self._was_searched = False
        self._index: dict[tuple[str, str], node_pb2.PodCount] | None = None

    def __iter__(self) -> Iterator[node_pb2.PodCount]:
        return iter(self._message.counts)

    def find(self, namespace: str, value: str) -> node_pb2.PodCount | None:
        """The pods with this attribute.

        Most rows of a request are searched once, and most rows of a table by many calls: from the second search on
        there is an index.
        """
        if self._index is not None:
            return self._index.get((namespace, value))
        counts = self._message.counts
        if self._was_searched:
            self._index = {(count.namespace, count.value): count for count in counts}
            return self._index.get((namespace, value))
        self._was_searched = True
        at = bisect_left(counts, (namespace, value), key=lambda count: (count.namespace, count.value))
        if at < len(counts) and counts[at].value == value and counts[at].namespace == namespace:
            return counts[at]
        return None


class Row:
    """A node: its name, empty if it is not sent, and everything else."""

    __slots__ = ("content", "name")

    def __init__(self, name: str, content: RowContent) -> None:
        self.name = name
        self.content = content


def decoded(encoded: bytes, parts: RowParts) -> node_pb2.NodeRow:
    """A checked row: it holds what the policy was promised.

    A node without facts would look like a node without labels, and a missing value would shift all others.
    """
    try:
        message = node_pb2.NodeRow.FromString(encoded)
    except DecodeError as error:
        raise RowError(f" is not a NodeRow: {error}") from error
    if parts.name and not message.name:
        raise RowError(".name is missing")
    if parts.facts and not message.HasField("facts"):
        raise RowError(".facts is missing")
    facts = message.facts
    check_values("labels", facts.labels, parts.labels)
    check_values("annotations", facts.annotations, parts.annotations)
    _check_counts(message, parts)
    return message


def check_values(name: str, given: map_pb2.MapValues, keys: int) -> None:
    """Checks the values of declared keys: how many there are, and which of them stand for a key that is missing."""
    values = len(given.values)
    if values != keys:
        raise RowError(f".facts.{name}.values has {values} values, and {keys} keys are declared")
    absent = given.absent
    if absent:
        positions = list(absent)
        if positions[-1] >= keys or any(map(operator.ge, positions, positions[1:])):
            raise RowError(f".facts.{name}.absent is not a list of ascending positions below {keys}")


def _check_counts(message: node_pb2.NodeRow, parts: RowParts) -> None:
    lists = message.pod_counts
    if len(lists) != parts.pods:
        raise RowError(f".pod_counts has {len(lists)} entries, and {parts.pods} are declared")
    for position, counts in enumerate(lists):
        keys = [(count.namespace, count.value) for count in counts.counts]
        if any(map(operator.ge, keys, keys[1:])):
            raise RowError(
                f" is not a NodeRow: pod_counts[{position}].counts is not in ascending order of namespace and value, "
                "each once"
            )
