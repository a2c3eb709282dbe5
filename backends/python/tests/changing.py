"""A policy whose hooks change what a test tells them to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from extender_policy import ChangedPart, Hook, Info, Node, Nodes, Pod, Policy, Reads

POD_PARTS = tuple(part for part in ChangedPart if part.name.startswith("POD_"))
NODE_PARTS = tuple(part for part in ChangedPart if part.name.startswith("NODE_"))


def everything() -> Info:
    reads = Reads.everything()
    info = Info("hooks", "1").revision("r1").before_filter(Hook.of_pod().reads(reads).changes(*POD_PARTS))
    return info.before_filter_nodes(Hook.per_node().reads(reads).changes(*NODE_PARTS)).before_score(
        Hook.whole_set().reads(reads).changes(*ChangedPart)
    )


class Changing(Policy):
    """Changes what it is told to."""

    def __init__(
        self,
        of_pod: Any = None,
        of_node: Callable[[Node], Any] = lambda node: None,
        info: Info | None = None,
    ) -> None:
        self._of_pod, self._of_node, self._info = of_pod, of_node, info or everything()

    def info(self) -> Info:
        return self._info

    def before_filter(self, pod: Pod) -> Any:
        return self._of_pod

    def before_filter_node(self, pod: Pod, node: Node) -> Any:
        return self._of_node(node)

    def before_score(self, pod: Pod, nodes: Nodes) -> Any:
        return self._of_pod, [self._of_node(node) for node in nodes]
