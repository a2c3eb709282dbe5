//! Preempt: the request put together, the answer checked as far as it can be without the candidates.

use bytes::{BufMut, Bytes};
use extender_gateway_core::{BackendFailure, preempt::Kept};
use extender_policy_api::v1alpha1::{Candidate, KeptCandidate, PreemptResponse, Purpose};

use super::{
    answer::{Answered, decoded, evaluated},
    question::{Head, Nodes},
};

/// The field of `PreemptRequest` that the other requests do not have.
const CANDIDATES: u32 = 4;

/// What is asked of a backend, in its views.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
    /// `Call.id`.
    pub call: &'q str,
    /// What the answer is for.
    pub purpose: Purpose,
    /// The pod that needs room, from [`super::question::pod_field`].
    pub pod: &'q Bytes,
    /// The nodes.
    pub nodes: &'q Nodes,
    /// Who would be evicted there: one for each node.
    pub candidates: &'q [Candidate],
}

impl Question<'_> {
    /// The pieces of the request, the first of them beginning with the gRPC prefix.
    ///
    /// # Errors
    /// As for [`Head::begin`].
    pub(super) fn pieces(self, head: &Head, most: usize) -> Result<[Bytes; 3], BackendFailure> {
        let mut candidates = Vec::new();
        prost::encoding::message::encode_repeated(CANDIDATES, self.candidates, &mut candidates);
        let nodes = self.nodes.encoded();
        let rest = [self.pod.len(), nodes.len() + candidates.len()];
        let mut begun = head.begin((self.call, self.purpose), rest, most)?;
        begun.put_slice(self.pod);
        Ok([begun.into(), nodes.clone(), candidates.into()])
    }
}

/// Reads the answer to Preempt about `count` nodes.
///
/// # Errors
/// [`Malformed`](extender_gateway_core::FailureKind::Malformed): not protobuf, no result, another count.
/// Positions are left to [`extender_gateway_core::preempt`], which knows the candidates.
pub fn answer(message: Bytes, count: u32) -> Result<Answered<Vec<Kept>>, BackendFailure> {
    let PreemptResponse { result, kept } = decoded(message)?;
    let revision = evaluated(result, count)?.inline()?;
    Ok(Answered { value: kept.into_iter().map(kept_candidate).collect(), revision })
}

fn kept_candidate(kept: KeptCandidate) -> Kept {
    let KeptCandidate { position, victims, added_uids } = kept;
    Kept { position, victims, added: added_uids }
}

#[cfg(test)]
mod tests {
    use extender_policy_api::v1alpha1::{self as api, PreemptRequest, Victim};
    use prost::Message;

    use super::*;
    use crate::backend::{
        info::PodView,
        question::{Rows, pod_field},
        row,
    };

    #[test]
    fn the_pieces_are_one_request() {
        let json = Bytes::from_static(br#"{"metadata":{"name":"web-0"}}"#);
        let pod = pod_field(&crate::object::pod::parse(&json).unwrap(), &PodView::default(), &json);
        let mut rows = Rows::with_capacity(16);
        for name in ["a", "b"] {
            rows.push(&row::name_alone(name));
        }
        let nodes = rows.finish();
        let victims = vec![Victim { uid: "u-1".into(), pod: None }];
        let candidates = [Candidate { victims, pdb_violations: 3 }, Candidate::default()];
        let question = Question {
            call: "c-1",
            purpose: Purpose::Shadow,
            pod: &pod,
            nodes: &nodes,
            candidates: &candidates,
        };
        let head = Head::new("gateway-0", "guard", None);
        let framed = question.pieces(&head, usize::MAX).unwrap().concat();
        assert_eq!(framed[1..5], u32::try_from(framed.len() - 5).unwrap().to_be_bytes());
        let request = PreemptRequest::decode(&framed[5..]).unwrap();
        assert_eq!(request.candidates, candidates);
        let call = request.call.unwrap();
        assert_eq!((call.purpose(), call.backend.as_str()), (Purpose::Shadow, "guard"));
        assert_eq!(request.nodes.unwrap().count, 2);
        assert_eq!(request.pod.unwrap().identity.unwrap().name, "web-0");
        let failure = question.pieces(&head, 10).unwrap_err();
        let detail = format!("the request has {} bytes, the backend accepts 10", framed.len() - 5);
        assert_eq!(failure.detail, detail);
    }

    #[test]
    fn an_answer_without_a_result_is_a_failure() {
        let kept = vec![KeptCandidate { position: 1, victims: vec![0], added_uids: vec!["x".into()] }];
        let answered = |result| PreemptResponse { result, kept: kept.clone() }.encode_to_vec().into();
        let result = api::Result { evaluated: 2, revision: "r1".into(), ..api::Result::default() };
        assert_eq!(answer(answered(None), 2).unwrap_err().detail, "the answer has no result");
        assert_eq!(
            answer(answered(Some(result.clone())), 3).unwrap_err().detail,
            "2 nodes were evaluated, 3 were asked about"
        );
        let read = answer(answered(Some(result)), 2).unwrap();
        let expected = Kept { position: 1, victims: vec![0], added: vec!["x".to_owned()] };
        assert_eq!((read.value, read.revision.as_str()), (vec![expected], "r1"));
    }
}
