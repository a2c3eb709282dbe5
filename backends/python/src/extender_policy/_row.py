"""One row of a request or of a table: checked once, then decoded piece by piece when a policy reads it."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from google.protobuf.message import DecodeError

from ._api.sdk import wire_pb2
from ._api.v1beta1 import map_pb2, node_pb2
from ._declaration import RowParts
from ._labelled import UNREAD, Content, entries, values
from .resources import NodeAddress, NodeImage, NodeUsage, Resources, SystemInfo, Taint, mirrored, resources, usage

MAX_SHARED_BYTES = 512
"""Larger rows, and parts of rows, are nearly always different, so equal ones are not looked for."""

MAX_SHARED = 2048
"""The most parts that are kept by their encoding, in some megabytes."""

# What many rows have equal is decoded once.
_VALUES: dict[bytes, tuple[str | None, ...]] = {}
_TAINTS: dict[bytes, Taint] = {}

T = TypeVar("T")


def _kept(shared: dict[bytes, T], encoded: bytes, value: T) -> T:
    if len(encoded) <= MAX_SHARED_BYTES:
        if len(shared) >= MAX_SHARED:
            shared.clear()
        shared[encoded] = value
    return value


class RowError(Exception):
    """What is wrong with a row. The text continues the path of the row."""


class RowContent(Content):
    """Everything of a row but its name. Nodes of a table with equal contents share one."""

    __slots__ = (
        "_encoded",
        "_parsed",
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
        "label_values": lambda content: values(_map(content._message.facts.labels)),
        "annotation_values": lambda content: values(_map(content._message.facts.annotations)),
        "labels": lambda content: entries(_map(content._message.facts.labels).entries),
        "annotations": lambda content: entries(_map(content._message.facts.annotations).entries),
        "conditions": lambda content: entries(content._message.facts.conditions),
        "taints": lambda content: _taints(content._message.facts.taints),
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

    def __init__(self, encoded: bytes) -> None:
        """From an encoded row, which takes a third of the memory of a decoded one."""
        self._encoded = encoded
        self._parsed: wire_pb2.NodeRow | None = None
        self.label_values = self.annotation_values = self.labels = self.annotations = UNREAD
        self.taints = self.unschedulable = self.conditions = self.capacity = self.allocatable = UNREAD
        self.usage = self.nominated = self.images = self.system_info = self.addresses = UNREAD
        self.provider_id = self.raw_json = self.counts = UNREAD

    @property
    def _message(self) -> wire_pb2.NodeRow:
        if self._parsed is None:
            self._parsed = wire_pb2.NodeRow.FromString(self._encoded)
        return self._parsed


def _map(parts: Sequence[bytes]) -> map_pb2.MapValues:
    return map_pb2.MapValues.FromString(b"".join(parts))


def _taints(encoded: Sequence[bytes]) -> tuple[Taint, ...]:
    return tuple([_TAINTS.get(one) or _taint(one) for one in encoded])


def _taint(encoded: bytes) -> Taint:
    taint = node_pb2.Taint.FromString(encoded)
    return _kept(_TAINTS, encoded, Taint(taint.key, taint.value, taint.effect))


def _amounts(facts: wire_pb2.NodeFacts, name: str) -> Resources | None:
    return resources(getattr(facts, name)) if facts.HasField(name) else None


def _usage(row: wire_pb2.NodeRow, name: str) -> NodeUsage | None:
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

    def find(self, attribute: tuple[str, str]) -> node_pb2.PodCount | None:
        """The pods with this namespace and value.

        Most rows of a request are searched once, and most rows of a table by many calls: from the second search on
        there is an index.
        """
        if self._index is not None:
            return self._index.get(attribute)
        counts = self._message.counts
        if self._was_searched:
            self._index = {(count.namespace, count.value): count for count in counts}
            return self._index.get(attribute)
        self._was_searched = True
        at = bisect_left(counts, attribute, key=_attribute)
        return counts[at] if at < len(counts) and _attribute(counts[at]) == attribute else None


_attribute = operator.attrgetter("namespace", "value")


class Row:
    """A node: its name, empty if it is not sent, and everything else."""

    __slots__ = ("content", "name")

    def __init__(self, name: str, content: RowContent) -> None:
        self.name = name
        self.content = content


def decoded(encoded: bytes, parts: RowParts) -> Row:
    """A checked row."""
    message, content = checked(encoded, parts)
    return Row(message.name, content)


def checked(encoded: bytes, parts: RowParts) -> tuple[wire_pb2.NodeRow, RowContent]:
    """A row and its content, which holds what the policy was promised.

    A node without facts would look like a node without labels, and a missing value would shift all others.

    What the check has decoded is kept where that is small. The content does not keep the message: to decode the row
    again, if the policy reads more of it, takes less time than to keep hundreds of messages.
    """
    try:
        message = wire_pb2.NodeRow.FromString(encoded)
        facts, content = message.facts, RowContent(encoded)
        content.taints = _taints(facts.taints)
        if parts.name and not message.name:
            raise RowError(".name is missing")
        if parts.facts and not message.HasField("facts"):
            raise RowError(".facts is missing")
        content.label_values = _row_values("labels", facts.labels, parts.labels)
        content.annotation_values = _row_values("annotations", facts.annotations, parts.annotations)
    except DecodeError as error:
        raise RowError(f" is not a NodeRow: {error}") from error
    _check_counts(message.pod_counts, parts.pods)
    return message, content


def _row_values(name: str, parts: Sequence[bytes], keys: int) -> tuple[str | None, ...]:
    if not (parts or keys):
        return ()
    encoded = parts[0] if len(parts) == 1 else b"".join(parts)
    found = _VALUES.get(encoded)
    if found is None or len(found) != keys:
        given = map_pb2.MapValues.FromString(encoded)
        check_values(name, given, keys)
        return _kept(_VALUES, encoded, values(given))
    return found


def check_values(name: str, given: map_pb2.MapValues, keys: int) -> None:
    """Checks the values of declared keys: as many as declared, with a valid list of those that are missing."""
    absent = list(given.absent)
    if len(given.values) != keys:
        raise RowError(f".facts.{name}.values has {len(given.values)} values, and {keys} keys are declared")
    if absent and (absent[-1] >= keys or any(map(operator.ge, absent, absent[1:]))):
        raise RowError(f".facts.{name}.absent is not a list of ascending positions below {keys}")


def _check_counts(lists: Sequence[node_pb2.PodCounts], declared: int) -> None:
    if len(lists) != declared:
        raise RowError(f".pod_counts has {len(lists)} entries, and {declared} are declared")
    for position, counts in enumerate(lists):
        keys = list(map(_attribute, counts.counts))
        if len(keys) > 1 and any(map(operator.ge, keys, keys[1:])):
            raise RowError(
                f" is not a NodeRow: pod_counts[{position}].counts is not in ascending order of namespace and value, "
                "each once"
            )
