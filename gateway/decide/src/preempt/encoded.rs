//! The request to a backend in a preempt call: the nodes with rows, and their victims.

use bytes::Bytes;
use extender_gateway_backend::{info::NodesView, session::Session};
use extender_gateway_cluster::table::Found;
use extender_gateway_contract::{
    api::ReadsId,
    nodes::{NodesField, Rows},
    pod::{PodView, pod_field, pod_message},
};
use extender_gateway_core::{BackendFailure, FailureKind, PolicyVerb, filter::NotSent, preempt::Candidate};
use extender_policy_api::v1beta1 as api;
use prost::Message;
use tokio::time::Instant;

use super::super::{DeciderSettings, call_context::LARGE_PART, own_pod::OwnPod};
use super::PreemptCall;

/// The request for candidates, in a backend's views.
#[derive(Debug, Default)]
pub(crate) struct EncodedVictims {
    /// The pod that needs room.
    pub(crate) pod: Bytes,
    /// The declaration that the views are from.
    pub(crate) reads_id: ReadsId,
    /// The candidates in it, in order.
    pub(crate) candidates: Vec<Candidate>,
    /// Their nodes; `None` if there are none.
    pub(crate) nodes: Option<NodesField>,
    /// Their victims.
    pub(crate) messages: Vec<api::Candidate>,
    /// The nodes of candidates that are left out.
    pub(crate) not_sent: NotSent,
}

/// The row of a candidate's node, or why there is none.
enum CandidateRow {
    Row(Bytes),
    Unknown,
    Unreadable,
    Deleted,
}

impl DeciderSettings {
    /// The request for the remaining candidates. Waits until `wait_until` for nodes that are not in the table.
    ///
    /// # Errors
    /// The backend does not serve the verb.
    pub(crate) async fn encode_victims(
        &self,
        call: PreemptCall<'_>,
        wait_until: Instant,
        session: &Session,
        left: &[Candidate],
    ) -> Result<EncodedVictims, BackendFailure> {
        let plan = session.info.about_nodes(PolicyVerb::Preempt)?;
        let found = self.rows(call, wait_until, &plan.nodes, left).await;
        let most = session.info.most_request_bytes;
        let sizes = found.iter().map(|row| if let CandidateRow::Row(row) = row { row.len() } else { 0 });
        let bytes: usize = sizes.clone().sum();
        let small = sizes.filter(|size| *size > 0 && *size <= most / LARGE_PART).count();
        // If all are too large, the call fails, and the failure policy applies.
        let is_oversize = |row: &Bytes| bytes > most && small > 0 && row.len() > most / LARGE_PART;
        let mut rows = Rows::with_capacity(bytes.min(most));
        let pod = pod_field(call.pod, &call.request.pod(), &plan.pod, Vec::new(), &[]);
        let mut encoded = EncodedVictims { pod, reads_id: plan.reads_id, ..EncodedVictims::default() };
        let mut budget = Budget { facts: most, json: MOST_JSON };
        for (candidate, row) in left.iter().zip(found) {
            let why = match row {
                CandidateRow::Row(row) if !is_oversize(&row) => {
                    rows.push(&row);
                    encoded.messages.push(self.message(call, candidate, &plan.pod, &mut budget)?);
                    encoded.candidates.push(candidate.clone());
                    continue;
                }
                CandidateRow::Row(_) => &mut encoded.not_sent.oversize,
                CandidateRow::Unknown => &mut encoded.not_sent.unknown,
                CandidateRow::Unreadable => &mut encoded.not_sent.unreadable,
                CandidateRow::Deleted => &mut encoded.not_sent.deleted,
            };
            why.push(candidate.node);
        }
        encoded.nodes = (!encoded.candidates.is_empty()).then(|| rows.finish(plan.nodes.rows.api()));
        Ok(encoded)
    }

