"""Preemption and binding as a policy sees them."""

from __future__ import annotations

from typing import NamedTuple, final

from ._api.v1beta1 import policy_pb2
from ._layout import Access
from .node import Node
from .pod import Pod


@final
class Victim:
    """A pod that would be evicted."""

    __slots__ = ("pod", "uid")

    def __init__(self, message: policy_pb2.Victim, access: Access) -> None:
        self.uid = message.uid
        """metadata.uid."""
        self.pod = Pod(message.pod, access) if message.HasField("pod") and message.pod.HasField("facts") else None
        """The pod; `None` if only its UID is known.

        kube-scheduler sends no more with `nodeCacheCapable: true`, and the gateway watches no pods, or has not seen
        this one yet.
        """

    def __repr__(self) -> str:
        return f"Victim({self.uid!r})"


@final
class Candidate:
    """The evictions that would make room for the pod on one node."""

    __slots__ = ("node", "pdb_violations", "victims")

    def __init__(self, node: Node, message: policy_pb2.Candidate, access: Access) -> None:
        self.node = node
        """The node."""
        self.victims = tuple(Victim(victim, access) for victim in message.victims)
        """The pods that would be evicted, in kube-scheduler's order: the most important pod first.

        None if the pod fits on the node without evictions for all but an extender: `Eviction.ALL` leaves the node to
        the next policy.
        """
        self.pdb_violations = message.pdb_violations
        """How many of the evictions would violate a PodDisruptionBudget."""

    def __repr__(self) -> str:
        return f"Candidate({self.node!r}, {list(self.victims)!r})"


class BindAsk(NamedTuple):
    """Which pod is to be bound to which node."""

    namespace: str
    """metadata.namespace of the pod."""
    name: str
    """metadata.name of the pod."""
    uid: str
    """metadata.uid of the pod.

    A pod of that name with another UID must not be bound: put the UID into the Binding's metadata, and the apiserver
    checks it.
    """
    node: str
    """Name of the node."""
    pod: Pod | None
    """The pod; `None` if the gateway knows only its name."""
    call_id: str
    """The id of the call, as in `Outcome.call`."""

    def __repr__(self) -> str:
        return f"BindAsk({self.namespace}/{self.name}, node={self.node!r})"
