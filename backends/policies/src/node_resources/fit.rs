//! Whether a pod fits a node. Mirrors `fitsRequest` of kube-scheduler's plugin `NodeResourcesFit`, including
//! reasons and their order; scalar resources, which kube-scheduler lists in random order, are sorted by name.

use std::{collections::BTreeSet, sync::Arc};

use extender_policy_sdk::{Node, Reason, Refusal, RejectionKind, Resources, Verdict};

use super::NOTHING;
use crate::resource::{self, Resource};

const TOO_MANY_PODS: &str = "Too many pods";
/// Further shortages are only counted. A pod may request thousands of resources, and each node has its own reason.
const MAX_NAMED_SHORTAGES: usize = 10;
/// The longest reason, without the number of shortages that it does not name.
const MAX_REASON_BYTES: usize = 1_000;
const UNKNOWN_USAGE: &str = "what is requested on the node is not known";

/// Ignored resources. Only extended ones can be ignored.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ignored {
    /// Names, such as "example.com/gpu".
    pub(super) resources: BTreeSet<String>,
    /// The part of a name before the slash.
    pub(super) groups: BTreeSet<String>,
}

impl Ignored {
    /// What a node must have free for a pod with these requests.
    pub(super) fn needs_of(&self, requests: &Resources) -> Needs {
        let always = [
            (Resource::Cpu, "Insufficient cpu"),
            (Resource::Memory, "Insufficient memory"),
            (Resource::EphemeralStorage, "Insufficient ephemeral-storage"),
        ];
        let always = always.map(|(resource, shortage)| (resource, shortage.to_owned()));
        let counted = |name: &&String| resource::is_scalar(name) && !self.includes(name);
        let scalars = requests.others.keys().filter(counted);
        let scalars = scalars.map(|name| (Resource::Scalar(name.clone()), format!("Insufficient {name}")));
        let needs = always.into_iter().chain(scalars).map(|(resource, shortage)| ResourceNeed {
            amount: resource.amount(requests),
            resource,
            shortage: shortage[..shortage.floor_char_boundary(MAX_REASON_BYTES)].into(),
        });
        Needs { needs: needs.filter(|need| need.amount > 0).collect() }
    }

    fn includes(&self, name: &str) -> bool {
        let group = name.split('/').next().unwrap_or_default();
        resource::is_extended(name) && (self.resources.contains(name) || self.groups.contains(group))
    }
}

/// What a pod needs of a node, besides one of its places for pods.
#[derive(Debug)]
pub(super) struct Needs {
    needs: Vec<ResourceNeed>,
}

#[derive(Debug)]
struct ResourceNeed {
    resource: Resource,
    /// More than 0.
    amount: i64,
    /// The reason when less is free: created once for all nodes.
    shortage: Arc<str>,
}

impl Needs {
    /// A node whose usage is unknown is refused: it could be full.
    pub(super) fn verdict(&self, node: Node<'_>) -> Verdict {
        let Some(usage) = node.usage() else {
            return Verdict::reject(UNKNOWN_USAGE).unresolvable();
        };
        let requested = usage.requested.as_ref().unwrap_or(&NOTHING);
        self.verdict_about(node.allocatable().unwrap_or(&NOTHING), requested)
    }

    fn verdict_about(&self, allocatable: &Resources, requested: &Resources) -> Verdict {
        let too_many = requested.pods >= allocatable.pods;
        let left = |need: &ResourceNeed| {
            need.resource.amount(allocatable).saturating_sub(need.resource.amount(requested))
        };
        let short: Vec<_> = self.needs.iter().filter(|need| need.amount > left(need)).collect();
        let reason = match (too_many, &short[..]) {
            (false, []) => return Verdict::Accept,
            (true, []) => TOO_MANY_PODS.into(),
            (false, [one]) => Reason::Shared(Arc::clone(&one.shortage)),
            _ => joined(too_many.then_some(TOO_MANY_PODS), &short).into(),
        };
        // Even an empty node would be too small.
        let hopeless = short.iter().any(|need| need.amount > need.resource.amount(allocatable));
        let kind = if hopeless { RejectionKind::Unresolvable } else { RejectionKind::Unschedulable };
        Verdict::Reject(Refusal { reason, kind, rule: None, retry_after: None })
    }
}

