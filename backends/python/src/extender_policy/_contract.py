"""What the contract forbids a policy to answer. In service the gateway clamps, caches or repeats; a test fails."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from ._api.v1beta1 import hooks_pb2, info_pb2, policy_pb2
from .changes import ChangedPart, NodeChange, PodChange
from .verdict import NO_OPINION

_NUMBERS = re.compile(r"(?<![\w./:-])\d+([.,]\d+)*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def by_position(response: Message) -> Mapping[int, Any]:
    """What is answered about each node, without the positions; about the pod alone at -1."""
    if isinstance(response, policy_pb2.ScoreResponse):
        return {**dict(enumerate(response.scores.values)), **dict.fromkeys(response.scores.absent, NO_OPINION)}
    found: dict[int, Any] = {}
    if isinstance(response, hooks_pb2.ChangeResponse) and response.HasField("pod"):
        found[-1] = response.pod
    answers: Any = getattr(response, "rejections", None) or getattr(response, "nodes", ())
    for answer in answers:
        alone = type(answer)()
        alone.CopyFrom(answer)
        alone.ClearField("positions")
        found.update(dict.fromkeys(answer.positions, alone))
    return found


def check_scores(declared: info_pb2.VerbInfo, scores: Mapping[int, int], nodes: Sequence[str]) -> None:
    """Scores are on the declared scale."""
    if declared.HasField("score_min"):
        for position, score in scores.items():
            if score != NO_OPINION and not declared.score_min <= score <= declared.score_max:
                raise AssertionError(
                    f'score returned {score} for node "{nodes[position]}"; the declared scale is '
                    f"{declared.score_min} to {declared.score_max}: clamp the score, or declare another scale"
                )


def check_reasons(rejections: Mapping[int, policy_pb2.Rejection], nodes: Sequence[str]) -> None:
    """Reasons are constant texts for people."""
    known: dict[str, tuple[str, str]] = {}
    for position, rejection in sorted(rejections.items()):
        node, reason = nodes[position], rejection.reason
        if not reason.strip():
            raise AssertionError(
                f'filter rejects node "{node}" without a reason; say in a constant text what is wrong with the node'
            )
        if _CONTROL.search(reason):
            raise AssertionError(
                f'filter rejects node "{node}" with the reason {json.dumps(reason)}, which has control characters; '
                "write one line of text"
            )
        other, before = known.setdefault(_NUMBERS.sub("0", reason), (node, reason))
        if before != reason:
            raise AssertionError(
                f'filter rejects node "{other}" with the reason "{before}" and node "{node}" with "{reason}"; leave '
                "numbers out of reasons: each new text makes kube-scheduler retry the pod"
            )


def check_changes(verb: str, declared: frozenset[ChangedPart], response: hooks_pb2.ChangeResponse) -> None:
    """A hook changes nothing that it does not declare."""
    parts = PodChange._of(response.pod).parts.union(*(NodeChange._of(change).parts for change in response.nodes))
    for part in sorted(parts - declared):
        raise AssertionError(f"{verb} changes what it does not declare; add ChangedPart.{part.name} to Hook.changes")


def check_pure(verb: str, first: Mapping[int, Any], again: Mapping[int, Any], nodes: Sequence[str]) -> None:
    """A pure verb gives each node the same answer again, and in another order. Both are by the positions of `nodes`."""
    for position in sorted(first.keys() | again.keys()):
        if first.get(position) != again.get(position):
            about = "the pod" if position < 0 else f'node "{nodes[position]}"'
            raise AssertionError(
                f"{verb} is declared pure and gave another answer about {about} when it was asked again; a pure verb "
                "depends on the pod, the node and the args alone: declare it without pure, or name in the revision "
                "what it depends on"
            )
