//! Hooks that break a rule.

use extender_policy_api::v1beta1::{self as api, ChangedPart};

use super::{
    changes::{VerbAnswer, answers, info, tolerates},
    proxy::Fault,
};

/// What a backend says about its hooks.
pub(super) fn declared(case: &str) -> Fault {
    match case {
        "service" => info(|info, _| info.services.retain(|service| !service.contains("Hook"))),
        "changes" => hook(api::Verb::BeforeFilterNodes, |hook| hook.changes.clear()),
        "side-effects" => {
            hook(api::Verb::BeforeScore, |hook| hook.effects = api::Effects::ChangesOutside.into())
        }
        "unknown" => tolerates(),
        "counts" => hook(api::Verb::BeforeScore, |hook| {
            let pod = hook.reads.get_or_insert_default().pod.get_or_insert_default();
            pod.topology_counts.push(api::TopologyCountReads::default());
        }),
        "pod-alone" => hook(api::Verb::BeforeFilter, |hook| {
            let node = hook.reads.get_or_insert_default().node.get_or_insert_default();
            node.parts.push(api::NodePart::Taints.into());
        }),
        "pure" => hook(api::Verb::BeforeScore, |hook| hook.changes.push(ChangedPart::PodRequests.into())),
        other => panic!("no fault for {other}"),
    }
}

/// A change of the declaration of this hook.
fn hook(which: api::Verb, change: impl Fn(&mut api::VerbInfo) + Send + Sync + 'static) -> Fault {
    info(move |info, _| info.verbs.iter_mut().filter(|verb| verb.verb() == which).for_each(&change))
}

/// What hooks answer; `None` for what all verbs have.
pub(super) fn answered(case: &str) -> Option<Fault> {
    Some(match case {
        "declared-changes" => changing(
            |pod| pod.remove_annotations.push("key".to_owned()),
            |node| node.add_allocatable = Some(api::Resources::default()),
        ),
        "nodes" => tolerates(),
        "positions" => changing(|_| (), |node| node.positions.push(0)),
        "limits" => {
            let key = || vec!["k".repeat(318)];
            changing(move |pod| pod.remove_labels = key(), move |node| node.remove_labels = key())
        }
        _ => return None,
    })
}

/// Each answer of a hook changes the pod, or the first node besides others, in this way.
fn changing(
    pod: impl Fn(&mut api::PodChange) + Send + Sync + 'static,
    node: impl Fn(&mut api::NodeChange) + Send + Sync + 'static,
) -> Fault {
    answers(
        |_, _| true,
        move |answer| match answer {
            VerbAnswer::BeforeFilter(response) => pod(response.pod.get_or_insert_default()),
            VerbAnswer::BeforeNodes(response) => {
                let mut change = api::NodeChange { positions: vec![0], ..api::NodeChange::default() };
                node(&mut change);
                response.nodes = vec![change];
            }
            _ => (),
        },
    )
}
