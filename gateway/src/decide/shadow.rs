//! Backends in shadow: asked beside the decision, and counted against it. Nothing waits for them.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{
    BackendFailure,
    filter::{Asked, Heard, Refusal},
    score::{self, Ballot},
};
use extender_policy_api::v1alpha1::Purpose;
use futures_util::FutureExt;

use super::{Call, Decider, case::Case};
use crate::{
    account::{Account, Opinion, Part, Policy, Said},
    backend::{
        Backend,
        answer::Reply,
        info::{FilterPlan, Plan, ScorePlan},
        link::Link,
        question::{Nodes, Question, Scores},
    },
    config::Mode,
    object::pod::ObjectPod,
    observe::Observer,
};

/// A question that is put beside the decision.
struct Aside {
    backend: Arc<Backend>,
    link: Arc<Link>,
    account: Account,
    pod: Bytes,
    nodes: Nodes,
    /// The nodes of the call that are asked about, ascending.
    asked: Vec<u32>,
    within: Duration,
}

impl Decider {
    /// Asks the shadows that filter about the nodes that are left, as if they came last: to refuse one of them is to
    /// disagree.
    pub(super) async fn shadow_filter(
        &self,
        (call, account): (Call<'_>, &Account),
        case: &mut Case<'_>,
        left: impl Iterator<Item = u32> + Clone,
    ) {
        for backend in self.shadows(call.pod) {
            let Some(settings) = &backend.settings.filter else { continue };
            let about = (left.clone(), settings.timeout);
            let aside = aside::<FilterPlan>((case, account), backend, about).await;
            let Some(mut aside) = self.to_be_asked("filter", (backend, account), aside) else { continue };
            self.beside(|observer| async move {
                let mut inquiry = aside.account.inquire();
                inquiry.asks_about(aside.asked.len());
                let terms = (aside.within, &mut inquiry.exchanges);
                let answer = aside.backend.filter(&aside.link, aside.question(), terms).await;
                let said = answer.and_then(Reply::inline).map(|answer| {
                    let opinion = opinion_on_nodes(&answer.refusals);
                    let nodes = Asked::Some(std::mem::take(&mut aside.asked));
                    (opinion, Said::Refused(Heard { nodes, refusals: answer.refusals }))
                });
                observer.settle_beside("filter", &aside.account.with(said, inquiry));
            });
        }
    }

    /// Asks the shadows that score: not to have one of the best nodes among their own best is to disagree.
    pub(super) async fn shadow_score(
        &self,
        (call, account): (Call<'_>, &Account),
        case: &mut Case<'_>,
        totals: &[Option<i64>],
    ) {
        for backend in self.shadows(call.pod) {
            let Some(settings) = &backend.settings.score else { continue };
            let all = 0..u32::try_from(totals.len()).unwrap_or(u32::MAX);
            let about = (all, settings.timeout);
            let aside = aside::<ScorePlan>((case, account), backend, about).await;
            let Some(aside) = self.to_be_asked("score", (backend, account), aside) else { continue };
            let best = totals.iter().flatten().max();
            let best: Vec<bool> =
                totals.iter().map(|total| best.is_none() || total.as_ref() == best).collect();
            self.beside(|observer| async move {
                let mut inquiry = aside.account.inquire();
                inquiry.asks_about(aside.asked.len());
                let terms = (aside.within, &mut inquiry.exchanges);
                let answer = aside.backend.score(&aside.link, aside.question(), terms).await;
                let ballot = answer.and_then(Reply::inline).and_then(|scores| aside.ballot(scores));
                let said = ballot.map(|(ballot, outside)| {
                    (opinion_on_scores(&ballot, &best), Said::Scored(ballot, outside))
                });
                observer.settle_beside("score", &aside.account.with(said, inquiry));
            });
        }
    }

    /// What is to be asked, if anything. That it cannot be is put down.
    pub(super) fn to_be_asked<A>(
        &self,
        verb: &'static str,
        (backend, account): (&Arc<Backend>, &Account),
        aside: Result<Option<A>, BackendFailure>,
    ) -> Option<A> {
        aside.unwrap_or_else(|failure| {
            let account = account.beside(Part::new(backend, Policy::Ignore));
            self.beside(|observer| async move {
                let inquiry = account.inquire();
                observer.settle_beside(verb, &account.with(Err(failure), inquiry));
            });
            None
        })
    }

    /// Lets this happen beside the call, which does not wait for it. A panic is counted.
    pub(super) fn beside<F>(&self, work: impl FnOnce(Arc<Observer>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (metrics, work) = (Arc::clone(&self.metrics), work(Arc::clone(&self.observer)));
        self.observer.beside(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                metrics.panicked();
            }
        });
    }

    /// The backends in shadow that this pod is a matter of.
    pub(super) fn shadows(&self, pod: &ObjectPod<'_>) -> impl Iterator<Item = &Arc<Backend>> {
        self.interested(pod).filter(|backend| backend.settings.mode == Mode::Shadow)
    }
}

/// The question about those of these nodes that can be told, unless there is none, or why it cannot be put. Waits for no
/// node.
async fn aside<P: Plan>(
    (case, account): (&mut Case<'_>, &Account),
    backend: &Arc<Backend>,
    (nodes, within): (impl Iterator<Item = u32>, Duration),
) -> Result<Option<Aside>, BackendFailure> {
    case.hurry();
    // Of nodes that cannot be read nobody can be told.
    let Ok(ready) = case.ready::<P>(backend).await else { return Ok(None) };
    let (link, views) = ready?;
    if P::of(&link.info).as_ref().is_ok_and(P::has_side_effects) {
        return Ok(None);
    }
    let told = case.nodes(views);
    let asked: Vec<u32> = nodes.filter(|node| told.unknown.binary_search(node).is_err()).collect();
    let lines = told.lines(&Asked::Some(asked.clone()));
    Ok((!asked.is_empty()).then(|| Aside {
        backend: Arc::clone(backend),
        link,
        account: account.beside(Part::new(backend, Policy::Ignore)),
        pod: case.pod(views).clone(),
        nodes: told.part(&lines),
        asked,
        within,
    }))
}

impl Aside {
    fn question(&self) -> Question<'_> {
        let (call, pod, nodes) = (&self.account.id, &self.pod, &self.nodes);
        Question { call, purpose: Purpose::Shadow, pod, nodes, scores: Scores::Unwanted }
    }

    /// These scores as a ballot that would have counted, and how many were outside their range.
    fn ballot(&self, scores: Vec<i32>) -> Result<(Ballot, usize), BackendFailure> {
        let ScorePlan { range, normalization, .. } = self.link.info.score.as_ref().map_err(Clone::clone)?;
        let (range, normalization) = (*range, *normalization);
        let weight = self.backend.settings.score.as_ref().map_or(1, |score| score.weight.value());
        let nodes = Some(self.asked.clone());
        let mut ballot = Ballot { weight, normalization, range, nodes, scores };
        let outside = range.clamp(&mut ballot.scores);
        Ok((ballot, outside))
    }
}

fn opinion_on_nodes(refusals: &[Refusal]) -> Opinion {
    let refused = refusals.iter().any(|refusal| !refusal.positions.is_empty());
    if refused { Opinion::Disagrees } else { Opinion::Agrees }
}

fn opinion_on_scores(ballot: &Ballot, best: &[bool]) -> Opinion {
    let worth = score::normalized(ballot);
    let worths = || ballot.scores.iter().map(|score| worth(*score));
    let most = worths().fold(f64::NEG_INFINITY, f64::max);
    let is_favourite = |(_, worth): &(&u32, f64)| worth.total_cmp(&most).is_eq();
    let nodes = ballot.nodes.as_deref().unwrap_or_default();
    let mut favourites = nodes.iter().zip(worths()).filter(is_favourite);
    if favourites.any(|(node, _)| best[*node as usize]) { Opinion::Agrees } else { Opinion::Disagrees }
}

#[cfg(test)]
mod tests {
    use extender_gateway_core::score::{Direction, Normalization, Range};

    use super::*;

    #[test]
    fn an_opinion_is_formed_on_what_would_count() {
        let opinion = |normalization, scores: &[i32]| {
            let range = Range { least: Some(0), largest: Some(10) };
            let (nodes, mut scores) = (Some(vec![0, 2]), scores.to_vec());
            range.clamp(&mut scores);
            let ballot = Ballot { weight: 3, normalization, range, nodes, scores };
            opinion_on_scores(&ballot, &[false, true, true])
        };
        let (least, largest) = (Direction::LeastIsBest, Direction::LargestIsBest);
        assert_eq!(opinion(Normalization::None, &[4, 5]), Opinion::Agrees);
        assert_eq!(opinion(Normalization::None, &[5, 4]), Opinion::Disagrees);
        assert_eq!(opinion(Normalization::None, &[50, 20]), Opinion::Agrees, "both are clamped to 10");
        assert_eq!(opinion(Normalization::MinMax(least), &[5, 4]), Opinion::Agrees);
        assert_eq!(opinion(Normalization::MinMax(least), &[4, 5]), Opinion::Disagrees);
        assert_eq!(
            opinion(Normalization::Max(largest), &[-1, -5]),
            Opinion::Agrees,
            "nothing is worth anything"
        );
    }
}
