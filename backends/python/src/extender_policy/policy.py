"""What a policy author implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Sequence
from typing import cast

from .candidate import BindAsk, Candidate
from .changes import NodeChange, PodChange
from .info import Info
from .node import Node, Nodes
from .outcome import Outcome
from .pod import Pod
from .verdict import Bind, Eviction, Verdict


class Policy(ABC):
    """Which nodes a pod may not run on, and how good the others are for it.

    A small policy implements `info` and one of `filter`, `score` and `preempt`, or a hook, whose name begins with
    `before_`. Methods may raise: that call fails, the
    next one is answered.

    With `run` and `serve`, methods are called from several threads at once. With `run_async` and `serve_async`, they
    are called from the event loop's thread, each may be a coroutine function (`async def`), and one that is not must
    not block: no other call is served meanwhile.
    """

    @abstractmethod
    def info(self) -> Info:
        """What this policy is, and which data it needs.

        Called once, before the first call; it must not change during the lifetime of this object.
        """

    def filter(self, pod: Pod, node: Node) -> Verdict | Awaitable[Verdict]:
        """Whether the pod may run on this node.

        Called only if `info` declares it with `Info.filters`.
        """
        return Verdict.accept()

    def score(self, pod: Pod, node: Node) -> int | Awaitable[int]:
        """How good this node is for the pod.

        Called also for nodes that `filter` rejects, if both are per node: scores then come in one round with the
        verdicts. Larger is better, unless the declared `Scale` is reversed. `NO_OPINION` leaves the node to the scores
        of other policies. Called only if `info` declares it with `Info.scores`.
        """
        return 0

    def preempt(self, pod: Pod, candidate: Candidate) -> Eviction | Awaitable[Eviction]:
        """Which of these pods may be evicted to make room for the pod on this node.

        Called only if `info` declares it with `Info.preempts`. kube-scheduler takes one of the nodes that all policies
        leave.
        """
        return Eviction.ALL

    def filter_all(self, pod: Pod, nodes: Nodes) -> Sequence[Verdict] | Awaitable[Sequence[Verdict]]:
        """One verdict for each node, in their order.

        A policy overrides this if nodes depend on one another (then it declares `Verb.whole_set`), or to compute
        something about the pod once for all nodes.
        """
        # A coroutine function gives awaitables here, which the SDK awaits one after the other.
        return cast("Sequence[Verdict]", [self.filter(pod, node) for node in nodes])

    def score_all(self, pod: Pod, nodes: Nodes) -> Sequence[int] | Awaitable[Sequence[int]]:
        """One score for each node, in their order; overridden for the same reasons as `filter_all`."""
        return cast("Sequence[int]", [self.score(pod, node) for node in nodes])

    def preempt_all(
        self, pod: Pod, candidates: Sequence[Candidate]
    ) -> Sequence[Eviction] | Awaitable[Sequence[Eviction]]:
        """One answer for each candidate, in their order; overridden for the same reasons as `filter_all`.

        This verb is called in turn, whatever it declares.
        """
        return cast("Sequence[Eviction]", [self.preempt(pod, candidate) for candidate in candidates])

    def bind(self, ask: BindAsk) -> Bind | Awaitable[Bind]:
        """Binds the pod to the node, or declines; raises `BindFailed` if binding failed.

        The one method that may take long. Called only if `info` declares it with `Info.binds`, and only when
        kube-scheduler is binding. It may be called again for the same pod and node: an existing binding is `Bind.BOUND`
        again. A coroutine is canceled when the caller cancels or the deadline passes.
        """
        return Bind.declined("this policy does not bind")

    def before_filter(self, pod: Pod) -> PodChange | Awaitable[PodChange | None] | None:
        """What changes about the pod before the filters of all policies are called; `None`: nothing.

        Called only if `info` declares it with `Info.before_filter`. Changes are for one call and its pod alone, and
        kube-scheduler does not see them.
        """
        return None

    def before_filter_node(self, pod: Pod, node: Node) -> NodeChange | Awaitable[NodeChange | None] | None:
        """What changes about this node before the filters of all policies are called; `None`: nothing.

        Called only if `info` declares it with `Info.before_filter_nodes`.
        """
        return None

    def before_filter_nodes(
        self, pod: Pod, nodes: Nodes
    ) -> Sequence[NodeChange | None] | Awaitable[Sequence[NodeChange | None]]:
        """One change or `None` for each node, in their order; overridden for the same reasons as `filter_all`."""
        return cast("Sequence[NodeChange | None]", [self.before_filter_node(pod, node) for node in nodes])

    def before_score(
        self, pod: Pod, nodes: Nodes
    ) -> (
        tuple[PodChange | None, Sequence[NodeChange | None]]
        | Awaitable[tuple[PodChange | None, Sequence[NodeChange | None]]]
    ):
        """What changes about the pod, and one change or `None` for each node, before the scores of all policies.

        Called only if `info` declares it with `Info.before_score`. The changes before the filters are gone by then.
        Without any entry no node changes: `(change, ())`.
        """
        return None, ()

    def observe(self, outcome: Outcome) -> Awaitable[None] | None:  # noqa: B027 - most policies are not told
        """Learns how an attempt to place a pod ended, to undo what the policy has changed outside for it.

            def observe(self, outcome: Outcome) -> None:
                is_undone = outcome.kind in (OutcomeKind.NOT_BOUND, OutcomeKind.SUPERSEDED)
                is_kept_call = self.reserved.get(outcome.uid) == outcome.call
                if outcome.kind is OutcomeKind.DELETED or (is_undone and is_kept_call):
                    self.reserved.pop(outcome.uid, None)

        Here the policy keeps with each reservation the `Pod.call_id` or `BindAsk.call_id` of the latest call.
        NOT_BOUND and SUPERSEDED undo it only if they name this call: a later one may have reserved since. BOUND and
        DELETED hold whichever call they name.

        Called only if `info` declares it with `Info.observes_outcomes`, in the order in which outcomes became known,
        and also while the policy is not ready.

        Each outcome comes at least once, so this must be idempotent, and do nothing for a pod that the policy does not
        know: if it raises, the gateway sends all outcomes of the request again, up to 256, those that were observed
        included. An outcome that comes again may do so after a later attempt has begun.

        It must be quick, because the outcomes after this one wait: what takes long belongs elsewhere, such as into a
        queue of the policy.
        """

    def ready(self) -> None:  # noqa: B027 - most policies are always ready
        """Raises `NotReady` if the policy cannot decide now. Called before each call, and as often as `current`.

        A policy whose data is missing or stale (its price list is a day old) is not ready, and the failure policy that
        the operator chose decides.
        """

    def current(self) -> Policy:
        """The policy that answers from now on: this one, or a newer one that took its place.

        For a policy that is made from something that changes, such as a file or the time of day. Called before each
        handshake and each call, for each gateway that watches five times a second, and for each request for metrics,
        from several threads at once, so it must be cheap. The newer one has another
        `Info.revision`, with which the gateway drops the answers that it has cached: so a verb that depends on such a
        thing may still be pure. If it declares other reads, this one still answers the calls that were made for it.
        """
        return self


METHODS = tuple(name for name in vars(Policy) if not name.startswith("_") and name not in ("info", "ready", "current"))
"""Those that may be coroutine functions."""
