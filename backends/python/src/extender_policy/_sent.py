"""What the gateway sends to a verb for its declaration, for tests of policies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ._api.v1beta1 import info_pb2, map_pb2, node_pb2, pod_pb2, resources_pb2
from ._declaration import Terms
from ._layout import Access, Layout, Places, SentCount
from ._limits import COUNTED_VALUE_BYTES, DOMAINS, NODE_COUNTS
from .pod import Pod
from .reads import Reads


class Running(NamedTuple):
    """Equal pods on a node."""

    pod: pod_pb2.Pod
    pods: int
    terminating: int


class ClusterNode(NamedTuple):
    """A node of the cluster, and the pods on it."""

    row: node_pb2.NodeRow
    running: Sequence[Running]


_WHOLE = Layout(Reads.everything())
"""How the objects of tests are kept."""


def sent_pod(pod: pod_pb2.Pod, terms: Terms) -> pod_pb2.Pod:
    """The pod, with the declared parts alone, and without counts by topology."""
    sent = pod_pb2.Pod()
    sent.CopyFrom(pod)
    _narrow(sent, info_pb2.PodPart, terms.pods)
    return sent


def placed_pod(pod: pod_pb2.Pod, terms: Terms, cluster: Sequence[ClusterNode]) -> pod_pb2.Pod:
    """The pod to be placed on one of these nodes."""
    sent = sent_pod(pod, terms)
    sent.topology_counts.extend(_domains(by, pod, cluster) for by in terms.pods.topologies.values())
    return sent


def sent_row(node: ClusterNode, terms: Terms) -> node_pb2.NodeRow:
    """The row of a node."""
    sent = node_pb2.NodeRow()
    sent.CopyFrom(node.row)
    _narrow(sent, info_pb2.NodePart, terms.nodes)
    if not terms.rows.facts:
        sent.ClearField("facts")
    sent.pod_counts.extend(_counts(by, node) for by in terms.nodes.pods.values())
    return sent


def _narrow(sent: Any, parts: Any, access: Access) -> None:
    """Leaves what is declared. A part has the name of its field, which is one of the object or of its facts."""
    for name, number in parts.items():
        field = name.partition("_PART_")[2].lower()
        for message in (sent, sent.facts):
            if field in message.DESCRIPTOR.fields_by_name and not access.parts >> number & 1:
                message.ClearField(field)
    _split(sent.facts, "labels", access.labels)
    _split(sent.facts, "annotations", access.annotations)


def _split(facts: Any, name: str, places: Places) -> None:
    """A map as values of declared keys, and entries with declared prefixes."""
    given = dict(getattr(facts, name).entries)
    facts.ClearField(name)
    values = map_pb2.MapValues(
        values=[given.get(key, "") for key in places],
        absent=[position for key, position in places.items() if key not in given],
        entries={key: value for key, value in given.items() if key.startswith(places.prefixes)},
    )
    if values.ByteSize():
        getattr(facts, name).CopyFrom(values)


def _attribute(by: SentCount, pod: pod_pb2.Pod) -> tuple[str, str] | None:
    return Pod(pod, _WHOLE.pod)._attribute(by.by)


def _counts(by: SentCount, node: ClusterNode) -> node_pb2.PodCounts:
    """The counts of the pods on a node; sums contain the extended resources that the node reports."""
    facts = node.row.facts
    reported = {*facts.allocatable.others, *facts.capacity.others}
    counts: dict[tuple[str, str], node_pb2.PodCount] = {}
    for equal in node.running:
        attribute = _attribute(by, equal.pod)
        if attribute is not None and equal.pods > 0:
            namespace, value = attribute
            count = counts.setdefault(attribute, node_pb2.PodCount(namespace=namespace, value=value))
            _add(count, equal, by, reported)
    short = {key: count for key, count in counts.items() if len(count.value.encode()) <= COUNTED_VALUE_BYTES}
    kept = _most(short, NODE_COUNTS)
    return node_pb2.PodCounts(counts=kept, omitted_pods=_omitted(counts.values(), kept))


def _domains(by: SentCount, pod: pod_pb2.Pod, cluster: Sequence[ClusterNode]) -> pod_pb2.TopologyCounts:
    """The pods that are like this one; sums contain the extended resources that it requests."""
    wanted = _attribute(by, pod)
    requested = set(pod.facts.requests.others)
    domains: dict[str, pod_pb2.DomainCount] = {}
    for node in cluster if wanted is not None else ():
        value = node.row.facts.labels.entries.get(by.topology) if by.topology else ""
        if value is None:
            continue
        for equal in node.running:
            if equal.pods > 0 and _attribute(by, equal.pod) == wanted:
                domain = domains.setdefault(value, pod_pb2.DomainCount(value=value))
                _add(domain, equal, by, requested)
    kept = _most(domains, DOMAINS)
    return pod_pb2.TopologyCounts(domains=kept, omitted_pods=_omitted(domains.values(), kept))


def _add(count: Any, equal: Running, by: SentCount, extended: Collection[str]) -> None:
    count.pods += equal.pods
    count.terminating += equal.terminating
    if by.requests and equal.pod.facts.HasField("requests"):
        _add_requests(count.requested, equal.pod.facts.requests, equal.pods, extended)


def _add_requests(
    total: resources_pb2.Resources, requests: resources_pb2.Resources, pods: int, extended: Collection[str]
) -> None:
    total.SetInParent()
    for field in ("milli_cpu", "memory", "ephemeral_storage"):
        setattr(total, field, getattr(total, field) + getattr(requests, field) * pods)
    for name, amount in requests.others.items():
        if name in extended:
            total.others[name] += amount * pods


def _most(counts: Mapping[Any, Any], most: int) -> list[Any]:
    """Of too many those with the most pods, in ascending order."""
    by_pods = sorted(sorted(counts), key=lambda key: -int(counts[key].pods))
    return [counts[key] for key in sorted(by_pods[:most])]


def _omitted(counts: Iterable[Any], kept: Sequence[Any]) -> int:
    total: int = sum(count.pods for count in counts) - sum(count.pods for count in kept)
    return total
