//! A Filter or Score request, put together from encoded parts; the head is that of Preempt and Bind, too.
//!
//! Protobuf messages concatenate, so a small head for each backend, the pod and the nodes, each encoded
//! once for all backends that want the same view, are together one valid message. The requests of all verbs
//! share the number of `Call`, and those about nodes the other two.

use bytes::{BufMut, Bytes};
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_policy_api::v1alpha1::{Pod, Purpose};
use prost::{
    Message,
    encoding::{WireType, encode_key, encode_varint, encoded_len_varint},
};

use super::{grpc, info::PodView};
use crate::object::pod::ObjectPod;

/// Fields of `FilterRequest` and `ScoreRequest`.
const CALL: u32 = 1;
const POD: u32 = 2;
const NODES: u32 = 3;
/// Fields of `Call`.
const ID: u32 = 1;
const PURPOSE: u32 = 2;
const GATEWAY: u32 = 3;
const BACKEND: u32 = 4;
const ARGS: u32 = 5;
/// Fields of `Nodes`.
const COUNT: u32 = 1;
const ROWS: u32 = 2;

/// What is asked of a backend, in its views.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
    /// `Call.id`.
    pub call: &'q str,
    /// What the answer is for.
    pub purpose: Purpose,
    /// The pod, from [`pod_field`].
    pub pod: &'q Bytes,
    /// The nodes.
    pub nodes: &'q Nodes,
}

/// The fields of `Call` that are the same in every request to a backend.
#[derive(Debug)]
pub struct Head {
    constant: Vec<u8>,
}

impl Head {
    /// For requests of this replica of the gateway to the backend of this name, with the operator's args.
    pub fn new(gateway: &str, backend: &str, args: Option<&Bytes>) -> Self {
        let mut constant = Vec::new();
        put_bytes(GATEWAY, gateway.as_bytes(), &mut constant);
        put_bytes(BACKEND, backend.as_bytes(), &mut constant);
        if let Some(args) = args {
            put_bytes(ARGS, args, &mut constant);
        }
        Self { constant }
    }

    /// The pieces of a request, the first of them beginning with the gRPC prefix.
    ///
    /// # Errors
    /// [`FailureKind::Oversize`] when the message has more than `most` bytes, what the backend accepts.
    pub fn pieces(&self, question: Question<'_>, most: usize) -> Result<[Bytes; 2], BackendFailure> {
        let Question { call, purpose, pod, nodes } = question;
        let mut head = self.begin((call, purpose), [pod.len(), nodes.field.len()], most)?;
        head.put_slice(pod);
        Ok([head.into(), nodes.field.clone()])
    }

    /// The pieces of a request of a verb without nodes, whose `fields` are encoded; as [`Self::pieces`].
    pub fn around(&self, call: &str, fields: Bytes, most: usize) -> Result<[Bytes; 2], BackendFailure> {
        Ok([self.begin((call, Purpose::Decide), [0, fields.len()], most)?.into(), fields])
    }

    /// The gRPC prefix and the `Call` of a request, with room for what is written behind them, of which there
    /// are `rest` bytes: those written, and those of further pieces.
    ///
    /// # Errors
    /// As for [`Head::pieces`].
    pub(super) fn begin(
        &self,
        (call, purpose): (&str, Purpose),
        rest: [usize; 2],
        most: usize,
    ) -> Result<Vec<u8>, BackendFailure> {
        let [written, further] = rest;
        let inner = field_len(call.len()) + 2 + self.constant.len();
        let len = field_len(inner) + written + further;
        if len > most {
            let detail = format!("the request has {len} bytes, the backend accepts {most}");
            return Err(BackendFailure::new(FailureKind::Oversize, detail));
        }
        let mut head = Vec::with_capacity(grpc::PREFIX + field_len(inner) + written);
        grpc::put_prefix(len, &mut head)?;
        put_head(CALL, inner, &mut head);
        put_bytes(ID, call.as_bytes(), &mut head);
        put_number(PURPOSE, u64::from((purpose as i32).cast_unsigned()), &mut head);
        head.put_slice(&self.constant);
        Ok(head)
    }
}

/// A pod as a field of a request. `json` is what `pod` was read from.
pub fn pod_field(pod: &ObjectPod<'_>, view: &PodView, json: &Bytes) -> Bytes {
    let pod = pod_message(pod, view, json);
    let mut field = Vec::with_capacity(field_len(pod.encoded_len()));
    prost::encoding::message::encode(POD, &pod, &mut field);
    field.into()
}

/// A pod as backends are told about it. `json` is what `pod` was read from.
pub fn pod_message(pod: &ObjectPod<'_>, view: &PodView, json: &Bytes) -> Pod {
    Pod {
        identity: Some(pod.identity()),
        facts: Some(pod.facts(&view.annotations)),
        raw_json: if view.raw { json.clone() } else { Bytes::new() },
    }
}

/// Nodes as a field of a request.
#[derive(Debug, Clone)]
pub struct Nodes {
    field: Bytes,
    /// How many there are.
    pub count: u32,
}

impl Nodes {
    /// The field, key and length included.
    pub(super) fn encoded(&self) -> &Bytes {
        &self.field
    }
}

/// Rows of nodes, one after the other, as [`super::row`] writes them. They are written behind some free
/// bytes in which the heads of the messages around them find room, so that they need not be moved.
#[derive(Debug)]
pub struct Rows {
    bytes: Vec<u8>,
    /// Where each row ends in `bytes`.
    ends: Vec<usize>,
}

