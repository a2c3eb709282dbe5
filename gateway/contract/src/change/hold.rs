//! Holds: room that is kept on a node, as far as the pods for which it is kept do not use it there.

use std::borrow::Cow;

use extender_policy_api::v1beta1::{Hold, HoldUser, NodeChange, NonZero, Resources};

use super::{add, add_nonzero};

/// What the pod with this UID requests, if it counts in the usage of the node.
pub trait UserRequests: Fn(&str) -> Option<Resources> {}

impl<F: Fn(&str) -> Option<Resources>> UserRequests for F {}

/// The change of one node with what its holds keep there in its usage, and without holds.
pub fn with_holds_added(change: &NodeChange, requests: impl UserRequests) -> Cow<'_, NodeChange> {
    if change.holds.is_empty() {
        return Cow::Borrowed(change);
    }
    let mut added = change.clone();
    let mut held = Resources::default();
    for hold in std::mem::take(&mut added.holds) {
        add(&mut held, &left_of(&hold, &requests));
    }
    held.others.retain(|_, amount| *amount > 0);
    if held != Resources::default() {
        let usage = added.add_usage.get_or_insert_default();
        let nonzero = NonZero { milli_cpu: held.milli_cpu, memory: held.memory };
        add_nonzero(usage.nonzero.get_or_insert_default(), &nonzero);
        add(usage.requested.get_or_insert_default(), &held);
    }
    Cow::Owned(added)
}

/// What is kept besides what the users use.
fn left_of(hold: &Hold, requests: &impl UserRequests) -> Resources {
    let mut left = hold.resources.clone().unwrap_or_default();
    for HoldUser { uid, at_most } in &hold.users {
        if let Some(used) = requests(uid) {
            take(&mut left, &used, at_most.as_ref());
        }
    }
    let Resources { milli_cpu, memory, ephemeral_storage, pods: _, others } = &left;
    let is_used_up =
        [milli_cpu, memory, ephemeral_storage].into_iter().chain(others.values()).all(|it| *it <= 0);
    if is_used_up { Resources::default() } else { left }
}

/// Takes what a user uses of a hold.
fn take(left: &mut Resources, used: &Resources, at_most: Option<&Resources>) {
    let take = |left: &mut i64, used: i64, most: Option<i64>| {
        *left = left.saturating_sub(most.map_or(used, |most| used.min(most)).max(0)).max(0);
    };
    let most = |of: fn(&Resources) -> i64| at_most.map(of);
    take(&mut left.milli_cpu, used.milli_cpu, most(|it| it.milli_cpu));
    take(&mut left.memory, used.memory, most(|it| it.memory));
    take(&mut left.ephemeral_storage, used.ephemeral_storage, most(|it| it.ephemeral_storage));
    for (name, left) in &mut left.others {
        let amount = |of: &Resources| of.others.get(name).copied().unwrap_or(0);
        take(left, amount(used), at_most.map(amount));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use extender_policy_api::v1beta1::NodeUsage;
    use proptest::prelude::*;

    use super::*;

    fn resources(milli_cpu: i64, gpus: i64) -> Resources {
        let others = if gpus == 0 { BTreeMap::new() } else { BTreeMap::from([("gpu".to_owned(), gpus)]) };
        Resources { milli_cpu, others, ..Resources::default() }
    }

    fn user(uid: &str, at_most: Option<Resources>) -> HoldUser {
        HoldUser { uid: uid.to_owned(), at_most }
    }

    fn held(hold: Hold, counted: &[(&str, Resources)]) -> Resources {
        let change = NodeChange { holds: vec![hold], ..NodeChange::default() };
        let of = |uid: &str| counted.iter().find(|(known, _)| *known == uid).map(|(_, used)| used.clone());
        let added = with_holds_added(&change, of).into_owned();
        assert!(added.holds.is_empty());
        let NodeUsage { requested, nonzero } = added.add_usage.unwrap_or_default();
        let requested = requested.unwrap_or_default();
        assert_eq!(nonzero.unwrap_or_default().milli_cpu, requested.milli_cpu);
        requested
    }

    #[test]
    fn what_users_use_is_not_kept_twice() {
        let hold = |users| Hold { resources: Some(Resources { pods: 1, ..resources(4_000, 2) }), users };
        let users = vec![user("a", None), user("b", Some(resources(500, 1)))];
        let all = Resources { pods: 1, ..resources(4_000, 2) };
        assert_eq!(held(hold(users.clone()), &[]), all);
        assert_eq!(held(hold(users.clone()), &[("other", resources(4_000, 0))]), all);
        assert_eq!(
            held(hold(users.clone()), &[("a", resources(3_000, 0)), ("b", resources(3_000, 3))]),
            Resources { pods: 1, ..resources(500, 1) }
        );
        // A pod that was made smaller uses less than its part.
        assert_eq!(held(hold(users.clone()), &[("b", resources(100, 1))]).milli_cpu, 3_900);
        // Without anything else, no place for a pod is kept.
        assert_eq!(held(hold(users), &[("a", resources(9_000, 9))]), Resources::default());
    }

    proptest! {
        /// With users that together have at most what is kept, all of it is used or held, and nothing twice.
        #[test]
        fn what_is_used_and_what_is_held_is_what_is_kept(
            kept in 0..10_000_i64,
            users in prop::collection::vec((0..2_000_i64, 0..4_000_i64, any::<bool>()), 0..8),
        ) {
            let mut free = kept;
            let users: Vec<_> = users.into_iter().map(|(part, requests, is_counted)| {
                let part = part.min(free).min(requests);
                free -= part;
                (part, requests, is_counted)
            }).collect();
            let hold = Hold {
                resources: Some(resources(kept, 0)),
                users: (0..).zip(&users).map(|(at, (part, ..))| user(&format!("{at}"), Some(resources(*part, 0)))).collect(),
            };
            let names: Vec<_> = (0..users.len()).map(|at| at.to_string()).collect();
            let counted: Vec<_> = names.iter().zip(&users).filter(|(_, (.., counted))| *counted)
                .map(|(name, (_, requests, _))| (name.as_str(), resources(*requests, 0))).collect();
            let used: i64 = users.iter().filter(|(.., counted)| *counted).map(|(part, ..)| part).sum();
            prop_assert_eq!(held(hold, &counted).milli_cpu, kept - used);
        }
    }
}
