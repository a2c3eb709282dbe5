//! Calls one backend for nodes in one call, for filter and prioritize: known answers are looked up, the backend is
//! called for the other nodes, and both are combined. A [`NodeQuestion`] has what differs between the verbs; an
//! [`Ask`] has the data of a call to a backend.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, Verb, filter::Asked};
use extender_policy_api::v1alpha1::Purpose;
use tokio::time::Instant;

use super::call_context::{CallContext, EncodedNodes, Readiness, Ready};
use crate::{
    backend::{
        Attempt, Backend,
        answer_cache::AnswerCache,
        info::Plan,
        remote_table::{TableReference, TableSource},
        session::Session,
    },
    cluster::table::{NodeRow, RowKey},
    contract::{
        answer::Reply,
        nodes::NodesField,
        question::{CallFields, Question, ScoresWanted},
    },
    record::{CacheSource, OpenAttempt},
};

/// A backend that takes part in a call.
pub(super) struct Participant<'d> {
    /// The index of its part in the record of the call.
    pub(super) place: usize,
    pub(super) backend: &'d Backend,
    /// The time that it has to answer.
    pub(super) timeout: Duration,
    /// How to call it, or why it is unavailable.
    pub(super) ready: Readiness,
}

/// A request about nodes: what differs between filter and prioritize.
pub(super) trait NodeQuestion: Sync {
    /// The backend's plan for the verb.
    type Plan: Plan;
    /// The backend's answer about the nodes in the request.
    type Fresh: Send;
    /// The cached answer for one node.
    type Cached: Copy + PartialEq + Send;
    /// The answer about all nodes; the default is the answer about no nodes.
    type Answer: Default;

    const VERB: Verb;

    /// Whether scores are requested with the answer.
    fn scores(plan: &Self::Plan) -> ScoresWanted;

    fn send(
        backend: &Backend,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> impl Future<Output = Result<Reply<Self::Fresh>, BackendFailure>> + Send;

    /// The known answers for the nodes; `None` if there can be none, so that all nodes are sent to the backend.
    fn recall(&self, ask: &Ask<'_>) -> Option<Recalled<Self::Cached>>;

    /// The answers as the cache stores them, `None` for those that it cannot store; `None` if the verb is not
    /// cached.
    fn read(cache: &AnswerCache, fresh: &Self::Fresh, count: usize) -> Option<Vec<Option<Self::Cached>>>;

    /// Caches the answers about those nodes of which they are certain.
    fn store(ask: &Ask<'_>, certain: &Certain<'_>, read: Vec<Option<Self::Cached>>, fresh: &Self::Fresh);

    /// The answer if all nodes were sent to the backend.
    fn accept(ask: &Ask<'_>, rows: &[&NodeRow], fresh: Self::Fresh) -> Self::Answer;

    /// The answer if some or all answers were known. `missing` has the positions of the nodes that were sent to the
    /// backend, and its answer about these.
    fn splice(
        ask: &Ask<'_>,
        known: Vec<Option<Self::Cached>>,
        missing: Option<(&[u32], Self::Fresh)>,
    ) -> Self::Answer;
}

/// Known answers.
pub(super) struct Recalled<K> {
    pub(super) source: CacheSource,
    /// One for each node, `None` if unknown.
    pub(super) answers: Vec<Option<K>>,
    /// Whether all nodes are sent to the backend anyway, to check that its answers are still the same.
    pub(super) check: bool,
}

impl<K> Recalled<K> {
    /// The positions of the nodes to send to the backend.
    fn missing(&self) -> Vec<u32> {
        let missing = |(_, known): &(u32, &Option<K>)| self.check || known.is_none();
        (0..).zip(&self.answers).filter(missing).map(|(at, _)| at).collect()
    }
}

/// The nodes of a request, and whether the backend's answers are certainly about the intended rows.
///
/// An answer may be about a later row of a node, if the backend has that in its table. A row that is still current
/// cannot have been another one in between.
pub(super) struct Certain<'r> {
    rows: &'r [&'r NodeRow],
    certain: Vec<bool>,
}

impl<'r> Certain<'r> {
    pub(super) fn of(ask: &Ask<'_>, rows: &'r [&'r NodeRow]) -> Self {
        Self { rows, certain: ask.context.are_current(rows, ask.nodes()) }
    }

    /// The certain ones of these answers, which are one for each node.
    pub(super) fn only<A>(&self, answers: impl IntoIterator<Item = A>) -> impl Iterator<Item = (RowKey, A)> {
        let answered = self.rows.iter().map(|row| row.key()).zip(answers).zip(&self.certain);
        answered.filter(|(_, certain)| **certain).map(|(answered, _)| answered)
    }
}

/// A call to a backend for some nodes, and its record.
pub(super) struct Ask<'a> {
    backend: &'a Backend,
    pub(super) ready: &'a Ready,
    context: &'a CallContext<'a>,
    /// The nodes.
    asked: &'a Asked,
    scores: ScoresWanted,
    /// The time that it has to answer.
    timeout: Duration,
    /// The deadline of its answer, including repetitions.
    until: Instant,
    attempt: &'a mut OpenAttempt,
}

impl Participant<'_> {
    /// Returns the backend's answer about these nodes, and records how it was obtained.
    pub(super) async fn ask<Q: NodeQuestion>(
        &self,
        question: &Q,
        context: &CallContext<'_>,
        nodes: &Asked,
    ) -> Result<Q::Answer, BackendFailure> {
        let mut attempt = context.recorder.start_attempt(self.place, context.trace);
        let answer = self.answer(question, (context, nodes), &mut attempt).await;
        attempt.finish(&answer);
        answer
    }

