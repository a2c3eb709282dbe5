"""What a policy shows people of its internal state, at paths below the gateway's admin address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class IntrospectAsk:
    """A request for one of the declared paths."""

    path: str
    """The path as it is declared, such as "/quotas/:namespace"."""
    parameters: Mapping[str, str]
    """The values of the path's parameters, by their names without colons: all of them, and none is empty."""
    query: Mapping[str, str]
    """The query of the URL; of a key that is repeated the last value."""


Show = Callable[[IntrospectAsk], object]
"""Returns the value that a path shows, which is written as JSON; may be a coroutine function."""


class Shown(NamedTuple):
    """A declared path."""

    path: str
    description: str
    show: Show

    @property
    def parameters(self) -> list[str]:
        """The names of the path's parameters."""
        return [segment[1:] for segment in self.path.split("/") if segment.startswith(":")]
