//! What the backend declares in its handshake, as cases need it.

use std::collections::BTreeSet;

use bytes::Bytes;
use extender_policy_api::limits::REQUEST_BYTES;
use extender_policy_api::v1beta1::{self as api, hook_service_server, policy_service_server};
use prost::{DecodeError, Message as _};

use crate::digest::sha256;

/// A verb of `PolicyService`, or a hook of `HookService`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Filter,
    Score,
    Preempt,
    Bind,
    BeforeFilter,
    BeforeFilterNodes,
    BeforeScore,
}

/// All verbs.
pub const VERBS: [Verb; 7] = [
    Verb::Filter,
    Verb::Score,
    Verb::Preempt,
    Verb::Bind,
    Verb::BeforeFilter,
    Verb::BeforeFilterNodes,
    Verb::BeforeScore,
];

/// The verbs that can be asked without changing the cluster.
pub const ALL_BUT_BIND: [Verb; 6] = [
    Verb::Filter,
    Verb::Score,
    Verb::Preempt,
    Verb::BeforeFilter,
    Verb::BeforeFilterNodes,
    Verb::BeforeScore,
];

/// The verbs whose requests have nodes.
pub const ABOUT_NODES: [Verb; 5] =
    [Verb::Filter, Verb::Score, Verb::Preempt, Verb::BeforeFilterNodes, Verb::BeforeScore];

/// The verbs of `PolicyService` whose requests have nodes, which can have side effects.
pub const DECIDING: [Verb; 3] = [Verb::Filter, Verb::Score, Verb::Preempt];

/// The verbs that can look at one node at a time.
pub const PER_NODE: [Verb; 4] = [Verb::Filter, Verb::Score, Verb::BeforeFilterNodes, Verb::BeforeScore];

/// The verbs whose answers can be pure.
pub const CACHEABLE: [Verb; 5] =
    [Verb::Filter, Verb::Score, Verb::BeforeFilter, Verb::BeforeFilterNodes, Verb::BeforeScore];

/// The verbs that are told where the pods are that are like the pod.
pub const TOLD_TOPOLOGY: [Verb; 2] = [Verb::Filter, Verb::Score];

/// The hook whose requests have a pod alone.
pub const POD_ALONE: [Verb; 1] = [Verb::BeforeFilter];

/// The hooks.
pub const HOOKS: [Verb; 3] = [Verb::BeforeFilter, Verb::BeforeFilterNodes, Verb::BeforeScore];

/// The hooks whose requests have nodes.
pub const NODE_HOOKS: [Verb; 2] = [Verb::BeforeFilterNodes, Verb::BeforeScore];

impl Verb {
    /// The name in the gateway's configuration and in the names of cases, that for people, and the number in the handshake.
    fn names(self) -> (&'static str, &'static str, api::Verb) {
        match self {
            Self::Filter => ("filter", "Filter", api::Verb::Filter),
            Self::Score => ("score", "Score", api::Verb::Score),
            Self::Preempt => ("preempt", "Preempt", api::Verb::Preempt),
            Self::Bind => ("bind", "Bind", api::Verb::Bind),
            Self::BeforeFilter => ("beforeFilter", "BeforeFilter", api::Verb::BeforeFilter),
            Self::BeforeFilterNodes => {
                ("beforeFilterNodes", "BeforeFilterNodes", api::Verb::BeforeFilterNodes)
            }
            Self::BeforeScore => ("beforeScore", "BeforeScore", api::Verb::BeforeScore),
        }
    }

    /// As in the gateway's configuration and in the names of cases.
    pub fn name(self) -> &'static str {
        self.names().0
    }

    /// The name of the method, or of the hook.
    pub fn title(self) -> &'static str {
        self.names().1
    }

    /// The name of the method: the hooks have one.
    pub fn method(self) -> &'static str {
        if self.is_hook() { "Change" } else { self.title() }
    }

    /// As in the handshake.
    pub fn declared(self) -> api::Verb {
        self.names().2
    }

    /// The service that has the method.
    pub fn service(self) -> &'static str {
        if self.is_hook() { hook_service_server::SERVICE_NAME } else { policy_service_server::SERVICE_NAME }
    }

    /// Whether it is one of `HookService`.
    pub fn is_hook(self) -> bool {
        HOOKS.contains(&self)
    }

    /// Whether its requests have nodes.
    pub fn has_nodes(self) -> bool {
        ABOUT_NODES.contains(&self)
    }
}

/// A handshake.
#[derive(Clone, Debug)]
pub struct Declared {
    pub info: api::GetInfoResponse,
    /// Of each entry of `verbs`: `Call.reads` of its requests.
    reads: Vec<Bytes>,
}

