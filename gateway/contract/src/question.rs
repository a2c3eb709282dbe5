//! A Filter or Score request, assembled from encoded parts. Preempt and Bind use the same head.
//!
//! Concatenated protobuf messages form one message. So a small head for each backend, followed by the pod and the
//! nodes, each encoded once for all backends with the same view, is one valid message. `Call` has the same field
//! number in the requests of all verbs, and pod and nodes in those about nodes.

use bytes::{BufMut, Bytes};
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_policy_api::v1beta1::Purpose;
use prost::encoding::encoded_len_varint;

use super::{
    nodes::NodesField,
    protobuf::{PREFIX, field_len, put_bytes, put_fixed, put_head, put_number, put_prefix},
};

/// The field of `Call` in the requests of all verbs.
const CALL: u32 = 1;
/// The field that only `FilterRequest` has.
const WANT_SCORES: u32 = 4;
/// Fields of `Call`.
const ID: u32 = 1;
const PURPOSE: u32 = 2;
const GATEWAY: u32 = 3;
const BACKEND: u32 = 4;
const ARGS: u32 = 5;
const READS: u32 = 6;
const SNAPSHOT: u32 = 7;

/// The fields of `Call` that differ between requests to a backend.
#[derive(Debug, Clone, Copy)]
pub struct CallFields<'q> {
    /// `Call.id`.
    pub id: &'q str,
    /// The purpose of the call.
    pub purpose: Purpose,
    /// `Call.reads`: the declaration with which pod and nodes are encoded.
    pub reads_id: u32,
    /// `Call.snapshot`: the number of the state of nodes; 0 without one.
    pub snapshot: u64,
}

/// A request to a backend, in its views.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
    /// The beginning.
    pub call: CallFields<'q>,
    /// The pod, from [`super::pod::pod_field`].
    pub pod: &'q Bytes,
    /// The nodes.
    pub nodes: &'q NodesField,
    /// Whether a filter answer may contain scores.
    pub scores: ScoresWanted,
}

/// Whether a filter request also asks for scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoresWanted {
    /// It does.
    Wanted,
    /// It does not.
    Unwanted,
}

/// Nodes of at most this many bytes are copied into the first piece: copying them takes less time than a write.
const WORTH_A_COPY: usize = 16 << 10;

/// Bytes of a bool that is set, including its key.
const FLAG: usize = 2;
/// Bytes of a `fixed64`, including its key.
const FIXED: usize = 9;

/// The fields of `Call` that are the same in every request to a backend.
#[derive(Debug)]
pub struct RequestHead(Vec<u8>);

impl RequestHead {
    /// The head for requests of this replica of the gateway to the backend with this name, with the operator's
    /// args.
    pub fn new(gateway: &str, backend: &str, args: Option<&Bytes>) -> Self {
        let mut fields = Vec::new();
        put_bytes(GATEWAY, gateway.as_bytes(), &mut fields);
        put_bytes(BACKEND, backend.as_bytes(), &mut fields);
        if let Some(args) = args {
            put_bytes(ARGS, args, &mut fields);
        }
        Self(fields)
    }

    /// The pieces of a request. The first begins with the gRPC prefix. Small nodes are copied into it, because each
    /// piece is a write and a packet, and may wake the backend; then the second piece is empty.
    ///
    /// # Errors
    /// [`FailureKind::Oversize`] if the message has more than `most` bytes, the backend's limit.
    pub fn pieces(&self, question: Question<'_>, most: usize) -> Result<[Bytes; 2], BackendFailure> {
        let Question { call, pod, nodes, scores } = question;
        let wanted = if scores == ScoresWanted::Wanted { FLAG } else { 0 };
        let (joined, apart) = match nodes.bytes.len() {
            ..=WORTH_A_COPY => (&nodes.bytes, Bytes::new()),
            _ => (&Bytes::new(), nodes.bytes.clone()),
        };
        let written = pod.len() + wanted + joined.len();
        let mut head = self.begin(call, [written, apart.len()], most)?;
        head.put_slice(pod);
        if scores == ScoresWanted::Wanted {
            put_number(WANT_SCORES, 1, &mut head);
        }
        head.put_slice(joined);
        Ok([head.into(), apart])
    }

    /// The pieces of a request without nodes, with encoded `fields`; like [`Self::pieces`].
    pub fn around(
        &self,
        call: CallFields<'_>,
        fields: Bytes,
        most: usize,
    ) -> Result<[Bytes; 2], BackendFailure> {
        Ok([self.begin(call, [0, fields.len()], most)?.into(), fields])
    }

