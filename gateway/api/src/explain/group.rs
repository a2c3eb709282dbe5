//! What happened to the pods of a pod group in its latest attempt.
//!
//! Calls do not say to which attempt of a group they belong. kube-scheduler tries the pods of a group one right after the other, in each
//! placement that it considers, and waits before it tries the group again: for `podInitialBackoffSeconds`, a second, at least.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    iter,
};

use extender_gateway_core::Verb;
use extender_gateway_object::text::{ago, counted, moment, number};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::Decision;

/// The shortest pause between two attempts.
const PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// A pod group.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedGroup {
    /// `metadata.name` of the `PodGroup`.
    pub name: String,
    /// How many of its pods are placed together; `None` if it is no gang, or unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_count: Option<i32>,
    /// When its latest attempt began; `None` if no gateway has a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempted: Option<Timestamp>,
    /// How many pods it has.
    pub pods: usize,
    /// Its pods, those that found no node first. Of a large group not all.
    pub members: Vec<GroupMember>,
    /// A gateway did not say which calls it had about some of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lacks_calls: bool,
}

/// A pod of a group.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupMember {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// Its node, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its filter calls in the attempt, those included whose answer the plugin had kept: one for each placement in which it was tried.
    pub calls: u32,
    /// How many nodes were offered, and left, in the call that left the most. `left` is `None` without a call that was decided.
    pub offered: u32,
    /// See `offered`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// How many nodes each backend rejected in its latest call.
    pub rejected: BTreeMap<String, u32>,
    /// The error with which its latest call ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl GroupMember {
    fn add(&mut self, call: &Decision) {
        self.calls += 1;
        if self.calls == 1 || call.left > self.left {
            (self.offered, self.left) = (call.offered, call.left.or(self.left));
        }
        let counts = call.backends.iter().filter(|part| part.rejected > 0 && part.hook.is_none());
        self.rejected = counts.map(|part| (part.name.clone(), part.rejected)).collect();
        self.message.clone_from(&call.message);
    }

    fn found_none(&self) -> bool {
        self.node.is_none() && self.calls > 0 && self.left.is_none_or(|left| left == 0)
    }
}

