//! Checks what a verb declares that it reads. The number of keys is limited before the handshake is decoded.

use std::collections::BTreeSet;

use extender_gateway_core::BackendFailure;
use extender_policy_api::v1alpha1::{
    MapReads, NodePart, NodeReads, NodeView, PodCountReads, PodPart, PodReads, Reads, Verb, VerbInfo,
};

use super::reader::unsuitable;
use crate::object::view::CountedBy;

/// The most pod counts of a verb.
const MOST_POD_COUNTS: usize = 8;

/// # Errors
/// The declaration is contradictory, or names something that this version does not know.
pub(super) fn check(verb: &VerbInfo, name: &str) -> Result<(), BackendFailure> {
    let Some(Reads { pod, node, .. }) = &verb.reads else { return Ok(()) };
    let check = || {
        if let Some(PodReads { parts, labels, annotations }) = pod {
            let is_known = |part: i32| PodPart::try_from(part).is_ok_and(|part| part != PodPart::Unspecified);
            check_parts(parts, is_known, "pods")?;
            check_map(labels.as_ref(), "labels of pods")?;
            check_map(annotations.as_ref(), "annotations of pods")?;
        }
        let Some(node @ NodeReads { parts, labels, annotations, pod_counts }) = node else { return Ok(()) };
        let is_known = |part: i32| NodePart::try_from(part).is_ok_and(|part| part != NodePart::Unspecified);
        check_parts(parts, is_known, "nodes")?;
        check_map(labels.as_ref(), "labels of nodes")?;
        check_map(annotations.as_ref(), "annotations of nodes")?;
        check_pod_counts(pod_counts)?;
        let gets_names_alone = verb.verb() == Verb::Bind || verb.node_view() == NodeView::Name;
        if gets_names_alone && *node != NodeReads::default() {
            return Err("nodes, of which it requests only the name".to_owned());
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

fn check_pod_counts(reads: &[PodCountReads]) -> Result<(), String> {
    if reads.len() > MOST_POD_COUNTS {
        return Err(format!("{} pod counts of nodes; at most {MOST_POD_COUNTS} are accepted", reads.len()));
    }
    let unknown = |reads: &&PodCountReads| CountedBy::declared(reads).is_none();
    if let Some(PodCountReads { by, label, .. }) = reads.iter().find(unknown) {
        return Err(format!(
            "pods of nodes counted by {by} with the label key {label:?}, which this gateway version does not support"
        ));
    }
    let name = |reads: &PodCountReads| (reads.by, reads.label.clone());
    match reads.array_windows().find(|[before, after]| name(before) >= name(after)) {
        None => Ok(()),
        Some([before, after]) => Err(format!(
            "pod counts of nodes that are not in ascending order: {:?} before {:?}",
            name(before),
            name(after)
        )),
    }
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
