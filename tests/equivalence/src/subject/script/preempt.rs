//! Preempt: the request converted back into candidates, the answer in positions.

use bytes::Bytes;
use extender_policy_api::v1beta1::{self as api, KeptCandidate, PreemptRequest, PreemptResponse};
use extender_reference::{
    model::{Candidate, Node, Order, Preempt, Victim},
    policy::Evicted,
};
use prost::Message;

use super::{Question, Refused, Script, Verb, objects};
use crate::case::{Failure, Form, Pods, RUNNING, UNSEEN};

impl Script {
    pub(super) fn read_preempt(&self, message: Bytes) -> Result<Question, Refused> {
        let request = PreemptRequest::decode(message).map_err(|error| error.to_string())?;
        let told = self.read((request.call, request.pod, request.nodes), self.backend.preempt)?;
        let nodes = &told.nodes;
        if nodes.len() != request.candidates.len() {
            return Err(format!("{} nodes and {} candidates", nodes.len(), request.candidates.len()).into());
        }
        let candidates = nodes.iter().zip(request.candidates).map(|(node, told)| self.candidate(*node, told));
        let candidates = candidates.collect::<Result<_, _>>()?;
        Ok(told.question(Verb::Preempt, candidates))
    }

    fn candidate(&self, node: Node, told: api::Candidate) -> Result<Candidate, String> {
        let victims = told.victims.into_iter().map(|victim| self.victim(victim)).collect::<Result<_, _>>()?;
        Ok(Candidate { node, victims, violations: told.pdb_violations.into() })
    }

    /// The victim. If the pod is known, the request must contain it.
    fn victim(&self, told: api::Victim) -> Result<Victim, String> {
        let victim = objects::victim(&told.uid).ok_or_else(|| format!("a victim {}", told.uid))?;
        let is_watched = self.pods == Pods::Watched && victim % RUNNING != UNSEEN;
        let due = (self.form == Form::Objects || is_watched).then(|| victim.to_string());
        let facts = told.pod.and_then(|pod| pod.facts);
        let label = |facts: api::PodFacts| facts.labels?.entries.remove(objects::LABEL);
        let said = facts.map(|facts| label(facts).unwrap_or_default());
        if said != due {
            return Err(format!("the request has {said:?} for {}, expected {due:?}", told.uid));
        }
        Ok(victim)
    }

    pub(super) fn preempt(&self, candidates: &[Candidate]) -> PreemptResponse {
        let preempt = self.backend.extender.preempt.as_ref();
        let result = Some(self.result(candidates.len()));
        PreemptResponse {
            result,
            kept: preempt.map(|preempt| answer(preempt, candidates)).unwrap_or_default(),
        }
    }
}

fn answer(preempt: &Preempt, candidates: &[Candidate]) -> Vec<KeptCandidate> {
    let said = (0..).zip(candidates).zip(preempt.kept(candidates));
    let mut kept: Vec<KeptCandidate> = said
        .filter_map(|((position, candidate), evicted)| Some(keep(position, candidate, &evicted?)))
        .collect();
    if preempt.order == Order::Reversed {
        kept.reverse();
    }
    kept
}

fn keep(position: u32, candidate: &Candidate, evicted: &Evicted) -> KeptCandidate {
    let place = |victim: &Victim| candidate.victims.iter().position(|offered| offered == victim);
    let places = evicted.offered.iter().filter_map(place);
    KeptCandidate {
        position,
        victims: places.map(|place| u32::try_from(place).unwrap_or(u32::MAX)).collect(),
        added_uids: evicted.added.iter().copied().map(objects::uid).collect(),
        pdb_violations: None,
    }
}

/// An answer that is wrong in this way, or in its header.
pub(super) fn broken(failure: Failure, result: api::Result) -> PreemptResponse {
    let kept = |position, victims: &[u32]| KeptCandidate {
        position,
        victims: victims.to_vec(),
        ..KeptCandidate::default()
    };
    let kept = match failure {
        Failure::OutOfRange => vec![kept(u32::MAX, &[0])],
        Failure::Twice => vec![kept(0, &[0]), kept(0, &[0])],
        Failure::VictimOutOfRange => vec![kept(0, &[u32::MAX])],
        Failure::VictimTwice => vec![kept(0, &[0, 0])],
        _ => Vec::new(),
    };
    PreemptResponse { result: Some(result), kept }
}
