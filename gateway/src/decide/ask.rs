//! Calls one backend for nodes in one call, for filter and prioritize: known answers are looked up, the backend is
//! called for the other nodes, and both are combined. A [`NodeQuestion`] has what differs between the verbs; an
//! [`Ask`] has the data of a call to a backend.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, Verb, filter::Asked};
use extender_policy_api::v1alpha1::Purpose;
use tokio::time::Instant;

use super::call_context::{CallContext, EncodedNodes, Readiness, Ready, Views};
use crate::{
    backend::{
        Attempt, Backend,
        answer_cache::AnswerCache,
        info::{NodesView, Plan},
        remote_table::{TableReference, TableSource},
        session::Session,
    },
    cluster::table::NodeRow,
    contract::{
        answer::Reply,
        nodes::NodesField,
        question::{Question, ScoresWanted},
    },
    record::{CacheSource, OpenAttempt},
};

/// A backend that takes part in a call, with its settings for the verb.
pub(super) struct Participant<'d, S> {
    /// The index of its part in the record of the call.
    pub(super) place: usize,
    pub(super) backend: &'d Backend,
    pub(super) settings: &'d S,
    /// The time that it has to answer.
    pub(super) timeout: Duration,
    /// How to call it, or why it is unavailable.
    pub(super) ready: Readiness,
}

/// The nodes for a backend, and the deadline of its answer.
#[derive(Clone, Copy)]
pub(super) struct NodeContext<'c> {
    pub(super) context: &'c CallContext<'c>,
    pub(super) nodes: &'c Asked,
    pub(super) deadline: Instant,
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

    /// Whether scores are requested with the answer.
    fn scores(plan: &Self::Plan) -> ScoresWanted;

    /// The verb, as the log names it.
    const VERB: Verb;

    /// Sends the request. The attempt records it.
    fn send(
        backend: &Backend,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> impl Future<Output = Result<Reply<Self::Fresh>, BackendFailure>> + Send;

    /// The known answers for these nodes; `None` if there can be none, so that all nodes are sent to the backend.
    fn recall(&self, ask: &Ask<'_>, lines: &[&NodeRow]) -> Option<Recalled<Self::Cached>>;

    /// The answers as the cache stores them, `None` for those that it cannot store; `None` if the verb is not
    /// cached.
    fn read(cache: &AnswerCache, fresh: &Self::Fresh, count: usize) -> Option<Vec<Option<Self::Cached>>>;

    /// Caches the answers about those nodes of which they are certain.
    fn store(ask: &Ask<'_>, certain: &Certain<'_>, read: Vec<Option<Self::Cached>>, fresh: &Self::Fresh);

    /// The answer if all nodes were sent to the backend.
    fn accept(ask: &Ask<'_>, lines: &[&NodeRow], fresh: Self::Fresh) -> Self::Answer;

    /// The answer if all answers were known, or some, and the nodes at `missing` were sent to the backend.
    fn splice(
        ask: &Ask<'_>,
        known: Vec<Option<Self::Cached>>,
        fresh: Option<MissingNodes<'_, Self::Fresh>>,
    ) -> Self::Answer;
}

/// Known answers.
pub(super) struct Recalled<K> {
    /// Where they come from.
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

/// An answer about the missing nodes.
pub(super) struct MissingNodes<'m, F> {
    /// Their positions among all nodes.
    pub(super) places: &'m [u32],
    pub(super) fresh: F,
}

/// The nodes of a request, and whether the backend's answers are certainly about the intended rows.
///
/// An answer may be about a later row of a node, if the backend has that in its table. A row that is still current
/// cannot have been another one in between.
pub(super) struct Certain<'l> {
    lines: &'l [&'l NodeRow],
    certain: Vec<bool>,
}

impl<'l> Certain<'l> {
    pub(super) fn of(ask: &Ask<'_>, lines: &'l [&'l NodeRow]) -> Self {
        Self { lines, certain: ask.certain(lines) }
    }

    /// The certain ones of these answers, which are one for each node.
    pub(super) fn only<A>(
        &self,
        answers: impl IntoIterator<Item = A>,
    ) -> impl Iterator<Item = (&'l NodeRow, A)> {
        let answered = self.lines.iter().copied().zip(answers).zip(&self.certain);
        answered.filter(|(_, certain)| **certain).map(|(answered, _)| answered)
    }
}

/// A call to a backend for some nodes, and its record.
pub(super) struct Ask<'a> {
    pub(super) backend: &'a Backend,
    pub(super) session: &'a Arc<Session>,
    /// Its view of nodes.
    view: &'a NodesView,
    context: &'a CallContext<'a>,
    views: Views,
    scores: ScoresWanted,
    /// The time that it has to answer.
    timeout: Duration,
    /// The deadline of its answer, including repetitions.
    until: Instant,
    /// Records the requests to it.
    attempt: &'a mut OpenAttempt,
}

impl<S> Participant<'_, S> {
    /// Returns the backend's answer about these nodes, and records how it was obtained.
    pub(super) async fn ask<Q: NodeQuestion>(
        &self,
        question: &Q,
        about: NodeContext<'_>,
    ) -> Result<Q::Answer, BackendFailure> {
        let mut attempt = about.context.recorder.start_attempt(self.place, about.context.trace);
        let answer = self.find_out(question, about, &mut attempt).await;
        attempt.finish(&answer);
        answer
    }

    async fn find_out<Q: NodeQuestion>(
        &self,
        question: &Q,
        about: NodeContext<'_>,
        attempt: &mut OpenAttempt,
    ) -> Result<Q::Answer, BackendFailure> {
        let NodeContext { context, nodes, deadline } = about;
        let Ready { session, views } = self.ready.as_ref().map_err(Clone::clone)?;
        let plan = Q::Plan::of(&session.info).as_ref().map_err(Clone::clone)?;
        let lines = context.nodes(*views).lines(nodes);
        if lines.is_empty() {
            return Ok(Q::Answer::default());
        }
        let now = Instant::now();
        let timeout = self.timeout.min(deadline.duration_since(now));
        let mut ask = Ask {
            backend: self.backend,
            session,
            view: &plan.common().nodes,
            context,
            views: *views,
            scores: Q::scores(plan),
            timeout,
            until: now + timeout,
            attempt,
        };
        ask.recall_or_ask(question, &lines).await
    }
}

