//! Everything of a row but its name. Nodes of a table have equal contents where a policy declares that it reads little,
//! and share one: calls read thousands of rows, and each piece of memory is one that the processor has to wait for.

use std::{
    borrow::Cow,
    hash::{Hash, Hasher},
    sync::OnceLock,
};

use extender_policy_api::v1beta1::{NodeRow, NodeUsage};
use prost::Message;

use super::{
    counts::{self, CountList},
    facts::{self, Facts, Whole},
    labels::Labels,
    values::Values,
};
use crate::{
    reads::{
        Map,
        values::{Counts, RowMismatch},
    },
    wire::{Field, FieldValue, Fields},
};

/// The values of the first keys are found by walking over those before them, which is faster than laying all of them
/// out as long as there are few.
const WALKED: usize = 16;

/// The number of `NodeRow.nominated`.
const NOMINATED: u32 = 6;

/// The facts, JSON, usage, nominated pods and pod counts of a `NodeRow`, which stay encoded until they are used.
#[derive(Default)]
pub struct Content<'a> {
    /// The values of declared keys, for a stored row or one of which many are read.
    values: OnceLock<Values>,
    encoded: Encoded<'a>,
    /// The labels that come with their keys, for a stored row.
    labels: Option<Labels>,
    /// Decoded at the first use of what is returned as a message.
    whole: OnceLock<Box<Whole>>,
    /// Decoded at the first use of usage, and of nominated.
    used: OnceLock<Box<NodeUsage>>,
    waiting: OnceLock<Box<NodeUsage>>,
}

/// The bytes, which determine everything else.
#[derive(Default, PartialEq, Eq, Hash)]
struct Encoded<'a> {
    /// Of the usual shape.
    facts: Option<Cow<'a, [u8]>>,
    raw_json: Cow<'a, [u8]>,
    /// Of the usual shape.
    usage: Option<Cow<'a, [u8]>>,
    /// The fields `pod_counts` and `nominated` of the usual shape, one after the other, and what follows them.
    rest: Cow<'a, [u8]>,
}

impl<'a> Content<'a> {
    /// The name and the content of an encoded row of the usual shape.
    pub(super) fn borrowed(usual: &'a [u8]) -> (&'a str, Self) {
        let mut name = "";
        let mut encoded = Encoded { rest: counts::rest(usual).into(), ..Encoded::default() };
        for field in Fields::of(usual) {
            match field {
                Ok(Field { tag: 1, value: FieldValue::Slice(text) }) => name = facts::text(text),
                Ok(Field { tag: 2, value: FieldValue::Slice(facts) }) => encoded.facts = Some(facts.into()),
                Ok(Field { tag: 3, value: FieldValue::Slice(raw_json) }) => {
                    encoded.raw_json = raw_json.into();
                }
                Ok(Field { tag: 4, value: FieldValue::Slice(usage) }) => encoded.usage = Some(usage.into()),
                _ => {}
            }
        }
        (name, Self { encoded, ..Self::default() })
    }

    /// The name and the content of a row whose counts of pods are in order.
    pub(super) fn encoded(row: NodeRow) -> (String, Self) {
        let NodeRow { name, facts, raw_json, usage, nominated, pod_counts } = row;
        let rest = NodeRow { pod_counts, nominated, ..NodeRow::default() };
        let encoded = Encoded {
            facts: facts.map(|facts| facts.encode_to_vec().into()),
            raw_json: raw_json.to_vec().into(),
            usage: usage.map(|usage| usage.encode_to_vec().into()),
            rest: rest.encode_to_vec().into(),
        };
        (name, Self { encoded, ..Self::default() })
    }

    /// The same in its own memory, so that it does not keep the message alive, and laid out for look-up.
    pub fn into_owned(self) -> Content<'static> {
        let labels = self.facts().map(|facts| Labels::of(facts.map(Map::Labels).entries()));
        let _laid_out = self.values();
        let Self { values, encoded, whole, used, waiting, .. } = self;
        Content { values, encoded: encoded.into_owned(), labels, whole, used, waiting }
    }

    /// The number of encoded bytes.
    pub fn bytes(&self) -> usize {
        let Encoded { facts, raw_json, usage, rest } = &self.encoded;
        let len = |part: &Option<Cow<'_, [u8]>>| part.as_ref().map_or(0, |bytes| bytes.len());
        len(facts) + raw_json.len() + len(usage) + rest.len()
    }

    /// The number of encoded bytes of the facts.
    pub fn facts_bytes(&self) -> usize {
        self.encoded.facts.as_ref().map_or(0, |facts| facts.len())
    }

    /// As [`Row::check`](super::row::Row::check).
    pub(super) fn check(&self, counts: Counts) -> Result<(), RowMismatch> {
        self.facts().map_or(Ok(()), |facts| facts.check(counts))?;
        let (given, declared) = (counts::lists(&self.encoded.rest).count(), counts.pods);
        if given == declared { Ok(()) } else { Err(RowMismatch::PodCounts { given, declared }) }
    }

    pub(super) fn facts(&self) -> Option<Facts<'_>> {
        self.encoded.facts.as_deref().map(Facts::new)
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        match &self.labels {
            Some(labels) => labels.at(key),
            None => self.facts()?.map(Map::Labels).at(key),
        }
    }

    /// The value of the declared key at this position, if the node has it.
    pub(super) fn value(&self, map: Map, position: usize) -> Option<&str> {
        match self.values.get() {
            Some(values) => values.at(map, position),
            None if position < WALKED => self.facts()?.map(map).value(position),
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
        let usage = self.encoded.usage.as_deref()?;
        Some(self.used.get_or_init(|| Box::new(facts::usage(usage))))
    }

    pub(super) fn nominated(&self) -> Option<&NodeUsage> {
        let usage = facts::slices(&self.encoded.rest, NOMINATED).next()?;
        Some(self.waiting.get_or_init(|| Box::new(facts::usage(usage))))
    }

    /// The counts at this position of a row that was [checked](Self::check).
    pub(super) fn pod_counts(&self, position: usize) -> CountList<'_> {
        counts::lists(&self.encoded.rest).nth(position).expect(facts::CHECKED)
    }

    pub(super) fn raw_json(&self) -> &[u8] {
        &self.encoded.raw_json
    }
}

impl Encoded<'_> {
    fn into_owned(self) -> Encoded<'static> {
        let Self { facts, raw_json, usage, rest } = self;
        Encoded {
            facts: facts.map(|facts| facts.into_owned().into()),
            raw_json: raw_json.into_owned().into(),
            usage: usage.map(|usage| usage.into_owned().into()),
            rest: rest.into_owned().into(),
        }
    }
}

/// Contents are equal if they have the same bytes.
impl PartialEq for Content<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.encoded == other.encoded
    }
}

impl Eq for Content<'_> {}

impl Hash for Content<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.encoded.hash(state);
    }
}
