"""Counts of pods as a policy sees them."""

from __future__ import annotations

from typing import Any, final

from ._api.v1beta1 import node_pb2, pod_pb2
from ._layout import SentCount
from .reads import PodsBy
from .resources import Resources, resources


@final
class PodCount:
    """Pods on a node, or in a domain of the cluster, with something in common.

    They have one owner, one namespace, one value of a label, or one priority class.
    """

    __slots__ = ("_by", "_message", "_namespace", "pods", "terminating", "value")

    def __init__(
        self,
        by: SentCount,
        message: node_pb2.PodCount | pod_pb2.DomainCount | None,
        namespace: str,
        value: str,
    ) -> None:
        self._by = by
        self._message = message
        self._namespace = namespace
        self.value = value
        """The owner's UID, the namespace, the label's value, or the name of the priority class."""
        self.pods = 0 if message is None else message.pods
        """How many pods, with those that are being deleted."""
        self.terminating = 0 if message is None else message.terminating
        """How many of them are being deleted (metadata.deletionTimestamp).

        kube-scheduler does not count these for topology spread constraints.
        """

    @property
    def namespace(self) -> str | None:
        """The pods' namespace; `None` if they are counted by owner or priority class."""
        if self._by.by.is_label:
            return self._namespace
        return self.value if self._by.by == PodsBy.NAMESPACE else None

    @property
    def requested(self) -> Resources:
        """The sums of what the pods need, with those that are being deleted, in the units of `Pod.requests`.

        `pods` is 0. Of extended resources, those on a node are the ones that the node reports in its status, and those
        in a domain the ones that the pod to be placed requests: others are left out and read as 0. Raises
        `UndeclaredRead` unless the count is declared with `Reads.pods_and_requests_by` or
        `Reads.pods_and_requests_by_topology`.
        """
        if not self._by.requests:
            self._by.undeclared_requests()
        return Resources() if self._message is None else resources(self._message.requested)

    def __repr__(self) -> str:
        return f"PodCount(value={self.value!r}, pods={self.pods}, terminating={self.terminating})"


@final
class PodsLike:
    """How many pods on a node, or in a domain of the cluster, are like a pod.

    Of a node with pods of very many owners, or very many values of a label, the gateway leaves out some counts, and so
    it does of very many domains; the number is then known only within bounds. A limit takes `at_most`, a requirement
    takes `at_least`: neither then takes an unknown number for 0.
    """

    __slots__ = ("_counted", "at_least", "at_most")

    def __init__(self, counted: tuple[Any, ...] | None, at_most: int) -> None:
        self._counted = counted
        self.at_most = at_most
        """The most pods that there can be, with those that are being deleted."""
        self.at_least = 0 if counted is None else at_most
        """The fewest pods that there can be, with those that are being deleted."""

    @property
    def counted(self) -> PodCount | None:
        """The count; `None` if it is left out. See `Node.omitted_pods` and `Domains.omitted_pods`."""
        return None if self._counted is None else PodCount(*self._counted)

    def __repr__(self) -> str:
        return f"PodsLike({self.at_least}..={self.at_most})"


def like(
    by: SentCount,
    found: node_pb2.PodCount | pod_pb2.DomainCount | None,
    attribute: tuple[str, str],
    unlisted: int,
) -> PodsLike:
    """The pods with this namespace and value. `unlisted`: the most pods with a value that is left out."""
    if found is None and unlisted:
        return PodsLike(None, unlisted)
    return PodsLike((by, found, *attribute), 0 if found is None else found.pods)
