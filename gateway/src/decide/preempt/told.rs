//! What a backend is told in a preempt call: the nodes that could be told, and who would be evicted there.

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, preempt::Candidate};
use extender_policy_api::v1alpha1 as api;
use tokio::time::Instant;

use super::super::Decider;
use super::PreemptCall;
use crate::{
    backend::{
        info::{NodesView, PodView},
        link::Link,
        question::{Nodes, Rows, pod_message},
        row::{self, RowView},
    },
    cluster::table::Found,
    object,
};

/// A question about candidates, in a backend's views.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Those that it is about, in order.
    pub(super) candidates: Vec<Candidate>,
    /// Their nodes; `None` when there are none.
    pub(super) nodes: Option<Nodes>,
    /// Their victims.
    pub(super) messages: Vec<api::Candidate>,
    /// How many there are whose nodes could not be told.
    pub(super) unknown: u32,
}

/// The rows of nodes, one after the other; `None` for a node that is not known.
type Encoded = Vec<Option<Bytes>>;

impl Decider {
    /// What a backend is told of the candidates that are left. Waits until the instant for nodes that are not
    /// known.
    ///
    /// # Errors
    /// The backend does not serve the verb.
    pub(super) async fn tell(
        &self,
        (call, until): (PreemptCall<'_>, Instant),
        link: &Link,
        left: &[Candidate],
    ) -> Result<Told, BackendFailure> {
        let plan = link.info.preempt.as_ref().map_err(BackendFailure::clone)?;
        let found = self.rows((call, until), &plan.nodes, left).await;
        let mut rows = Rows::with_capacity(found.iter().flatten().map(Bytes::len).sum());
        let mut told = Told::default();
        for (candidate, row) in left.iter().zip(found) {
            let Some(row) = row else {
                told.unknown += 1;
                continue;
            };
            rows.push(&row);
            told.messages.push(self.message(call, &link.info.pod, candidate));
            told.candidates.push(candidate.clone());
        }
        told.nodes = (!told.candidates.is_empty()).then(|| rows.finish());
        Ok(told)
    }

    async fn rows(
        &self,
        (call, until): (PreemptCall<'_>, Instant),
        view: &NodesView,
        left: &[Candidate],
    ) -> Encoded {
        let names = left.iter().map(|candidate| call.request.name(candidate.node));
        match (&self.known.table, view.column) {
            (Some(table), Some(column)) if view.rows != RowView::Name => {
                let Found { lines, unknown, .. } = table.lines(names, column, until).await;
                let (mut rows, mut unknown) = (lines.iter(), unknown.into_iter().peekable());
                let places = 0..u32::try_from(left.len()).expect("a body below 4 GiB has fewer nodes");
                let row = |place| if unknown.next_if_eq(&place).is_some() { None } else { rows.next() };
                places.map(row).map(|line| Some(line?.row.bytes.clone())).collect()
            }
            // A plan without a column wants names alone.
            _ => names.map(row::name_alone).map(Some).collect(),
        }
    }

    fn message(&self, call: PreemptCall<'_>, view: &PodView, candidate: &Candidate) -> api::Candidate {
        let mut sent = call.request.objects(candidate.node);
        let watched = |uid: &str| Some(self.known.pods.as_ref()?.get(uid)?.json.clone());
        let victim = |uid: &String| {
            let json = sent.remove(uid.as_str()).or_else(|| watched(uid));
            api::Victim { uid: uid.clone(), pod: json.and_then(|json| facts(&json, view)) }
        };
        api::Candidate {
            victims: candidate.victims.iter().map(victim).collect(),
            pdb_violations: u32::try_from(candidate.pdb_violations.max(0)).unwrap_or(u32::MAX),
        }
    }
}

/// A victim in a backend's view; `None` when it cannot be read, like one of which only the UID is known: who may
/// be evicted has still to be decided for the others.
fn facts(json: &Bytes, view: &PodView) -> Option<api::Pod> {
    let pod = object::pod::parse(json).ok()?;
    Some(pod_message(&pod, view, json))
}
