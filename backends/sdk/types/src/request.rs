//! The messages with nodes as this crate decodes them: like the generated ones, but the rows stay encoded. A
//! generated row is some fifty allocations, and most policies look at a label or two.

use extender_policy_api::v1beta1::{Call, Candidate, Pod, TableView};
use prost::bytes::Bytes;

use crate::wire::{Field, FieldValue, Fields};

/// `Call.args` of an encoded request of any verb: the last one that is set, also if the call comes in parts, which a
/// decoder merges.
pub fn args(request: &[u8]) -> &[u8] {
    slices(request, 1).flat_map(|call| slices(call, 5)).last().unwrap_or_default()
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

/// `ScoreRequest`, `BeforeFilterNodesRequest` and `BeforeScoreRequest`, which have the same fields.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodesRequest {
    #[prost(message, optional, tag = "1")]
    pub call: Option<Call>,
    #[prost(message, optional, tag = "2")]
    pub pod: Option<Pod>,
    #[prost(message, optional, tag = "3")]
    pub nodes: Option<NodeList>,
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
    #[prost(fixed64, tag = "1")]
    pub table: u64,
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
    #[prost(fixed64, tag = "1")]
    pub table: u64,
    #[prost(uint64, tag = "2")]
    pub version: u64,
    #[prost(message, optional, tag = "3")]
    pub view: Option<TableView>,
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
        let part = |args: &[u8], id: &str| {
            let call = Call { args: args.to_vec().into(), id: id.to_owned(), ..Call::default() };
            FilterRequest { call: Some(call), ..FilterRequest::default() }.encode_to_vec()
        };
        for (message, expected) in [
            (vec![], &b""[..]),
            (part(b"{1}", "a"), b"{1}"),
            ([part(b"{1}", "a"), part(b"", "b")].concat(), b"{1}"),
            ([part(b"{1}", "a"), part(b"{2}", "b")].concat(), b"{2}"),
        ] {
            assert_eq!(args(&message), expected);
            let merged = FilterRequest::decode(&*message).unwrap().call.unwrap_or_default();
            assert_eq!(args(&message), merged.args);
        }
    }
}
