//! Assembles a Preempt request, and checks the answer as far as possible without the candidates.

use bytes::{BufMut, Bytes};
use extender_gateway_core::{BackendFailure, preempt::Kept};
use extender_policy_api::limits::{ADDED_UID_BYTES, ADDED_UIDS};
use extender_policy_api::v1beta1::{Candidate, KeptCandidate};

use crate::{
    answer::{Answered, Outcome, evaluated},
    api::ApiVersion,
    nodes::NodesField,
    protobuf::{count_numbers, decoded, fields, malformed},
    question::{Args, CallFields, RequestHead},
    v1alpha1::{self, older},
};

/// The field that only `PreemptRequest` has.
const CANDIDATES: u32 = 4;

/// A request to a backend, in its views.
#[derive(Debug, Clone, Copy)]
pub struct PreemptQuestion<'q> {
    /// The beginning.
    pub call: CallFields<'q>,
    /// The pod that needs room, from [`super::pod::pod_field`].
    pub pod: &'q Bytes,
    /// The nodes.
    pub nodes: &'q NodesField,
    /// The victims: one entry for each node.
    pub candidates: &'q [Candidate],
}

impl PreemptQuestion<'_> {
    /// The pieces of the request. The first begins with the gRPC prefix.
    ///
    /// # Errors
    /// As for [`RequestHead::begin`].
    pub fn pieces(self, head: &RequestHead, args: Args, most: usize) -> Result<[Bytes; 3], BackendFailure> {
        let mut candidates = Vec::new();
        prost::encoding::message::encode_repeated(CANDIDATES, self.candidates, &mut candidates);
        if head.api == ApiVersion::V1Alpha1 {
            candidates = older(&candidates, v1alpha1::CANDIDATES);
        }
        let nodes = self.nodes.bytes.clone();
        let rest = [self.pod.len(), nodes.len() + candidates.len()];
        let mut first = head.begin(self.call, args, rest, most)?;
        first.put_slice(self.pod);
        Ok([first.into(), nodes, candidates.into()])
    }
}

/// `PreemptResponse`, in both packages.
#[derive(prost::Message)]
struct PreemptBody {
    #[prost(message, optional, tag = "1")]
    result: Option<Outcome>,
    #[prost(message, repeated, tag = "2")]
    kept: Vec<KeptCandidate>,
}

/// Reads the answer to Preempt about `count` nodes with `offered` victims.
///
/// # Errors
/// [`Malformed`](extender_gateway_core::FailureKind::Malformed): not protobuf, no result, a wrong count, more than
/// an answer can hold. Positions are checked by [`extender_gateway_core::preempt`], which has the candidates.
pub fn answer(message: Bytes, count: u32, offered: usize) -> Result<Answered<Vec<Kept>>, BackendFailure> {
    check(&message, count, offered)?;
    let PreemptBody { result, kept } = decoded(message)?;
    let revision = evaluated(result, count)?.inline()?;
    let kept = kept.into_iter().map(|kept| Kept {
        position: kept.position,
        victims: kept.victims,
        added: kept.added_uids,
        pdb_violations: kept.pdb_violations,
    });
    Ok(Answered { value: kept.collect(), revision })
}

