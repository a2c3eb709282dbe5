//! What a policy author implements.

use crate::{
    Bind, BindAsk, BoxFuture, Candidate, Eviction, Info, IntrospectAsk, IntrospectError, Node, NodeChange,
    Nodes, NotReady, Outcome, Pod, PodChange, Unanswered, Verdict, reads::access::unwritten,
};

/// A policy: which nodes a pod may not run on, and how good the others are for it.
///
/// A small policy implements [`info`](Self::info) and one of [`filter`](Self::filter),
/// [`score`](Self::score) and [`preempt`](Self::preempt). Methods besides [`introspect`](Self::introspect) are called from one thread at a time unless the
/// runtime of `serve` has several, must not block (no other call is served meanwhile), and may
/// panic: that call fails, the next one is answered.
pub trait Policy: Send + Sync + 'static {
    /// What this policy is, and which data it needs. Called once, before the first call; it must not change during
    /// the lifetime of this value. A verb that it declares and that has no method fails its calls.
    fn info(&self) -> Info;

    /// The policy that takes the place of this one, because what it was made from has changed: a file, or the time of day;
    /// `None` if this one answers. Called before each handshake and each call, so it must be cheap. The newer one has another
    /// [`Info::revision`], with which the gateway drops the answers that it has cached: so a verb that depends on such a thing
    /// may still be pure. If it declares other reads, this one still answers the calls that were made for it.
    ///
    /// ```
    /// # use extender_policy_sdk::testing::{self, TestNode, TestPod};
    /// # use extender_policy_sdk::{Backend, Info, Node, Pod, Policy, Reads, Verb, Verdict};
    /// /// Rejects the nodes of a zone from 2 to 4 o'clock.
    /// struct Maintained {
    ///     hour: fn() -> u64,
    ///     is_closed: bool,
    /// }
    ///
    /// # impl Maintained {
    /// #     fn new(hour: fn() -> u64) -> Self { Self { hour, is_closed: (2..4).contains(&hour()) } }
    /// # }
    /// impl Policy for Maintained {
    ///     fn info(&self) -> Info {
    ///         let mut reads = Reads::new();
    ///         reads.node_label("zone");
    ///         // What the time decides is in the revision: so the verb is pure.
    ///         Info::new("maintained", "1.0.0")
    ///             .revision(format!("1.0.0 closed={}", self.is_closed))
    ///             .filters(Verb::per_node().pure().reads(&reads))
    ///     }
    ///
    ///     fn current(&self) -> Option<Box<dyn Policy>> {
    ///         let newer = Self::new(self.hour);
    ///         if newer.is_closed == self.is_closed { None } else { Some(Box::new(newer)) }
    ///     }
    ///
    ///     fn filter(&self, _: &Pod, node: &Node) -> Verdict {
    ///         match node.label("zone") {
    ///             Some("a") if self.is_closed => Verdict::reject("zone is in maintenance").unresolvable(),
    ///             _ => Verdict::Accept,
    ///         }
    ///     }
    /// }
    ///
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// static HOUR: AtomicU64 = AtomicU64::new(1);
    /// let hour = || HOUR.load(Ordering::Relaxed); // in a program: of SystemTime::now()
    /// let (pod, node) = (TestPod::new("shop"), [TestNode::new("n").label("zone", "a")]);
    /// let configured = testing::with_args(Backend::configured(move |_| Ok(Maintained::new(hour))), "{}").unwrap();
    /// for backend in [Backend::from(Maintained::new(hour)), testing::everything(Maintained::new(hour)), configured] {
    ///     for (now, rejected) in [(1, 0), (2, 1), (3, 1), (4, 0), (2, 1)] {
    ///         HOUR.store(now, Ordering::Relaxed);
    ///         assert_eq!(testing::filter(backend.clone(), &pod, &node).unwrap().len(), rejected);
    ///         assert!(testing::info(backend.clone()).unwrap().revision.ends_with(&(rejected == 1).to_string()));
    ///     }
    /// }
    /// ```
    fn current(&self) -> Option<Box<dyn Policy>> {
        None
    }

    /// May the pod run on this node? Called only if [`info`](Self::info) declares it with [`Info::filters`].
    fn filter(&self, _pod: &Pod<'_>, _node: &Node<'_>) -> Verdict {
        unwritten("filters", "filter or filter_all")
    }

    /// How good is this node for the pod? Called also for nodes that [`filter`](Self::filter) refuses, if both are
    /// per node: scores then come in one round with the verdicts. Larger is better, unless the declared
    /// [`Scale`](crate::Scale) is reversed; [`NO_OPINION`](crate::NO_OPINION) if the policy has none about the node. Called only if [`info`](Self::info) declares it with [`Info::scores`].
    fn score(&self, _pod: &Pod<'_>, _node: &Node<'_>) -> i32 {
        unwritten("scores", "score or score_all")
    }

    /// May these pods be evicted to make room for the pod on this node? Called only if [`info`](Self::info)
    /// declares it with [`Info::preempts`]. kube-scheduler takes one of the nodes that all policies leave.
    fn preempt(&self, _pod: &Pod<'_>, _candidate: &Candidate<'_>) -> Eviction {
        unwritten("preempts", "preempt or preempt_all")
    }

    /// One verdict for each node, in their order. A policy overrides this if nodes depend on one another (then it
    /// declares [`Verb::whole_set`](crate::Verb::whole_set)), or to compute something about the pod once for all
    /// nodes.
    fn filter_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<Verdict> {
        nodes.iter().map(|node| self.filter(pod, &node)).collect()
    }

    /// One score for each node, in their order; overridden for the same reasons as
    /// [`filter_all`](Self::filter_all).
    fn score_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<i32> {
        nodes.iter().map(|node| self.score(pod, &node)).collect()
    }

    /// One answer for each candidate, in their order; overridden for the same reasons as
    /// [`filter_all`](Self::filter_all). This verb is called in turn, whatever it declares.
    fn preempt_all(&self, pod: &Pod<'_>, candidates: &[Candidate<'_>]) -> Vec<Eviction> {
        candidates.iter().map(|candidate| self.preempt(pod, candidate)).collect()
    }

    /// What changes about the pod before it is filtered for. Called only if [`info`](Self::info) declares it with
    /// [`Info::before_filter`].
    fn before_filter(&self, _pod: &Pod<'_>) -> PodChange {
        unwritten("before_filter", "before_filter")
    }

    /// What changes about this node before the nodes are filtered. Called only if [`info`](Self::info) declares it with
    /// [`Info::before_filter_nodes`].
    fn before_filter_node(&self, _pod: &Pod<'_>, _node: &Node<'_>) -> NodeChange {
        unwritten("before_filter_nodes", "before_filter_node or before_filter_nodes")
    }

    /// One change for each node, in their order; overridden for the same reasons as [`filter_all`](Self::filter_all),
    /// then with [`Hook::whole_set`](crate::Hook::whole_set) if nodes depend on one another.
    fn before_filter_nodes(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<NodeChange> {
        nodes.iter().map(|node| self.before_filter_node(pod, &node)).collect()
    }

    /// What changes about the pod and the nodes before these are scored: one change for each node, in their order; a hook
    /// that declares no part of nodes may return no change of nodes at all. Called only if [`info`](Self::info) declares
    /// it with [`Info::before_score`].
    fn before_score(&self, _pod: &Pod<'_>, _nodes: &Nodes<'_>) -> (PodChange, Vec<NodeChange>) {
        unwritten("before_score", "before_score")
    }

    /// As [`before_filter`](Self::before_filter), for a hook that declares [`Hook::waits`](crate::Hook::waits); the same
    /// as for [`filter_later`](Self::filter_later) applies.
    fn before_filter_later<'a>(&'a self, pod: Pod<'a>) -> BoxFuture<'a, Result<PodChange, Unanswered>> {
        Box::pin(async move { Ok(self.before_filter(&pod)) })
    }

    /// As [`before_filter_nodes`](Self::before_filter_nodes), for a hook that declares
    /// [`Hook::waits`](crate::Hook::waits); the same as for [`filter_later`](Self::filter_later) applies.
    fn before_filter_nodes_later<'a>(
        &'a self,
        pod: Pod<'a>,
        nodes: Nodes<'a>,
    ) -> BoxFuture<'a, Result<Vec<NodeChange>, Unanswered>> {
        Box::pin(async move { Ok(self.before_filter_nodes(&pod, &nodes)) })
    }

    /// As [`before_score`](Self::before_score), for a hook that declares [`Hook::waits`](crate::Hook::waits); the same as
    /// for [`filter_later`](Self::filter_later) applies.
    fn before_score_later<'a>(
        &'a self,
        pod: Pod<'a>,
        nodes: Nodes<'a>,
    ) -> BoxFuture<'a, Result<(PodChange, Vec<NodeChange>), Unanswered>> {
        Box::pin(async move { Ok(self.before_score(&pod, &nodes)) })
    }

    /// As [`filter_all`](Self::filter_all), for a verb that declares [`Verb::waits`](crate::Verb::waits). An error fails the
    /// call, and the failure policy that the operator chose decides: [`NotReady`] if the policy cannot decide now,
    /// [`CannotAnswer`](crate::CannotAnswer) if it cannot about this pod.
    ///
    /// The future is dropped when the caller cancels or the deadline passes. Other calls are answered while it waits.
    fn filter_later<'a>(
        &'a self,
        pod: Pod<'a>,
        nodes: Nodes<'a>,
    ) -> BoxFuture<'a, Result<Vec<Verdict>, Unanswered>> {
        Box::pin(async move { Ok(self.filter_all(&pod, &nodes)) })
    }

    /// As [`score_all`](Self::score_all), for a verb that declares [`Verb::waits`](crate::Verb::waits); the same as
    /// for [`filter_later`](Self::filter_later) applies.
    fn score_later<'a>(
        &'a self,
        pod: Pod<'a>,
        nodes: Nodes<'a>,
    ) -> BoxFuture<'a, Result<Vec<i32>, Unanswered>> {
        Box::pin(async move { Ok(self.score_all(&pod, &nodes)) })
    }

    /// As [`preempt_all`](Self::preempt_all), for a verb that declares [`Verb::waits`](crate::Verb::waits); the same
    /// as for [`filter_later`](Self::filter_later) applies.
    fn preempt_later<'a>(
        &'a self,
        pod: Pod<'a>,
        candidates: &'a [Candidate<'a>],
    ) -> BoxFuture<'a, Result<Vec<Eviction>, Unanswered>> {
        Box::pin(async move { Ok(self.preempt_all(&pod, candidates)) })
    }

    /// Binds the pod to the node, or declines. Called only if [`info`](Self::info) declares it with
    /// [`Info::binds`], and only when kube-scheduler is binding. It may be called again for the same pod and node:
    /// an existing binding is [`Bind::Bound`] again.
    ///
    /// The future is dropped when the caller cancels or the deadline passes. Other calls are answered while it
    /// waits.
    fn bind<'a>(&'a self, _ask: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        unwritten("binds", "bind")
    }

    /// How an attempt to place a pod ended, of the pods about which [`filter`](Self::filter) or [`bind`](Self::bind) was called for
    /// a decision: a policy that has changed something outside then undoes it. Called only if [`info`](Self::info) declares it
    /// with [`Info::observes_outcomes`].
    ///
    /// An outcome comes at least once: again after an answer that was lost, from another replica of the gateway, and together
    /// with those of its request after an error or a panic. So this must be idempotent, and an outcome of a pod that the policy
    /// does not know is no error. One that comes again can be older than the latest attempt to place the pod: a policy keeps the
    /// [id](Pod::call_id) of its latest call of filter or bind with what it has changed for the pod, and undoes that for
    /// [`NotBound`](crate::OutcomeKind::NotBound) and [`Superseded`](crate::OutcomeKind::Superseded) only if
    /// [`Outcome::call`] is the one that it keeps. [`Bound`](crate::OutcomeKind::Bound) and
    /// [`Deleted`](crate::OutcomeKind::Deleted) hold whichever call it was. The outcomes of a request come in their order.
    ///
    /// It must be quick; what takes long, such as a request to another server, belongs elsewhere: in a task of its own, behind a
    /// queue. [`NotReady`] says that the policy cannot take the outcome now.
    ///
    /// ```
    /// # use std::{collections::HashMap, sync::Mutex};
    /// # use extender_policy_sdk::testing::{self, TestNode, TestPod};
    /// # use extender_policy_sdk::{
    /// #     Backend, Info, Node, NotReady, Outcome, OutcomeKind, Pod, PodPart, Policy, Reads, Verb, Verdict,
    /// # };
    /// /// Reserves the one license for the first pod that asks: its UID, and the id of the latest call about it.
    /// #[derive(Default)]
    /// struct License {
    ///     reserved: Mutex<HashMap<String, String>>,
    /// }
    ///
    /// impl Policy for License {
    ///     fn info(&self) -> Info {
    ///         let mut reads = Reads::new();
    ///         reads.pod(PodPart::Identity);
    ///         let filter = Verb::per_node().side_effects().reads(&reads);
    ///         Info::new("license", "1.0.0").filters(filter).observes_outcomes()
    ///     }
    ///
    ///     fn filter(&self, pod: &Pod, _: &Node) -> Verdict {
    ///         let mut reserved = self.reserved.lock().unwrap();
    ///         let Some(uid) = pod.uid() else { return Verdict::reject("pod has no UID") };
    ///         if !reserved.contains_key(uid) && !reserved.is_empty() {
    ///             return Verdict::reject("license is in use");
    ///         }
    ///         reserved.insert(uid.to_owned(), pod.call_id().to_owned());
    ///         Verdict::Accept
    ///     }
    ///
    ///     fn observe(&self, outcome: &Outcome) -> Result<(), NotReady> {
    ///         let mut reserved = self.reserved.lock().unwrap();
    ///         let is_kept = match outcome.kind() {
    ///             OutcomeKind::Bound => true,
    ///             OutcomeKind::Deleted => false,
    ///             // Of a call before the latest one, they undo nothing.
    ///             OutcomeKind::NotBound | OutcomeKind::Superseded => {
    ///                 reserved.get(outcome.uid()).is_some_and(|call| call != outcome.call())
    ///             }
    ///         };
    ///         if !is_kept {
    ///             // Without an effect where it was released before.
    ///             reserved.remove(outcome.uid());
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let (license, node) = (Backend::from(License::default()), [TestNode::new("a")]);
    /// let [first, second] = ["u1", "u2"].map(|uid| TestPod::new("shop").identity("web", uid));
    /// let rejected = |pod| testing::filter(license.clone(), pod, &node).unwrap().len();
    /// assert_eq!((rejected(&first), rejected(&second)), (0, 1));
    /// let earlier = first.clone().call_id("earlier");
    /// testing::observe(license.clone(), &earlier, OutcomeKind::Superseded, "").unwrap();
    /// testing::observe(license.clone(), &first, OutcomeKind::Bound, "a").unwrap();
    /// assert_eq!(rejected(&second), 1);
    /// testing::observe(license.clone(), &first, OutcomeKind::Deleted, "").unwrap();
    /// assert_eq!(rejected(&second), 0);
    /// ```
    fn observe(&self, _outcome: &Outcome<'_>) -> Result<(), NotReady> {
        unwritten("observes_outcomes", "observe")
    }

    /// What a path shows of the policy's state, as one JSON value of at most 4 MiB. Called only for paths that
    /// [`info`](Self::info) declares with [`Info::shows`]; it must have no side effects.
    ///
    /// Called on a thread of its own, at the same time as other methods, so that no call waits for it. A lock that it
    /// holds for long delays calls nevertheless: copy what is shown, and format it afterwards.
    fn introspect(&self, _request: &IntrospectAsk<'_>) -> Result<serde_json::Value, IntrospectError> {
        Err(IntrospectError::NotImplemented)
    }

    /// Can the policy decide now? Called before each call. A policy whose data is missing or stale (its price list
    /// is a day old) returns an error, and the failure policy that the operator chose decides.
    fn ready(&self) -> Result<(), NotReady> {
        Ok(())
    }
}
