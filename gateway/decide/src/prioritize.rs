//! Decides a prioritize call. Scores that were prefetched with filter answers are kept for it: they come from verbs
//! that are not pure, so they are valid for one prioritize call, soon, for the same pod and for unchanged rows.

use std::{
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use extender_gateway_backend::{
    Attempt, Backend,
    answer_cache::{AnswerCache, Answers, VerbCache},
    info::ScorePlan,
    session::Session,
};
use extender_gateway_cluster::table::NodeRows;
use extender_gateway_contract::{answer::Reply, question::Question, scores::NO_OPINION};
use extender_gateway_core::{
    BackendFailure, PolicyVerb,
    filter::{Asked, Turn},
    score::{self, Ballot, Normalization},
};
use extender_gateway_object::pod::ObjectPod;
use extender_gateway_record::{CallRecord, OnFailure, Outcome};
use extender_gateway_settings::Mode;
use foldhash::{HashMap, HashMapExt};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    Call, CallError, Decider,
    ask::{Ask, Certain, NodeQuestion, Participant},
    call_context::CallContext,
    shadow::{self, Decided},
};

/// The most pods with kept scores. Beyond this all are dropped.
const MOST_PODS: usize = 256;
/// The most bytes of kept scores; those of 15,000 nodes from 32 backends have 8 MB. Beyond this only the latest are
/// kept, whatever their size.
const MOST_BYTES: usize = 32 << 20;

impl Decider {
    /// The total score of each node; `None` for a node that is not listed. A backend that fails is ignored, as
    /// kube-scheduler ignores an extender whose prioritize fails. An interested backend without a `score` block
    /// gives every node 0, as an extender without `prioritizeVerb` does.
    ///
    /// # Errors
    /// The request contains a node that cannot be parsed.
    pub async fn prioritize(
        &self,
        call: Call<'_>,
        record: &mut CallRecord,
    ) -> Result<Vec<Option<i64>>, CallError> {
        let count = call.request.names.count();
        let mut context = CallContext::new(&self.settings, call, record);
        let prefetched = self.prefetched.take(call.pod.uid());
        let mut participants = Vec::new();
        let mut lists_all = false;
        if count > 0 {
            self.before_score(&mut context, record).await?;
            let interested = || self.interested(call.pod, Mode::Enforce);
            let scoring = interested().filter(|backend| backend.settings.score.is_some());
            context.look_up_together(PolicyVerb::Score, scoring.map(|backend| &**backend)).await;
            for backend in interested() {
                let Some(settings) = &backend.settings.score else {
                    lists_all = true;
                    continue;
                };
                let ready = context.ready(PolicyVerb::Score, backend).await?;
                let place = record.add_part(&backend.settings, PolicyVerb::Score, OnFailure::Ignore);
                participants.push(Participant { place, backend, timeout: settings.timeout, ready });
            }
        }
        let question = ScoreQuestion { prefetched: &prefetched };
        let calls = participants.iter().map(|participant| participant.scores(&question, &context));
        let answers = join_all(calls).await;
        let ballots: Vec<&Ballot> = answers.iter().flatten().flatten().map(|scored| &scored.ballot).collect();
        let mut totals = score::totals(count as usize, &ballots);
        // kube-scheduler lets a node that is not listed lose every tie.
        let without_opinion = answers.iter().flatten().flatten().flat_map(|scored| &scored.without_opinion);
        without_opinion.for_each(|node| _ = totals[*node as usize].get_or_insert(0));
        if lists_all {
            score::list_all(&mut totals);
        }
        for (participant, answer) in participants.iter().zip(answers) {
            match answer {
                Ok(Some(Scored { ballot, outside, .. })) => {
                    record.backends[participant.place].outcome = Outcome::Scored(ballot, outside);
                }
                // No node has a row for it.
                Ok(None) => {}
                Err(failure) => {
                    self.record_failure(PolicyVerb::Score, &failure, record, participant.place);
                }
            }
        }
        let best = || Decided::Best(shadow::best(&totals));
        self.shadow_nodes(PolicyVerb::Score, call, record, context.encodings, best);
        Ok(totals)
    }

