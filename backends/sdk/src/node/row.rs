//! One row of a request or a table: checked once, then read in place.

use std::{borrow::Cow, sync::OnceLock};

use extender_policy_api::v1alpha1::NodeRow;
use prost::{DecodeError, Message};

use super::{
    facts::{self, Facts, Whole},
    shape,
    wire::{Field, Fields, Value},
};

/// A `NodeRow` whose facts stay encoded until somebody asks.
pub(crate) struct Row<'a> {
    name: Cow<'a, str>,
    /// Of the usual shape.
    facts: Option<Cow<'a, [u8]>>,
    raw_json: Cow<'a, [u8]>,
    /// Decoded at the first question about taints or amounts.
    whole: OnceLock<Box<Whole>>,
}

impl<'a> Row<'a> {
    /// Checks an encoded `NodeRow`. One that the gateway wrote is borrowed; see [`shape`] for others.
    pub(crate) fn read(encoded: &'a [u8]) -> Result<Self, DecodeError> {
        if shape::is_usual(encoded) { Ok(Self::borrowed(encoded)) } else { Self::rewritten(encoded) }
    }

    fn borrowed(usual: &'a [u8]) -> Self {
        let mut row =
            Self { name: Cow::default(), facts: None, raw_json: Cow::default(), whole: OnceLock::new() };
        for field in Fields::of(usual) {
            match field {
                Ok(Field { tag: 1, value: Value::Slice(name) }) => row.name = facts::text(name).into(),
                Ok(Field { tag: 2, value: Value::Slice(facts) }) => row.facts = Some(facts.into()),
                Ok(Field { tag: 3, value: Value::Slice(raw_json) }) => row.raw_json = raw_json.into(),
                _ => {}
            }
        }
        row
    }

    /// What protobuf makes of a row that is not of the usual shape.
    fn rewritten(unusual: &[u8]) -> Result<Self, DecodeError> {
        let NodeRow { name, facts, raw_json, usage: _ } = NodeRow::decode(unusual)?;
        Ok(Self {
            name: name.into(),
            facts: facts.map(|facts| facts.encode_to_vec().into()),
            raw_json: raw_json.to_vec().into(),
            whole: OnceLock::new(),
        })
    }

    /// The same row in memory of its own, so that it keeps no message.
    pub(crate) fn into_owned(self) -> Row<'static> {
        let Self { name, facts, raw_json, whole } = self;
        Row {
            name: name.into_owned().into(),
            facts: facts.map(|facts| facts.into_owned().into()),
            raw_json: raw_json.into_owned().into(),
            whole,
        }
    }

    /// Which field is not there, of those that a policy must be able to rely on.
    pub(crate) fn lacks(&self, needs_facts: bool) -> Option<&'static str> {
        match self {
            row if row.name.is_empty() => Some("name"),
            row if needs_facts && row.facts.is_none() => Some("facts"),
            _ => None,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn facts(&self) -> Option<Facts<'_>> {
        self.facts.as_deref().map(Facts::new)
    }

    pub(super) fn whole(&self) -> Option<&Whole> {
        let facts = self.facts()?;
        Some(self.whole.get_or_init(|| Box::new(facts.whole())))
    }

    pub(super) fn raw_json(&self) -> &[u8] {
        &self.raw_json
    }
}
