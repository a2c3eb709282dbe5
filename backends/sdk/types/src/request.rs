//! The messages with nodes as this crate decodes them: like the generated ones, but the rows stay encoded. A
//! generated row is some fifty allocations, and most policies look at a label or two.

use extender_policy_api::v1beta1::{Call, Candidate, NodeReads, Pod, Verb};
use prost::bytes::Bytes;

use crate::wire::{Field, FieldValue, Fields};

/// `Call.args` and `Call.args_sha256` of an encoded request of any verb: the last ones that are set, also if the call comes
/// in parts, which a decoder merges.
pub fn args(request: &[u8]) -> (&[u8], &[u8]) {
    let last =
        |number| slices(request, 1).flat_map(move |call| slices(call, number)).last().unwrap_or_default();
    (last(5), last(8))
}

/// `ChangeRequest.hook` of an encoded request: the last one that is set.
pub fn hook(request: &[u8]) -> i32 {
    let number = |field| match field {
        // Larger numbers name no hook, like negative ones.
        Ok(Field { tag: 4, value: FieldValue::Number(number) }) => Some(i32::try_from(number).unwrap_or(-1)),
        _ => None,
    };
    Fields::of(request).filter_map(number).last().unwrap_or_default()
}

/// The fields of this number that can hold messages or bytes, as far as the message can be read.
fn slices(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    Fields::of(message).filter_map(move |field| match field {
        Ok(Field { tag, value: FieldValue::Slice(slice) }) if tag == number => Some(slice),
        _ => None,
    })
}

/// `FilterRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FilterRequest {
    #[prost(message, optional, tag = "1")]
    pub call: Option<Call>,
    #[prost(message, optional, tag = "2")]
    pub pod: Option<Pod>,
    #[prost(message, optional, tag = "3")]
    pub nodes: Option<NodeList>,
    #[prost(bool, tag = "4")]
    pub want_scores: bool,
}

/// `ScoreRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScoreRequest {
    #[prost(message, optional, tag = "1")]
    pub call: Option<Call>,
    #[prost(message, optional, tag = "2")]
    pub pod: Option<Pod>,
    #[prost(message, optional, tag = "3")]
    pub nodes: Option<NodeList>,
}

/// `ChangeRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ChangeRequest {
    #[prost(message, optional, tag = "1")]
    pub call: Option<Call>,
    #[prost(message, optional, tag = "2")]
    pub pod: Option<Pod>,
    #[prost(message, optional, tag = "3")]
    pub nodes: Option<NodeList>,
    #[prost(enumeration = "Verb", tag = "4")]
    pub hook: i32,
}

/// `PreemptRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PreemptRequest {
    #[prost(message, optional, tag = "1")]
    pub call: Option<Call>,
    #[prost(message, optional, tag = "2")]
    pub pod: Option<Pod>,
    #[prost(message, optional, tag = "3")]
    pub nodes: Option<NodeList>,
    #[prost(message, repeated, tag = "4")]
    pub candidates: Vec<Candidate>,
}

/// `Nodes`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeList {
    #[prost(uint32, tag = "1")]
    pub count: u32,
    /// The forms that this crate knows. An unknown form is skipped, so that none is set.
    #[prost(oneof = "Form", tags = "2, 3")]
    pub form: Option<Form>,
}

/// `Nodes.form`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Form {
    #[prost(message, tag = "2")]
    Rows(NodeRows),
    #[prost(message, tag = "3")]
    Table(NodeRef),
}

/// `NodeRows`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeRows {
    /// Each an encoded `NodeRow`: slices of the one buffer that the request came in.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub rows: Vec<Bytes>,
}

/// `NodeRef`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeRef {
    #[prost(string, tag = "5")]
    pub table: String,
    #[prost(uint64, tag = "2")]
    pub at_least: u64,
    #[prost(uint32, repeated, tag = "3")]
    pub ids: Vec<u32>,
    /// Encoded, as in [`NodeRows`].
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub rows: Vec<Bytes>,
}

/// `SyncNodesRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SyncNodesRequest {
    #[prost(string, tag = "7")]
    pub table: String,
    #[prost(uint64, tag = "2")]
    pub version: u64,
    #[prost(message, optional, tag = "8")]
    pub reads: Option<NodeReads>,
    #[prost(message, repeated, tag = "4")]
    pub upserts: Vec<TableEntry>,
    #[prost(uint32, repeated, tag = "5")]
    pub removed: Vec<u32>,
    #[prost(bool, tag = "6")]
    pub complete: bool,
}

/// `TableEntry`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableEntry {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    /// An encoded `NodeRow`.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub row: Option<Bytes>,
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn args_are_those_of_the_merged_call() {
        let part = |args: &[u8], args_sha256: &[u8]| {
            let (args, args_sha256) = (args.to_vec().into(), args_sha256.to_vec().into());
            let call = Call { args, args_sha256, ..Call::default() };
            FilterRequest { call: Some(call), ..FilterRequest::default() }.encode_to_vec()
        };
        for (message, expected) in [
            (vec![], (&b""[..], &b""[..])),
            (part(b"{1}", b"a"), (b"{1}", b"a")),
            ([part(b"{1}", b""), part(b"", b"b")].concat(), (b"{1}", b"b")),
            ([part(b"{1}", b"a"), part(b"{2}", b"")].concat(), (b"{2}", b"a")),
        ] {
            assert_eq!(args(&message), expected);
            let merged = FilterRequest::decode(&*message).unwrap().call.unwrap_or_default();
            assert_eq!(args(&message), (&*merged.args, &*merged.args_sha256));
        }
    }

    #[test]
    fn the_hook_is_the_last_one() {
        let request = |hook| ChangeRequest { hook, ..ChangeRequest::default() }.encode_to_vec();
        for message in [vec![], request(5), request(-1), [request(5), request(6)].concat()] {
            assert_eq!(hook(&message), ChangeRequest::decode(&*message).unwrap().hook);
        }
    }
}
