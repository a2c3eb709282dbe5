"""Values as messages of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._api.v1beta1 import node_pb2, pod_pb2, resources_pb2
from .resources import NodeAffinity, NodeUsage, NonZero, PodAffinity, Resources


def resources_message(amounts: Resources) -> resources_pb2.Resources:
    """Amounts of resources."""
    return resources_pb2.Resources(**amounts._asdict() | {"others": dict(amounts.others)})


def nonzero_message(amounts: NonZero) -> resources_pb2.NonZero:
    """CPU and memory."""
    return resources_pb2.NonZero(milli_cpu=amounts.milli_cpu, memory=amounts.memory)


def usage_message(usage: NodeUsage) -> node_pb2.NodeUsage:
    """Sums of requests."""
    requested, nonzero = resources_message(usage.requested), nonzero_message(usage.nonzero)
    return node_pb2.NodeUsage(requested=requested, nonzero=nonzero)


def node_affinity_message(affinity: NodeAffinity) -> pod_pb2.NodeAffinity:
    """An affinity to nodes."""
    required = None if affinity.required is None else {"terms": fields(affinity.required)}
    return pod_pb2.NodeAffinity(required=required, preferred=fields(affinity.preferred))


def pod_affinity_message(affinity: PodAffinity) -> pod_pb2.PodAffinity:
    """An affinity to pods."""
    return pod_pb2.PodAffinity(**fields(affinity))


def fields(value: Any) -> Any:
    """A value that mirrors a message, as the fields of this message; also what is in such a field."""
    if hasattr(value, "_asdict"):
        return {name: fields(given) for name, given in value._asdict().items()}
    if isinstance(value, Mapping):
        return dict(value)
    return list(map(fields, value)) if isinstance(value, list | tuple) else value
