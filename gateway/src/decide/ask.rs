//! Calls one backend for nodes in one call, for filter and prioritize: known answers are looked up, the backend is
//! called for the other nodes, and both are combined. The difference between the verbs is a [`NodeQuestion`]; the
//! data of a call to a backend is an [`Ask`].

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
        remote_table::TableReference,
        session::Session,
        tables,
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
    /// The place of its part in the record of the call.
    pub(super) place: usize,
    pub(super) backend: &'d Backend,
    pub(super) settings: &'d S,
    /// How long it may take for an answer.
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

/// A question about nodes: what filter and prioritize do differently.
pub(super) trait NodeQuestion: Sync {
    /// The backend's plan for the verb.
    type Plan: Plan;
    /// The backend's answer about the nodes that it was asked about.
    type Fresh: Send;
    /// The cached answer for one node.
    type Cached: Copy + PartialEq + Send;
    /// The answer about all nodes in question; by default that about no nodes.
    type Answer: Default;

    /// Whether scores are wanted with the answer.
    fn scores(plan: &Self::Plan) -> ScoresWanted;

    /// The verb, as the log names it.
    const VERB: Verb;

    /// Sends the question. The attempt records what is sent.
    fn send(
        backend: &Backend,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> impl Future<Output = Result<Reply<Self::Fresh>, BackendFailure>> + Send;

    /// What is known about these nodes; `None` where nothing can be known, so that the backend is asked about all.
    fn recall(&self, ask: &Ask<'_>, lines: &[&NodeRow]) -> Option<Recalled<Self::Cached>>;

    /// The answers as they are remembered, each `None` where it cannot be; `None` where the verb is not remembered.
    fn read(cache: &AnswerCache, fresh: &Self::Fresh, count: usize) -> Option<Vec<Option<Self::Cached>>>;

    /// Remembers the answers about those nodes of which they are certain.
    fn store(ask: &Ask<'_>, certain: &Certain<'_>, read: Vec<Option<Self::Cached>>, fresh: &Self::Fresh);

    /// The answer where the backend was asked about all nodes.
    fn accept(ask: &Ask<'_>, lines: &[&NodeRow], fresh: Self::Fresh) -> Self::Answer;

    /// The answer where all is known, or some is and the backend was asked about the nodes at `missing`.
    fn splice(
        ask: &Ask<'_>,
        known: Vec<Option<Self::Cached>>,
        fresh: Option<MissingNodes<'_, Self::Fresh>>,
    ) -> Self::Answer;
}

/// Known answers.
pub(super) struct Recalled<K> {
    /// Where they are from.
    pub(super) source: CacheSource,
    /// One for each node, `None` where there is none.
    pub(super) answers: Vec<Option<K>>,
    /// Whether the backend is asked about all nodes even so, to check that it still answers the same.
    pub(super) check: bool,
}

impl<K> Recalled<K> {
    /// The places of the nodes that the backend has to be asked about.
    fn missing(&self) -> Vec<u32> {
        let missing = |(_, known): &(u32, &Option<K>)| self.check || known.is_none();
        (0..).zip(&self.answers).filter(missing).map(|(at, _)| at).collect()
    }
}

/// An answer about the nodes that were missing.
pub(super) struct MissingNodes<'m, F> {
    /// Their places among all nodes in question.
    pub(super) places: &'m [u32],
    pub(super) fresh: F,
}

/// Nodes that a backend was asked about, and whether its answers are certainly about the rows that were meant.
///
/// An answer may be about a later row of a node, where the backend has that from its table; what is still as it was
/// cannot have been another in between.
pub(super) struct Certain<'l> {
    lines: &'l [&'l NodeRow],
    certain: Vec<bool>,
}

impl<'l> Certain<'l> {
    pub(super) fn of(ask: &Ask<'_>, lines: &'l [&'l NodeRow]) -> Self {
        Self { lines, certain: ask.certain(lines) }
    }

    /// Those of these answers, one a node, that are certain.
    pub(super) fn only<A>(
        &self,
        answers: impl IntoIterator<Item = A>,
    ) -> impl Iterator<Item = (&'l NodeRow, A)> {
        let answered = self.lines.iter().copied().zip(answers).zip(&self.certain);
        answered.filter(|(_, certain)| **certain).map(|(answered, _)| answered)
    }
}

/// A backend as it is asked in one call, and the record of it.
pub(super) struct Ask<'a> {
    pub(super) backend: &'a Backend,
    pub(super) session: &'a Arc<Session>,
    /// Its view of nodes.
    view: &'a NodesView,
    context: &'a CallContext<'a>,
    views: Views,
    scores: ScoresWanted,
    /// How long it may take for an answer.
    timeout: Duration,
    /// The deadline of its answer, over all attempts.
    until: Instant,
    /// Records the requests to it.
    attempt: &'a mut OpenAttempt,
}

impl<S> Participant<'_, S> {
    /// The backend's answer about these nodes. How it was found is recorded.
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
            view: plan.views().1,
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
    /// The answer about these nodes, from what is known and from the backend.
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

    /// The backend's answer about these nodes: by reference where it holds them, else, or if it does not find them,
    /// inline.
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

    /// Calls it once more within the remaining time.
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

    /// These nodes by the ids of the table that it holds; `None` when they have to come with their rows.
    fn by_reference(&self, lines: &[&NodeRow]) -> Option<(NodesField, TableReference)> {
        let source = self.told().source;
        let named = self.session.tables.named(source, self.view)?;
        let nodes = match source {
            tables::TableSource::Cluster => named.nodes(lines, |_| false),
            tables::TableSource::Calls => {
                let current = self.certain(lines);
                named.nodes(lines, |at| !current[at])
            }
        };
        Some((nodes, named))
    }

    /// Which of these nodes still have the rows that were meant.
    fn certain(&self, lines: &[&NodeRow]) -> Vec<bool> {
        self.context.are_current(lines, self.view, self.told())
    }
}

/// Whether known answers and one that has just come make one answer together. If not, the backend is asked about all
/// nodes, and its answer to that counts, whatever its revision: one answer is always of one revision.
///
/// Remembered answers count only while nothing speaks against remembering: no answer has named another revision than
/// the handshake, and no check has found the verb impure. Scores that came with filter never relied on the verb being
/// pure, so only the revision matters for them.
fn may_combine(known: CacheSource, cache: &AnswerCache) -> bool {
    match known {
        CacheSource::AnswerCache => cache.is_trusted(),
        CacheSource::Filter => !cache.has_mixed_revisions(),
    }
}

/// Disables cached answers of the backend. Returns whether that is new.
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
