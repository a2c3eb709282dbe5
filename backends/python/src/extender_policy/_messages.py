"""Values as messages of the contract."""

from __future__ import annotations

from ._api.v1beta1 import pod_pb2, resources_pb2
from .resources import NodeAffinity, NodeSelectorTerm, NonZero, Resources


def resources_message(amounts: Resources) -> resources_pb2.Resources:
    """Amounts of resources."""
    return resources_pb2.Resources(**amounts._asdict() | {"others": dict(amounts.others)})


def nonzero_message(amounts: NonZero) -> resources_pb2.NonZero:
    """CPU and memory."""
    return resources_pb2.NonZero(milli_cpu=amounts.milli_cpu, memory=amounts.memory)


def node_affinity_message(affinity: NodeAffinity) -> pod_pb2.NodeAffinity:
    """An affinity to nodes."""
    message = pod_pb2.NodeAffinity()
    if affinity.required is not None:
        message.required.SetInParent()
        message.required.terms.extend(map(_term, affinity.required))
    for term in affinity.preferred:
        message.preferred.add(weight=term.weight, preference=_term(term.preference))
    return message


def _term(term: NodeSelectorTerm) -> pod_pb2.NodeSelectorTerm:
    message = pod_pb2.NodeSelectorTerm()
    for requirement in term.match_expressions:
        message.match_expressions.add(**requirement._asdict())
    for requirement in term.match_fields:
        message.match_fields.add(**requirement._asdict())
    return message