/// Rejects an answer that is larger when decoded than one about these nodes and victims can be.
fn check(message: &[u8], count: u32, offered: usize) -> Result<(), BackendFailure> {
    const KEPT: u32 = 2;
    const VICTIMS: u32 = 2;
    const ADDED: u32 = 3;
    let (mut candidates, mut victims, mut added) = (0_usize, 0, 0);
    let check = |what: &str, number: usize, most: usize| {
        let detail = || malformed(format!("{number} {what}, at most {most} can be"));
        if number > most { Err(detail()) } else { Ok(()) }
    };
    for field in fields(message) {
        let (KEPT, Some(kept)) = field? else { continue };
        candidates += 1;
        check("candidates are kept", candidates, count as usize)?;
        victims += count_numbers(kept, VICTIMS, offered)?;
        check("victims are kept", victims, offered)?;
        for field in fields(kept) {
            let (ADDED, uid) = field? else { continue };
            match uid.map(<[u8]>::len) {
                Some(0) => return Err(malformed("an added victim has no UID")),
                Some(bytes) if bytes > ADDED_UID_BYTES => {
                    let text = "the UID of an added victim has";
                    return Err(malformed(format!("{text} {bytes} bytes, at most {ADDED_UID_BYTES} can be")));
                }
                _ => added += 1,
            }
            check("victims are added", added, ADDED_UIDS)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;
    use extender_policy_api::v1beta1::{self as api, PreemptRequest, PreemptResponse, Purpose, Victim};
    use prost::Message;

    use crate::{
        api::{ApiVersion, ReadsId},
        nodes::Rows,
        pod::{PodView, pod_field},
        preempt::*,
        question::Parties,
        row::RowView,
    };

    #[test]
    fn the_pieces_are_one_request() {
        let json = Bytes::from_static(br#"{"metadata":{"name":"web-0"}}"#);
        let pod = pod_field(
            &extender_gateway_object::pod::parse(&json).unwrap(),
            &json,
            &PodView::default(),
            Vec::new(),
            &[],
        );
        let mut rows = Rows::with_capacity(16);
        for name in ["a", "b"] {
            rows.push(&RowView::Name.bare_row(name));
        }
        let nodes = rows.finish(ApiVersion::NEWEST);
        let victims = vec![Victim { uid: "u-1".into(), pod: None }];
        let candidates = [
            Candidate { victims, pdb_violations: 3, placeholder: false },
            Candidate { placeholder: true, ..Candidate::default() },
        ];
        let question = PreemptQuestion {
            call: CallFields { id: "c-1", purpose: Purpose::Shadow, reads: ReadsId::None, snapshot: 0 },
            pod: &pod,
            nodes: &nodes,
            candidates: &candidates,
        };
        let head = RequestHead::new(
            ApiVersion::NEWEST,
            Parties { gateway: "gateway-0", cluster: "east", backend: "guard" },
            None,
        );
        let framed = question.pieces(&head, Args::Named, usize::MAX).unwrap().concat();
        assert_eq!(framed[1..5], u32::try_from(framed.len() - 5).unwrap().to_be_bytes());
        let request = PreemptRequest::decode(&framed[5..]).unwrap();
        assert_eq!(request.candidates, candidates);
        let call = request.call.unwrap();
        assert_eq!((call.purpose(), call.backend.as_str()), (Purpose::Shadow, "guard"));
        assert_eq!(request.nodes.unwrap().count, 2);
        assert_eq!(request.pod.unwrap().identity.unwrap().name, "web-0");
        let failure = question.pieces(&head, Args::Named, 10).unwrap_err();
        let detail =
            format!("the request has {} bytes, the backend accepts 10 (max_request_bytes)", framed.len() - 5);
        assert_eq!(failure.detail, detail);
    }

    #[test]
    fn an_answer_without_a_result_is_a_failure() {
        let kept = vec![KeptCandidate {
            position: 1,
            victims: vec![0],
            added_uids: vec!["x".into()],
            pdb_violations: Some(7),
        }];
        let answered = |result| PreemptResponse { result, kept: kept.clone() }.encode_to_vec().into();
        let result = api::Result::answered(2, "r1");
        assert_eq!(answer(answered(None), 2, 1).unwrap_err().detail, "response has no result");
        assert_eq!(
            answer(answered(Some(result.clone())), 3, 1).unwrap_err().detail,
            "evaluated 2 nodes, expected 3"
        );
        let read = answer(answered(Some(result)), 2, 1).unwrap();
        let expected =
            Kept { position: 1, victims: vec![0], added: vec!["x".to_owned()], pdb_violations: Some(7) };
        assert_eq!((read.value, read.revision.as_str()), (vec![expected], "r1"));
    }

    #[test]
    fn an_answer_larger_than_the_question_allows_is_refused_before_it_is_decoded() {
        let kept = |victims: &[u32], added: &[&str]| KeptCandidate {
            position: 0,
            victims: victims.into(),
            added_uids: added.iter().map(|uid| (*uid).to_owned()).collect(),
            pdb_violations: None,
        };
        let said = |kept: Vec<KeptCandidate>| {
            let message = PreemptResponse { result: None, kept }.encode_to_vec();
            answer(message.into(), 2, 3).unwrap_err().detail
        };
        assert_eq!(said(vec![kept(&[], &[]); 3]), "3 candidates are kept, at most 2 can be");
        assert_eq!(said(vec![kept(&[0, 1], &[]); 2]), "4 victims are kept, at most 3 can be");
        assert_eq!(said(vec![kept(&[0], &["x", ""])]), "an added victim has no UID");
        assert_eq!(said(vec![kept(&[0], &["x"; 10_001])]), "10001 victims are added, at most 10000 can be");
        assert_eq!(
            said(vec![kept(&[0], &["x".repeat(4097).as_str()])]),
            "the UID of an added victim has 4097 bytes, at most 4096 can be"
        );
        let mut broken = PreemptResponse { result: None, kept: vec![kept(&[], &[]); 3] }.encode_to_vec();
        broken.push(0xff);
        let failure = answer(broken.into(), 2, 3).unwrap_err();
        assert_eq!(failure.detail, "3 candidates are kept, at most 2 can be", "it is not read to its end");
        for piece in [&[0x12, 0][..], &[0x12, 2, 0x1a, 0], &[0x12, 2, 0x10, 0]] {
            let message = Bytes::from(piece.repeat(1 << 20));
            let cost = measure(|| assert!(answer(message.clone(), 2, 3).is_err()));
            assert!(cost.bytes_max < 4096, "{piece:?}: {cost:?}");
        }
    }
}