    /// Whether a node's total may depend on the other nodes of the call: a backend scores all of them together, its scores are
    /// normalized over them, or a hook sees them. A backend that is unavailable scores none.
    pub fn scores_depend_on_nodes(&self, pod: &ObjectPod<'_>) -> bool {
        let depends = |plan: &ScorePlan| {
            let is_normalized =
                matches!(plan.normalization, Normalization::Max(_) | Normalization::MinMax(_));
            plan.common.turn != Turn::Parallel || is_normalized
        };
        let sees_nodes =
            |backend: &Arc<Backend>| backend.settings.timeouts()[PolicyVerb::BeforeScore].is_some();
        let mut scoring = self.asked(pod, |backend| backend.score.as_ref());
        self.hooks.iter().any(sees_nodes)
            || scoring.any(|(backend, _)| {
                backend.any_session().is_ok_and(|session| session.info.score().is_ok_and(depends))
            })
    }
}

impl Participant<'_> {
    async fn scores(
        &self,
        question: &ScoreQuestion<'_>,
        context: &CallContext<'_>,
    ) -> Result<Option<Scored>, BackendFailure> {
        let scores = self.ask(question, context, &Asked::All).await?;
        match &self.ready {
            Ok(ready) if !scores.is_empty() => {
                scored(self.backend, &ready.session, context.nodes(ready).known.clone(), scores).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// A backend's answer about scores.
pub(super) struct Scored {
    pub(super) ballot: Ballot,
    /// How many scores were outside the declared range.
    pub(super) outside: usize,
    /// The positions of the nodes about which it has no opinion. The ballot is without them.
    pub(super) without_opinion: Vec<u32>,
}

/// A backend's scores of the nodes at these positions; `None` for all nodes.
pub(super) fn scored(
    backend: &Backend,
    session: &Session,
    nodes: Option<Vec<u32>>,
    scores: Vec<i32>,
) -> Result<Scored, BackendFailure> {
    let ScorePlan { range, normalization, .. } = session.info.score()?;
    let weight = backend.settings.score.as_ref().map_or(1, |score| score.weight.value());
    let mut ballot = Ballot { weight, normalization: *normalization, range: *range, nodes, scores };
    let without_opinion = leave_out(&mut ballot);
    let outside = range.clamp(&mut ballot.scores);
    Ok(Scored { ballot, outside, without_opinion })
}

/// Takes the nodes without an opinion out of a ballot. Returns their positions.
fn leave_out(ballot: &mut Ballot) -> Vec<u32> {
    if !ballot.scores.contains(&NO_OPINION) {
        return Vec::new();
    }
    let scores = mem::take(&mut ballot.scores);
    let nodes = ballot.nodes.take().unwrap_or_else(|| (0..).take(scores.len()).collect());
    let (absent, given): (Vec<_>, Vec<_>) =
        nodes.into_iter().zip(scores).partition(|(_, score)| *score == NO_OPINION);
    let (nodes, scores) = given.into_iter().unzip();
    (ballot.nodes, ballot.scores) = (Some(nodes), scores);
    absent.into_iter().map(|(node, _)| node).collect()
}

/// How good are these nodes for the pod?
struct ScoreQuestion<'s> {
    /// Scores that came with the answers to the pod's filter call, from all backends.
    prefetched: &'s [BackendScores],
}

impl NodeQuestion for ScoreQuestion<'_> {
    type Fresh = Vec<i32>;
    type Cached = i32;
    /// Raw scores, one for each node.
    type Answer = Vec<i32>;

    fn verb(&self) -> PolicyVerb {
        PolicyVerb::Score
    }

    async fn send(
        &self,
        backend: &Backend,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Reply<Vec<i32>>, BackendFailure> {
        backend.score(session, question, attempt).await
    }

    fn cached<'c>(&self, cache: &'c AnswerCache) -> Option<&'c VerbCache<i32>> {
        cache.scores.as_ref()
    }

    fn prefetched(&self, ask: &Ask<'_>, slots: &[u32]) -> Option<Answers<i32>> {
        let scores = self.prefetched.iter().find(|scores| scores.are_of(ask.session, ask.pod()))?;
        Some(scores.recall(&ask.nodes().rows, slots))
    }

    fn read(&self, _: &AnswerCache, fresh: &Vec<i32>, _: usize) -> Vec<Option<i32>> {
        fresh.iter().copied().map(Some).collect()
    }

    fn accept(&self, _: &Ask<'_>, _: &[u32], fresh: Vec<i32>) -> Vec<i32> {
        fresh
    }

    fn splice(&self, _: &Ask<'_>, mut scores: Vec<i32>, missing: Option<(&[u32], Vec<i32>)>) -> Vec<i32> {
        if let Some((missing, fresh)) = missing {
            missing.iter().zip(fresh).for_each(|(at, score)| scores[*at as usize] = score);
        }
        scores
    }
}