    async fn answer<Q: NodeQuestion>(
        &self,
        question: &Q,
        (context, nodes): (&CallContext<'_>, &Asked),
        attempt: &mut OpenAttempt,
    ) -> Result<Q::Answer, BackendFailure> {
        let ready = self.ready.as_ref().map_err(Clone::clone)?;
        let plan = Q::Plan::of(&ready.session.info).as_ref().map_err(Clone::clone)?;
        if context.nodes(ready).count(nodes) == 0 {
            return Ok(Q::Answer::default());
        }
        let now = Instant::now();
        let timeout = self.timeout.min(context.deadline.duration_since(now));
        let mut ask = Ask {
            backend: self.backend,
            ready,
            context,
            asked: nodes,
            scores: Q::scores(plan),
            timeout,
            until: now + timeout,
            attempt,
        };
        ask.recall_or_ask(question).await
    }
}

impl<'a> Ask<'a> {
    /// Returns the answer about the nodes, from known answers and from the backend.
    async fn recall_or_ask<Q: NodeQuestion>(&mut self, question: &Q) -> Result<Q::Answer, BackendFailure> {
        let Some(recalled) = question.recall(self) else { return self.ask_all::<Q>().await };
        let missing = recalled.missing();
        let known = recalled.answers.len() - missing.len();
        self.attempt.source = recalled.source;
        self.attempt.set_cached(known);
        if known > 0 && recalled.source == CacheSource::AnswerCache {
            let plan = Q::Plan::of(&self.ready.session.info).as_ref().ok();
            self.attempt.reads_of_pods = plan.and_then(|plan| plan.common().reads_of_pods.clone());
        }
        if missing.is_empty() {
            return Ok(Q::splice(self, recalled.answers, None));
        }
        let asked = self.nodes().rows_at(self.asked, &missing);
        let fresh = self.ask_nodes::<Q>(&asked).await?;
        if known > 0 && !may_combine(recalled.source, &self.ready.session.cache) {
            self.attempt.set_cached(0);
            self.attempt.reads_of_pods = None;
            self.use_remaining_time();
            return self.ask_all::<Q>().await;
        }
        self.remember::<Q>(&recalled, &missing, &asked, &fresh);
        Ok(Q::splice(self, recalled.answers, Some((&missing, fresh))))
    }

    /// Returns the backend's answer about all of the nodes.
    async fn ask_all<Q: NodeQuestion>(&mut self) -> Result<Q::Answer, BackendFailure> {
        let rows = self.nodes().rows(self.asked);
        let fresh = self.ask_nodes::<Q>(&rows).await?;
        Ok(Q::accept(self, &rows, fresh))
    }