    async fn rows(
        &self,
        call: PreemptCall<'_>,
        wait_until: Instant,
        view: &NodesView,
        left: &[Candidate],
    ) -> Vec<CandidateRow> {
        let names = left.iter().map(|candidate| call.request.name(candidate.node));
        let (Some(table), Some(column), true) = (&self.tables.table, &view.column, !view.rows.is_bare())
        else {
            return names.map(|name| CandidateRow::Row(view.rows.bare_row(name))).collect();
        };
        let Found { rows, unknown, unreadable, deleted, .. } =
            table.rows(names, column.id(), &mut None, wait_until).await;
        let own = OwnPod::find(&self.tables, call.pod.uid());
        let mut rows = rows.iter();
        let row = |place: u32| {
            if unreadable.binary_search(&place).is_ok() {
                return CandidateRow::Unreadable;
            }
            if deleted.binary_search(&place).is_ok() {
                return CandidateRow::Deleted;
            }
            if unknown.binary_search(&place).is_ok() {
                return CandidateRow::Unknown;
            }
            let Some(row) = rows.next() else { return CandidateRow::Unknown };
            let name = call.request.name(left[place as usize].node);
            let changed = own.as_ref().and_then(|own| own.row(row.bytes, name, &view.rows));
            CandidateRow::Row(changed.unwrap_or_else(|| row.bytes.clone()))
        };
        (0..).take(left.len()).map(row).collect()
    }

    fn message(
        &self,
        call: PreemptCall<'_>,
        candidate: &Candidate,
        view: &PodView,
        budget: &mut Budget,
    ) -> Result<api::Candidate, BackendFailure> {
        let mut sent = call.request.objects(candidate.node);
        let watched = |uid: &str| self.tables.pods.as_ref()?.get(uid)?.whole();
        let victim = |uid: &String| {
            let json = sent.remove(uid.as_str()).or_else(|| watched(uid));
            let pod = match json {
                Some(json) => budget.take_json(&json).map(|()| self.facts(&json, view))?,
                None => None,
            };
            budget.take_facts(pod.as_ref())?;
            Ok(api::Victim { uid: uid.clone(), pod: pod.map(Box::new) })
        };
        let victims = candidate.victims.iter().map(victim).collect::<Result<_, BackendFailure>>()?;
        let pdb_violations = u32::try_from(candidate.pdb_violations.max(0)).unwrap_or(u32::MAX);
        Ok(api::Candidate { victims, pdb_violations, placeholder: candidate.victims.is_empty() })
    }

    /// A victim in a backend's view; `None` if it cannot be parsed or only its UID is known: the other victims still
    /// need a decision.
    fn facts(&self, json: &Bytes, view: &PodView) -> Option<api::Pod> {
        let pod = self.pod(json).ok()?;
        Some(pod_message(&pod, view, json))
    }
}

/// The most JSON of victims that is parsed for one request, in bytes. kube-scheduler offers a tenth of the nodes;
/// for 15,000 nodes that is about 45,000 pods of 3 KB.
const MOST_JSON: usize = 256 << 20;

/// How many bytes may still be parsed and sent for victims. A UID is short, but the pod that the watch has for it
/// may be large: the request's size does not limit the cost.
struct Budget {
    json: usize,
    facts: usize,
}

impl Budget {
    /// # Errors
    /// The limit for parsing is reached.
    fn take_json(&mut self, json: &[u8]) -> Result<(), BackendFailure> {
        let left = self.json.checked_sub(json.len());
        self.json = left.ok_or_else(|| {
            oversize(format!("the victims have more than {MOST_JSON} bytes of JSON, the most that is read"))
        })?;
        Ok(())
    }

    /// # Errors
    /// The request would be larger than the backend accepts.
    fn take_facts(&mut self, pod: Option<&api::Pod>) -> Result<(), BackendFailure> {
        let left = self.facts.checked_sub(pod.map_or(0, Message::encoded_len));
        self.facts = left.ok_or_else(|| {
            oversize(
                "the victims alone have more bytes than the backend accepts (max_request_bytes)".to_owned(),
            )
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
        let mut budget = Budget { json: 10, facts: 30 };
        assert!(budget.take_json(b"12345678").is_ok() && budget.take_json(b"12345678").is_err());
        let encoded = (0..5).map_while(|_| budget.take_facts(Some(&pod)).ok()).count();
        assert_eq!(encoded, 30 / pod.encoded_len());
        let failure = budget.take_facts(Some(&pod)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Oversize);
        assert!(budget.take_facts(None).is_ok(), "a UID alone takes nothing of it");
    }
}
