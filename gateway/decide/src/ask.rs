//! Asks one backend about nodes in one call, for filter, prioritize and hooks: known answers are looked up, the backend is
//! called for the other nodes, and both are combined. A [`NodeQuestion`] has what differs between the verbs; an
//! [`Ask`] has the data of a call to a backend.

use std::{borrow::Cow, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_backend::{
    Attempt, Backend,
    answer_cache::{AnswerCache, Answers, VerbCache},
    info::{Info, VerbPlan},
    outcomes::AskedPod,
    remote_table::{TableReference, TableSource},
    session::Session,
};
use extender_gateway_cluster::table::{NodeRows, RowKey};
use extender_gateway_contract::{
    answer::Reply,
    nodes::NodesField,
    question::{CallFields, Question, Wants},
};
use extender_gateway_core::{BackendFailure, PolicyVerb, filter::Asked};
use extender_gateway_record::{CacheSource, OpenAttempt};
use extender_policy_api::v1beta1::Purpose;

use super::{
    asker::Tries,
    call_context::{CallContext, EncodedNodes, Readiness, Ready},
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

/// A request about nodes: what differs between filter, prioritize and hooks.
pub(super) trait NodeQuestion: Sync {
    /// The backend's answer about the nodes in the request.
    type Fresh: Send;
    /// The cached answer for one node.
    type Cached: Copy + Default + PartialEq + Send;
    /// The answer about all nodes; the default is the answer about no nodes.
    type Answer: Default;

    /// What the backend is called for.
    fn verb(&self) -> PolicyVerb;

    /// What is wanted besides what the method says.
    fn wants(&self, _: &Info) -> Wants {
        Wants::Nothing
    }

    fn send(
        &self,
        backend: &Backend,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> impl Future<Output = Result<Reply<Self::Fresh>, BackendFailure>> + Send;

    /// The cached answers; `None` if the verb is not cached.
    fn cached<'c>(&self, cache: &'c AnswerCache) -> Option<&'c VerbCache<Self::Cached>>;

    /// The known answers for the nodes in these slots, if none are cached; `None` if there can be none.
    fn prefetched(&self, _: &Ask<'_>, _: &[u32]) -> Option<Answers<Self::Cached>> {
        None
    }

    /// The answers as the cache stores them, `None` for those that it cannot store.
    fn read(&self, cache: &AnswerCache, fresh: &Self::Fresh, count: usize) -> Vec<Option<Self::Cached>>;

    /// Caches what else the answers have about those nodes of which they are certain.
    fn store_more(&self, _: &Ask<'_>, _: &Certain<'_>, _: &Self::Fresh) {}

    /// The answer if all nodes were sent to the backend.
    fn accept(&self, ask: &Ask<'_>, slots: &[u32], fresh: Self::Fresh) -> Self::Answer;

    /// The answer if some or all answers were known; `known` has the default for the others. `missing` has the positions
    /// of the nodes that were sent to the backend, and its answer about these.
    fn splice(
        &self,
        ask: &Ask<'_>,
        known: Vec<Self::Cached>,
        missing: Option<(&[u32], Self::Fresh)>,
    ) -> Self::Answer;
}

/// Known answers.
struct Recalled<K> {
    source: CacheSource,
    answers: Answers<K>,
    /// Whether all nodes are sent to the backend anyway, to check that its answers are still the same.
    check: bool,
}

impl<K: Copy> Recalled<K> {
    /// The positions of the nodes to send to the backend.
    fn missing(&self) -> Cow<'_, [u32]> {
        if self.check {
            (0..).take(self.answers.all.len()).collect()
        } else {
            Cow::Borrowed(&self.answers.unknown)
        }
    }

    /// The known answer at a position.
    fn known(&self, at: u32) -> Option<K> {
        let is_known = self.answers.unknown.binary_search(&at).is_err();
        is_known.then(|| self.answers.all[at as usize])
    }
}

/// The nodes of a request, and whether the backend's answers are certainly about the intended rows.
///
/// An answer may be about a later row of a node, if the backend has that in its table. A row that is still current
/// cannot have been another one in between.
pub(super) struct Certain<'r> {
    rows: &'r NodeRows,
    slots: &'r [u32],
    /// `None` if all of them are.
    which: Option<Vec<bool>>,
}

impl<'r> Certain<'r> {
    pub(super) fn of(ask: &Ask<'r>, slots: &'r [u32]) -> Self {
        let nodes = ask.nodes();
        Self { rows: &nodes.rows, slots, which: ask.context.current(slots, nodes) }
    }

    /// The versions of the rows, 0 where an answer is not certain.
    pub(super) fn versions(&self) -> Vec<u64> {
        let version = |(at, slot): (usize, &u32)| if self.is(at) { self.rows.key(*slot).version } else { 0 };
        self.slots.iter().enumerate().map(version).collect()
    }

    fn is(&self, at: usize) -> bool {
        self.which.as_ref().is_none_or(|which| which[at])
    }

    /// The certain ones of these answers, which are one for each node.
    pub(super) fn only<A>(&self, answers: impl IntoIterator<Item = A>) -> impl Iterator<Item = (RowKey, A)> {
        let answered = self.slots.iter().map(|slot| self.rows.key(*slot)).zip(answers);
        answered.enumerate().filter(|(at, _)| self.is(*at)).map(|(_, answered)| answered)
    }
}

/// A call to a backend for some nodes, at one address.
pub(super) struct Ask<'a> {
    backend: &'a Backend,
    pub(super) session: &'a Arc<Session>,
    plan: &'a VerbPlan,
    ready: &'a Ready,
    context: &'a CallContext<'a>,
    /// The nodes.
    asked: &'a Asked,
    wants: Wants,
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
        let answer = self.answer(question, context, nodes, &mut attempt).await;
        attempt.finish(&answer);
        answer
    }

    async fn answer<Q: NodeQuestion>(
        &self,
        question: &Q,
        context: &CallContext<'_>,
        nodes: &Asked,
        attempt: &mut OpenAttempt,
    ) -> Result<Q::Answer, BackendFailure> {
        let ready = self.ready.as_ref().map_err(Clone::clone)?;
        let (verb, encoded) = (question.verb(), context.nodes(ready));
        if encoded.count(nodes) == 0 {
            return Ok(Q::Answer::default());
        }
        let asker = context.asker(self.backend, verb, self.timeout);
        let mut session = Arc::clone(&ready.session);
        let mut tries = asker.begin(&session, attempt)?;
        loop {
            let (plan, wants) = (session.info.about_nodes(verb)?, question.wants(&session.info));
            let ask =
                Ask { backend: self.backend, session: &session, plan, ready, context, asked: nodes, wants };
            let fits = |other: &Session| ready.fits(verb, other, encoded);
            match ask.recall_or_ask(question, &mut tries).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => session = tries.elsewhere(&session, fits).ok_or(failure)?,
            }
        }
    }
}