    /// The gRPC prefix and the `Call` of a request, with room for the bytes that follow in the same piece. `rest` is
    /// their number, and that of the bytes in further pieces.
    ///
    /// # Errors
    /// As for [`Self::pieces`].
    pub(super) fn begin(
        &self,
        call: CallFields<'_>,
        rest: [usize; 2],
        most: usize,
    ) -> Result<Vec<u8>, BackendFailure> {
        let [written, further] = rest;
        let CallFields { id, purpose, reads_id, snapshot } = call;
        let reads_len = if reads_id == 0 { 0 } else { 1 + encoded_len_varint(u64::from(reads_id)) };
        let snapshot_len = if snapshot == 0 { 0 } else { FIXED };
        let inner = field_len(id.len()) + 2 + reads_len + snapshot_len + self.0.len();
        let len = field_len(inner) + written + further;
        if len > most {
            let detail =
                format!("the request has {len} bytes, the backend accepts {most} (max_request_bytes)");
            return Err(BackendFailure::new(FailureKind::Oversize, detail));
        }
        let mut head = Vec::with_capacity(PREFIX + field_len(inner) + written);
        put_prefix(len, &mut head)?;
        put_head(CALL, inner, &mut head);
        put_bytes(ID, id.as_bytes(), &mut head);
        put_number(PURPOSE, u64::from((purpose as i32).cast_unsigned()), &mut head);
        if reads_id != 0 {
            put_number(READS, u64::from(reads_id), &mut head);
        }
        if snapshot != 0 {
            put_fixed(SNAPSHOT, snapshot, &mut head);
        }
        head.put_slice(&self.0);
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use extender_gateway_object as object;
    use extender_policy_api::v1beta1::{FilterRequest, ScoreRequest, nodes::Form};
    use prost::Message;

    use super::*;

    use crate::{
        nodes::{References, Rows},
        pod::{PodView, pod_field},
        row,
    };

    fn rows(names: &[String]) -> NodesField {
        let mut rows = Rows::with_capacity(names.len() * 8);
        for name in names {
            rows.push(&row::name_alone(name));
        }
        rows.finish()
    }

    fn names(nodes: Option<extender_policy_api::v1beta1::Nodes>) -> (u32, Vec<String>) {
        let nodes = nodes.unwrap();
        let Some(Form::Rows(rows)) = nodes.form else { panic!("no rows") };
        (nodes.count, rows.rows.into_iter().map(|row| row.name).collect())
    }

    #[test]
    fn the_pieces_are_one_request_of_either_verb() {
        let json = Bytes::from_static(br#"{"metadata":{"name":"web-0","namespace":"shop"}}"#);
        let view = PodView { raw: true, ..PodView::default() };
        let pod = pod_field(&object::pod::parse(&json).unwrap(), &json, &view, Vec::new(), &[]);
        for count in [1_usize, 3, 300, 20_000] {
            let all: Vec<String> = (0..count).map(|at| format!("node-{at}")).collect();
            let whole = rows(&all);
            let last = rows(&all[count - 1..]);
            for (nodes, expected) in [(&whole, &all[..]), (&last, &all[count - 1..])] {
                let head = RequestHead::new("gateway-0", "racks", Some(&Bytes::from_static(b"{}")));
                let question = Question {
                    call: CallFields {
                        id: "c-1",
                        purpose: Purpose::Decide,
                        reads_id: 1 << 31,
                        snapshot: u64::MAX - 1,
                    },
                    pod: &pod,
                    nodes,
                    scores: ScoresWanted::Unwanted,
                };
                let framed = head.pieces(question, usize::MAX).unwrap().concat();
                assert_eq!(framed[1..5], u32::try_from(framed.len() - 5).unwrap().to_be_bytes());
                let filter = FilterRequest::decode(&framed[5..]).unwrap();
                let score = ScoreRequest::decode(&framed[5..]).unwrap();
                assert_eq!((&filter.call, &filter.pod), (&score.call, &score.pod));
                let call = filter.call.unwrap();
                assert_eq!((call.id.as_str(), call.purpose(), call.reads), ("c-1", Purpose::Decide, 1 << 31));
                assert_eq!(call.snapshot, u64::MAX - 1);
                assert_eq!(
                    (call.gateway.as_str(), call.backend.as_str(), &call.args[..]),
                    ("gateway-0", "racks", &b"{}"[..])
                );
                assert_eq!(filter.pod.unwrap().raw_json, json);
                let whole = (u32::try_from(expected.len()).unwrap(), expected.to_vec());
                assert_eq!(names(filter.nodes), whole);
                assert_eq!(names(score.nodes), whole);
            }
        }
    }

    #[test]
    fn references_are_ids_and_the_rows_that_are_newer() {
        for (table, at_least) in [(u64::MAX, 1), (0, 300), (7, 0)] {
            let mut references = References::with_capacity(3);
            references.id(300);
            references.row(&row::name_alone("new"));
            let numbers = [1, 0x7f, 0x80, 0x3fff, 0x4000, 0x1f_ffff, 0x20_0000, u32::MAX];
            for number in numbers {
                references.id(number);
            }
            let nodes = references.finish(table, at_least);
            let request = ScoreRequest::decode(nodes.bytes.clone()).unwrap();
            let nodes = request.nodes.unwrap();
            let Some(Form::Table(reference)) = nodes.form else { panic!("no reference") };
            assert_eq!((nodes.count, reference.table, reference.at_least), (10, table, at_least));
            assert_eq!(reference.ids, [&[300, 0], &numbers[..]].concat());
            let names: Vec<_> = reference.rows.into_iter().map(|row| row.name).collect();
            assert_eq!(names, ["new"]);
        }
    }

    #[test]
    fn a_request_that_the_backend_would_refuse_is_not_sent() {
        let nodes = rows(&["a".into()]);
        let question = Question {
            call: CallFields { id: "c", purpose: Purpose::Decide, reads_id: 0, snapshot: 0 },
            pod: &Bytes::new(),
            nodes: &nodes,
            scores: ScoresWanted::Unwanted,
        };
        let failure = RequestHead::new("g", "b", None).pieces(question, 10).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Oversize);
        assert_eq!(failure.detail, "the request has 24 bytes, the backend accepts 10 (max_request_bytes)");
    }
}
