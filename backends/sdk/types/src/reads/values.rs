//! The values of declared keys come without their keys, and the counts of pods without what they are counted by, so
//! their number must be right: one that is missing would shift all others. Counts by topology are looked up, so they
//! must be in order.

use extender_policy_api::v1beta1 as api;

use super::{key::Map, topology::SentTopology};

/// The number of values of an object, and of the counts of the pods on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub labels: usize,
    pub annotations: usize,
    pub pods: usize,
}

impl Counts {
    /// Those of a table's rows.
    pub fn of(reads: &api::NodeReads) -> Self {
        let count = |map: &Option<api::MapReads>| map.as_ref().map_or(0, |map| map.keys.len());
        let (labels, annotations) = (count(&reads.labels), count(&reads.annotations));
        Self { labels, annotations, pods: reads.pod_counts.len() }
    }
}

/// Why values do not match the declaration. The map is one of `PodFacts` or `NodeFacts`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("{map}.values has {given} values, and {keys} keys are declared")]
    Count { map: &'static str, given: usize, keys: usize },
    #[error("{map}.absent is not a list of ascending positions below {keys}")]
    Absent { map: &'static str, keys: usize },
}

/// Why a row does not match the declaration. The field is one of `NodeRow`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowMismatch {
    #[error("facts.{0}")]
    Facts(#[from] Mismatch),
    #[error("pod_counts has {given} entries, and {declared} are declared")]
    PodCounts { given: usize, declared: usize },
}

/// Why counts by topology do not match the declaration. The field is `Pod.topology_counts`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyMismatch {
    #[error(" has {given} entries, and {declared} are declared")]
    Count { given: usize, declared: usize },
    #[error("[{0}].domains is not in ascending order of value, each once")]
    Unordered(usize),
    #[error("[{0}].domains has a value, and no topology key is declared for it")]
    Valued(usize),
}

/// Checks the counts by topology of the pod to be placed: how many lists there are, and whether a domain can be looked
/// up in them.
pub(crate) fn check_topologies(
    counts: &[api::TopologyCounts],
    declared: &[SentTopology],
) -> Result<(), TopologyMismatch> {
    if counts.len() != declared.len() {
        return Err(TopologyMismatch::Count { given: counts.len(), declared: declared.len() });
    }
    for (position, (counts, sent)) in counts.iter().zip(declared).enumerate() {
        if !counts.domains.is_sorted_by(|domain, next| domain.value < next.value) {
            return Err(TopologyMismatch::Unordered(position));
        }
        // Values ascend: if one is not empty, the last one is not.
        let valued = counts.domains.last().is_some_and(|domain| !domain.value.is_empty());
        if valued && sent.label.is_none() {
            return Err(TopologyMismatch::Valued(position));
        }
    }
    Ok(())
}

/// Checks the values of a map: how many there are, and which of them stand for a key that is missing.
pub(crate) fn check(
    map: Map,
    given: usize,
    absent: impl IntoIterator<Item = u32>,
    keys: usize,
) -> Result<(), Mismatch> {
    let map = match map {
        Map::Labels => "labels",
        Map::Annotations => "annotations",
    };
    if given != keys {
        return Err(Mismatch::Count { map, given, keys });
    }
    let mut least = 0;
    for position in absent {
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        if position < least || position >= keys {
            return Err(Mismatch::Absent { map, keys });
        }
        least = position + 1;
    }
    Ok(())
}