impl<'a> Ask<'a> {
    /// Returns the answer about the nodes, from known answers and from the backend.
    async fn recall_or_ask<Q: NodeQuestion>(
        &self,
        question: &Q,
        tries: &mut Tries<'_>,
    ) -> Result<Q::Answer, BackendFailure> {
        let slots = self.nodes().slots(self.asked);
        let Some(recalled) = self.recall(question, &slots) else {
            return self.ask_all(question, &slots, tries).await;
        };
        let missing = recalled.missing();
        let known = slots.len() - missing.len();
        tries.attempt.source = recalled.source;
        tries.attempt.set_cached(known);
        if known > 0 && recalled.source == CacheSource::AnswerCache {
            tries.attempt.reads_of_pods = Some(Arc::clone(&self.plan.reads_of_pods));
        }
        if missing.is_empty() {
            return Ok(question.splice(self, recalled.answers.all, None));
        }
        let asked: Vec<u32> = missing.iter().map(|at| slots[*at as usize]).collect();
        let fresh = self.ask_nodes(question, &asked, tries).await?;
        if known > 0 && !may_combine(recalled.source, &self.session.cache) {
            tries.attempt.set_cached(0);
            tries.attempt.reads_of_pods = None;
            return self.ask_all(question, &slots, tries).await;
        }
        tries.attempt.impure |= self.remember(question, &recalled, &missing, &asked, &fresh);
        let missing = missing.into_owned();
        Ok(question.splice(self, recalled.answers.all, Some((&missing, fresh))))
    }

    /// The known answers for the nodes in these slots; `None` if there can be none, so that all nodes are sent to the
    /// backend.
    fn recall<Q: NodeQuestion>(&self, question: &Q, slots: &[u32]) -> Option<Recalled<Q::Cached>> {
        let cache = &self.session.cache;
        let Some(cached) = question.cached(cache).filter(|_| cache.is_trusted()) else {
            let answers = question.prefetched(self, slots)?;
            return Some(Recalled { source: CacheSource::Filter, answers, check: false });
        };
        let rows = &self.nodes().rows;
        let answers = cached.recall(self.pod(), slots.iter().map(|slot| rows.key(*slot)));
        let check = answers.are_some_known() && cached.take_check();
        Some(Recalled { source: CacheSource::AnswerCache, answers, check })
    }

