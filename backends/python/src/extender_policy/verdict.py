"""What a policy answers about a node, a candidate and a bind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final, final

if TYPE_CHECKING:
    from .candidate import Candidate, Victim


NO_OPINION: Final = -(1 << 31)
"""The score of a node about which the policy has no opinion.

No normalization counts it, and it adds nothing to the total of the node.
"""

MAX_SECONDS = (1 << 32) - 1
"""The longest time that a rejection can name."""


@final
@dataclass(frozen=True, repr=False, slots=True)
class Verdict:
    """May the pod run on the node? Made by `Verdict.accept` and `Verdict.reject`."""

    reason: str | None
    """Why the node is rejected, for people; `None` if it is accepted."""
    rule: str
    """The policy's rule that rejects; empty if it has no name."""
    unresolvable: bool
    """Whether no eviction of pods from the node would change the verdict."""
    retry_after: int | None
    """In how many seconds the verdict can be another one at the earliest; `None` if that is not known."""

    @staticmethod
    def accept() -> Verdict:
        """Yes, as far as this policy is concerned."""
        return ACCEPT

    @staticmethod
    def reject(reason: str, *, rule: str = "", unresolvable: bool = False, retry_after: float | None = None) -> Verdict:
        """No; without some of the pods on the node the verdict could be another one, unless it is `unresolvable`.

        The reason must depend on the verdict alone. A text that differs from one attempt to the next (a time, a free
        amount) makes kube-scheduler retry the pod without end. An empty reason becomes "rejected".

        `rule` names the rule of the policy that rejects, as its author or operator calls it: `explain` and the
        gateway's decision log show it, the pod's condition does not. At most 63 bytes are sent.

        `unresolvable` declares that no eviction of pods from this node would change the verdict, so that
        kube-scheduler tries none: for whatever does not depend on the pods on the node, such as its labels. Without
        it kube-scheduler may evict pods there, if the operator allows that.

        `retry_after` says in how many seconds from now the verdict can be another one at the earliest, if nothing but
        time passes, such as until a maintenance ends: a hint, which `explain` and the decision log show. It is rounded
        up to whole seconds.
        """
        return _rejected(reason, rule, unresolvable, None if retry_after is None else _whole_seconds(retry_after))

    @property
    def accepts(self) -> bool:
        """Whether the node is accepted."""
        return self.reason is None

    def __repr__(self) -> str:
        if self.reason is None:
            return "Verdict.accept()"
        rule = f", rule={self.rule!r}" if self.rule else ""
        kind = ", unresolvable=True" if self.unresolvable else ""
        after = "" if self.retry_after is None else f", retry_after={self.retry_after}"
        return f"Verdict.reject({self.reason!r}{rule}{kind}{after})"


# Reasons are constant texts, so nearly every rejection is one that was made before.
@lru_cache(maxsize=1024)
def _rejected(reason: str, rule: str, unresolvable: bool, retry_after: int | None) -> Verdict:
    if not isinstance(reason, str) or not isinstance(rule, str):
        raise TypeError(f"Verdict.reject({reason!r}, rule={rule!r}): expected two texts")
    return Verdict(reason, rule, bool(unresolvable), retry_after)


def _whole_seconds(seconds: float) -> int:
    if not isinstance(seconds, int | float) or math.isnan(seconds):
        raise TypeError(f"Verdict.reject(retry_after={seconds!r}): expected a number of seconds")
    # A time that has passed is now, and an infinite one is the longest.
    return math.ceil(min(max(seconds, 0), MAX_SECONDS))


ACCEPT = Verdict(None, "", False, None)


@final
@dataclass(frozen=True, repr=False)
class Eviction:
    """A policy's answer about one candidate: `Eviction.ALL`, `Eviction.SPARE` or `Eviction.only(...)`."""

    ALL: ClassVar[Eviction]
    """Evict the victims as they are, if this node is taken."""
    SPARE: ClassVar[Eviction]
    """Evict no pod here: the node is no longer a candidate."""

    positions: tuple[int, ...] | None
    """The positions of the victims to evict; `None` for all of them, empty for none."""

    @staticmethod
    def only(positions: Iterable[int]) -> Eviction:
        """Evict these, by their positions among the victims, each once and at least one.

        Nothing checks afterwards whether the pod fits when the others stay.
        """
        chosen = tuple(positions)
        if not chosen:
            raise ValueError("Eviction.only() needs at least one position; use Eviction.SPARE to evict no pod")
        return Eviction(chosen)

    @staticmethod
    def of(candidate: Candidate, evict: Callable[[Victim], bool]) -> Eviction:
        """Evicts the victims for which `evict` returns true; `Eviction.SPARE` if there are none."""
        positions = tuple(at for at, victim in enumerate(candidate.victims) if evict(victim))
        if len(positions) == len(candidate.victims):
            return Eviction.ALL
        return Eviction(positions)

    def __repr__(self) -> str:
        if self.positions is None:
            return "Eviction.ALL"
        return f"Eviction.only({list(self.positions)})" if self.positions else "Eviction.SPARE"


Eviction.ALL = Eviction(None)
Eviction.SPARE = Eviction(())


@final
@dataclass(frozen=True, repr=False)
class Bind:
    """How a bind ended: `Bind.BOUND`, `Bind.declined(why)` or `Bind.not_bound(why)`.

    A bind whose end is not known raises `BindFailed`.
    """

    BOUND: ClassVar[Bind]
    """The Binding exists: this pod, this node. Also if it existed before."""

    why: str | None
    """Why the policy does not bind or has not bound the pod; `None` if it is bound."""
    is_declined: bool = False
    """Whether the policy does not bind the pod, and has not tried to."""

    @staticmethod
    def declined(why: str) -> Bind:
        """The policy does not bind this pod, and has not tried to.

        The text says why, for people, at most 1024 bytes. The next binder is called.
        """
        return Bind(why, is_declined=True)

    @staticmethod
    def not_bound(why: str) -> Bind:
        """The policy binds this pod, and has not: there is certainly no Binding, and none will come.

        None was requested, or the apiserver refused it. The text says why, for people, at most 1024 bytes. A failure as
        `BindFailed` is, after which the pod does not count on the node.
        """
        return Bind(why)

    def __repr__(self) -> str:
        if self.why is None:
            return "Bind.BOUND"
        return f"Bind.{'declined' if self.is_declined else 'not_bound'}({self.why!r})"


Bind.BOUND = Bind(None)