/// Kept scores, by the pod's UID.
#[derive(Debug)]
pub(super) struct PrefetchedScores {
    pods: Mutex<HashMap<String, PodScores>>,
    /// How long they are kept.
    fresh: Duration,
}

/// The scores for a pod.
#[derive(Debug)]
struct PodScores {
    since: Instant,
    scores: Vec<BackendScores>,
}

impl PodScores {
    fn bytes(&self) -> usize {
        self.scores.iter().map(BackendScores::bytes).sum()
    }
}

/// The scores from one backend.
#[derive(Debug)]
pub(super) struct BackendScores {
    /// Weak, so that the session can be dropped.
    session: Weak<Session>,
    pod: Bytes,
    /// The slots of the nodes, in the order of the filter call.
    slots: Arc<[u32]>,
    /// The versions of their rows, 0 where the answer may be about another row. The rows themselves would keep all
    /// rows of the view.
    versions: Vec<u64>,
    scores: Vec<i32>,
}

impl BackendScores {
    /// The scores that the backend gave the nodes in these slots for this call's encoding of the pod.
    pub(super) fn new(ask: &Ask<'_>, slots: &[u32], scores: Vec<i32>) -> Self {
        let rows = &ask.nodes().rows;
        let kept = if slots.len() == rows.len() { Arc::clone(rows.slots()) } else { slots.into() };
        let versions = Certain::of(ask, slots).versions();
        Self { session: Arc::downgrade(ask.session), pod: ask.pod().clone(), slots: kept, versions, scores }
    }

    fn bytes(&self) -> usize {
        let Self { pod, slots, versions, scores, session: _ } = self;
        pod.len() + size_of_val(&**slots) + size_of_val(&**versions) + size_of_val(&**scores)
    }

    /// Whether they are an answer of this backend, under this handshake, to the same encoding of the pod.
    fn are_of(&self, session: &Arc<Session>, pod: &Bytes) -> bool {
        std::ptr::eq(self.session.as_ptr(), Arc::as_ptr(session)) && self.pod == *pod
    }

    /// The scores of the nodes in these slots, if their rows are unchanged.
    fn recall(&self, now: &NodeRows, slots: &[u32]) -> Answers<i32> {
        let mut places = Vec::with_capacity(slots.len());
        let mut ahead = (0..).zip(self.slots.iter());
        for slot in slots {
            // The remaining nodes nearly always come in their earlier order.
            let Some((place, _)) = ahead.find(|(_, given)| *given == slot) else {
                places = self.places_in_any_order(slots);
                break;
            };
            places.push(Some(place));
        }
        let score = |(place, slot): (Option<usize>, &u32)| {
            let (place, row) = (place?, now.key(*slot));
            (row.is_kept() && self.versions[place] == row.version).then(|| self.scores[place])
        };
        Answers::new(places.into_iter().zip(slots).map(score))
    }

    fn places_in_any_order(&self, slots: &[u32]) -> Vec<Option<usize>> {
        let by_slot: HashMap<u32, usize> = self.slots.iter().copied().zip(0..).collect();
        slots.iter().map(|slot| by_slot.get(slot).copied()).collect()
    }
}

impl PrefetchedScores {
    pub(super) fn new(fresh: Duration) -> Self {
        Self { pods: Mutex::new(HashMap::new()), fresh }
    }

    /// Keeps scores for the pod's next prioritize call, replacing earlier ones.
    pub(super) fn put(&self, uid: &str, scores: Vec<BackendScores>) {
        if uid.is_empty() {
            return;
        }
        let latest = PodScores { since: Instant::now(), scores };
        let mut pods = self.pods.lock();
        pods.remove(uid);
        if latest.scores.is_empty() {
            return;
        }
        // Drops those of pods that never came to prioritize.
        pods.retain(|_, kept| latest.since.duration_since(kept.since) < self.fresh);
        let bytes: usize = pods.values().chain([&latest]).map(PodScores::bytes).sum();
        if pods.len() >= MOST_PODS || bytes > MOST_BYTES {
            pods.clear();
        }
        pods.insert(uid.to_owned(), latest);
    }

