//! The request to a backend in a preempt call: the nodes with rows, and their victims.

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind, preempt::Candidate};
use extender_policy_api::v1alpha1 as api;
use prost::Message;
use tokio::time::Instant;

use super::super::{Decider, call_context::LARGE_PART};
use super::PreemptCall;
use crate::{
    backend::{info::NodesView, session::Session},
    cluster::table::Found,
    contract::{
        nodes::{NodesField, Rows},
        pod::{PodView, pod_message},
        row::{self, RowView},
    },
    object,
};

/// The request for candidates, in a backend's views.
#[derive(Debug, Default)]
pub(super) struct EncodedVictims {
    /// The candidates in it, in order.
    pub(super) candidates: Vec<Candidate>,
    /// Their nodes; `None` if there are none.
    pub(super) nodes: Option<NodesField>,
    /// Their victims.
    pub(super) messages: Vec<api::Candidate>,
    /// The nodes of candidates that are left out because the gateway does not know them yet.
    pub(super) unknown: Vec<u32>,
    /// The nodes of candidates that are left out because they were deleted.
    pub(super) deleted: Vec<u32>,
    /// The nodes of candidates that are left out because they are too large for a request.
    pub(super) oversize: Vec<u32>,
}

/// The row of a candidate's node, or why there is none.
enum CandidateRow {
    Row(Bytes),
    Unknown,
    Deleted,
}

impl Decider {
    /// The request for the remaining candidates. Waits until `until` for nodes that are not in the table.
    ///
    /// # Errors
    /// The backend does not serve the verb.
    pub(super) async fn tell(
        &self,
        call: PreemptCall<'_>,
        until: Instant,
        session: &Session,
        left: &[Candidate],
    ) -> Result<EncodedVictims, BackendFailure> {
        let plan = session.info.preempt.as_ref().map_err(BackendFailure::clone)?;
        let found = self.rows(call, until, &plan.nodes, left).await;
        let most = session.info.most_request_bytes;
        let sizes = found.iter().map(|row| if let CandidateRow::Row(row) = row { row.len() } else { 0 });
        let bytes: usize = sizes.clone().sum();
        let small = sizes.filter(|size| *size > 0 && *size <= most / LARGE_PART).count();
        // If all are too large, the call fails, and the failure policy applies.
        let is_oversize = |row: &Bytes| bytes > most && small > 0 && row.len() > most / LARGE_PART;
        let mut rows = Rows::with_capacity(bytes.min(most));
        let mut told = EncodedVictims::default();
        let mut room = Room { facts: most, json: MOST_JSON };
        for (candidate, row) in left.iter().zip(found) {
            let why = match row {
                CandidateRow::Row(row) if !is_oversize(&row) => {
                    rows.push(&row);
                    told.messages.push(self.message((call, candidate), &session.info.pod, &mut room)?);
                    told.candidates.push(candidate.clone());
                    continue;
                }
                CandidateRow::Row(_) => &mut told.oversize,
                CandidateRow::Unknown => &mut told.unknown,
                CandidateRow::Deleted => &mut told.deleted,
            };
            why.push(candidate.node);
        }
        told.nodes = (!told.candidates.is_empty()).then(|| rows.finish());
        Ok(told)
    }

    async fn rows(
        &self,
        call: PreemptCall<'_>,
        until: Instant,
        view: &NodesView,
        left: &[Candidate],
    ) -> Vec<CandidateRow> {
        let names = left.iter().map(|candidate| call.request.name(candidate.node));
        match (&self.known.table, &view.column) {
            (Some(table), Some(column)) if view.rows != RowView::Name => {
                let Found { rows: lines, unknown, deleted, .. } = table.rows(names, column.id(), until).await;
                let mut rows = lines.iter();
                let places = 0..u32::try_from(left.len()).expect("a body below 4 GiB has fewer nodes");
                let row = |place: u32| {
                    if deleted.binary_search(&place).is_ok() {
                        return CandidateRow::Deleted;
                    }
                    if unknown.binary_search(&place).is_ok() {
                        return CandidateRow::Unknown;
                    }
                    rows.next()
                        .map_or(CandidateRow::Unknown, |line| CandidateRow::Row(line.state.bytes.clone()))
                };
                places.map(row).collect()
            }
            // A plan without a column requests only names.
            _ => names.map(|name| CandidateRow::Row(row::name_alone(name))).collect(),
        }
    }

    fn message(
        &self,
        (call, candidate): (PreemptCall<'_>, &Candidate),
        view: &PodView,
        room: &mut Room,
    ) -> Result<api::Candidate, BackendFailure> {
        let mut sent = call.request.objects(candidate.node);
        let watched = |uid: &str| Some(self.known.pods.as_ref()?.get(uid)?.json.clone());
        let victim = |uid: &String| {
            let json = sent.remove(uid.as_str()).or_else(|| watched(uid));
            let pod = match json {
                Some(json) => room.read(&json).map(|()| facts(&json, view))?,
                None => None,
            };
            room.tell(pod.as_ref())?;
            Ok(api::Victim { uid: uid.clone(), pod: pod.map(Box::new) })
        };
        let victims = candidate.victims.iter().map(victim).collect::<Result<_, BackendFailure>>()?;
        let pdb_violations = u32::try_from(candidate.pdb_violations.max(0)).unwrap_or(u32::MAX);
        Ok(api::Candidate { victims, pdb_violations })
    }
}

/// A victim in a backend's view; `None` if it cannot be parsed or only its UID is known: the other victims still
/// need a decision.
fn facts(json: &Bytes, view: &PodView) -> Option<api::Pod> {
    let pod = object::pod::offered(json).ok()?;
    Some(pod_message(&pod, view, json))
}

/// The most JSON of victims that is parsed for one request, in bytes. kube-scheduler offers a tenth of the nodes;
/// for 15,000 nodes that is about 45,000 pods of 3 KB.
const MOST_JSON: usize = 256 << 20;

/// How many bytes may still be parsed and sent for victims. A UID is short, but the pod that the watch has for it
/// may be large: the request's size does not limit the cost.
struct Room {
    json: usize,
    facts: usize,
}

impl Room {
    /// # Errors
    /// The limit for parsing is reached.
    fn read(&mut self, json: &[u8]) -> Result<(), BackendFailure> {
        let left = self.json.checked_sub(json.len());
        self.json = left.ok_or_else(|| {
            oversize(format!("the victims have more than {MOST_JSON} bytes of JSON, the most that is read"))
        })?;
        Ok(())
    }

    /// # Errors
    /// The question would be larger than the backend accepts.
    fn tell(&mut self, pod: Option<&api::Pod>) -> Result<(), BackendFailure> {
        let left = self.facts.checked_sub(pod.map_or(0, Message::encoded_len));
        self.facts = left.ok_or_else(|| {
            oversize("the victims alone have more bytes than the backend accepts".to_owned())
        })?;
        Ok(())
    }
}

fn oversize(detail: String) -> BackendFailure {
    BackendFailure::new(FailureKind::Oversize, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn victims_that_have_no_room_are_a_failure_before_they_are_put_together() {
        let pod = api::Pod { raw_json: Bytes::from_static(b"1234567890"), ..api::Pod::default() };
        let mut room = Room { json: 10, facts: 30 };
        assert!(room.read(b"12345678").is_ok() && room.read(b"12345678").is_err());
        let told = (0..5).map_while(|_| room.tell(Some(&pod)).ok()).count();
        assert_eq!(told, 30 / pod.encoded_len());
        let failure = room.tell(Some(&pod)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Oversize);
        assert!(room.tell(None).is_ok(), "a UID alone takes nothing of it");
    }
}