    /// Returns the backend's answer about all of the nodes.
    async fn ask_all<Q: NodeQuestion>(
        &self,
        question: &Q,
        slots: &[u32],
        tries: &mut Tries<'_>,
    ) -> Result<Q::Answer, BackendFailure> {
        let fresh = self.ask_nodes(question, slots, tries).await?;
        Ok(question.accept(self, slots, fresh))
    }

    /// Returns the backend's answer about the nodes in these slots: by reference if its table has them, otherwise, or
    /// if it does not find them, inline.
    async fn ask_nodes<Q: NodeQuestion>(
        &self,
        question: &Q,
        slots: &[u32],
        tries: &mut Tries<'_>,
    ) -> Result<Q::Fresh, BackendFailure> {
        tries.attempt.set_requested(slots.len());
        if let Some((nodes, reference)) = self.by_reference(slots) {
            match self.send(question, &nodes, tries).await? {
                Reply::Answered(fresh) => return Ok(fresh),
                Reply::Missed => {
                    tries.attempt.misses += 1;
                    reference.missed(self.backend.settings.name.as_str());
                }
            }
        }
        let nodes = self.nodes().field(slots);
        self.send(question, &nodes, tries).await?.inline()
    }

    async fn send<Q: NodeQuestion>(
        &self,
        question: &Q,
        nodes: &NodesField,
        tries: &mut Tries<'_>,
    ) -> Result<Reply<Q::Fresh>, BackendFailure> {
        let CallContext { id, purpose, .. } = self.context;
        let (reads_id, snapshot) = (self.plan.reads_id, self.nodes().snapshot);
        let call = CallFields { id, purpose: *purpose, reads: reads_id, snapshot };
        let request = Question { call, pod: self.pod(), nodes, wants: self.wants };
        let attempt = Attempt { asked: self.asked_pod(question.verb()), ..tries.request() };
        question.send(self.backend, self.session, request, attempt).await
    }

    /// The pod of a filter that decides: the backend is told how the attempt to place it ends.
    fn asked_pod(&self, verb: PolicyVerb) -> Option<AskedPod<'_>> {
        let CallContext { id, purpose, call, .. } = self.context;
        let pod = call.pod;
        (verb == PolicyVerb::Filter && *purpose == Purpose::Decide).then(|| AskedPod {
            call: id,
            namespace: pod.namespace(),
            name: pod.name(),
            uid: pod.uid(),
        })
    }

    /// Caches answers, if allowed. If they contradict cached ones, nothing is cached until the backend's next
    /// revision; returns true the first time.
    fn remember<Q: NodeQuestion>(
        &self,
        question: &Q,
        recalled: &Recalled<Q::Cached>,
        missing: &[u32],
        asked: &[u32],
        fresh: &Q::Fresh,
    ) -> bool {
        let cache = &self.session.cache;
        let Some(cached) = question.cached(cache).filter(|_| cache.is_trusted()) else { return false };
        let read = question.read(cache, fresh, asked.len());
        let certain = Certain::of(self, asked);
        let before = missing.iter().map(|at| recalled.known(*at));
        let differs =
            |(before, now): (Option<_>, &Option<_>)| before.is_some() && now.is_some() && before != *now;
        if recalled.check && certain.only(before.zip(&read)).any(|(_, both)| differs(both)) {
            return self.backend.mark_impure(self.session, question.verb());
        }
        cached.store(self.pod(), certain.only(read).filter_map(|(row, answer)| Some((row, answer?))));
        question.store_more(self, &certain, fresh);
        false
    }

    /// The pod in its view.
    pub(super) fn pod(&self) -> &'a Bytes {
        self.context.pod(self.ready)
    }

    /// The nodes of the call in its view.
    pub(super) fn nodes(&self) -> &'a EncodedNodes {
        self.context.nodes(self.ready)
    }

    /// The nodes in these slots by the ids of the table that it has; `None` if the request must carry their rows.
    fn by_reference(&self, slots: &[u32]) -> Option<(NodesField, TableReference)> {
        let nodes = self.nodes();
        let reference = self.session.tables.named(nodes.source, &nodes.view)?;
        let current = match nodes.source {
            TableSource::Cluster => None,
            TableSource::Calls => self.context.current(slots, nodes),
        };
        Some((reference.nodes(&nodes.rows, slots, current.as_deref()), reference))
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
