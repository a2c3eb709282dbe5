//! Checks what a verb declares that it reads. The number of keys is limited before the handshake is decoded.

use std::collections::BTreeSet;

use extender_gateway_core::BackendFailure;
use extender_gateway_object::{counted::CountedBy, view::NODE_PARTS_APART};
use extender_policy_api::limits::READ_COUNTS;
use extender_policy_api::v1beta1::{
    MapReads, NodePart, NodeReads, PodCountBy, PodPart, PodReads, Reads, Verb, VerbInfo,
};

use super::reader::unsuitable;

/// A declared count as it is ordered: by what, the key of the label, and the topology key.
type DeclaredCount<'r> = (i32, &'r str, &'r str);

/// # Errors
/// The declaration is contradictory, or names something that this version does not know.
pub(super) fn check(verb: &VerbInfo, name: &str) -> Result<(), BackendFailure> {
    let Some(Reads { pod, node }) = &verb.reads else {
        return Err(unsuitable(format!("does not declare what {name} reads; set VerbInfo.reads, if empty")));
    };
    let check = || {
        if let Some(PodReads { parts, labels, annotations, topology_counts, everything }) = pod {
            let is_known = |part: i32| PodPart::try_from(part).is_ok_and(|part| part != PodPart::Unspecified);
            check_parts(parts, is_known, "pods")?;
            if *everything {
                let apart = [PodPart::Identity, PodPart::RawJson].map(Into::into);
                check_everything(parts, &apart, labels.as_ref(), "pods")?;
            }
            check_map(labels.as_ref(), "labels of pods")?;
            check_map(annotations.as_ref(), "annotations of pods")?;
            let counts =
                topology_counts.iter().map(|it| (it.by, it.label.as_str(), it.topology_key.as_str()));
            check_counts(&counts.collect::<Vec<_>>(), "topology counts of pods")?;
            if !topology_counts.is_empty() && !matches!(verb.verb(), Verb::Filter | Verb::Score) {
                return Err("topology counts of pods, which only filter and score can read".to_owned());
            }
        }
        let Some(node @ NodeReads { parts, labels, annotations, pod_counts, everything }) = node else {
            return Ok(());
        };
        let is_known = |part: i32| NodePart::try_from(part).is_ok_and(|part| part != NodePart::Unspecified);
        check_parts(parts, is_known, "nodes")?;
        if *everything {
            check_everything(parts, &NODE_PARTS_APART.map(Into::into), labels.as_ref(), "nodes")?;
        }
        check_map(labels.as_ref(), "labels of nodes")?;
        check_map(annotations.as_ref(), "annotations of nodes")?;
        let counts = pod_counts.iter().map(|it| (it.by, it.label.as_str(), ""));
        check_counts(&counts.collect::<Vec<_>>(), "pod counts of nodes")?;
        let is_about_the_pod = matches!(verb.verb(), Verb::Bind | Verb::BeforeFilter);
        if is_about_the_pod && *node != NodeReads::default() {
            return Err("nodes, but is about the pod alone".to_owned());
        }
        Ok(())
    };
    check().map_err(|what| unsuitable(format!("declares that {name} reads {what}")))
}

fn check_parts(parts: &[i32], is_known: impl Fn(i32) -> bool, whose: &str) -> Result<(), String> {
    if let Some(unknown) = parts.iter().find(|part| !is_known(**part)) {
        return Err(format!("part {unknown} of {whose}, which this gateway version does not support"));
    }
    let mut seen = BTreeSet::new();
    match parts.iter().find(|part| !seen.insert(**part)) {
        Some(twice) => Err(format!("part {twice} of {whose} twice")),
        None => Ok(()),
    }
}

/// Rejects what `everything` includes already: declarations that mean the same are equal.
fn check_everything(
    parts: &[i32],
    apart: &[i32],
    labels: Option<&MapReads>,
    whose: &str,
) -> Result<(), String> {
    if let Some(part) = parts.iter().find(|part| !apart.contains(part)) {
        return Err(format!("everything of {whose} and part {part} of it, too; remove the part"));
    }
    match labels {
        Some(labels) if *labels != MapReads::default() => {
            Err(format!("everything of {whose} and labels of it, too; remove the labels"))
        }
        _ => Ok(()),
    }
}

fn check_counts(counts: &[DeclaredCount<'_>], what: &str) -> Result<(), String> {
    if counts.len() > READ_COUNTS {
        return Err(format!("{} {what}; at most {READ_COUNTS} are accepted", counts.len()));
    }
    let unusable = |(by, label, _): &&DeclaredCount<'_>| CountedBy::declared(*by, label).is_none();
    if let Some((by, label, _)) = counts.iter().find(unusable) {
        return Err(match (PodCountBy::try_from(*by), *label) {
            (Ok(PodCountBy::Label), _) => format!("{what} by a label without a key"),
            (Ok(known), key) if known != PodCountBy::Unspecified => {
                format!("{what} with the label key {key:?} by something else than a label")
            }
            _ => format!("{what} by {by}, which this gateway version does not support"),
        });
    }
    match counts.array_windows().find(|[before, after]| before >= after) {
        None => Ok(()),
        Some([before, after]) if before == after => Err(format!("{what} by {} twice", in_words(before))),
        Some([before, after]) => Err(format!(
            "{what} that are not in ascending order: by {} before {}",
            in_words(before),
            in_words(after)
        )),
    }
}

/// What is counted by as the contract orders it, such as `3 "app" over "zone"`.
fn in_words((by, label, topology_key): &DeclaredCount<'_>) -> String {
    let label = if label.is_empty() { String::new() } else { format!(" {label:?}") };
    let over = if topology_key.is_empty() { String::new() } else { format!(" over {topology_key:?}") };
    format!("{by}{label}{over}")
}

fn check_map(reads: Option<&MapReads>, what: &str) -> Result<(), String> {
    let Some(MapReads { keys, prefixes }) = reads else { return Ok(()) };
    if keys.iter().any(String::is_empty) {
        return Err(format!("{what} with an empty key"));
    }
    if let Some([before, after]) = keys.array_windows().find(|[before, after]| before >= after) {
        return Err(format!("{what} with keys that are not in ascending order: {before:?} before {after:?}"));
    }
    // In order, everything that begins with a prefix follows it.
    for prefix in prefixes {
        let first = keys.partition_point(|key| key < prefix);
        if let Some(key) = keys.get(first).filter(|key| key.starts_with(prefix.as_str())) {
            return Err(format!(
                "{what} with the key {key:?} and with the prefix {prefix:?}, which covers it"
            ));
        }
    }
    Ok(())
}