    /// Removes and returns the scores for this pod.
    pub(super) fn take(&self, uid: &str) -> Vec<BackendScores> {
        let waiting = self.pods.lock().remove(uid);
        let fresh = waiting.filter(|kept| kept.since.elapsed() < self.fresh);
        fresh.map_or_else(Vec::new, |kept| kept.scores)
    }
}

#[cfg(test)]
mod tests {
    use extender_gateway_cluster::table::NodeTable;
    use extender_gateway_contract::row::RowView;
    use extender_gateway_object::view::KeyPrefixes;
    use proptest::prelude::*;

    use super::*;

    /// Scores of the nodes with these rows.
    fn given(rows: &NodeRows, scores: Vec<i32>) -> BackendScores {
        let versions = rows.slots().iter().map(|slot| rows.key(*slot).version).collect();
        let slots = Arc::clone(rows.slots());
        BackendScores { session: Weak::new(), pod: Bytes::new(), slots, versions, scores }
    }

    proptest! {
        /// Whatever the order of the nodes, a recalled score belongs to this row of this node, and to one of which the
        /// backend's answer certainly was.
        #[test]
        fn a_score_is_recalled_for_the_row_that_it_was_given_for(
            nodes in Just((0..20_u32).collect::<Vec<_>>()).prop_shuffle(),
            given_to in 0..20_usize,
            changed in prop::option::of(0..20_u32),
            uncertain in prop::option::of(0..20_usize),
            in_order in any::<bool>(),
            asked in prop::sample::subsequence((0..20_usize).collect::<Vec<_>>(), 0..20),
        ) {
            let table = NodeTable::new();
            let view = table.register(RowView::Facts(KeyPrefixes::default().into()));
            let apply = |node: u32, zone: &str| {
                let json = format!(r#"{{"metadata":{{"name":"n{node}","labels":{{"zone":"{zone}"}}}}}}"#);
                table.apply(json.as_bytes()).unwrap()
            };
            assert!((0..20).all(|node| apply(node, "a")));
            let rows = |nodes: &[u32]| {
                let names: Vec<String> = nodes.iter().map(|node| format!("n{node}")).collect();
                table.look_up(names.iter().map(String::as_str), view.id(), &mut None).rows
            };
            let mut scores = given(&rows(&nodes[..given_to]), (0..).take(given_to).collect());
            if let Some(version) = uncertain.and_then(|place| scores.versions.get_mut(place)) {
                *version = 0;
            }
            if let Some(node) = changed {
                apply(node, "b");
            }
            let mut asked: Vec<u32> = asked.into_iter().map(|place| nodes[place]).collect();
            if !in_order {
                asked.reverse();
            }
            let score = |node: &u32| {
                let place = nodes[..given_to].iter().position(|given| given == node)?;
                (Some(*node) != changed && Some(place) != uncertain).then(|| i32::try_from(place).unwrap())
            };
            let expected = Answers::new(asked.iter().map(score));
            let now = rows(&asked);
            prop_assert_eq!(scores.recall(&now, now.slots()), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn scores_of_pods_that_never_come_to_prioritize_take_bounded_memory() {
        let kept = PrefetchedScores::new(Duration::from_secs(10));
        let table = NodeTable::new();
        let view = table.register(RowView::Name);
        let none = || table.look_up([].into_iter(), view.id(), &mut None).rows;
        let scores = |bytes: usize| vec![given(&none(), vec![0; bytes / size_of::<i32>()])];
        let is_kept = |pod: &str| !kept.take(pod).is_empty();
        for pod in ["a", "b", "c"] {
            kept.put(pod, scores(MOST_BYTES / 2));
        }
        assert_eq!(["a", "b", "c"].map(is_kept), [false, false, true]);
        for pod in ["a", "b", "a"] {
            // The second ones of a pod replace the first.
            kept.put(pod, scores(MOST_BYTES / 2));
        }
        assert_eq!(["a", "b"].map(is_kept), [true, true]);
        kept.put("a", scores(2 * MOST_BYTES));
        assert!(is_kept("a"), "the latest call is served whatever its size");
    }
}
