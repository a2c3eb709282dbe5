//! Checks the change that a policy returned: what it declares, and the limits of the contract. The gateway would reject
//! the whole response; here the text reaches the tests of the policy's author, too.

use std::collections::BTreeSet;

use extender_policy_api::v1alpha1::{self as api, NodeAffinity, Resources, Taint, Toleration};
use prost::Message as _;

use super::{Change, PodChange, node};

/// The most entries of the maps and lists of one change.
const MAX_ENTRIES: usize = 64;

/// The most terms, requirements and values of a node affinity, and its bytes.
const MAX_TERMS: usize = 1024;
const MAX_AFFINITY_BYTES: usize = 64 << 10;

/// The longest key and the longest value, in bytes.
const MAX_KEY_BYTES: usize = 317;
const MAX_VALUE_BYTES: usize = 256;

/// The most users of the holds of one change, and of all together besides [`USERS_A_NODE`] for each node.
const MAX_USERS: usize = 1_024;
const USERS_A_NODE: usize = 24;
/// The longest UID of a user, in bytes.
const MAX_UID_BYTES: usize = 64;

/// What is wrong with the changes that a policy returned.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WrongChange {
    #[error("a change of {0:?}, which it does not declare; add Change::{0:?} to Hook::changing")]
    Undeclared(Change),
    #[error("a change with {0} entries; expected at most {MAX_ENTRIES} in all maps and lists")]
    Entries(usize),
    #[error("a change with an empty key")]
    EmptyKey,
    #[error("a change with a key of {0} bytes; expected at most {MAX_KEY_BYTES}")]
    LongKey(usize),
    #[error("a change with a value of {0} bytes; expected at most {MAX_VALUE_BYTES}")]
    LongValue(usize),
    #[error("a change that adds a taint without an effect; it is NoSchedule, PreferNoSchedule or NoExecute")]
    NoEffect,
    #[error("a node affinity with {0} terms, requirements and values; expected at most {MAX_TERMS}")]
    Terms(usize),
    #[error("a node affinity of {0} bytes; expected at most {MAX_AFFINITY_BYTES}")]
    Affinity(usize),
    #[error("holds with {users} users and their other resources; expected at most {most}")]
    Users { users: usize, most: usize },
    #[error("the user of a hold with a UID of {0} bytes; expected 1 to {MAX_UID_BYTES}")]
    UserUid(usize),
    #[error("a hold with a negative number")]
    NegativeHold,
    #[error("different changes with {entries} entries in all; expected at most {most} for these nodes")]
    AllEntries { entries: usize, most: usize },
    #[error("changes of {bytes} bytes; expected at most {most}")]
    Bytes { bytes: usize, most: usize },
}

/// Checks the change of a pod. Its number of entries is returned.
pub(crate) fn check_pod(change: &PodChange, declared: &BTreeSet<Change>) -> Result<usize, WrongChange> {
    check_declared(change.parts(), declared)?;
    let api::PodChange {
        set_labels,
        remove_labels,
        set_node_selector,
        remove_node_selector,
        node_affinity,
        remove_node_affinity: _,
        add_tolerations,
        remove_tolerations,
        add_requests,
        reason: _,
    } = change.message();
    let (set, removed) = ([set_labels, set_node_selector], [remove_labels, remove_node_selector]);
    let tolerations = [add_tolerations, remove_tolerations].into_iter().flatten();
    let keys = set.iter().flat_map(|map| map.keys()).chain(removed.into_iter().flatten());
    let keys = keys.chain(add_requests.iter().flat_map(names));
    let entries = check_entries(keys.clone().count() + tolerations.clone().count())?;
    check_keys(keys)?;
    // An empty key of a toleration means every key.
    check_keys(tolerations.clone().map(|toleration| &toleration.key).filter(|key| !key.is_empty()))?;
    let values = tolerations
        .flat_map(|Toleration { operator, value, effect, .. }: &Toleration| [operator, value, effect]);
    check_values(set.iter().flat_map(|map| map.values()).chain(values))?;
    node_affinity.as_ref().map_or(Ok(()), check_affinity)?;
    Ok(entries)
}

