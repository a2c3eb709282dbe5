//! A Filter or Score request, assembled from encoded parts. Preempt and Bind use the same head.
//!
//! Concatenated protobuf messages form one message. So a small head for each backend, followed by the pod and the
//! nodes, each encoded once for all backends with the same view, is one valid message. `Call` has the same field
//! number in the requests of all verbs, and pod and nodes in those about nodes.

use bytes::{BufMut, Bytes};
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_policy_api::v1beta1::{Purpose, Verb};
use prost::encoding::encoded_len_varint;

use super::{
    api::{ApiVersion, ReadsId, sha256},
    nodes::NodesField,
    protobuf::{PREFIX, field_len, put_bytes, put_fixed, put_head, put_number, put_prefix},
};

/// The field of `Call` in the requests of all verbs.
const CALL: u32 = 1;
/// `FilterRequest.want_scores` and `ChangeRequest.hook`.
const WANTS: u32 = 4;
/// Fields of `Call`.
const ID: u32 = 1;
const PURPOSE: u32 = 2;
const GATEWAY: u32 = 3;
const BACKEND: u32 = 4;
const ARGS: u32 = 5;
const ARGS_SHA256: u32 = 8;
const READS: u32 = 9;
const SNAPSHOT: u32 = 10;
const CLUSTER: u32 = 11;
/// `Call.reads` and `Call.snapshot` of v1alpha1: numbers.
const READS_NUMBER: u32 = 6;
const SNAPSHOT_NUMBER: u32 = 7;

/// The fields of `Call` that differ between requests to a backend.
#[derive(Debug, Clone, Copy)]
pub struct CallFields<'q> {
    /// `Call.id`.
    pub id: &'q str,
    /// The purpose of the call.
    pub purpose: Purpose,
    /// `Call.reads`: the declaration with which pod and nodes are encoded.
    pub reads: ReadsId,
    /// `Call.snapshot`: the number of the state of nodes; 0 without one.
    pub snapshot: u64,
}

/// How a request names the args.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Args {
    /// By their digest.
    Named,
    /// In full: the backend does not hold them.
    Sent,
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
    /// What it wants.
    pub wants: Wants,
}

/// What a request about nodes wants besides what its method says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// Nothing.
    Nothing,
    /// Filter: scores, too.
    Scores,
    /// Change: what this hook changes.
    Hook(Verb),
}

impl From<ScoresWanted> for Wants {
    fn from(wanted: ScoresWanted) -> Self {
        match wanted {
            ScoresWanted::Wanted => Self::Scores,
            ScoresWanted::Unwanted => Self::Nothing,
        }
    }
}

impl Wants {
    /// The value of the field; `None` if it is left out.
    fn number(self) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Scores => Some(1),
            Self::Hook(hook) => Some(u64::from((hook as i32).cast_unsigned())),
        }
    }
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

/// Bytes of a number below 128, including its key.
const SMALL_NUMBER: usize = 2;
/// Bytes of the name of a snapshot, 16 hexadecimal digits.
const SNAPSHOT_BYTES: usize = 16;

/// The fields of `Call` that are the same in every request to a backend.
#[derive(Debug)]
pub struct RequestHead {
    pub(super) api: ApiVersion,
    named: Vec<u8>,
    /// With the args in full; empty if there are none.
    sent: Vec<u8>,
}

/// Who calls whom, in [`RequestHead`].
#[derive(Debug, Clone, Copy)]
pub struct Parties<'n> {
    /// This replica of the gateway.
    pub gateway: &'n str,
    /// The cluster; empty if it has no name.
    pub cluster: &'n str,
    /// The backend's name in the configuration.
    pub backend: &'n str,
}

