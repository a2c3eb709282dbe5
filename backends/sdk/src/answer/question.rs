//! Reads a request: is it whole, and what does it ask?

use extender_policy_api::v1alpha1 as api;
use prost::bytes::Bytes;

use super::CallError;
use crate::{Nodes, Pod, info::declaration::Terms, node::row::Row, request};

/// What all verbs have in common, as it came.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) call: &'a Option<api::Call>,
    pub(super) pod: &'a Option<api::Pod>,
    pub(super) nodes: &'a Option<request::Nodes>,
}

impl<'a> Asked<'a> {
    /// The operator's args, which choose the policy.
    pub(super) fn args(self) -> Result<&'a [u8], CallError> {
        Ok(&self.call()?.args)
    }

    fn call(self) -> Result<&'a api::Call, CallError> {
        self.call.as_ref().ok_or(CallError::Missing("call"))
    }

    fn pod(self) -> Result<Pod<'a>, CallError> {
        let pod = self.pod.as_ref().ok_or(CallError::Missing("pod"))?;
        Pod::new(pod).ok_or(CallError::Missing("pod.facts"))
    }
}

/// A request that can be answered.
pub(super) struct Question<'a> {
    pub(super) pod: Pod<'a>,
    rows: Vec<Row<'a>>,
    pub(super) count: u32,
}

/// Whether the nodes came in a form that this crate knows.
pub(super) enum Reading<'a> {
    Whole(Question<'a>),
    Miss(api::Miss),
}

impl<'a> Question<'a> {
    pub(super) fn read(asked: Asked<'a>, terms: Terms) -> Result<Reading<'a>, CallError> {
        check_purpose(asked.call()?.purpose, terms)?;
        let pod = asked.pod()?;
        let nodes = asked.nodes.as_ref().ok_or(CallError::Missing("nodes"))?;
        let Some(rows) = &nodes.rows else {
            return Ok(Reading::Miss(api::Miss::FormUnknown));
        };
        let rows = whole(&rows.rows, nodes.count, terms)?;
        Ok(Reading::Whole(Self { pod, rows, count: nodes.count }))
    }

    pub(super) fn nodes(&self) -> Nodes<'_> {
        Nodes::new(&self.rows)
    }
}

/// A number, not the enum: a purpose that is younger than this crate is not a decision either.
fn check_purpose(purpose: i32, terms: Terms) -> Result<(), CallError> {
    if purpose == i32::from(api::Purpose::Unspecified) {
        return Err(CallError::NoPurpose);
    }
    if terms.has_side_effects() && purpose != i32::from(api::Purpose::Decide) {
        return Err(CallError::OnlyDecides);
    }
    Ok(())
}

/// The rows, if they are as many as announced and hold what the policy was promised: a node without facts
/// would look like a node without labels.
fn whole(rows: &[Bytes], count: u32, terms: Terms) -> Result<Vec<Row<'_>>, CallError> {
    if count == 0 || usize::try_from(count) != Ok(rows.len()) {
        return Err(CallError::Count { count, rows: rows.len() });
    }
    let read = |(position, encoded)| {
        let row = Row::read(encoded).map_err(|source| CallError::Broken { position, source })?;
        let lacks = row.lacks(terms.needs_facts());
        lacks.map_or(Ok(row), |field| Err(CallError::Row { position, field }))
    };
    rows.iter().map(|row| &**row).enumerate().map(read).collect()
}
