//! Reads and validates a request.

use std::sync::Arc;

use extender_policy_api::v1beta1 as api;

use super::{held::Held, policy_for};
use crate::{
    Backend, Nodes, Pod, backend::Prepared, error::CallError, info::declaration::Terms, node::row::RowRef,
    pod, reads::access::Access, request, table::Tables,
};

/// The common fields of all verbs, as received.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) call: &'a Option<api::Call>,
    pub(super) pod: &'a Option<api::Pod>,
    pub(super) nodes: &'a Option<request::NodeList>,
}

impl<'a> Asked<'a> {
    /// The policy that the operator's args choose, in a version that can read the request.
    pub(super) fn policy(self, backend: &Backend, verb: api::Verb) -> Result<Arc<Prepared>, CallError> {
        policy_for(backend, self.call()?, verb)
    }

    /// The nodes, for a question about them.
    pub(super) fn hold(self, terms: &Terms, tables: &Tables) -> Result<Held<'a>, CallError> {
        self.check_purpose(terms)?;
        Held::read(self.nodes()?, terms, tables)
    }

    pub(super) fn check_purpose(self, terms: &Terms) -> Result<(), CallError> {
        check_purpose(self.call()?.purpose, terms)
    }

    fn call(self) -> Result<&'a api::Call, CallError> {
        self.call.as_ref().ok_or(CallError::Missing("call"))
    }

    fn nodes(self) -> Result<&'a request::NodeList, CallError> {
        self.nodes.as_ref().ok_or(CallError::Missing("nodes"))
    }

    pub(super) fn pod(self, terms: &'a Terms) -> Result<Pod<'a>, CallError> {
        let pod = self.pod.as_ref().ok_or(CallError::Missing("pod"))?;
        pod::check_counts(pod, &terms.reads().pod).map_err(CallError::TopologyCounts)?;
        let pod = checked(pod, terms)?.ok_or(CallError::Missing("pod.facts"))?;
        Ok(pod.of(self.call.as_ref()).read_by_pure(terms.is_pure()))
    }
}

/// The pod as a policy may read it; `None` without facts.
pub(super) fn checked<'a>(pod: &'a api::Pod, terms: &'a Terms) -> Result<Option<Pod<'a>>, CallError> {
    pod::check(pod, &terms.reads().pod).map_err(CallError::PodValues)?;
    Ok(Pod::new(pod, terms.pod_access()))
}

/// A request that can be answered.
pub(super) struct Question<'a> {
    pub(super) pod: Pod<'a>,
    rows: Vec<RowRef<'a>>,
    /// To the nodes.
    access: Access<'a>,
    pub(super) count: u32,
}

/// Whether the nodes can be read here.
pub(super) enum Reading<'a> {
    Whole(Question<'a>),
    Miss(api::Miss),
}

impl<'a> Question<'a> {
    /// The question that a request asks about the nodes that were [held](Asked::hold) for it.
    pub(super) fn read(
        asked: Asked<'a>,
        terms: &'a Terms,
        held: &'a Held<'a>,
    ) -> Result<Reading<'a>, CallError> {
        let (pod, count) = (asked.pod(terms)?, asked.nodes()?.count);
        let access = terms.node_access();
        Ok(match held.rows() {
            Ok(rows) => Reading::Whole(Self { pod, rows, access, count }),
            Err(miss) => Reading::Miss(miss),
        })
    }

    pub(super) fn nodes(&self) -> Nodes<'_> {
        Nodes::new(&self.rows, self.access)
    }
}

/// A number, not the enum: an unknown purpose of a later version is not a decision either.
fn check_purpose(purpose: i32, terms: &Terms) -> Result<(), CallError> {
    if purpose == i32::from(api::Purpose::Unspecified) {
        return Err(CallError::NoPurpose);
    }
    if terms.has_side_effects() && purpose != i32::from(api::Purpose::Decide) {
        return Err(CallError::OnlyDecides);
    }
    Ok(())
}