impl RequestHead {
    /// The head for requests in this package, with the operator's args.
    pub fn new(api: ApiVersion, parties: Parties<'_>, args: Option<&Bytes>) -> Self {
        let Parties { gateway, cluster, backend } = parties;
        let mut named = Vec::new();
        put_bytes(GATEWAY, gateway.as_bytes(), &mut named);
        put_bytes(BACKEND, backend.as_bytes(), &mut named);
        let mut sent = Vec::new();
        match (api, args) {
            (ApiVersion::V1Alpha1, Some(args)) => put_bytes(ARGS, args, &mut named),
            (ApiVersion::V1Beta1, Some(args)) => {
                put_bytes(ARGS_SHA256, &sha256(args), &mut named);
                sent.clone_from(&named);
                put_bytes(ARGS, args, &mut sent);
            }
            (_, None) => {}
        }
        if api == ApiVersion::V1Beta1 && !cluster.is_empty() {
            for fields in [&mut named, &mut sent].into_iter().filter(|fields| !fields.is_empty()) {
                put_bytes(CLUSTER, cluster.as_bytes(), fields);
            }
        }
        Self { api, named, sent }
    }

    /// Whether there are args that a request can send in full after it has only named them.
    pub fn can_send_args(&self) -> bool {
        !self.sent.is_empty()
    }

    /// The pieces of a request. The first begins with the gRPC prefix. Small nodes are copied into it, because each
    /// piece is a write and a packet, and may wake the backend; then the second piece is empty.
    ///
    /// # Errors
    /// [`FailureKind::Oversize`] if the message has more than `most` bytes, the backend's limit.
    pub fn pieces(
        &self,
        question: Question<'_>,
        args: Args,
        most: usize,
    ) -> Result<[Bytes; 2], BackendFailure> {
        let Question { call, pod, nodes, wants } = question;
        let number = wants.number();
        let wanted = if number.is_some() { SMALL_NUMBER } else { 0 };
        let (joined, apart) = match nodes.bytes.len() {
            ..=WORTH_A_COPY => (&nodes.bytes, Bytes::new()),
            _ => (&Bytes::new(), nodes.bytes.clone()),
        };
        let written = pod.len() + wanted + joined.len();
        let mut head = self.begin(call, args, [written, apart.len()], most)?;
        head.put_slice(pod);
        if let Some(number) = number {
            put_number(WANTS, number, &mut head);
        }
        head.put_slice(joined);
        Ok([head.into(), apart])
    }

    /// The pieces of a request without nodes, with encoded `fields`; like [`Self::pieces`].
    pub fn around(
        &self,
        call: CallFields<'_>,
        args: Args,
        fields: Bytes,
        most: usize,
    ) -> Result<[Bytes; 2], BackendFailure> {
        Ok([self.begin(call, args, [0, fields.len()], most)?.into(), fields])
    }

    /// The pieces of a request for what a hook changes about the pod alone; like [`Self::pieces`].
    pub fn about_pod(
        &self,
        call: CallFields<'_>,
        args: Args,
        hook: Verb,
        pod: Bytes,
        most: usize,
    ) -> Result<[Bytes; 2], BackendFailure> {
        let mut head = self.begin(call, args, [SMALL_NUMBER, pod.len()], most)?;
        put_number(WANTS, u64::from((hook as i32).cast_unsigned()), &mut head);
        Ok([head.into(), pod])
    }

    /// The gRPC prefix and the `Call` of a request, with room for the bytes that follow in the same piece. `rest` is
    /// their number, and that of the bytes in further pieces.
    ///
    /// # Errors
    /// As for [`Self::pieces`].
    pub(super) fn begin(
        &self,
        call: CallFields<'_>,
        args: Args,
        rest: [usize; 2],
        most: usize,
    ) -> Result<Vec<u8>, BackendFailure> {
        let [written, further] = rest;
        let CallFields { id, purpose, reads, snapshot } = call;
        let fields = if args == Args::Sent && self.can_send_args() { &self.sent } else { &self.named };
        let reads_len = match &reads {
            ReadsId::None | ReadsId::Number(0) => 0,
            ReadsId::Digest(digest) => field_len(digest.len()),
            ReadsId::Number(number) => 1 + encoded_len_varint(u64::from(*number)),
        };
        let snapshot_len = match (snapshot, self.api) {
            (0, _) => 0,
            (_, ApiVersion::V1Beta1) => field_len(SNAPSHOT_BYTES),
            (_, ApiVersion::V1Alpha1) => 1 + size_of::<u64>(),
        };
        let inner = field_len(id.len()) + SMALL_NUMBER + reads_len + snapshot_len + fields.len();
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
        match reads {
            ReadsId::None | ReadsId::Number(0) => {}
            ReadsId::Digest(digest) => put_bytes(READS, &digest, &mut head),
            ReadsId::Number(number) => put_number(READS_NUMBER, u64::from(number), &mut head),
        }
        match (snapshot, self.api) {
            (0, _) => {}
            (_, ApiVersion::V1Beta1) => put_bytes(SNAPSHOT, &hexadecimal(snapshot), &mut head),
            (_, ApiVersion::V1Alpha1) => put_fixed(SNAPSHOT_NUMBER, snapshot, &mut head),
        }
        head.put_slice(fields);
        Ok(head)
    }
}

