"""What the contract says of a change of a hook: which parts it has, and how large they are."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from itertools import chain

from ._api.v1alpha1 import hooks_pb2, pod_pb2, resources_pb2
from .changes import ChangedPart, NodeChange, PodChange
from .reads import MAX_KEY_BYTES, quoted, size
from .resources import EFFECTS

MAX_ENTRIES = 64
"""The most entries in all maps and lists of a change."""
MAX_VALUE_BYTES = 256
"""The longest value of a label, selector, taint or toleration."""
MAX_AFFINITY_ENTRIES = 1024
"""The most terms, requirements and values of a node affinity."""
MAX_AFFINITY_BYTES = 64 << 10

MAX_HOLD_USERS = 1024
"""The most users of all holds of a change."""
MAX_UID_BYTES = 64

_TEXTS_WITH_KEYS = ("set_labels", "set_node_selector")
_KEYS = ("remove_labels", "remove_node_selector")
_TAINTS = ("add_taints", "remove_taints")
_TOLERATIONS = ("add_tolerations", "remove_tolerations")


def undeclared(change: PodChange | NodeChange, declared: frozenset[ChangedPart]) -> str | None:
    """What it changes without a declaration, as the end of a sentence."""
    for part in sorted(change.parts - declared):
        return f"that changes {part.name}, which is not declared; declare it with Hook.changes(ChangedPart.{part.name})"
    return None


def entries_of(message: hooks_pb2.PodChange | hooks_pb2.NodeChange) -> int:
    """The number of entries in all maps and lists."""
    return sum(map(len, _collections(message)))


def over_limits(change: PodChange | NodeChange) -> Iterator[str]:
    """What is beyond the limits, as the ends of sentences."""
    message = change._message
    entries = entries_of(message)
    if entries > MAX_ENTRIES:
        yield f"with {entries} entries; at most {MAX_ENTRIES} are allowed"
    for field, key, least in _keys(message):
        if not least <= size(key) <= MAX_KEY_BYTES:
            yield f"with a key of {size(key)} bytes in {field}: {quoted(key)}; expected {least} to {MAX_KEY_BYTES}"
    for field, value in _values(message):
        if size(value) > MAX_VALUE_BYTES:
            yield f"with a value of {size(value)} bytes in {field}: {quoted(value)}; expected at most {MAX_VALUE_BYTES}"
    if isinstance(message, hooks_pb2.NodeChange):
        for taint in message.add_taints:
            if taint.effect not in EFFECTS:
                yield f"with the effect {quoted(taint.effect)} in add_taints; expected one of {', '.join(EFFECTS)}"
        yield from _beyond_holds(message)
    else:
        yield from _beyond_affinity(message.node_affinity)


def _beyond_holds(message: hooks_pb2.NodeChange) -> Iterator[str]:
    users = [user for hold in message.holds for user in hold.users]
    if len(users) > MAX_HOLD_USERS:
        yield f"with {len(users)} users of holds; at most {MAX_HOLD_USERS} are allowed"
    for user in users:
        if not 1 <= size(user.uid) <= MAX_UID_BYTES:
            yield f"with a user of a hold that has a UID of {size(user.uid)} bytes; expected 1 to {MAX_UID_BYTES}"
    for hold in message.holds:
        held = hold.resources
        amounts = (held.milli_cpu, held.memory, held.ephemeral_storage, held.pods, *dict(held.others).values())
        if min(amounts) < 0:
            yield "with a negative amount in a hold"


def _beyond_affinity(affinity: pod_pb2.NodeAffinity) -> Iterator[str]:
    terms = _terms(affinity)
    requirements = _requirements(affinity)
    values = sum(len(requirement.values) for requirement in requirements)
    # A preferred term is one, and has one.
    entries = len(affinity.preferred) + len(terms) + len(requirements) + values
    if entries > MAX_AFFINITY_ENTRIES:
        most = MAX_AFFINITY_ENTRIES
        yield f"with {entries} terms, requirements and values in node_affinity; at most {most} are allowed"
    if affinity.ByteSize() > MAX_AFFINITY_BYTES:
        yield f"with a node_affinity of {affinity.ByteSize()} bytes; at most {MAX_AFFINITY_BYTES} are allowed"


def _collections(message: hooks_pb2.PodChange | hooks_pb2.NodeChange) -> Iterator[Sized]:
    """All maps and lists, but those of the node affinity, which has a limit of its own."""
    for field in (*_TEXTS_WITH_KEYS, *_KEYS, *_TAINTS, *_TOLERATIONS):
        yield getattr(message, field, ())
    yield getattr(message, "holds", ())
    for _, amounts in _amounts(message):
        yield amounts.others


def _amounts(message: hooks_pb2.PodChange | hooks_pb2.NodeChange) -> Iterator[tuple[str, resources_pb2.Resources]]:
    if isinstance(message, hooks_pb2.PodChange):
        yield "add_requests", message.add_requests
    else:
        yield "add_allocatable", message.add_allocatable
        yield "add_usage", message.add_usage.requested
        yield from (("holds", hold.resources) for hold in message.holds)


def _keys(message: hooks_pb2.PodChange | hooks_pb2.NodeChange) -> Iterator[tuple[str, str, int]]:
    """The keys by their fields, with the least number of bytes."""
    for field in (*_TEXTS_WITH_KEYS, *_KEYS):
        yield from ((field, key, 1) for key in getattr(message, field, ()))
    for field in _TAINTS:
        yield from ((field, taint.key, 1) for taint in getattr(message, field, ()))
    for field in _TOLERATIONS:
        # Without a key all taints are tolerated.
        yield from ((field, toleration.key, 0) for toleration in getattr(message, field, ()))
    for field, amounts in _amounts(message):
        yield from ((field, name, 1) for name in amounts.others)
    if isinstance(message, hooks_pb2.PodChange):
        requirements = _requirements(message.node_affinity)
        yield from (("node_affinity", requirement.key, 1) for requirement in requirements)


def _values(message: hooks_pb2.PodChange | hooks_pb2.NodeChange) -> Iterator[tuple[str, str]]:
    """The values by their fields."""
    for field in _TEXTS_WITH_KEYS:
        yield from ((field, value) for value in dict(getattr(message, field, ())).values())
    for field in (*_TAINTS, *_TOLERATIONS):
        for entry in getattr(message, field, ()):
            yield field, entry.value
            yield field, entry.effect
    for field in _TOLERATIONS:
        yield from ((field, toleration.operator) for toleration in getattr(message, field, ()))
    if isinstance(message, hooks_pb2.PodChange):
        for requirement in _requirements(message.node_affinity):
            yield from (("node_affinity", value) for value in requirement.values)


def _terms(affinity: pod_pb2.NodeAffinity) -> list[pod_pb2.NodeSelectorTerm]:
    return [*affinity.required.terms, *(preferred.preference for preferred in affinity.preferred)]


def _requirements(affinity: pod_pb2.NodeAffinity) -> list[pod_pb2.NodeSelectorRequirement]:
    return [*chain.from_iterable((*term.match_expressions, *term.match_fields) for term in _terms(affinity))]
