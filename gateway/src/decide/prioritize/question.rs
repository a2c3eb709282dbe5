//! The request to a backend in a prioritize call, and its known answers.

use extender_gateway_core::{BackendFailure, Verb};

use super::super::{
    ask::{Ask, Certain, MissingNodes, NodeQuestion, Recalled},
    prefetched::BackendScores,
};
use crate::{
    backend::{Attempt, Backend, answer_cache::AnswerCache, info::ScorePlan, session::Session},
    cluster::table::NodeRow,
    contract::{
        answer::Reply,
        question::{self, Question},
    },
    record::CacheSource,
};

/// How good are these nodes for the pod?
pub(super) struct ScoreQuestion<'s> {
    /// Scores that came with the answers to the pod's filter call, from all backends.
    pub(super) early: &'s [BackendScores],
}

impl NodeQuestion for ScoreQuestion<'_> {
    type Plan = ScorePlan;
    type Fresh = Vec<i32>;
    type Cached = i32;
    /// Raw scores, one for each node.
    type Answer = Vec<i32>;

    const VERB: Verb = Verb::Prioritize;

    fn scores(_: &ScorePlan) -> question::ScoresWanted {
        question::ScoresWanted::Unwanted
    }

    async fn send(
        backend: &Backend,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Reply<Vec<i32>>, BackendFailure> {
        backend.score(session, question, attempt).await
    }

    fn recall(&self, ask: &Ask<'_>, lines: &[&NodeRow]) -> Option<Recalled<i32>> {
        let (session, pod) = (ask.session, ask.pod());
        let cache = &session.cache;
        if let Some(scores) = cache.scores.as_ref().filter(|_| cache.is_trusted()) {
            let answers = scores.recall(pod, lines.iter().copied());
            let check = answers.iter().any(Option::is_some) && scores.is_check_due();
            return Some(Recalled { source: CacheSource::AnswerCache, answers, check });
        }
        let early = self.early.iter().find(|scores| scores.are_of(session, pod))?;
        Some(Recalled { source: CacheSource::Filter, answers: early.recall(lines), check: false })
    }

    fn read(cache: &AnswerCache, fresh: &Vec<i32>, _: usize) -> Option<Vec<Option<i32>>> {
        cache.scores.as_ref()?;
        Some(fresh.iter().copied().map(Some).collect())
    }

    fn store(ask: &Ask<'_>, certain: &Certain<'_>, _: Vec<Option<i32>>, fresh: &Vec<i32>) {
        if let Some(scores) = &ask.session.cache.scores {
            scores.store(ask.pod(), certain.only(fresh.iter().copied()));
        }
    }

    fn accept(_: &Ask<'_>, _: &[&NodeRow], fresh: Vec<i32>) -> Vec<i32> {
        fresh
    }

    fn splice(_: &Ask<'_>, known: Vec<Option<i32>>, missing: Option<MissingNodes<'_, Vec<i32>>>) -> Vec<i32> {
        let mut scores: Vec<i32> = known.into_iter().map(Option::unwrap_or_default).collect();
        if let Some(MissingNodes { places, fresh }) = missing {
            places.iter().zip(fresh).for_each(|(at, score)| scores[*at as usize] = score);
        }
        scores
    }
}