/// A number as text: the names of snapshots and tables.
pub(super) fn hexadecimal(number: u64) -> [u8; SNAPSHOT_BYTES] {
    let digit = |at: usize| b"0123456789abcdef"[(number >> (60 - 4 * at) & 0xf) as usize];
    std::array::from_fn(digit)
}

#[cfg(test)]
mod tests {
    use extender_gateway_object as object;
    use extender_policy_api::v1beta1::{ChangeRequest, FilterRequest, ScoreRequest, nodes::Form};
    use prost::Message;

    use super::*;

    use crate::{
        nodes::{References, Rows, TableName},
        pod::{PodView, pod_field},
        row::RowView,
    };

    fn rows(names: &[String]) -> NodesField {
        let mut rows = Rows::with_capacity(names.len() * 8);
        for name in names {
            rows.push(&RowView::Name.bare_row(name));
        }
        rows.finish(ApiVersion::NEWEST)
    }

    fn names(nodes: Option<extender_policy_api::v1beta1::Nodes>) -> (u32, Vec<String>) {
        let nodes = nodes.unwrap();
        let Some(Form::Rows(rows)) = nodes.form else { panic!("no rows") };
        (nodes.count, rows.rows.into_iter().map(|row| row.name).collect())
    }

    fn head(api: ApiVersion, args: Option<&Bytes>) -> RequestHead {
        RequestHead::new(api, Parties { gateway: "gateway-0", cluster: "east", backend: "racks" }, args)
    }

