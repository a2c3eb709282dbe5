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
    encoding::{WireType, encode_key, encode_varint, encoded_len_varint, fixed64},
};

use super::{
    grpc,
    info::{Identity, PodView},
};
use crate::object::pod::ObjectPod;

/// Fields of `FilterRequest` and `ScoreRequest`.
const CALL: u32 = 1;
const POD: u32 = 2;
const NODES: u32 = 3;
/// Of `FilterRequest` alone.
const WANT_SCORES: u32 = 4;
/// Fields of `Call`.
const ID: u32 = 1;
const PURPOSE: u32 = 2;
const GATEWAY: u32 = 3;
const BACKEND: u32 = 4;
const ARGS: u32 = 5;
/// Fields of `Nodes`.
const COUNT: u32 = 1;
const ROWS: u32 = 2;
const REFERENCE: u32 = 3;
/// Fields of `NodeRef`.
const REF_TABLE: u32 = 1;
const REF_AT_LEAST: u32 = 2;
const REF_IDS: u32 = 3;
const REF_ROWS: u32 = 4;

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
    pub nodes: &'q NodesField,
    /// Whether filter may bring scores.
    pub scores: ScoresWanted,
}

/// Whether a filter question asks for scores, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoresWanted {
    /// It does.
    Wanted,
    /// It does not.
    Unwanted,
}

/// Nodes of at most so many bytes go with what stands before them: copying them takes less than a write.
const WORTH_A_COPY: usize = 16 << 10;

/// Bytes of a bool that is set, its key included.
const FLAG: usize = 2;

/// The fields of `Call` that are the same in every request to a backend.
#[derive(Debug)]
pub struct RequestHead {
    constant: Vec<u8>,
}

impl RequestHead {
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

    /// The pieces of a request, the first of them beginning with the gRPC prefix. Nodes of little size are copied
    /// into it: each piece is a write and a packet, and may wake the backend. The second is empty then.
    ///
    /// # Errors
    /// [`FailureKind::Oversize`] when the message has more than `most` bytes, what the backend accepts.
    pub fn pieces(&self, question: Question<'_>, most: usize) -> Result<[Bytes; 2], BackendFailure> {
        let Question { call, purpose, pod, nodes, scores } = question;
        let wanted = if scores == ScoresWanted::Wanted { FLAG } else { 0 };
        let (joined, apart) = match nodes.bytes.len() {
            ..=WORTH_A_COPY => (&nodes.bytes, Bytes::new()),
            _ => (&Bytes::new(), nodes.bytes.clone()),
        };
        let written = pod.len() + wanted + joined.len();
        let mut head = self.begin((call, purpose), [written, apart.len()], most)?;
        head.put_slice(pod);
        if scores == ScoresWanted::Wanted {
            put_number(WANT_SCORES, 1, &mut head);
        }
        head.put_slice(joined);
        Ok([head.into(), apart])
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
        identity: (view.identity == Identity::Told).then(|| pod.identity()),
        facts: Some(pod.facts(&view.annotations)),
        raw_json: if view.raw { json.clone() } else { Bytes::new() },
    }
}

/// Nodes as a field of a request.
#[derive(Debug, Clone)]
pub struct NodesField {
    bytes: Bytes,
    /// How many there are.
    pub count: u32,
    /// How they are named.
    pub form: NodeForm,
}

/// How a question names what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeForm {
    /// Nodes by their rows.
    Rows,
    /// Nodes by ids of the table that the backend holds.
    Ids,
    /// A node by its name.
    Name,
}

impl NodeForm {
    /// In one word, as traces have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Ids => "ids",
            Self::Name => "name",
        }
    }
}

impl NodesField {
    /// The field, key and length included.
    pub(super) fn encoded(&self) -> &Bytes {
        &self.bytes
    }
}

/// Rows of nodes, one after the other, as [`super::row`] writes them. They are written behind some free
/// bytes in which the heads of the messages around them find room, so that they need not be moved.
#[derive(Debug)]
pub struct Rows {
    bytes: Vec<u8>,
    count: u32,
}

/// Room for three heads and a count, each number of at most five bytes.
const HEADROOM: usize = 4 * 6;

