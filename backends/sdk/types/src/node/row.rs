//! One row of a request or a table: checked once, then read in place.

use std::borrow::Cow;

use extender_policy_api::v1beta1::{NodePart, NodeReads, NodeRow, PodCount, PodCounts};
use prost::{DecodeError, Message};

use super::{content::Content, shape};
use crate::{
    reads::values::{Counts, RowMismatch},
    size::{self, Refused},
};

/// A row of at most this size is read without estimating the memory that it takes decoded.
const MAX_UNCOUNTED_BYTES: usize = 64 << 10;

/// Why bytes are not a `NodeRow`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unreadable {
    /// They are not protobuf of this message.
    #[error(transparent)]
    Undecodable(#[from] DecodeError),
    /// They would take too much memory.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// They are not in the order that a look-up requires, or one occurs twice.
    #[error("pod_counts[{0}].counts is not in ascending order of namespace and value, each once")]
    Unordered(usize),
}

/// The parts that a row must have.
#[derive(Clone, Copy, Debug)]
pub struct RowParts {
    name: bool,
    facts: bool,
}

impl RowParts {
    /// Whether rows have names.
    pub fn has_name(self) -> bool {
        self.name
    }

    /// Whether rows have facts: then the gateway must know the nodes.
    pub fn has_facts(self) -> bool {
        self.facts
    }

    /// Those of a declaration. A verb that reads at most the name is sent no facts.
    pub fn of(reads: &NodeReads) -> Self {
        let NodeReads { parts, labels, annotations, pod_counts, everything } = reads;
        let is_name = |part: &i32| *part == i32::from(NodePart::Name);
        let maps = labels.is_some() || annotations.is_some();
        let others = maps || !pod_counts.is_empty() || !parts.iter().all(is_name);
        Self { name: *everything || parts.iter().any(is_name), facts: *everything || others }
    }
}

/// A `NodeRow` whose content stays encoded until it is used.
pub struct Row<'a> {
    /// Empty if it is not sent.
    name: Cow<'a, str>,
    content: Content<'a>,
}

/// A row of a request or of a table, where nodes with equal contents share one. The name is behind a reference, because
/// most policies do not read it.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    pub name: &'a Cow<'a, str>,
    pub content: &'a Content<'a>,
}

impl<'a> Row<'a> {
    /// Checks an encoded `NodeRow`. One that the gateway wrote is borrowed; see [`shape`] for others.
    pub fn read(encoded: &'a [u8]) -> Result<Self, Unreadable> {
        if encoded.len() > MAX_UNCOUNTED_BYTES {
            size::check(encoded, size::NODE_ROW, usize::MAX)?;
        }
        if shape::is_usual(encoded) {
            let (name, content) = Content::borrowed(encoded);
            return Ok(Self { name: name.into(), content });
        }
        Self::rewritten(encoded)
    }

    /// What protobuf decodes from a row that does not have the usual shape.
    fn rewritten(unusual: &[u8]) -> Result<Self, Unreadable> {
        let row = NodeRow::decode(unusual)?;
        if let Some(position) = row.pod_counts.iter().position(|counts| !are_ascending(counts)) {
            return Err(Unreadable::Unordered(position));
        }
        let (name, content) = Content::encoded(row);
        Ok(Self { name: name.into(), content })
    }

    /// The name and everything else.
    pub fn into_parts(self) -> (Cow<'a, str>, Content<'a>) {
        (self.name, self.content)
    }

    /// A reference to both.
    pub fn as_ref(&self) -> RowRef<'_> {
        RowRef { name: &self.name, content: &self.content }
    }

    /// Which field is missing, of those that a policy must be able to rely on.
    pub fn lacks(&self, parts: RowParts) -> Option<&'static str> {
        match self {
            row if parts.name && row.name.is_empty() => Some("name"),
            row if parts.facts && row.content.facts().is_none() => Some("facts"),
            _ => None,
        }
    }

    /// Whether there is a value for each declared key, and a list for each declared count of pods. A row without facts
    /// has no values.
    pub fn check(&self, counts: Counts) -> Result<(), RowMismatch> {
        self.content.check(counts)
    }
}

fn are_ascending(counts: &PodCounts) -> bool {
    fn key(count: &PodCount) -> [&str; 2] {
        [&count.namespace, &count.value]
    }
    counts.counts.is_sorted_by(|count, next| key(count) < key(next))
}
