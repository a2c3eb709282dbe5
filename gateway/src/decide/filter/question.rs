//! The request to a backend in a filter call, and the meaning of its answer.

use extender_gateway_core::{BackendFailure, Verb, filter::Refusal};

use super::super::{
    ask::{Ask, Certain, MissingNodes, NodeQuestion, Recalled},
    prefetched::BackendScores,
};
use crate::{
    backend::{Attempt, Backend, answer_cache::AnswerCache, info::FilterPlan, session::Session},
    cluster::table::NodeRow,
    contract::{
        answer::{FilterAnswer, Reply},
        question::{self, Question},
    },
    record::CacheSource,
};

/// Which of these nodes may the pod not run on?
pub(super) struct FilterQuestion;

/// A backend's answer, from the cache or from a call.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    /// Positions are those in the fold's question.
    pub(super) refusals: Vec<Refusal>,
    /// Scores that came with the answer and are not cached.
    pub(super) scores: Option<BackendScores>,
}

impl NodeQuestion for FilterQuestion {
    type Plan = FilterPlan;
    type Fresh = FilterAnswer;
    /// Numbered as in `backend::answer_cache::VerdictCache`.
    type Cached = u32;
    type Answer = Verdicts;

    const VERB: Verb = Verb::Filter;

    fn scores(plan: &FilterPlan) -> question::ScoresWanted {
        plan.scores
    }

    async fn send(
        backend: &Backend,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Reply<FilterAnswer>, BackendFailure> {
        backend.filter(session, question, attempt).await
    }

    fn recall(&self, ask: &Ask<'_>, lines: &[&NodeRow]) -> Option<Recalled<u32>> {
        let cache = &ask.session.cache;
        let verdicts = cache.verdicts.as_ref().filter(|_| cache.is_trusted())?;
        let answers = verdicts.recall(ask.pod(), lines.iter().copied());
        let check = answers.iter().any(Option::is_some) && verdicts.is_check_due();
        Some(Recalled { source: CacheSource::AnswerCache, answers, check })
    }

    fn read(cache: &AnswerCache, fresh: &FilterAnswer, count: usize) -> Option<Vec<Option<u32>>> {
        Some(cache.verdicts.as_ref()?.read(&fresh.refusals, count))
    }

    fn store(ask: &Ask<'_>, certain: &Certain<'_>, read: Vec<Option<u32>>, fresh: &FilterAnswer) {
        let (cache, pod) = (&ask.session.cache, ask.pod());
        if let Some(verdicts) = &cache.verdicts {
            verdicts.store(pod, certain.only(read));
        }
        if let Some((remembered, scores)) = cache.scores.as_ref().zip(fresh.scores.as_ref()) {
            remembered.store(pod, certain.only(scores.iter().copied()));
        }
    }

    fn accept(ask: &Ask<'_>, lines: &[&NodeRow], fresh: FilterAnswer) -> Verdicts {
        let FilterAnswer { refusals, scores } = fresh;
        let scored = |scores: Vec<i32>| {
            BackendScores::new(ask.session, ask.pod(), Certain::of(ask, lines).only(scores))
        };
        Verdicts { refusals, scores: scores.map(scored) }
    }

    fn splice(
        ask: &Ask<'_>,
        mut known: Vec<Option<u32>>,
        missing: Option<MissingNodes<'_, FilterAnswer>>,
    ) -> Verdicts {
        if let Some(MissingNodes { places, .. }) = &missing {
            // These are known only if this is a check: then the new answer counts.
            places.iter().for_each(|at| known[*at as usize] = None);
        }
        let mut refusals = ask
            .session
            .cache
            .verdicts
            .as_ref()
            .map_or_else(Vec::new, |known_verdicts| known_verdicts.refusals(&known));
        if let Some(MissingNodes { places, fresh }) = missing {
            refusals.extend(fresh.refusals.into_iter().map(|refusal| placed(refusal, places)));
        }
        Verdicts { refusals, scores: None }
    }
}

/// The refusal with positions among all nodes, of which those at `missing` were sent.
fn placed(mut refusal: Refusal, missing: &[u32]) -> Refusal {
    refusal.positions.iter_mut().for_each(|at| *at = missing[*at as usize]);
    refusal
}