    #[test]
    fn the_pieces_are_one_request_of_each_verb() {
        let json = Bytes::from_static(br#"{"metadata":{"name":"web-0","namespace":"shop"}}"#);
        let view = PodView { raw: true, ..PodView::default() };
        let pod = pod_field(&object::pod::parse(&json).unwrap(), &json, &view, Vec::new(), &[]);
        let args = Bytes::from_static(b"{}");
        for count in [1_usize, 3, 300, 20_000] {
            let all: Vec<String> = (0..count).map(|at| format!("node-{at}")).collect();
            let whole = rows(&all);
            let last = rows(&all[count - 1..]);
            for (nodes, expected) in [(&whole, &all[..]), (&last, &all[count - 1..])] {
                let reads = ReadsId::Digest([7; 32]);
                let question = Question {
                    call: CallFields { id: "c-1", purpose: Purpose::Decide, reads, snapshot: 0xab },
                    pod: &pod,
                    nodes,
                    wants: Wants::Hook(Verb::BeforeScore),
                };
                let head = head(ApiVersion::NEWEST, Some(&args));
                let framed = head.pieces(question, Args::Named, usize::MAX).unwrap().concat();
                assert_eq!(framed[1..5], u32::try_from(framed.len() - 5).unwrap().to_be_bytes());
                let hook = ChangeRequest::decode(&framed[5..]).unwrap();
                let score = ScoreRequest::decode(&framed[5..]).unwrap();
                assert_eq!(
                    (&hook.call, &hook.pod, hook.hook()),
                    (&score.call, &score.pod, Verb::BeforeScore)
                );
                let call = hook.call.unwrap();
                assert_eq!(
                    (call.id.as_str(), call.purpose(), &call.reads[..]),
                    ("c-1", Purpose::Decide, &[7; 32][..])
                );
                assert_eq!((call.snapshot.as_str(), call.cluster.as_str()), ("00000000000000ab", "east"));
                assert_eq!((call.gateway.as_str(), call.backend.as_str()), ("gateway-0", "racks"));
                assert_eq!((&call.args[..], &call.args_sha256[..]), (&b""[..], &sha256(&args)[..]));
                assert_eq!(hook.pod.unwrap().raw_json, json);
                let whole = (u32::try_from(expected.len()).unwrap(), expected.to_vec());
                assert_eq!(names(hook.nodes), whole);
                assert_eq!(names(score.nodes), whole);
            }
        }
    }

    #[test]
    fn args_are_sent_when_the_backend_lacks_them() {
        let args = Bytes::from_static(br#"{"a":1}"#);
        let call = CallFields { id: "c", purpose: Purpose::Decide, reads: ReadsId::None, snapshot: 0 };
        let asked = |api, how| {
            let head = head(api, Some(&args));
            let framed = head.around(call, how, Bytes::new(), usize::MAX).unwrap().concat();
            (head.can_send_args(), FilterRequest::decode(&framed[5..]).unwrap().call.unwrap())
        };
        let (can, sent) = asked(ApiVersion::NEWEST, Args::Sent);
        assert_eq!((can, &sent.args, &sent.args_sha256[..]), (true, &args, &sha256(&args)[..]));
        assert_eq!(sent.cluster, "east");
        let (can, named) = asked(ApiVersion::V1Alpha1, Args::Named);
        assert_eq!((can, &named.args, named.cluster.as_str()), (false, &args, ""));
        assert!(named.args_sha256.is_empty());
    }

    #[test]
    fn names_are_numbers_in_v1alpha1() {
        /// `Call` of v1alpha1.
        #[derive(prost::Message)]
        struct OldCall {
            #[prost(uint32, tag = "6")]
            reads: u32,
            #[prost(fixed64, tag = "7")]
            snapshot: u64,
        }
        #[derive(prost::Message)]
        struct OldRequest {
            #[prost(message, optional, tag = "1")]
            call: Option<OldCall>,
        }
        let call = CallFields {
            id: "c",
            purpose: Purpose::Decide,
            reads: ReadsId::Number(1 << 31),
            snapshot: u64::MAX - 1,
        };
        let head = head(ApiVersion::V1Alpha1, None);
        let framed = head.around(call, Args::Named, Bytes::new(), usize::MAX).unwrap().concat();
        let call = OldRequest::decode(&framed[5..]).unwrap().call.unwrap();
        assert_eq!((call.reads, call.snapshot), (1 << 31, u64::MAX - 1));
    }

    #[test]
    fn references_are_ids_and_the_rows_that_are_newer() {
        for (table, at_least) in [(u64::MAX, 1), (0, 300), (7, 0)] {
            let mut references = References::with_capacity(3);
            references.id(300);
            references.row(&RowView::Name.bare_row("new"));
            let numbers = [1, 0x7f, 0x80, 0x3fff, 0x4000, 0x1f_ffff, 0x20_0000, u32::MAX];
            for number in numbers {
                references.id(number);
            }
            let name = TableName { number: table, api: ApiVersion::NEWEST };
            let nodes = references.finish(name, at_least);
            let request = ScoreRequest::decode(nodes.bytes.clone()).unwrap();
            let nodes = request.nodes.unwrap();
            let Some(Form::Table(reference)) = nodes.form else { panic!("no reference") };
            assert_eq!((nodes.count, reference.at_least), (10, at_least));
            assert_eq!((reference.table, name.text()), (name.text(), format!("{table:016x}")));
            assert_eq!(reference.ids, [&[300, 0], &numbers[..]].concat());
            let names: Vec<_> = reference.rows.into_iter().map(|row| row.name).collect();
            assert_eq!(names, ["new"]);
        }
    }

    #[test]
    fn a_request_that_the_backend_would_refuse_is_not_sent() {
        let nodes = rows(&["a".into()]);
        let question = Question {
            call: CallFields { id: "c", purpose: Purpose::Decide, reads: ReadsId::None, snapshot: 0 },
            pod: &Bytes::new(),
            nodes: &nodes,
            wants: Wants::Nothing,
        };
        let failure = head(ApiVersion::NEWEST, None).pieces(question, Args::Named, 10).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Oversize);
        assert_eq!(failure.detail, "the request has 42 bytes, the backend accepts 10 (max_request_bytes)");
    }
}