impl Rows {
    /// No rows yet, and room for so many bytes of them.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut headed = Vec::with_capacity(HEADROOM + bytes);
        headed.resize(HEADROOM, 0);
        Self { bytes: headed, count: 0 }
    }

    /// Appends a row.
    pub fn push(&mut self, row: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.count += 1;
    }

    /// All of them, ready to be sent.
    pub fn finish(mut self) -> NodesField {
        let rows = self.bytes.len() - HEADROOM;
        let mut head = Vec::with_capacity(HEADROOM);
        let count_len = 1 + encoded_len_varint(u64::from(self.count));
        put_head(NODES, count_len + field_len(rows), &mut head);
        put_number(COUNT, u64::from(self.count), &mut head);
        put_head(ROWS, rows, &mut head);
        let start = HEADROOM - head.len();
        self.bytes[start..HEADROOM].copy_from_slice(&head);
        NodesField { bytes: Bytes::from(self.bytes).slice(start..), count: self.count, form: NodeForm::Rows }
    }
}

/// Nodes named by the ids of a table that the backend holds; of some the rows, which it may not hold.
#[derive(Debug)]
pub struct References {
    ids: Vec<u8>,
    rows: Vec<u8>,
    count: u32,
}

impl References {
    /// No nodes yet, and room for so many.
    pub fn with_capacity(nodes: usize) -> Self {
        Self { ids: Vec::with_capacity(nodes * 2), rows: Vec::new(), count: 0 }
    }

    /// Appends a node that the backend holds.
    pub fn id(&mut self, id: u32) {
        encode_varint(u64::from(id), &mut self.ids);
        self.count += 1;
    }

    /// Appends a node by its row, as [`super::row`] writes it.
    pub fn row(&mut self, row: &[u8]) {
        self.ids.push(0);
        // The same message under another key: `NodeRef.rows` instead of `NodeRows.rows`.
        self.rows.push(u8::try_from(REF_ROWS << 3 | 2).expect("a key below 16 is one byte"));
        self.rows.extend_from_slice(&row[1..]);
        self.count += 1;
    }

    /// All of them, of this table at this version or a later one.
    pub fn finish(self, table: u64, at_least: u64) -> NodesField {
        let Self { ids, rows, count } = self;
        let version = 1 + encoded_len_varint(at_least);
        let reference = 1 + size_of::<u64>() + version + field_len(ids.len()) + rows.len();
        let count_len = 1 + encoded_len_varint(u64::from(count));
        let mut field = Vec::with_capacity(HEADROOM + reference);
        put_head(NODES, count_len + field_len(reference), &mut field);
        put_number(COUNT, u64::from(count), &mut field);
        put_head(REFERENCE, reference, &mut field);
        fixed64::encode(REF_TABLE, &table, &mut field);
        put_number(REF_AT_LEAST, at_least, &mut field);
        put_bytes(REF_IDS, &ids, &mut field);
        field.extend_from_slice(&rows);
        NodesField { bytes: field.into(), count, form: NodeForm::Ids }
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

    fn rows(names: &[String]) -> NodesField {
        let mut rows = Rows::with_capacity(names.len() * 8);
        for name in names {
            rows.push(&row::name_alone(name));
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
            let whole = rows(&all);
            let last = rows(&all[count - 1..]);
            for (nodes, expected) in [(&whole, &all[..]), (&last, &all[count - 1..])] {
                let head = RequestHead::new("gateway-0", "racks", Some(&Bytes::from_static(b"{}")));
                let question = Question {
                    call: "c-1",
                    purpose: Purpose::Decide,
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
    fn references_are_ids_and_the_rows_that_are_newer() {
        for (table, at_least) in [(u64::MAX, 1), (0, 300), (7, 0)] {
            let mut references = References::with_capacity(3);
            references.id(300);
            references.row(&row::name_alone("new"));
            references.id(1);
            let nodes = references.finish(table, at_least);
            let request = ScoreRequest::decode(nodes.bytes).unwrap();
            let nodes = request.nodes.unwrap();
            let Some(Form::Table(reference)) = nodes.form else { panic!("no reference") };
            assert_eq!((nodes.count, reference.table, reference.at_least), (3, table, at_least));
            assert_eq!(reference.ids, [300, 0, 1]);
            let names: Vec<_> = reference.rows.into_iter().map(|row| row.name).collect();
            assert_eq!(names, ["new"]);
        }
    }

    #[test]
    fn a_request_that_the_backend_would_refuse_is_not_sent() {
        let nodes = rows(&["a".into()]);
        let question = Question {
            call: "c",
            purpose: Purpose::Decide,
            pod: &Bytes::new(),
            nodes: &nodes,
            scores: ScoresWanted::Unwanted,
        };
        let failure = RequestHead::new("g", "b", None).pieces(question, 10).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Oversize);
        assert_eq!(failure.detail, "the request has 24 bytes, the backend accepts 10");
    }
}