/// A handshake with what is read as it is encoded: another encoder could write other bytes.
#[derive(Clone, PartialEq, prost::Message)]
struct EncodedInfo {
    #[prost(message, repeated, tag = "7")]
    verbs: Vec<EncodedVerb>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EncodedVerb {
    #[prost(bytes = "bytes", tag = "11")]
    reads: Bytes,
}

/// Of a verb without a declaration, which a gateway rejects.
static NOTHING: api::Reads = api::Reads { pod: None, node: None };
static NOTHING_OF_PODS: api::PodReads = api::PodReads {
    parts: Vec::new(),
    labels: None,
    annotations: None,
    topology_counts: Vec::new(),
    everything: false,
};
static NOTHING_OF_NODES: api::NodeReads = api::NodeReads {
    parts: Vec::new(),
    labels: None,
    annotations: None,
    pod_counts: Vec::new(),
    everything: false,
};

impl Declared {
    /// From the bytes of the response.
    pub fn read(response: &Bytes) -> Result<Self, DecodeError> {
        let info = api::GetInfoResponse::decode(response.clone())?;
        let encoded = EncodedInfo::decode(response.clone())?;
        let digest = |verb: EncodedVerb| sha256(&verb.reads);
        Ok(Self { info, reads: encoded.verbs.into_iter().map(digest).collect() })
    }

    /// What the backend says about a verb; `None` if it does not list it.
    pub fn verb(&self, verb: Verb) -> Option<Terms<'_>> {
        let declared = i32::from(verb.declared());
        let (info, reads_sha256) =
            self.info.verbs.iter().zip(&self.reads).find(|(info, _)| info.verb == declared)?;
        Some(Terms { verb, info, reads_sha256 })
    }

    /// The verbs that are listed.
    pub fn verbs(&self) -> impl Iterator<Item = Terms<'_>> {
        VERBS.into_iter().filter_map(|verb| self.verb(verb))
    }

    /// Whether the backend holds tables of nodes.
    pub fn holds_tables(&self) -> bool {
        self.lists(api::node_table_service_server::SERVICE_NAME)
    }

    /// Whether `services` has this one.
    pub fn lists(&self, service: &str) -> bool {
        self.info.services.iter().any(|listed| listed == service)
    }

    /// The largest request in bytes that the backend accepts.
    pub fn max_request_bytes(&self) -> u64 {
        match self.info.max_request_bytes {
            0 => REQUEST_BYTES as u64,
            limit => limit,
        }
    }

    /// The keys of labels and annotations that any verb names.
    pub fn keys(&self) -> BTreeSet<&str> {
        let reads = self.info.verbs.iter().filter_map(|verb| verb.reads.as_ref());
        let maps = reads.flat_map(|reads| {
            let pod = reads.pod.iter().flat_map(|pod| [&pod.labels, &pod.annotations]);
            pod.chain(reads.node.iter().flat_map(|node| [&node.labels, &node.annotations]))
        });
        maps.flatten().flat_map(|map| map.keys.iter().chain(&map.prefixes)).map(String::as_str).collect()
    }
}

/// What the backend declares about one verb.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub verb: Verb,
    pub info: &'a api::VerbInfo,
    /// `Call.reads` of its requests.
    pub reads_sha256: &'a Bytes,
}

impl<'a> Terms<'a> {
    /// What the verb reads.
    pub fn reads(self) -> &'a api::Reads {
        self.info.reads.as_ref().unwrap_or(&NOTHING)
    }

    /// What it reads of the pod, and of victims.
    pub fn pod_reads(self) -> &'a api::PodReads {
        self.reads().pod.as_ref().unwrap_or(&NOTHING_OF_PODS)
    }

    /// What it reads of nodes.
    pub fn node_reads(self) -> &'a api::NodeReads {
        self.reads().node.as_ref().unwrap_or(&NOTHING_OF_NODES)
    }

    pub fn reads_pod(self, part: api::PodPart) -> bool {
        let api::PodReads { parts, everything, .. } = self.pod_reads();
        let is_beside = matches!(part, api::PodPart::Identity | api::PodPart::RawJson);
        *everything && !is_beside || parts.contains(&part.into())
    }

    pub fn reads_node(self, part: api::NodePart) -> bool {
        let api::NodeReads { parts, everything, .. } = self.node_reads();
        *everything && !NODE_PARTS_BESIDE.contains(&part) || parts.contains(&part.into())
    }

    /// Whether rows have facts: more is read of nodes than the name.
    pub fn has_facts(self) -> bool {
        let name = i32::from(api::NodePart::Name);
        let mut others = self.table_reads();
        others.parts.retain(|part| *part != name);
        others != NOTHING_OF_NODES
    }

    /// Whether an answer about a node is the same whichever other nodes are in the request.
    pub fn is_per_node(self) -> bool {
        self.info.scope() == api::Scope::Node
    }

    /// Whether it declares that it changes something outside.
    pub fn changes_outside(self) -> bool {
        self.info.effects() == api::Effects::ChangesOutside
    }

    /// Bind changes the cluster, whatever it declares.
    pub fn has_side_effects(self) -> bool {
        self.changes_outside() || self.verb == Verb::Bind
    }

    pub fn is_pure(self) -> bool {
        self.info.effects() == api::Effects::Pure
    }

    /// The bounds of raw scores.
    pub fn scores(self) -> std::ops::RangeInclusive<i32> {
        self.info.score_min.unwrap_or(i32::MIN)..=self.info.score_max.unwrap_or(i32::MAX)
    }

    /// What rows of a table for this verb contain (SPEC.md, 44).
    pub fn table_reads(self) -> api::NodeReads {
        canonical(self.node_reads().clone())
    }
}