impl<'a> Ask<'a> {
    /// Returns the answer about these nodes, from known answers and from the backend.
    async fn recall_or_ask<Q: NodeQuestion>(
        &mut self,
        question: &Q,
        lines: &[&NodeRow],
    ) -> Result<Q::Answer, BackendFailure> {
        let Some(recalled) = question.recall(self, lines) else {
            let fresh = self.ask_nodes::<Q>(lines).await?;
            return Ok(Q::accept(self, lines, fresh));
        };
        let missing = recalled.missing();
        let known = lines.len() - missing.len();
        self.attempt.source = recalled.source;
        self.attempt.set_cached(known);
        if missing.is_empty() {
            return Ok(Q::splice(self, recalled.answers, None));
        }
        let asked: Vec<&NodeRow> = missing.iter().map(|at| lines[*at as usize]).collect();
        let fresh = self.ask_nodes::<Q>(&asked).await?;
        if known > 0 && !may_combine(recalled.source, &self.session.cache) {
            self.attempt.set_cached(0);
            self.again();
            let fresh = self.ask_nodes::<Q>(lines).await?;
            return Ok(Q::accept(self, lines, fresh));
        }
        self.remember::<Q>(&recalled, &missing, &asked, &fresh);
        Ok(Q::splice(self, recalled.answers, Some(MissingNodes { places: &missing, fresh })))
    }

    /// Returns the backend's answer about these nodes: by reference if its table has them, otherwise, or if it does
    /// not find them, inline.
    async fn ask_nodes<Q: NodeQuestion>(&mut self, lines: &[&NodeRow]) -> Result<Q::Fresh, BackendFailure> {
        self.attempt.set_requested(lines.len());
        if let Some((nodes, named)) = self.by_reference(lines) {
            match self.send::<Q>(&nodes).await? {
                Reply::Answered(fresh) => return Ok(fresh),
                Reply::Missed => {
                    self.attempt.misses += 1;
                    named.missed(self.backend.settings.name.as_str());
                }
            }
            self.again();
        }
        let nodes = self.told().part(lines);
        self.send::<Q>(&nodes).await?.inline()
    }

    async fn send<Q: NodeQuestion>(&mut self, nodes: &NodesField) -> Result<Reply<Q::Fresh>, BackendFailure> {
        let (call, pod) = (&self.context.id, self.context.pod(self.views));
        let question = Question { call, purpose: Purpose::Decide, pod, nodes, scores: self.scores };
        let attempt = Attempt { timeout: self.timeout, rpcs: &mut self.attempt.rpcs };
        Q::send(self.backend, self.session, question, attempt).await
    }

    /// Caches answers, if allowed, unless they contradict cached ones.
    fn remember<Q: NodeQuestion>(
        &mut self,
        recalled: &Recalled<Q::Cached>,
        missing: &[u32],
        asked: &[&NodeRow],
        fresh: &Q::Fresh,
    ) {
        let cache = &self.session.cache;
        if !cache.is_trusted() {
            return;
        }
        let Some(read) = Q::read(cache, fresh, asked.len()) else { return };
        let certain = Certain::of(self, asked);
        let before = missing.iter().map(|at| recalled.answers[*at as usize]);
        let differs =
            |(before, now): (Option<_>, &Option<_>)| before.is_some() && now.is_some() && before != *now;
        if recalled.check && certain.only(before.zip(&read)).any(|(_, both)| differs(both)) {
            self.attempt.impure |= distrust(cache, self.backend.settings.name.as_str(), Q::VERB);
        } else {
            Q::store(self, &certain, read, fresh);
        }
    }

    /// Prepares a second call within the remaining time.
    fn again(&mut self) {
        self.timeout = self.until.duration_since(Instant::now());
    }

    /// Its view of the pod.
    pub(super) fn pod(&self) -> &'a Bytes {
        self.context.pod(self.views)
    }

    /// The nodes in its view.
    fn told(&self) -> &'a EncodedNodes {
        self.context.nodes(self.views)
    }

    /// These nodes by the ids of the table that it has; `None` if the request must carry their rows.
    fn by_reference(&self, lines: &[&NodeRow]) -> Option<(NodesField, TableReference)> {
        let source = self.told().source;
        let named = self.session.tables.named(source, self.view)?;
        let nodes = match source {
            TableSource::Cluster => named.nodes(lines, |_| false),
            TableSource::Calls => {
                let current = self.certain(lines);
                named.nodes(lines, |at| !current[at])
            }
        };
        Some((nodes, named))
    }

    /// Which of these nodes still have the same rows.
    fn certain(&self, lines: &[&NodeRow]) -> Vec<bool> {
        self.context.are_current(lines, self.view, self.told())
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
        CacheSource::Filter => !cache.has_mixed_revisions(),
    }
}

/// Disables the cached answers of the backend. Returns whether that is new.
fn distrust(cache: &AnswerCache, backend: &str, verb: Verb) -> bool {
    let first = cache.mark_impure();
    if first {
        tracing::error!(
            backend,
            verb = verb.backend_name(),
            "backend gave a different answer to the same request, so the verb is not pure; its answers are no longer cached until its next \
             revision"
        );
    }
    first
}