/// What counts against the limits of all changes of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) entries: usize,
    pub(crate) users: usize,
}

/// Checks the number of users of a response about this many nodes.
pub(crate) fn check_users(users: usize, nodes: usize) -> Result<(), WrongChange> {
    let most = MAX_USERS + USERS_A_NODE * nodes;
    if users <= most { Ok(()) } else { Err(WrongChange::Users { users, most }) }
}

/// Checks the change of nodes.
pub(crate) fn check_node(
    change: &api::NodeChange,
    declared: &BTreeSet<Change>,
) -> Result<Counted, WrongChange> {
    check_declared(node::parts(change), declared)?;
    let api::NodeChange {
        positions: _,
        add_allocatable,
        add_usage,
        set_labels,
        remove_labels,
        add_taints,
        remove_taints,
        reason: _,
        holds,
    } = change;
    let used = add_usage.as_ref().and_then(|usage| usage.requested.as_ref());
    let held = holds.iter().flat_map(|hold| &hold.resources);
    let resources = add_allocatable.iter().chain(used).chain(held).flat_map(names);
    let taints = add_taints.iter().chain(remove_taints);
    let keys = set_labels.keys().chain(remove_labels).chain(resources);
    let keys = keys.chain(taints.clone().map(|taint| &taint.key));
    let entries = check_entries(keys.clone().count() + holds.len())?;
    check_keys(keys)?;
    check_values(set_labels.values().chain(taints.flat_map(|Taint { value, effect, .. }| [value, effect])))?;
    if add_taints.iter().any(|taint| taint.effect.is_empty()) {
        return Err(WrongChange::NoEffect);
    }
    Ok(Counted { entries, users: check_holds(holds)? })
}

/// The number of users of these holds, and of the other resources that they name.
fn check_holds(holds: &[api::Hold]) -> Result<usize, WrongChange> {
    let users = || holds.iter().flat_map(|hold| &hold.users);
    let at_most = || users().flat_map(|user| &user.at_most);
    let counted = users().count() + at_most().map(|amounts| amounts.others.len()).sum::<usize>();
    check_users(counted, 0)?;
    if let Some(user) = users().find(|user| !(1..=MAX_UID_BYTES).contains(&user.uid.len())) {
        return Err(WrongChange::UserUid(user.uid.len()));
    }
    let held = holds.iter().flat_map(|hold| &hold.resources);
    if at_most().chain(held).any(is_negative) { Err(WrongChange::NegativeHold) } else { Ok(counted) }
}

fn is_negative(resources: &Resources) -> bool {
    let Resources { milli_cpu, memory, ephemeral_storage, pods, others } = resources;
    [milli_cpu, memory, ephemeral_storage, pods].into_iter().chain(others.values()).any(|amount| *amount < 0)
}

fn check_declared(
    mut parts: impl Iterator<Item = Change>,
    declared: &BTreeSet<Change>,
) -> Result<(), WrongChange> {
    match parts.find(|part| !declared.contains(part)) {
        Some(part) => Err(WrongChange::Undeclared(part)),
        None => Ok(()),
    }
}

fn names(resources: &Resources) -> impl Iterator<Item = &String> + Clone {
    resources.others.keys()
}

fn check_entries(entries: usize) -> Result<usize, WrongChange> {
    if entries <= MAX_ENTRIES { Ok(entries) } else { Err(WrongChange::Entries(entries)) }
}

fn check_keys<'k>(mut keys: impl Iterator<Item = &'k String>) -> Result<(), WrongChange> {
    match keys.find(|key| !(1..=MAX_KEY_BYTES).contains(&key.len())).map(String::len) {
        None => Ok(()),
        Some(0) => Err(WrongChange::EmptyKey),
        Some(len) => Err(WrongChange::LongKey(len)),
    }
}