/// The parts of nodes that `everything` does not include.
pub const NODE_PARTS_BESIDE: [api::NodePart; 4] =
    [api::NodePart::Usage, api::NodePart::Nominated, api::NodePart::RawJson, api::NodePart::Images];

/// A declaration with parts and prefixes in ascending order, without prefixes that begin with another one, and without
/// maps that select nothing.
fn canonical(mut reads: api::NodeReads) -> api::NodeReads {
    reads.parts.sort_unstable();
    reads.labels = reads.labels.and_then(canonical_map);
    reads.annotations = reads.annotations.and_then(canonical_map);
    reads
}

fn canonical_map(mut map: api::MapReads) -> Option<api::MapReads> {
    map.prefixes.sort_unstable();
    let mut kept: Vec<String> = Vec::new();
    for prefix in map.prefixes {
        if kept.last().is_none_or(|last| !prefix.starts_with(last.as_str())) {
            kept.push(prefix);
        }
    }
    map.prefixes = kept;
    (!map.keys.is_empty() || !map.prefixes.is_empty()).then_some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_named_by_their_bytes_in_the_handshake() {
        let reads =
            api::Reads { pod: Some(api::PodReads { parts: vec![1], ..Default::default() }), node: None };
        // A field that this version does not know.
        let bytes = Bytes::from([&*reads.encode_to_vec(), &[0x78, 1]].concat());
        let mut verb = vec![0x08, 1];
        prost::encoding::bytes::encode(11, &bytes, &mut verb);
        let mut response = Vec::new();
        prost::encoding::bytes::encode(7, &Bytes::from(vec![0x08, 2]), &mut response);
        prost::encoding::bytes::encode(7, &Bytes::from(verb), &mut response);
        let declared = Declared::read(&response.into()).unwrap();
        let filter = declared.verb(Verb::Filter).unwrap();
        assert_eq!((filter.reads(), filter.reads_sha256), (&reads, &sha256(&bytes)));
        let score = declared.verb(Verb::Score).unwrap();
        assert_eq!((score.reads(), score.reads_sha256), (&NOTHING, &sha256(b"")));
    }

    #[test]
    fn a_canonical_declaration_has_no_repetitions() {
        let prefixes = ["b/", "a/", "a/x", "b"].map(str::to_owned).to_vec();
        let labels = Some(api::MapReads { keys: Vec::new(), prefixes });
        let annotations = Some(api::MapReads::default());
        let reads = api::NodeReads { parts: vec![5, 1], labels, annotations, ..NOTHING_OF_NODES.clone() };
        let reads = canonical(reads);
        assert_eq!(reads.parts, [1, 5]);
        assert_eq!(reads.labels.unwrap().prefixes, ["a/", "b"]);
        assert_eq!(reads.annotations, None);
    }

    #[test]
    fn rows_have_facts_if_more_than_the_name_is_read() {
        let has_facts = |reads| {
            let info = api::VerbInfo {
                reads: Some(api::Reads { pod: None, node: Some(reads) }),
                ..api::VerbInfo::default()
            };
            Terms { verb: Verb::Filter, info: &info, reads_sha256: &Bytes::new() }.has_facts()
        };
        let parts = |parts: &[i32]| api::NodeReads { parts: parts.to_vec(), ..NOTHING_OF_NODES.clone() };
        let (name, usage) = (api::NodePart::Name.into(), api::NodePart::Usage.into());
        for (reads, expected) in [
            (parts(&[]), false),
            (parts(&[name]), false),
            (api::NodeReads { labels: Some(api::MapReads::default()), ..parts(&[]) }, false),
            (parts(&[usage]), true),
            (parts(&[usage, name]), true),
            (api::NodeReads { everything: true, ..parts(&[]) }, true),
            (api::NodeReads { pod_counts: vec![api::PodCountReads::default()], ..parts(&[]) }, true),
        ] {
            assert_eq!(has_facts(reads.clone()), expected, "{reads:?}");
        }
    }
}
