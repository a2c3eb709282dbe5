//! Backends in shadow: asked beside the decision, and counted against it. Nothing waits for them.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{
    BackendFailure,
    filter::{Asked, Refusal},
};
use extender_policy_api::v1alpha1::Purpose;
use futures_util::FutureExt;

use super::{Call, Decider, case::Case};
use crate::{
    backend::{
        Backend,
        answer::Reply,
        info::{FilterPlan, Plan, ScorePlan},
        link::Link,
        question::{Nodes, Question, Scores},
    },
    config::Mode,
    object::pod::ObjectPod,
    observe::Metrics,
};

/// A question that is put beside the decision.
struct Aside {
    backend: Arc<Backend>,
    link: Arc<Link>,
    /// The decision's.
    call: String,
    pod: Bytes,
    nodes: Nodes,
    /// The nodes of the call that are asked about, ascending.
    asked: Vec<u32>,
    within: Duration,
}

/// Whether a shadow would have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opinion {
    Agrees,
    Disagrees,
}

impl Decider {
    /// Asks the shadows that filter about the nodes that are left, as if they came last: to refuse one of them is to
    /// disagree.
    pub(super) async fn shadow_filter(
        &self,
        call: Call<'_>,
        case: &mut Case<'_>,
        left: impl Iterator<Item = u32> + Clone,
    ) {
        for backend in self.shadows(call.pod) {
            let Some(settings) = &backend.settings.filter else { continue };
            let aside = aside::<FilterPlan>(case, backend, left.clone(), settings.timeout).await;
            let Some(aside) = aside else { continue };
            self.beside(|metrics| async move {
                let answer = aside.backend.filter(&aside.link, aside.question(), aside.within).await;
                let opinion = answer.and_then(Reply::inline).map(|answer| opinion_on_nodes(&answer.refusals));
                record(&metrics, &aside.backend, "filter", opinion);
            });
        }
    }

    /// Asks the shadows that score: not to have one of the best nodes among their own best is to disagree.
    pub(super) async fn shadow_score(&self, call: Call<'_>, case: &mut Case<'_>, totals: &[Option<i64>]) {
        for backend in self.shadows(call.pod) {
            let Some(settings) = &backend.settings.score else { continue };
            let all = 0..u32::try_from(totals.len()).unwrap_or(u32::MAX);
            let Some(aside) = aside::<ScorePlan>(case, backend, all, settings.timeout).await else {
                continue;
            };
            let best = totals.iter().flatten().max();
            let best: Vec<bool> =
                totals.iter().map(|total| best.is_none() || total.as_ref() == best).collect();
            self.beside(|metrics| async move {
                let answer = aside.backend.score(&aside.link, aside.question(), aside.within).await;
                let opinion = answer.and_then(Reply::inline);
                let opinion = opinion.map(|scores| opinion_on_scores(&scores, &aside, &best));
                record(&metrics, &aside.backend, "score", opinion);
            });
        }
    }

    /// Lets this happen beside the call, which does not wait for it. A panic is counted.
    pub(super) fn beside<F>(&self, work: impl FnOnce(Arc<Metrics>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (metrics, work) = (Arc::clone(&self.metrics), work(Arc::clone(&self.metrics)));
        tokio::spawn(async move {
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

/// The question about those of these nodes that can be told, unless there is none. Waits for no node.
async fn aside<P: Plan>(
    case: &mut Case<'_>,
    backend: &Arc<Backend>,
    nodes: impl Iterator<Item = u32>,
    within: Duration,
) -> Option<Aside> {
    case.hurry();
    let (link, views) = case.ready::<P>(backend).await.ok()?.ok()?;
    if P::of(&link.info).as_ref().is_ok_and(P::has_side_effects) {
        return None;
    }
    let told = case.nodes(views);
    let asked: Vec<u32> = nodes.filter(|node| told.unknown.binary_search(node).is_err()).collect();
    let lines = told.lines(&Asked::Some(asked.clone()));
    (!asked.is_empty()).then(|| Aside {
        backend: Arc::clone(backend),
        link,
        call: case.id.clone(),
        pod: case.pod(views).clone(),
        nodes: told.part(&lines),
        asked,
        within,
    })
}

impl Aside {
    fn question(&self) -> Question<'_> {
        let (call, pod, nodes) = (&self.call, &self.pod, &self.nodes);
        Question { call, purpose: Purpose::Shadow, pod, nodes, scores: Scores::Unwanted }
    }
}

/// Counts what a shadow thinks. Nothing else comes of it.
pub(super) fn record(
    metrics: &Metrics,
    backend: &Backend,
    verb: &'static str,
    opinion: Result<Opinion, BackendFailure>,
) {
    let name = backend.settings.name.as_str();
    let outcome = match opinion {
        Ok(Opinion::Agrees) => "agrees",
        Ok(Opinion::Disagrees) => "disagrees",
        Err(failure) => {
            metrics.backend_failed(name, verb, failure.kind);
            "failed"
        }
    };
    metrics.shadowed(name, verb, outcome);
}

fn opinion_on_nodes(refusals: &[Refusal]) -> Opinion {
    let refused = refusals.iter().any(|refusal| !refusal.positions.is_empty());
    if refused { Opinion::Disagrees } else { Opinion::Agrees }
}

fn opinion_on_scores(scores: &[i32], aside: &Aside, best: &[bool]) -> Opinion {
    let reversed = aside.link.info.score.as_ref().is_ok_and(|plan| plan.normalization.is_reversed());
    let worth = |score: &i32| if reversed { -i64::from(*score) } else { i64::from(*score) };
    let most = scores.iter().map(worth).max();
    let mut favourites = aside.asked.iter().zip(scores).filter(|(_, score)| Some(worth(score)) == most);
    if favourites.any(|(node, _)| best[*node as usize]) { Opinion::Agrees } else { Opinion::Disagrees }
}