    /// Returns the backend's answer about these nodes: by reference if its table has them, otherwise, or if it does
    /// not find them, inline.
    async fn ask_nodes<Q: NodeQuestion>(&mut self, rows: &[&NodeRow]) -> Result<Q::Fresh, BackendFailure> {
        self.attempt.set_requested(rows.len());
        if let Some((nodes, reference)) = self.by_reference(rows) {
            match self.send::<Q>(&nodes).await? {
                Reply::Answered(fresh) => return Ok(fresh),
                Reply::Missed => {
                    self.attempt.misses += 1;
                    reference.missed(self.backend.settings.name.as_str());
                }
            }
            self.use_remaining_time();
        }
        let nodes = self.nodes().field(rows);
        self.send::<Q>(&nodes).await?.inline()
    }

    async fn send<Q: NodeQuestion>(&mut self, nodes: &NodesField) -> Result<Reply<Q::Fresh>, BackendFailure> {
        let call =
            CallFields { id: &self.context.id, purpose: Purpose::Decide, reads_id: self.ready.reads_id };
        let question = Question { call, pod: self.pod(), nodes, scores: self.scores };
        let attempt = Attempt { timeout: self.timeout, rpcs: &mut self.attempt.rpcs };
        Q::send(self.backend, &self.ready.session, question, attempt).await
    }

    /// Caches answers, if allowed. If they contradict cached ones, nothing is cached until the backend's next
    /// revision.
    fn remember<Q: NodeQuestion>(
        &mut self,
        recalled: &Recalled<Q::Cached>,
        missing: &[u32],
        asked: &[&NodeRow],
        fresh: &Q::Fresh,
    ) {
        let cache = &self.ready.session.cache;
        if !cache.is_trusted() {
            return;
        }
        let Some(read) = Q::read(cache, fresh, asked.len()) else { return };
        let certain = Certain::of(self, asked);
        let before = missing.iter().map(|at| recalled.answers[*at as usize]);
        let differs =
            |(before, now): (Option<_>, &Option<_>)| before.is_some() && now.is_some() && before != *now;
        if !recalled.check || !certain.only(before.zip(&read)).any(|(_, both)| differs(both)) {
            return Q::store(self, &certain, read, fresh);
        }
        if cache.mark_impure() {
            self.attempt.impure = true;
            tracing::error!(
                backend = self.backend.settings.name.as_str(),
                verb = Q::VERB.backend_name(),
                "backend gave a different answer to the same request, so the verb is not pure; its answers are no longer cached until its \
                 next revision"
            );
        }
    }

    /// Prepares a second call.
    fn use_remaining_time(&mut self) {
        self.timeout = self.until.duration_since(Instant::now());
    }

    /// The pod in its view.
    pub(super) fn pod(&self) -> &'a Bytes {
        self.context.pod(self.ready)
    }

    /// The keys of the nodes' rows.
    pub(super) fn keys(&self) -> Cow<'a, [RowKey]> {
        self.nodes().keys(self.asked)
    }

    /// The nodes of the call in its view.
    fn nodes(&self) -> &'a EncodedNodes {
        self.context.nodes(self.ready)
    }

    /// These nodes by the ids of the table that it has; `None` if the request must carry their rows.
    fn by_reference(&self, rows: &[&NodeRow]) -> Option<(NodesField, TableReference)> {
        let nodes = self.nodes();
        let reference = self.ready.session.tables.named(nodes.source, &nodes.view)?;
        let field = match nodes.source {
            TableSource::Cluster => reference.nodes(rows, |_| false),
            TableSource::Calls => {
                let current = self.context.are_current(rows, nodes);
                reference.nodes(rows, |at| !current[at])
            }
        };
        Some((field, reference))
    }
}

/// Whether known answers may be combined with one that has just been received. If not, all nodes are sent to the
/// backend, and the answer to that counts, whatever its revision: an answer is always of one revision.
///
/// Cached answers may be used only while the cache is trusted: no answer had another revision than the handshake,
/// and no check has shown the verb to be impure. Prefetched scores never relied on purity, so only the revision
/// matters for them.
fn may_combine(known: CacheSource, cache: &AnswerCache) -> bool {
    match known {
        CacheSource::AnswerCache => cache.is_trusted(),
        CacheSource::Filter => !cache.is_outdated(),
    }
}
