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


class AllPlaces(Places):
    """Without a declaration everything is sent, in maps."""

    def __init__(self, name: str) -> None:
        super().__init__(name, set(), {""})

    def __missing__(self, key: str) -> int:
        return ENTRY


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


class Access:
    """What a policy may read of a pod or of nodes."""

    __slots__ = ("annotations", "is_declared", "labels", "object", "parts", "pods", "topologies", "usage")

    def __init__(self, object_name: str, declared: Declared | None) -> None:
        self.object = object_name
        self.is_declared = declared is not None
        self.parts = -1
        """A bit for each part."""
        self.usage = False
        """Of nodes, which `Verb.usage` declares."""
        self.labels: Places = AllPlaces(f"{object_name}_label")
        self.annotations: Places = AllPlaces(f"{object_name}_annotation")
        self.pods: dict[PodsKey, SentCount] = {}
        self.topologies: dict[TopologyKey, SentCount] = {}
        if declared is not None:
            self.parts = sum(1 << part for part in declared.parts)
            self.labels = Places(f"{object_name}_label", declared.labels, declared.label_prefixes)
            self.annotations = Places(f"{object_name}_annotation", declared.annotations, declared.annotation_prefixes)
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

    def count(self, key: PodsKey) -> SentCount:
        """Where the pods on a node are counted by this."""
        sent = self.pods.get(key)
        return sent if sent is not None else self._undeclared("a count of pods", f"pods_by({key.by!r})")

    def topology(self, key: TopologyKey) -> SentCount:
        """Where the pods in the cluster are counted by this."""
        sent = self.topologies.get(key)
        if sent is not None:
            return sent
        return self._undeclared("a count of pods by topology", f"pods_by_topology({key!s})")

    def _undeclared(self, what: str, right: str) -> NoReturn:
        # Without a declaration there are no counts.
        undeclared(what, right if self.is_declared else f"{right} and Verb.reads")


class Layout:
    """A compiled `Reads` without mistakes."""

    def __init__(self, reads: Reads, *, with_nodes: bool) -> None:
        """`with_nodes`: whether the verb's view has more than names."""
        self.pod = Access("pod", reads._pod)
        self.node = Access("node", reads._node)
        self.rows = info_pb2.NodeReads(
            parts=[info_pb2.NodePart.Name(part) for part in sorted(reads._node.parts)],
            labels=self.node.labels.message(),
            annotations=self.node.annotations.message(),
            pod_counts=[_count_message(sent) for sent in self.node.pods.values()],
        )
        """As in the view of a table of nodes, where nothing is not the same as no declaration."""
        self.rows_key = self.rows.SerializeToString(deterministic=True)
        self.message = self._message(reads, with_nodes)
        """As in the handshake."""
        self.digest = sha256(self.message.SerializeToString(deterministic=True)).digest()
        """`Call.reads` of the requests that this declaration asks for."""

    def _message(self, reads: Reads, with_nodes: bool) -> info_pb2.Reads:
        pod = info_pb2.PodReads(
            parts=[info_pb2.PodPart.Name(part) for part in sorted(reads._pod.parts)],
            labels=self.pod.labels.message(),
            annotations=self.pod.annotations.message(),
            topology_counts=[_topology_message(sent) for sent in self.pod.topologies.values()],
        )
        # A view of names has them; what else is read with it is sent, for the gateway to reject.
        return info_pb2.Reads(
            pod=pod if pod.ByteSize() else None,
            node=self.rows if (with_nodes or reads._reads_nodes()) and self.rows.ByteSize() else None,
        )


def undeclared(what: str, right: str) -> NoReturn:
    """A policy reads something that its verb does not declare."""
    raise UndeclaredRead(f"{what} is read and not declared; declare it with Reads.{right}")


EVERYTHING_OF_PODS = Access("pod", None)


def _count_message(sent: SentCount) -> info_pb2.PodCountReads:
    return info_pb2.PodCountReads(by=sent.by.number, label=sent.by.key, requests=sent.requests)


def _topology_message(sent: SentCount) -> info_pb2.TopologyCountReads:
    return info_pb2.TopologyCountReads(
        by=sent.by.number, label=sent.by.key, topology_key=sent.topology or "", requests=sent.requests
    )