/// Room for three heads and a count, each number of at most five bytes.
const HEADROOM: usize = 4 * 6;

impl Rows {
    /// No rows yet, and room for `count` of about `each` bytes.
    pub fn with_capacity(count: usize, each: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADROOM + count * each);
        bytes.resize(HEADROOM, 0);
        Self { bytes, ends: Vec::with_capacity(count) }
    }

    /// Appends a row, which `write` writes.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// All of them, ready to be sent; parts can be taken later.
    pub fn finish(mut self) -> Encoded {
        let count = u32::try_from(self.ends.len()).expect("a body below 4 GiB has fewer nodes");
        let rows = self.bytes.len() - HEADROOM;
        let mut head = Vec::with_capacity(HEADROOM);
        let count_len = 1 + encoded_len_varint(u64::from(count));
        put_head(NODES, count_len + field_len(rows), &mut head);
        put_number(COUNT, u64::from(count), &mut head);
        put_head(ROWS, rows, &mut head);
        let start = HEADROOM - head.len();
        self.bytes[start..HEADROOM].copy_from_slice(&head);
        let bytes = Bytes::from(self.bytes);
        Encoded { all: Nodes { field: bytes.slice(start..), count }, bytes, ends: self.ends }
    }
}

/// Encoded nodes of a call in one view.
#[derive(Debug)]
pub struct Encoded {
    /// All of them.
    pub all: Nodes,
    bytes: Bytes,
    ends: Vec<usize>,
}

impl Encoded {
    /// Those at these ranks, counted from 0.
    pub fn part(&self, ranks: impl ExactSizeIterator<Item = usize>) -> Nodes {
        let mean = self.bytes.len() / self.ends.len().max(1) + 1;
        let mut rows = Rows::with_capacity(ranks.len(), mean);
        for rank in ranks {
            let start = rank.checked_sub(1).map_or(HEADROOM, |before| self.ends[before]);
            rows.push(|out| out.extend_from_slice(&self.bytes[start..self.ends[rank]]));
        }
        rows.finish().all
    }
}

fn put_head(field: u32, len: usize, out: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
}

fn put_bytes(field: u32, content: &[u8], out: &mut Vec<u8>) {
    put_head(field, content.len(), out);
    out.extend_from_slice(content);
}

fn put_number(field: u32, number: u64, out: &mut Vec<u8>) {
    encode_key(field, WireType::Varint, out);
    encode_varint(number, out);
}

/// Bytes of a field with a one-byte key whose content has this length.
fn field_len(content: usize) -> usize {
    1 + encoded_len_varint(content as u64) + content
}

#[cfg(test)]
mod tests {
    use extender_policy_api::v1alpha1::{FilterRequest, ScoreRequest, nodes::Form};

    use super::*;
    use crate::{backend::row, object};

    fn rows(names: &[String]) -> Encoded {
        let mut rows = Rows::with_capacity(names.len(), 8);
        for name in names {
            rows.push(|out| row::encode_name(name, out));
        }
        rows.finish()
    }

    fn names(nodes: Option<extender_policy_api::v1alpha1::Nodes>) -> (u32, Vec<String>) {
        let nodes = nodes.unwrap();
        let Some(Form::Rows(rows)) = nodes.form else { panic!("no rows") };
        (nodes.count, rows.rows.into_iter().map(|row| row.name).collect())
    }

    #[test]
    fn the_pieces_are_one_request_of_either_verb() {
        let json = Bytes::from_static(br#"{"metadata":{"name":"web-0","namespace":"shop"}}"#);
        let view = PodView { raw: true, ..PodView::default() };
        let pod = pod_field(&object::pod::parse(&json).unwrap(), &view, &json);
        for count in [1_usize, 3, 300, 20_000] {
            let all: Vec<String> = (0..count).map(|at| format!("node-{at}")).collect();
            let encoded = rows(&all);
            let last = encoded.part(std::iter::once(count - 1));
            for (nodes, expected) in [(&encoded.all, &all[..]), (&last, &all[count - 1..])] {
                let head = Head::new("gateway-0", "racks", Some(&Bytes::from_static(b"{}")));
                let question = Question { call: "c-1", purpose: Purpose::Decide, pod: &pod, nodes };
                let framed = head.pieces(question, usize::MAX).unwrap().concat();
                assert_eq!(framed[1..5], u32::try_from(framed.len() - 5).unwrap().to_be_bytes());
                let filter = FilterRequest::decode(&framed[5..]).unwrap();
                let score = ScoreRequest::decode(&framed[5..]).unwrap();
                assert_eq!((&filter.call, &filter.pod), (&score.call, &score.pod));
                let call = filter.call.unwrap();
                assert_eq!((call.id.as_str(), call.purpose), ("c-1", Purpose::Decide as i32));
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
    fn a_request_that_the_backend_would_refuse_is_not_sent() {
        let encoded = rows(&["a".into()]);
        let question =
            Question { call: "c", purpose: Purpose::Decide, pod: &Bytes::new(), nodes: &encoded.all };
        let failure = Head::new("g", "b", None).pieces(question, 10).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Oversize);
        assert_eq!(failure.detail, "the request has 24 bytes, the backend accepts 10");
    }
}
