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

UNREAD: Any = object()
"""The value of an attribute that is not decoded yet.

`__getattr__` for an empty slot would take longer, also once the slot is filled: the interpreter then specializes no
read of an attribute of the class.
"""


class Content:
    """What is sent of an object.

    Each attribute is decoded at its first use, and then a plain one. Two threads may both decode, with equal results.
    """

    __slots__ = ("annotation_values", "annotations", "label_values", "labels")

    decoders: ClassVar[Mapping[str, Callable[[Any], object]]]
    """By the names of the attributes."""

    label_values: tuple[str | None, ...]
    """The values of declared keys; `None` for a key that the object lacks."""
    annotation_values: tuple[str | None, ...]
    labels: Mapping[str, str]
    """Those with declared prefixes."""
    annotations: Mapping[str, str]

    def read(self, name: str) -> None:
        """Decodes an attribute that is `UNREAD`."""
        setattr(self, name, self.decoders[name](self))


class Labelled(Generic[K, P]):
    """An object with labels and annotations."""

    __slots__ = ("_access",)

    _access: Access
    _content: Content

    def get(self, key: K) -> str | None:
        """The value of a declared label or annotation; `None` when the object does not have it."""
        text, is_annotation = key
        if is_annotation:
            return self.annotation(text)
        # As `label`, which policies would call thousands of times.
        content, place = self._content, self._access.labels[text]
        if place < 0 or content.label_values is UNREAD:
            return self.label(text)
        return content.label_values[place]

    def entries(self, prefix: P) -> Mapping[str, str]:
        """The labels or annotations with a declared prefix, by key."""
        text, is_annotation = prefix
        places = self._access.annotations if is_annotation else self._access.labels
        places.check_prefix(text)
        found = self._entries("annotations" if is_annotation else "labels")
        return {key: value for key, value in found.items() if key.startswith(text)} if text else found

    def label(self, key: str) -> str | None:
        """The value of a label; `None` when the object does not have it."""
        content, place = self._content, self._access.labels[key]
        if place < 0:
            return self._entries("labels").get(key)
        if content.label_values is UNREAD:
            content.read("label_values")
        return content.label_values[place]

    @property
    def labels(self) -> Mapping[str, str]:
        """All labels, by key: the prefix "", or everything, declares them."""
        self._access.labels.check_prefix("")
        return self._entries("labels")

    def annotation(self, key: str) -> str | None:
        """The value of an annotation; `None` when the object does not have it."""
        content, place = self._content, self._access.annotations[key]
        if place < 0:
            return self._entries("annotations").get(key)
        if content.annotation_values is UNREAD:
            content.read("annotation_values")
        return content.annotation_values[place]

    @property
    def annotations(self) -> Mapping[str, str]:
        """All annotations, by key: the prefix "" declares them."""
        self._access.annotations.check_prefix("")
        return self._entries("annotations")

    def _entries(self, name: str) -> Mapping[str, str]:
        if getattr(self._content, name) is UNREAD:
            self._content.read(name)
        found: Mapping[str, str] = getattr(self._content, name)
        return found


def values(given: map_pb2.MapValues) -> tuple[str | None, ...]:
    """The values of declared keys, `None` for those that the object lacks."""
    listed: list[str | None] = list(given.values)
    for position in given.absent:
        # A value that is there is not absent, whatever the positions say.
        listed[position] = listed[position] or None
    return tuple(listed)


def entries(given: Mapping[str, str]) -> Mapping[str, str]:
    """A map of the contract, by key."""
    return MappingProxyType({key: given[key] for key in sorted(given)}) if given else EMPTY
