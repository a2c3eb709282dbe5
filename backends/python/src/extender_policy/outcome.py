"""What a policy observes of the attempts to place pods."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ._api.v1beta1 import outcomes_pb2


class OutcomeKind(IntEnum):
    """How an attempt to place a pod ended."""

    BOUND = outcomes_pb2.OUTCOME_KIND_BOUND
    """The pod is bound to `Outcome.node`."""
    NOT_BOUND = outcomes_pb2.OUTCOME_KIND_NOT_BOUND
    """The pod is not bound, and certainly will not be by this attempt."""
    SUPERSEDED = outcomes_pb2.OUTCOME_KIND_SUPERSEDED
    """Another attempt has begun before it was known how this one ended. Its own outcome follows."""
    DELETED = outcomes_pb2.OUTCOME_KIND_DELETED
    """The pod does not exist any more, or has ended, whether it was bound or not."""


class Outcome(NamedTuple):
    """The end of an attempt to place a pod."""

    call: str
    """The id of the latest call about the pod for which the gateway asked this policy to filter or bind.

    As in `Pod.call_id`, `BindAsk.call_id`, and the gateway's decision log and traces.
    """
    namespace: str
    """metadata.namespace of the pod."""
    name: str
    """metadata.name of the pod."""
    uid: str
    """metadata.uid of the pod."""
    kind: OutcomeKind
    node: str | None = None
    """The node to which the pod is bound, whoever chose it; `None` unless the kind is `OutcomeKind.BOUND`."""