impl ExplainedGroup {
    /// Finds the latest attempt among filter calls about these pods, which may be in any order.
    pub fn new(
        name: String,
        min_count: Option<i32>,
        mut members: Vec<GroupMember>,
        mut calls: Vec<Decision>,
    ) -> Self {
        let places: HashMap<String, usize> =
            members.iter().enumerate().map(|(at, it)| (it.uid.clone(), at)).collect();
        calls.retain(|call| call.is(Verb::Filter) && places.contains_key(&call.pod.uid));
        calls.sort_by_key(|call| call.time);
        let ends =
            |call: &Decision| call.time + SignedDuration::try_from_secs_f64(call.seconds).unwrap_or_default();
        let follows = |at: &usize| calls[*at].time.duration_since(ends(&calls[at - 1])) < PAUSE;
        let latest = calls.len().checked_sub(1);
        let first = latest.and_then(|latest| {
            iter::successors(Some(latest), |at| (*at > 0 && follows(at)).then(|| at - 1)).last()
        });
        let attempt = first.map_or(&[][..], |first| &calls[first..]);
        for call in attempt {
            members[places[&call.pod.uid]].add(call);
        }
        let order = |it: &GroupMember| (it.node.is_some(), !it.found_none(), Reverse(it.calls));
        members.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name)));
        let attempted = attempt.first().map(|call| call.time);
        Self { name, min_count, attempted, pods: members.len(), members, lacks_calls: false }
    }

    /// The group in sentences.
    pub(super) fn lines(&self, now: Timestamp) -> Vec<String> {
        let Self { name, min_count, attempted, members, lacks_calls, .. } = self;
        let count = |is_it: fn(&GroupMember) -> bool| members.iter().filter(|it| is_it(it)).count() as u64;
        let pods = counted(self.pods as u64, "pod");
        let looked_at = match members.len() {
            all if all == self.pods => String::new(),
            some => format!(", of which {} are looked at", number(some as u64)),
        };
        let placed = match count(|it| it.node.is_some()) {
            0 => "none has a node".to_owned(),
            all if all == members.len() as u64 => "each has a node".to_owned(),
            some => format!("{} of them with a node", number(some)),
        };
        let together = min_count.map_or_else(String::new, |least| {
            format!("; at least {} are placed together", number(u64::try_from(least).unwrap_or_default()))
        });
        let mut lines = vec![format!("Pod group {name}: {pods}{looked_at}, {placed}{together}.")];
        if let Some(began) = attempted {
            let calls: u64 = members.iter().map(|it| u64::from(it.calls)).sum();
            let placements = members.iter().map(|it| it.calls).max().unwrap_or_default();
            let (tried, lost) = (count(|it| it.calls > 0), count(GroupMember::found_none));
            lines.push(format!(
                "Its latest attempt, {} ({}): {} in {}; nodes were left for {} of {}.",
                ago(*began, now),
                moment(*began),
                counted(calls, "filter call"),
                counted(placements, "placement"),
                number(tried - lost.min(tried)),
                counted(tried, "pod"),
            ));
        }
        if *lacks_calls {
            lines.push("A gateway did not answer: calls about some of the pods are missing here.".to_owned());
        }
        if let Some(first) = members.first() {
            lines.push(format!("This is about its pod {}.", first.name));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::samples::filter;

    fn member(uid: &str) -> GroupMember {
        GroupMember { name: format!("train-{uid}"), uid: uid.to_owned(), ..GroupMember::default() }
    }

    /// A call about a pod, so many milliseconds after others.
    fn call(uid: &str, at: i64, nodes: &[(&str, Option<&str>)]) -> Decision {
        let mut call = filter(0, nodes);
        call.seconds = 0.001;
        call.pod.uid = uid.to_owned();
        call.time += SignedDuration::from_millis(at);
        call
    }

    #[test]
    fn the_latest_attempt_ends_where_kube_scheduler_waited() {
        let (full, free) = ([("a", Some("full")), ("b", Some("full"))], [("a", None), ("b", Some("full"))]);
        let calls = vec![
            call("2", 2010, &full),
            call("0", 0, &free),
            call("0", 2000, &free),
            call("1", 2005, &full),
            // In a second placement.
            call("0", 2020, &full),
            call("1", 2900, &free),
            call("9", 2901, &free),
        ];
        let mut placed = member("3");
        placed.node = Some("c".to_owned());
        let members = vec![placed, member("0"), member("1"), member("2")];
        let group = ExplainedGroup::new("train".to_owned(), Some(4), members, calls);
        let names: Vec<_> = group.members.iter().map(|it| (it.uid.as_str(), it.calls, it.left)).collect();
        assert_eq!(names, [("2", 1, Some(0)), ("0", 2, Some(1)), ("1", 2, Some(1)), ("3", 0, None)]);
        assert_eq!(group.members[0].rejected, [("zones".to_owned(), 2)].into());
        let began = group.attempted.unwrap();
        let lines = group.lines(began + SignedDuration::from_secs(3));
        assert_eq!(
            lines[0],
            "Pod group train: 4 pods, 1 of them with a node; at least 4 are placed together."
        );
        assert!(lines[1].starts_with("Its latest attempt, 3 s ago ("), "{}", lines[1]);
        assert!(
            lines[1].ends_with("): 5 filter calls in 2 placements; nodes were left for 2 of 3 pods."),
            "{}",
            lines[1]
        );
        assert_eq!(lines[2], "This is about its pod train-2.");
    }

    #[test]
    fn a_group_without_calls_says_only_where_its_pods_are() {
        let mut group = ExplainedGroup::new("train".to_owned(), None, vec![member("0")], Vec::new());
        let lines = group.lines(Timestamp::UNIX_EPOCH);
        assert_eq!(lines, ["Pod group train: 1 pod, none has a node.", "This is about its pod train-0."]);
        (group.pods, group.lacks_calls) = (1200, true);
        let lines = group.lines(Timestamp::UNIX_EPOCH);
        assert_eq!(lines[0], "Pod group train: 1,200 pods, of which 1 are looked at, none has a node.");
        assert!(lines[1].starts_with("A gateway did not answer"));
    }
}
