//! The requests about nodes as this crate decodes them: the generated messages, but the rows stay encoded.
//! A generated row is some fifty allocations, and most policies look at a label or two.

use extender_policy_api::v1alpha1::{Call, Candidate, Pod};
use prost::bytes::Bytes;

/// `FilterRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FilterRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) call: Option<Call>,
    #[prost(message, optional, tag = "2")]
    pub(crate) pod: Option<Pod>,
    #[prost(message, optional, tag = "3")]
    pub(crate) nodes: Option<Nodes>,
    #[prost(bool, tag = "4")]
    pub(crate) want_scores: bool,
}

/// `ScoreRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ScoreRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) call: Option<Call>,
    #[prost(message, optional, tag = "2")]
    pub(crate) pod: Option<Pod>,
    #[prost(message, optional, tag = "3")]
    pub(crate) nodes: Option<Nodes>,
}

/// `PreemptRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PreemptRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) call: Option<Call>,
    #[prost(message, optional, tag = "2")]
    pub(crate) pod: Option<Pod>,
    #[prost(message, optional, tag = "3")]
    pub(crate) nodes: Option<Nodes>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) candidates: Vec<Candidate>,
}

/// `Nodes`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Nodes {
    #[prost(uint32, tag = "1")]
    pub(crate) count: u32,
    /// The only form that this crate knows. Another one is passed over, so that none is left.
    #[prost(message, optional, tag = "2")]
    pub(crate) rows: Option<NodeRows>,
}

/// `NodeRows`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NodeRows {
    /// Each an encoded `NodeRow`: slices of the one buffer that the request came in.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) rows: Vec<Bytes>,
}
