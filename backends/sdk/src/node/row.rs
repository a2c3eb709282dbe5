//! One row of a request or a table: checked once, then read in place.

use std::{borrow::Cow, sync::OnceLock};

use extender_policy_api::v1alpha1::{NodeRow, NodeUsage, PodCount, PodCounts};
use prost::{DecodeError, Message};

use super::{
    counts::{self, CountList},
    facts::{self, Facts, Map, Whole},
    labels::Labels,
    shape,
    values::Values,
};
use crate::{
    reads::{
        self,
        values::{Counts, RowMismatch},
    },
    size::{self, Refused},
    wire::{Field, Fields, Value},
};

/// A row of at most this size is decoded without estimating its memory.
const MAX_UNCOUNTED_BYTES: usize = 64 << 10;

/// The values of the first keys are found by walking over those before them, which is faster than laying all of them
/// out as long as there are few.
const WALKED: usize = 16;

/// Why bytes are not a `NodeRow`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// They are not protobuf of this message.
    #[error(transparent)]
    Undecodable(#[from] DecodeError),
    /// They would take too much memory.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// They are in no order in which one could be looked up, or one is there twice.
    #[error("pod_counts[{0}].counts is not in ascending order of namespace and value, each once")]
    Unordered(usize),
}

/// A `NodeRow` whose facts and usage stay encoded until they are used.
#[derive(Default)]
pub(crate) struct Row<'a> {
    name: Cow<'a, str>,
    /// Of the usual shape.
    facts: Option<Cow<'a, [u8]>>,
    raw_json: Cow<'a, [u8]>,
    /// The labels of the facts, for a stored row.
    labels: Option<Labels>,
    /// The values of declared keys, for a stored row or one of which many are read.
    values: OnceLock<Values>,
    /// Of the usual shape.
    usage: Option<Cow<'a, [u8]>>,
    /// The fields `pod_counts` of the usual shape, one after the other, and what follows them.
    pod_counts: Cow<'a, [u8]>,
    /// Decoded at the first use of taints or amounts.
    whole: OnceLock<Box<Whole>>,
    /// Decoded at the first use of usage.
    used: OnceLock<Box<NodeUsage>>,
}

impl<'a> Row<'a> {
    /// Checks an encoded `NodeRow`. One that the gateway wrote is borrowed; see [`shape`] for others.
    pub(crate) fn read(encoded: &'a [u8]) -> Result<Self, Unreadable> {
        if shape::is_usual(encoded) { Ok(Self::borrowed(encoded)) } else { Self::rewritten(encoded) }
    }

    fn borrowed(usual: &'a [u8]) -> Self {
        let mut row = Self { pod_counts: counts::within(usual).into(), ..Self::default() };
        for field in Fields::of(usual) {
            match field {
                Ok(Field { tag: 1, value: Value::Slice(name) }) => row.name = facts::text(name).into(),
                Ok(Field { tag: 2, value: Value::Slice(facts) }) => row.facts = Some(facts.into()),
                Ok(Field { tag: 3, value: Value::Slice(raw_json) }) => row.raw_json = raw_json.into(),
                Ok(Field { tag: 4, value: Value::Slice(usage) }) => row.usage = Some(usage.into()),
                _ => {}
            }
        }
        row
    }

    /// What protobuf decodes from a row that does not have the usual shape.
    fn rewritten(unusual: &[u8]) -> Result<Self, Unreadable> {
        if unusual.len() > MAX_UNCOUNTED_BYTES {
            size::check(unusual, size::NODE_ROW, usize::MAX)?;
        }
        let NodeRow { name, facts, raw_json, usage, pod_counts } = NodeRow::decode(unusual)?;
        if let Some(position) = pod_counts.iter().position(|counts| !are_ascending(counts)) {
            return Err(Unreadable::Unordered(position));
        }
        let pod_counts = NodeRow { pod_counts, ..NodeRow::default() };
        Ok(Self {
            name: name.into(),
            facts: facts.map(|facts| facts.encode_to_vec().into()),
            raw_json: raw_json.to_vec().into(),
            usage: usage.map(|usage| usage.encode_to_vec().into()),
            pod_counts: pod_counts.encode_to_vec().into(),
            ..Self::default()
        })
    }

    /// The same row in its own memory, so that it does not keep the message alive.
    pub(crate) fn into_owned(self) -> Row<'static> {
        let labels = self.facts().map(|facts| Labels::of(facts.entries(Map::Labels)));
        let _laid_out = self.values();
        let Self { name, facts, raw_json, usage, pod_counts, whole, used, values, .. } = self;
        Row {
            name: name.into_owned().into(),
            facts: facts.map(|facts| facts.into_owned().into()),
            labels,
            values,
            raw_json: raw_json.into_owned().into(),
            usage: usage.map(|usage| usage.into_owned().into()),
            pod_counts: pod_counts.into_owned().into(),
            whole,
            used,
        }
    }

    /// Which field is missing, of those that a policy must be able to rely on.
    pub(crate) fn lacks(&self, needs_facts: bool) -> Option<&'static str> {
        match self {
            row if row.name.is_empty() => Some("name"),
            row if needs_facts && row.facts.is_none() => Some("facts"),
            _ => None,
        }
    }

    /// Whether there is a value for each declared key, and a list for each declared count of pods. A row without facts
    /// has no values.
    pub(crate) fn check(&self, counts: Counts) -> Result<(), RowMismatch> {
        self.facts().map_or(Ok(()), |facts| facts.check(counts))?;
        let (given, declared) = (counts::lists(&self.pod_counts).count(), counts.pods);
        if given == declared { Ok(()) } else { Err(RowMismatch::PodCounts { given, declared }) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn facts(&self) -> Option<Facts<'_>> {
        self.facts.as_deref().map(Facts::new)
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        match &self.labels {
            Some(labels) => labels.at(key),
            None => self.facts()?.at(Map::Labels, key),
        }
    }

    /// The value of the declared key at this position, if the node has it.
    pub(super) fn value(&self, map: reads::Map, position: usize) -> Option<&str> {
        match self.values.get() {
            Some(values) => values.at(map, position),
            None if position < WALKED => self.facts()?.value(map, position),
            None => self.values()?.at(map, position),
        }
    }

    fn values(&self) -> Option<&Values> {
        let facts = self.facts()?;
        Some(self.values.get_or_init(|| Values::of(facts)))
    }

    pub(super) fn whole(&self) -> Option<&Whole> {
        let facts = self.facts()?;
        Some(self.whole.get_or_init(|| Box::new(facts.whole())))
    }

    pub(super) fn usage(&self) -> Option<&NodeUsage> {
        let usage = self.usage.as_deref()?;
        Some(self.used.get_or_init(|| Box::new(facts::usage(usage))))
    }

    /// The counts at this position of a row that was [checked](Self::check).
    pub(super) fn pod_counts(&self, position: usize) -> CountList<'_> {
        counts::lists(&self.pod_counts).nth(position).expect(facts::CHECKED)
    }

    pub(super) fn raw_json(&self) -> &[u8] {
        &self.raw_json
    }
}

fn are_ascending(counts: &PodCounts) -> bool {
    fn key(count: &PodCount) -> [&str; 2] {
        [&count.namespace, &count.value]
    }
    counts.counts.is_sorted_by(|count, next| key(count) < key(next))
}