/// As kube-scheduler's `Status.Message` joins them, but only the first ones.
fn joined(too_many_pods: Option<&str>, short: &[&ResourceNeed]) -> String {
    let mut reason = too_many_pods.unwrap_or_default().to_owned();
    let mut named = 0;
    for need in short.iter().take(MAX_NAMED_SHORTAGES) {
        let separator = if reason.is_empty() { "" } else { ", " };
        if reason.len() + separator.len() + need.shortage.len() > MAX_REASON_BYTES {
            break;
        }
        reason.push_str(separator);
        reason.push_str(&need.shortage);
        named += 1;
    }
    match short.len() - named {
        0 => reason,
        more => format!("{reason}, and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(milli_cpu: i64, memory: i64, pods: i64, others: &[(&str, i64)]) -> Resources {
        let others = others.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
        Resources { milli_cpu, memory, ephemeral_storage: 0, pods, others }
    }

    fn refused(reason: &'static str, kind: RejectionKind) -> Verdict {
        Verdict::Reject(Refusal { reason: reason.into(), kind, rule: None, retry_after: None })
    }

    #[test]
    fn reasons_are_those_of_the_plugin() {
        use RejectionKind::{Unresolvable, Unschedulable};
        let node = amounts(1000, 100, 2, &[("example.com/gpu", 2), ("b.com/x", 1), ("weird", 0)]);
        let used = amounts(600, 100, 1, &[("example.com/gpu", 2)]);
        for (asked, used, expected) in [
            (amounts(400, 0, 1, &[]), &used, Verdict::Accept),
            (amounts(401, 0, 1, &[]), &used, refused("Insufficient cpu", Unschedulable)),
            (amounts(1001, 0, 1, &[]), &used, refused("Insufficient cpu", Unresolvable)),
            (
                amounts(401, 101, 1, &[]),
                &used,
                refused("Insufficient cpu, Insufficient memory", Unresolvable),
            ),
            (
                amounts(0, 0, 1, &[("example.com/gpu", 1)]),
                &used,
                refused("Insufficient example.com/gpu", Unschedulable),
            ),
            (amounts(0, 0, 1, &[("a.com/none", 1)]), &used, refused("Insufficient a.com/none", Unresolvable)),
            (
                amounts(0, 0, 1, &[("example.com/gpu", 1), ("b.com/x", 2)]),
                &used,
                refused("Insufficient b.com/x, Insufficient example.com/gpu", Unresolvable),
            ),
            // An amount of 0 is no request, and an unknown name does not count.
            (amounts(0, 0, 1, &[("a.com/none", 0), ("weird", 7)]), &used, Verdict::Accept),
            (amounts(0, 0, 1, &[]), &amounts(0, 0, 2, &[]), refused("Too many pods", Unschedulable)),
            (
                amounts(1, 1, 1, &[]),
                &amounts(1000, 100, 2, &[]),
                refused("Too many pods, Insufficient cpu, Insufficient memory", Unschedulable),
            ),
        ] {
            let verdict = Ignored::default().needs_of(&asked).verdict_about(&node, used);
            assert_eq!(verdict, expected, "{asked:?}");
        }
    }

    #[test]
    fn a_reason_names_ten_shortages_and_counts_the_others() {
        let reason = |name_bytes: usize| {
            let names: Vec<_> = (0..5_000).map(|n| format!("hugepages-{n:0>name_bytes$}")).collect();
            let asked: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
            let needs = Ignored::default().needs_of(&amounts(0, 0, 1, &asked));
            let Verdict::Reject(refusal) = needs.verdict_about(&amounts(0, 0, 0, &[]), &NOTHING) else {
                panic!("nothing is left")
            };
            refusal.reason.as_str().to_owned()
        };
        let short = reason(4);
        assert!(short.starts_with("Too many pods, Insufficient hugepages-0000, Insufficient"), "{short}");
        assert!(short.ends_with("Insufficient hugepages-0009, and 4990 more"), "{short}");
        let long = reason(300);
        assert!(long.ends_with(", and 4997 more") && long.len() <= 1_024, "{long}");
    }

    #[test]
    fn only_extended_resources_can_be_ignored() {
        let all = ["example.com/gpu", "example.com/fpga", "b.com/x", "hugepages-2Mi", "cpu"];
        let asked = amounts(1, 0, 1, &all.map(|name| (name, 1)));
        let ignored = Ignored {
            resources: ["b.com/x", "hugepages-2Mi", "cpu"].map(str::to_owned).into(),
            groups: ["example.com".to_owned()].into(),
        };
        let verdict = ignored.needs_of(&asked).verdict_about(&amounts(0, 0, 9, &[]), &NOTHING);
        let expected = "Insufficient cpu, Insufficient hugepages-2Mi";
        assert_eq!(verdict, refused(expected, RejectionKind::Unresolvable));
    }
}