fn check_values<'v>(mut values: impl Iterator<Item = &'v String>) -> Result<(), WrongChange> {
    let long = values.find(|value| value.len() > MAX_VALUE_BYTES);
    long.map_or(Ok(()), |value| Err(WrongChange::LongValue(value.len())))
}

fn check_affinity(affinity: &NodeAffinity) -> Result<(), WrongChange> {
    let (terms, bytes) = (terms(affinity), affinity.encoded_len());
    if terms > MAX_TERMS {
        return Err(WrongChange::Terms(terms));
    }
    if bytes > MAX_AFFINITY_BYTES { Err(WrongChange::Affinity(bytes)) } else { Ok(()) }
}

/// The number of terms, requirements and values. A preference counts with its term.
fn terms(NodeAffinity { required, preferred }: &NodeAffinity) -> usize {
    let terms = required.iter().flat_map(|selector| &selector.terms);
    let terms = terms.chain(preferred.iter().filter_map(|preferred| preferred.preference.as_ref()));
    let counts = terms.map(|term| {
        let requirements = term.match_expressions.iter().chain(&term.match_fields);
        1 + requirements.map(|requirement| 1 + requirement.values.len()).sum::<usize>()
    });
    preferred.len() + counts.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        HoldUser, NodeChange, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, NodeUsage,
        PreferredSchedulingTerm,
    };

    const PARTS: [Change; 9] = [
        Change::PodLabels,
        Change::PodNodeSelector,
        Change::PodNodeAffinity,
        Change::PodTolerations,
        Change::PodRequests,
        Change::NodeLabels,
        Change::NodeTaints,
        Change::NodeAllocatable,
        Change::NodeUsage,
    ];

    fn pod(change: &PodChange) -> Result<usize, WrongChange> {
        check_pod(change, &PARTS.into())
    }

    fn node(change: &NodeChange) -> Result<usize, WrongChange> {
        check_node(change.change().unwrap(), &PARTS.into()).map(|counted| counted.entries)
    }

    #[test]
    fn holds_have_few_users_with_uids_and_no_negative_numbers() {
        let check = |change: NodeChange| check_node(change.change().unwrap(), &PARTS.into());
        let user = |uid: String, at_most| HoldUser { uid, at_most };
        let users = |count: usize| (0..count).map(move |at| user(at.to_string(), Some(resource("gpu"))));
        let hold = |count| NodeChange::none().hold(resource("gpu"), users(count));
        assert_eq!(check(hold(512)), Ok(Counted { entries: 2, users: 1_024 }));
        assert_eq!(check(hold(513)), Err(WrongChange::Users { users: 1_026, most: 1_024 }));
        assert_eq!((check_users(1_048, 1), check_users(1_049, 1).is_err()), (Ok(()), true));
        for bytes in [0, 65] {
            let named = NodeChange::none().hold(resource("gpu"), [user("u".repeat(bytes), None)]);
            assert_eq!(check(named), Err(WrongChange::UserUid(bytes)));
        }
        let negative = Resources { memory: -1, ..Resources::default() };
        assert_eq!(check(NodeChange::none().hold(negative.clone(), [])), Err(WrongChange::NegativeHold));
        let at_most = NodeChange::none().hold(resource("gpu"), [user("u".to_owned(), Some(negative))]);
        assert_eq!(check(at_most), Err(WrongChange::NegativeHold));
    }

    fn resource(name: &str) -> Resources {
        Resources { others: [(name.to_owned(), 1)].into(), ..Resources::default() }
    }

    fn usage(name: &str) -> NodeUsage {
        NodeUsage { requested: Some(resource(name)), nonzero: None }
    }

    fn toleration(key: &str, value: &str) -> Toleration {
        Toleration { key: key.to_owned(), value: value.to_owned(), ..Toleration::default() }
    }

    /// A change of each part alone.
    fn changes_of_pods(key: &str, value: &str) -> Vec<(Change, PodChange)> {
        let none = PodChange::none;
        vec![
            (Change::PodLabels, none().set_label(key, value)),
            (Change::PodLabels, none().remove_label(key)),
            (Change::PodNodeSelector, none().set_node_selector(key, value)),
            (Change::PodNodeSelector, none().remove_node_selector(key)),
            (Change::PodTolerations, none().add_toleration(toleration(key, value))),
            (Change::PodTolerations, none().remove_toleration(toleration(key, value))),
            (Change::PodRequests, none().add_requests(resource(key))),
        ]
    }

    fn changes_of_nodes(key: &str, value: &str) -> Vec<(Change, NodeChange)> {
        let none = NodeChange::none;
        vec![
            (Change::NodeLabels, none().set_label(key, value)),
            (Change::NodeLabels, none().remove_label(key)),
            (Change::NodeTaints, none().add_taint(key, value, "NoSchedule")),
            (Change::NodeTaints, none().remove_taint(key, value, "")),
            (Change::NodeAllocatable, none().add_allocatable(resource(key))),
            (Change::NodeUsage, none().add_usage(usage(key))),
        ]
    }

    #[test]
    fn what_is_not_declared_is_no_change() {
        let undeclared =
            |part: Change| PARTS.into_iter().filter(|other| *other != part).collect::<BTreeSet<_>>();
        let affinity = [
            (Change::PodNodeAffinity, PodChange::none().set_node_affinity(NodeAffinity::default())),
            (Change::PodNodeAffinity, PodChange::none().remove_node_affinity()),
        ];
        for (part, change) in changes_of_pods("k", "v").into_iter().chain(affinity) {
            assert_eq!(check_pod(&change, &undeclared(part)), Err(WrongChange::Undeclared(part)));
            assert!(check_pod(&change, &[part].into()).is_ok(), "{change:?}");
        }
        for (part, change) in changes_of_nodes("k", "v") {
            let message = change.change().unwrap();
            assert_eq!(check_node(message, &undeclared(part)), Err(WrongChange::Undeclared(part)));
            assert!(check_node(message, &[part].into()).is_ok(), "{change:?}");
        }
    }

    #[test]
    fn keys_have_one_byte_to_317() {
        let (longest, long) = ("k".repeat(317), "k".repeat(318));
        for (part, change) in changes_of_pods("", "v") {
            // It tolerates every key.
            let expected = if part == Change::PodTolerations { Ok(1) } else { Err(WrongChange::EmptyKey) };
            assert_eq!(pod(&change), expected, "{change:?}");
        }
        for (_, change) in changes_of_nodes("", "v") {
            assert_eq!(node(&change), Err(WrongChange::EmptyKey), "{change:?}");
        }
        for (key, expected) in [(longest, Ok(1)), (long, Err(WrongChange::LongKey(318)))] {
            for (_, change) in changes_of_pods(&key, "v") {
                assert_eq!(pod(&change), expected, "{change:?}");
            }
            for (_, change) in changes_of_nodes(&key, "v") {
                assert_eq!(node(&change), expected, "{change:?}");
            }
        }
    }

    #[test]
    fn values_have_at_most_256_bytes() {
        let (longest, long) = ("v".repeat(256), "v".repeat(257));
        for (_, change) in changes_of_pods("k", &longest) {
            assert_eq!(pod(&change), Ok(1), "{change:?}");
        }
        for (_, change) in changes_of_nodes("k", &longest) {
            assert_eq!(node(&change), Ok(1), "{change:?}");
        }
        let pods = changes_of_pods("k", &long).into_iter().map(|(_, change)| pod(&change));
        let nodes = changes_of_nodes("k", &long).into_iter().map(|(_, change)| node(&change));
        let long_values = pods.chain(nodes).filter(|checked| *checked == Err(WrongChange::LongValue(257)));
        assert_eq!(long_values.count(), 7, "of labels, selectors, tolerations and taints");
        for (operator, effect) in [(&*long, ""), ("", &*long)] {
            let (operator, effect) = (operator.to_owned(), effect.to_owned());
            let toleration = Toleration { operator, effect, ..Toleration::default() };
            let change = PodChange::none().add_toleration(toleration);
            assert_eq!(pod(&change), Err(WrongChange::LongValue(257)));
        }
        let effect = NodeChange::none().add_taint("k", "", long);
        assert_eq!(node(&effect), Err(WrongChange::LongValue(257)));
    }

    #[test]
    fn a_change_has_at_most_64_entries() {
        let pods = |entries: usize| {
            (0..entries).fold(PodChange::none(), |change, at| match at % 7 {
                0 => change.set_label(at.to_string(), ""),
                1 => change.remove_label("l"),
                2 => change.set_node_selector(at.to_string(), ""),
                3 => change.remove_node_selector("s"),
                4 => change.add_toleration(toleration("", "")),
                5 => change.remove_toleration(toleration("", "")),
                _ => change.add_requests(resource(&at.to_string())),
            })
        };
        let nodes = |entries: usize| {
            (0..entries).fold(NodeChange::none(), |change, at| match at % 7 {
                0 => change.set_label(at.to_string(), ""),
                1 => change.remove_label("l"),
                2 => change.add_taint("t", "", "NoSchedule"),
                3 => change.remove_taint("t", "", ""),
                4 => change.add_allocatable(resource(&at.to_string())),
                5 => change.hold(Resources::default(), []),
                _ => change.add_usage(usage(&at.to_string())),
            })
        };
        assert_eq!((pod(&pods(64)), pod(&pods(65))), (Ok(64), Err(WrongChange::Entries(65))));
        assert_eq!((node(&nodes(64)), node(&nodes(65))), (Ok(64), Err(WrongChange::Entries(65))));
    }

    #[test]
    fn a_taint_that_is_added_has_an_effect() {
        assert_eq!(node(&NodeChange::none().add_taint("k", "v", "")), Err(WrongChange::NoEffect));
        assert_eq!(node(&NodeChange::none().remove_taint("k", "v", "")), Ok(1));
    }

    #[test]
    fn a_node_affinity_has_at_most_1024_terms_requirements_and_values() {
        // With its term and its requirement.
        let term = |values: usize| NodeSelectorTerm {
            match_expressions: vec![NodeSelectorRequirement {
                values: vec!["v".to_owned(); values],
                ..NodeSelectorRequirement::default()
            }],
            match_fields: Vec::new(),
        };
        let change = |required: usize, preferred: usize| {
            let required = Some(NodeSelector { terms: vec![term(required)] });
            let preferred = vec![PreferredSchedulingTerm { weight: 1, preference: Some(term(preferred)) }];
            PodChange::none().set_node_affinity(NodeAffinity { required, preferred })
        };
        // Two for the term that is required, three for the preferred one with its weight.
        assert_eq!(pod(&change(1000, 19)), Ok(0));
        assert_eq!(pod(&change(1000, 20)), Err(WrongChange::Terms(1025)));
    }

    #[test]
    fn a_node_affinity_has_at_most_64_kibibytes() {
        let change = |bytes: usize| {
            let requirement = NodeSelectorRequirement { key: "k".repeat(bytes), ..Default::default() };
            let match_expressions = vec![requirement];
            let terms = vec![NodeSelectorTerm { match_expressions, match_fields: Vec::new() }];
            PodChange::none()
                .set_node_affinity(NodeAffinity { required: Some(NodeSelector { terms }), preferred: vec![] })
        };
        // Four lengths of three bytes, each with a tag.
        assert_eq!(pod(&change((64 << 10) - 16)), Ok(0));
        assert_eq!(pod(&change((64 << 10) - 15)), Err(WrongChange::Affinity((64 << 10) + 1)));
    }
}
