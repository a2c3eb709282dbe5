"""What pods and nodes have in common as policies see them: labels and annotations, decoded at their first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

from ._api.v1beta1 import map_pb2
from ._layout import Access
from .reads import NodeKey, NodePrefix, PodKey, PodPrefix

K = TypeVar("K", NodeKey, PodKey)
P = TypeVar("P", NodePrefix, PodPrefix)

EMPTY: Mapping[str, str] = MappingProxyType({})


class Content:
    """What is sent of an object.

    Each attribute is decoded at its first use: `__getattr__` is called only for a slot that is still empty, so later
    reads are those of plain attributes. Two threads may both decode; the results are equal.
    """

    __slots__ = ("_message", "annotation_values", "annotations", "label_values", "labels")

    decoders: ClassVar[Mapping[str, Callable[[Any], object]]] = {
        "label_values": lambda content: _values(content._message.facts.labels),
        "annotation_values": lambda content: _values(content._message.facts.annotations),
        "labels": lambda content: entries(content._message.facts.labels.entries),
        "annotations": lambda content: entries(content._message.facts.annotations.entries),
    }
    """By the names of the attributes."""

    label_values: tuple[str | None, ...]
    """The values of declared keys; `None` for a key that the object lacks."""
    annotation_values: tuple[str | None, ...]
    labels: Mapping[str, str]
    """Those with declared prefixes."""
    annotations: Mapping[str, str]

    def __getattr__(self, name: str) -> Any:
        decode = self.decoders.get(name)
        if decode is None:
            raise AttributeError(name)
        value = decode(self)
        setattr(self, name, value)
        return value


class Labelled(Generic[K, P]):
    """An object with labels and annotations."""

    __slots__ = ("_access",)

    _access: Access
    _content: Content

    def get(self, key: K) -> str | None:
        """The value of a declared label or annotation; `None` when the object does not have it."""
        text, is_annotation = key
        return self.annotation(text) if is_annotation else self.label(text)

    def entries(self, prefix: P) -> Mapping[str, str]:
        """The labels or annotations with a declared prefix, by key."""
        text, is_annotation = prefix
        places = self._access.annotations if is_annotation else self._access.labels
        places.check_prefix(text)
        found = self._content.annotations if is_annotation else self._content.labels
        return {key: value for key, value in found.items() if key.startswith(text)} if text else found

    def label(self, key: str) -> str | None:
        """The value of a label; `None` when the object does not have it."""
        place = self._access.labels[key]
        return self._content.label_values[place] if place >= 0 else self._content.labels.get(key)

    @property
    def labels(self) -> Mapping[str, str]:
        """All labels, by key: the prefix "", or everything, declares them."""
        self._access.labels.check_prefix("")
        return self._content.labels

    def annotation(self, key: str) -> str | None:
        """The value of an annotation; `None` when the object does not have it."""
        place = self._access.annotations[key]
        return self._content.annotation_values[place] if place >= 0 else self._content.annotations.get(key)

    @property
    def annotations(self) -> Mapping[str, str]:
        """All annotations, by key: the prefix "" declares them."""
        self._access.annotations.check_prefix("")
        return self._content.annotations


def _values(given: map_pb2.MapValues) -> tuple[str | None, ...]:
    """The values of declared keys, `None` for those that the object lacks."""
    listed: list[str | None] = list(given.values)
    for position in given.absent:
        # A value that is there is not absent, whatever the positions say.
        listed[position] = listed[position] or None
    return tuple(listed)


def entries(given: Mapping[str, str]) -> Mapping[str, str]:
    """A map of the contract, by key."""
    return MappingProxyType(dict(sorted(given.items()))) if given else EMPTY
