//! Backends in shadow: asked beside the decision, and counted against it. Nothing waits for them.

use std::{sync::Arc, time::Duration};

use extender_gateway_core::{BackendFailure, filter::Refusal};
use extender_policy_api::v1alpha1::Purpose;

use super::{Call, Decider, case::Case};
use crate::{
    backend::{
        Backend,
        answer::Reply,
        info::{NodesView, PodView},
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
    call: String,
    pod: bytes::Bytes,
    nodes: Nodes,
    /// The nodes of the call that are asked about; `None` for all.
    known: Option<Vec<u32>>,
    within: Duration,
    metrics: Arc<Metrics>,
}

/// Whether a shadow would have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opinion {
    Agrees,
    Disagrees,
}

impl Decider {
    /// Asks the shadows that filter what they think of the nodes that are left: to refuse one of them is to
    /// disagree.
    pub(super) async fn shadow_filter(&self, call: Call<'_>, left: Vec<bool>) {
        for backend in self.shadows(call.pod) {
            let Some(settings) = &backend.settings.filter else { continue };
            let Ok(link) = backend.link() else { continue };
            let Some(plan) = link.info.filter.as_ref().ok().filter(|plan| !plan.side_effects) else {
                continue;
            };
            let Some(aside) =
                self.aside(call, backend, (&link, &plan.nodes, &plan.pod), settings.timeout).await
            else {
                continue;
            };
            let left = left.clone();
            tokio::spawn(async move {
                let answer = aside.backend.filter(&aside.link, aside.question(), aside.within).await;
                let answer = answer.and_then(Reply::inline);
                let opinion = answer.map(|answer| opinion_on_nodes(&answer.refusals, &aside, &left));
                record(&aside.metrics, &aside.backend, "filter", opinion);
            });
        }
    }

    /// Asks the shadows that score: not to have one of the best nodes among their own best is to disagree.
    pub(super) async fn shadow_score(&self, call: Call<'_>, totals: &[Option<i64>]) {
        let best = totals.iter().flatten().max();
        let best: Vec<bool> = totals.iter().map(|total| best.is_none() || total.as_ref() == best).collect();
        for backend in self.shadows(call.pod) {
            let Some(settings) = &backend.settings.score else { continue };
            let Ok(link) = backend.link() else { continue };
            let Some(plan) = link.info.score.as_ref().ok().filter(|plan| !plan.side_effects) else {
                continue;
            };
            let Some(aside) =
                self.aside(call, backend, (&link, &plan.nodes, &plan.pod), settings.timeout).await
            else {
                continue;
            };
            let best = best.clone();
            tokio::spawn(async move {
                let answer = aside.backend.score(&aside.link, aside.question(), aside.within).await;
                let opinion = answer.and_then(Reply::inline);
                let opinion = opinion.map(|scores| opinion_on_scores(&scores, &aside, &best));
                record(&aside.metrics, &aside.backend, "score", opinion);
            });
        }
    }

    /// The backends in shadow that this pod is a matter of.
    pub(super) fn shadows(&self, pod: &ObjectPod<'_>) -> impl Iterator<Item = &Arc<Backend>> {
        self.interested(pod).filter(|backend| backend.settings.mode == Mode::Shadow)
    }

    /// The question, unless there is nothing to ask about. Waits for no node.
    async fn aside(
        &self,
        call: Call<'_>,
        backend: &Arc<Backend>,
        (link, nodes, pod): (&Arc<Link>, &NodesView, &PodView),
        within: Duration,
    ) -> Option<Aside> {
        let mut case = Case::new(call, self.ids.next(), (&self.known, Duration::ZERO));
        let views = case.tell(pod, nodes).await.ok()?.ok()?;
        let told = case.nodes(views);
        (told.count() > 0).then(|| Aside {
            backend: Arc::clone(backend),
            link: Arc::clone(link),
            call: case.id.clone(),
            pod: case.pod(views).clone(),
            nodes: told.all(),
            known: told.known(),
            within,
            metrics: Arc::clone(&self.metrics),
        })
    }
}

impl Aside {
    fn question(&self) -> Question<'_> {
        let (call, pod, nodes) = (&self.call, &self.pod, &self.nodes);
        Question { call, purpose: Purpose::Shadow, pod, nodes, scores: Scores::Unwanted }
    }

    fn node(&self, at: u32) -> usize {
        self.known.as_ref().map_or(at, |known| known[at as usize]) as usize
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

fn opinion_on_nodes(refusals: &[Refusal], aside: &Aside, left: &[bool]) -> Opinion {
    let mut refused = refusals.iter().flat_map(|refusal| &refusal.positions);
    if refused.any(|at| left[aside.node(*at)]) { Opinion::Disagrees } else { Opinion::Agrees }
}

fn opinion_on_scores(scores: &[i32], aside: &Aside, best: &[bool]) -> Opinion {
    let reversed = aside.link.info.score.as_ref().is_ok_and(|plan| plan.normalization.is_reversed());
    let worth = |score: &i32| if reversed { -i64::from(*score) } else { i64::from(*score) };
    let most = scores.iter().map(worth).max();
    let mut favourites = (0..).zip(scores).filter(|(_, score)| Some(worth(score)) == most);
    if favourites.any(|(at, _)| best[aside.node(at)]) { Opinion::Agrees } else { Opinion::Disagrees }
}
