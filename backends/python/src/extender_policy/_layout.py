"""A declaration as both sides of a call use it: the contract's message, where each value is, and what may be read."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple, NoReturn

from ._api.v1beta1 import info_pb2
from .errors import UndeclaredRead
from .reads import (
    Declared,
    NodePart,
    PodPart,
    PodsBy,
    PodsKey,
    Reads,
    TopologyKey,
    canonical,
    quoted,
)

ENTRY = -1
"""The place of a key that is sent in the map, with its key."""


class Places(dict[str, int]):
    """Where a request holds the value of a key: the position among the values, or `ENTRY`.

    A look-up of a key that is not declared raises `UndeclaredRead`. The values of declared keys are found by the
    dictionary's own look-up, because policies read thousands of them.
    """

    def __init__(self, name: str, keys: set[str], prefixes: set[str]) -> None:
        self.name = name
        """Such as "node_label"."""
        self.prefixes = canonical(prefixes)
        sent = sorted(key for key in keys if not key.startswith(self.prefixes))
        super().__init__({key: position for position, key in enumerate(sent)})

    def __missing__(self, key: str) -> int:
        if key.startswith(self.prefixes):
            return ENTRY
        object_name, map_name = self.name.split("_")
        return undeclared(f"{map_name} {quoted(key)} of the {object_name}", self.name)

    def check_prefix(self, prefix: str) -> None:
        """All entries whose key begins with this are read."""
        if not prefix.startswith(self.prefixes):
            object_name, map_name = self.name.split("_")
            undeclared(f"{map_name}s of the {object_name} that begin with {quoted(prefix)}", f"{self.name}s")

    def message(self) -> info_pb2.MapReads | None:
        """As in the handshake; `None` if nothing is declared."""
        if self or self.prefixes:
            return info_pb2.MapReads(keys=list(self), prefixes=self.prefixes)
        return None


class SentCount(NamedTuple):
    """One list of counts as sent, of the pods on a node or of those in the domains of the cluster."""

    by: PodsBy
    requests: bool
    """Whether the requests of the counted pods are read, too."""
    position: int
    """Among the lists."""
    topology: str | None
    """The topology key; empty for the whole cluster, `None` for the pods on a node."""

    def undeclared_requests(self) -> NoReturn:
        """The requests are read, but only the pods are declared."""
        method, arguments = "pods_and_requests_by", f"{self.by!r}"
        if self.topology is not None:
            method, arguments = f"{method}_topology", f"{self.by!r}, {quoted(self.topology)}"
        undeclared("the sum of the requests of counted pods", f"{method}({arguments})")


class Counts(dict[PodsKey, SentCount]):
    """Where the pods on a node are counted. As in `Places`, a look-up of others raises `UndeclaredRead`."""

    def __missing__(self, key: PodsKey) -> SentCount:
        return undeclared("a count of pods", f"pods_by({key.by!r})")


class Access:
    """What a policy may read of a pod or of nodes."""

    __slots__ = ("annotations", "labels", "object", "parts", "pods", "topologies")

    def __init__(self, object_name: str, declared: Declared) -> None:
        self.object = object_name
        self.parts = sum(1 << part for part in declared.readable)
        """A bit for each part."""
        label_prefixes = {""} if declared.everything else declared.label_prefixes
        self.labels = Places(f"{object_name}_label", declared.labels, label_prefixes)
        self.annotations = Places(f"{object_name}_annotation", declared.annotations, declared.annotation_prefixes)
        self.pods = Counts()
        self.topologies: dict[TopologyKey, SentCount] = {}
        # As tuples they are in the order of the contract.
        for position, key in enumerate(sorted(declared.pods)):
            self.pods[key] = SentCount(key.by, declared.pods[key], position, None)
        for position, topology in enumerate(sorted(declared.topologies)):
            requests = declared.topologies[topology]
            self.topologies[topology] = SentCount(topology.by, requests, position, topology.topology)

    def undeclared_part(self, part: NodePart | PodPart) -> NoReturn:
        """A part is read that is not declared."""
        name = f"{type(part).__name__}.{part.name}"
        undeclared(f"{part.name} of the {self.object}", f"{self.object}({name})")

    def topology(self, key: TopologyKey) -> SentCount:
        """Where the pods in the cluster are counted by this."""
        sent = self.topologies.get(key)
        return sent if sent is not None else undeclared("a count of pods by topology", f"pods_by_topology({key!s})")


class Layout:
    """A compiled `Reads` without mistakes."""

    def __init__(self, reads: Reads) -> None:
        self.pod = Access("pod", reads._pod)
        self.node = Access("node", reads._node)
        self.rows = info_pb2.NodeReads(
            parts=[info_pb2.NodePart.Name(part) for part in reads._node.sent],
            labels=None if reads._node.everything else self.node.labels.message(),
            annotations=self.node.annotations.message(),
            pod_counts=[_count_message(sent) for sent in self.node.pods.values()],
            everything=reads._node.everything,
        )
        """What rows contain."""
        self.rows_key = self.rows.SerializeToString(deterministic=True)
        """The same as bytes, to be compared with what a table contains."""
        pod = info_pb2.PodReads(
            parts=[info_pb2.PodPart.Name(part) for part in reads._pod.sent],
            labels=None if reads._pod.everything else self.pod.labels.message(),
            annotations=self.pod.annotations.message(),
            topology_counts=[_topology_message(sent) for sent in self.pod.topologies.values()],
            everything=reads._pod.everything,
        )
        self.message = info_pb2.Reads(
            pod=pod if pod.ByteSize() else None,
            node=self.rows if self.rows_key else None,
        )
        """As in the handshake."""
        self.digest = sha256(self.message.SerializeToString(deterministic=True)).digest()
        """`Call.reads` of the requests that this declaration asks for."""


def undeclared(what: str, right: str) -> NoReturn:
    """A policy reads something that its verb does not declare."""
    raise UndeclaredRead(f"{what} is read and not declared; declare it with Reads.{right}")


def _count_message(sent: SentCount) -> info_pb2.PodCountReads:
    return info_pb2.PodCountReads(by=sent.by.number, label=sent.by.key, requests=sent.requests)


def _topology_message(sent: SentCount) -> info_pb2.TopologyCountReads:
    return info_pb2.TopologyCountReads(
        by=sent.by.number, label=sent.by.key, topology_key=sent.topology or "", requests=sent.requests
    )
