//! Situations of counts of pods.

use std::slice;

use extender_reference::model::Life;

use super::{
    Scene, Situation,
    again::{Part, Share, parts},
};
use crate::{
    case::{Calls, Counting, Counts, Feed, Manner, PodEvent, Source, Table, View, World},
    subject::{Outcome, Verb},
};

pub(super) const SITUATIONS: &[Situation] = &[
    ("counts of pods on nodes", |s| asked(s).any(|(_, manner)| has_on_nodes(&manner.counts))),
    ("counts of pods in the cluster", |s| asked(s).any(|(_, manner)| has(manner.counts.in_cluster))),
    ("counts of pods by zone", |s| asked(s).any(|(_, manner)| has(manner.counts.in_zones))),
    ("counts of pods with their requests", |s| {
        asked(s).any(|(_, manner)| manner.counts.on_nodes.contains(&Counting::PodsAndRequests))
    }),
    ("counts of pods on nodes that calls bring", |s| {
        s.case.source == Source::Request && asked(s).any(|(_, manner)| has_on_nodes(&manner.counts))
    }),
    ("counts of pods beside objects", |s| {
        asked(s).any(|(_, manner)| manner.view == View::Raw && has_on_nodes(&manner.counts))
    }),
    ("counts of pods in a table of a backend", |s| {
        asked(s).any(|(part, manner)| {
            let by_number = part.asked(Verb::Filter).any(|question| question.named > Some(0));
            by_number && part.backend.table == Table::Kept && has_on_nodes(&manner.counts)
        })
    }),
    ("verdicts by counts on nodes that are all remembered", |s| is_remembered(s, has_on_nodes, Share::Whole)),
    ("verdicts by counts on nodes that are partly remembered because pods changed", |s| {
        is_remembered(s, has_on_nodes, Share::Part)
    }),
    ("verdicts by counts over a topology that are all remembered", |s| {
        is_remembered(s, has_over_topologies, Share::Whole)
    }),
    ("verdicts that are asked for again because counts over a topology changed", |s| {
        changed_over_topologies(s)
            .any(|part| part.is_pure(Verb::Filter) && part.asked(Verb::Filter).count() > 0)
    }),
    ("counts that change between filter and prioritize, and scores that came with filter", |s| {
        parts(s).any(|part| {
            let news = part.placing.round.map(|round| &round.news);
            let changes = news.is_some_and(|news| !news.between.is_empty());
            changes && part.came_early() && !part.backend.score.counts.is_empty()
        })
    }),
    ("counts that change while filter is under way", |s| {
        asked(s).any(|(part, _)| {
            part.placing.round.is_some_and(|round| {
                round.calls == Calls::FilterThenPrioritize && !round.news.during.is_empty()
            })
        })
    }),
    ("a list of pods that differs from what was known", |s| {
        asked(s).any(|(part, _)| {
            let news = part.placing.round.map(|round| &round.news);
            news.is_some_and(|news| news.before_by == Feed::List && !news.before.is_empty())
        })
    }),
    ("a counted pod that begins to be deleted", |s| becomes(s, Life::Running, &[Life::Terminating])),
    ("a counted pod that ends", |s| becomes(s, Life::Running, &[Life::Succeeded, Life::Failed])),
    ("a counted pod that is deleted", |s| becomes(s, Life::Terminating, &[Life::Absent])),
    ("a counted pod that is bound", |s| becomes(s, Life::Pending, &[Life::Running])),
    ("a counted pod whose labels change", |s| {
        let mut events = events(s);
        events.any(|(before, event)| {
            let bound = &before.pods[event.pod];
            let stays = (bound.life, event.life) == (Life::Running, Life::Running);
            stays && event.labels.as_ref().is_some_and(|labels| *labels != bound.pod.labels)
        })
    }),
];

fn has(counting: [Counting; 4]) -> bool {
    counting.iter().any(|counting| *counting != Counting::None)
}

fn has_on_nodes(counts: &Counts) -> bool {
    has(counts.on_nodes)
}

fn has_over_topologies(counts: &Counts) -> bool {
    has(counts.in_cluster) || has(counts.in_zones)
}

/// The backends that were asked to filter by counts that are not zero.
fn asked<'s>(scene: &'s Scene<'_>) -> impl Iterator<Item = (Part<'s>, Manner)> {
    let parts = parts(scene).map(|part| {
        let manner = part.backend.filter;
        (part, manner)
    });
    parts.filter(|(part, manner)| {
        !manner.counts.is_empty()
            && part.asked(Verb::Filter).any(|question| question.outcome != Outcome::Failed)
            && !part.placing.filtering.pods.is_empty()
    })
}

fn is_remembered(scene: &Scene<'_>, is_meant: impl Fn(&Counts) -> bool, share: Share) -> bool {
    parts(scene).any(|part| {
        let is_meant = is_meant(&part.backend.filter.counts);
        is_meant && part.is_pure(Verb::Filter) && part.known(Verb::Filter) == share
    })
}

/// The backends for which the pod's counts differ from those of the same pod without the latest news.
fn changed_over_topologies<'s>(scene: &'s Scene<'_>) -> impl Iterator<Item = Part<'s>> {
    let placings = scene.case.placings();
    parts(scene).filter(move |part| {
        let Some(earlier) = part.placing.number.checked_sub(1).map(|number| &placings[number]) else {
            return false;
        };
        let (pod, counts) = (&part.placing.pod, &part.backend.filter.counts);
        let like = |world: &World| world.counts_like(pod, counts);
        like(&earlier.scoring) != like(&part.placing.filtering)
    })
}

/// Whether a pod comes from one part of its life to one of these while something is counted.
fn becomes(scene: &Scene<'_>, from: Life, to: &[Life]) -> bool {
    events(scene).any(|(before, event)| before.pods[event.pod].life == from && to.contains(&event.life))
}

/// The events before the calls about pods, each with the world before it, in cases in which something is counted.
fn events<'s>(scene: &'s Scene<'_>) -> impl Iterator<Item = (World, &'s PodEvent)> {
    let is_counted = asked(scene).next().is_some();
    let rounds = scene.case.rounds.iter().filter(move |_| is_counted);
    rounds.zip(scene.case.placings()).flat_map(|(round, earlier)| {
        round.news.before.iter().scan(earlier.scoring, |world, event| {
            let before = world.clone();
            world.happen(slice::from_ref(event));
            Some((before, event))
        })
    })
}
