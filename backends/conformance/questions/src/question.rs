//! Requests: what a gateway would send, and changes that a case makes to it.

use bytes::{Bytes, BytesMut};
use extender_policy_api::v1beta1 as api;
use prost::Message as _;

use crate::{
    declared::{Terms, Verb},
    digest::sha256,
    objects::{Node, Objects, Pod},
    sent::Extent,
};

/// A pod and the nodes that it could run on, before a verb's declaration selects what is sent of them.
#[derive(Clone, Debug)]
#[must_use]
pub struct Scene {
    pub pod: Pod,
    pub nodes: Vec<Node>,
    /// One list for each node.
    pub victims: Vec<Vec<Pod>>,
}

/// The nodes of a large cluster.
pub const LARGE: usize = 15_000;

/// The most victims on a node.
const VICTIMS: usize = 3;

impl Scene {
    pub fn random(objects: &mut Objects, nodes: usize) -> Self {
        let mut scene = Self::without_victims(objects, nodes);
        scene.victims.resize_with(nodes, || {
            let count = 1 + objects.random.below(VICTIMS);
            (0..count).map(|_| objects.pod()).collect()
        });
        scene
    }

    /// The same for all verbs but preempt. Of many nodes, the victims take most of the time.
    pub fn without_victims(objects: &mut Objects, nodes: usize) -> Self {
        Self { pod: objects.pod(), nodes: objects.nodes(nodes), victims: Vec::new() }
    }

    /// The same pod with the nodes at these positions, in this order.
    pub fn select(&self, positions: &[usize]) -> Self {
        let nodes = positions.iter().filter_map(|at| self.nodes.get(*at).cloned()).collect();
        let victims = positions.iter().filter_map(|at| self.victims.get(*at).cloned()).collect();
        Self { pod: self.pod.clone(), nodes, victims }
    }
}

/// A request of a verb, before it is encoded.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Question {
    pub verb: Verb,
    pub call: Option<api::Call>,
    pub pod: Option<api::Pod>,
    pub nodes: Option<api::Nodes>,
    /// Of preempt alone.
    pub candidates: Vec<api::Candidate>,
    /// Of filter alone.
    pub want_scores: bool,
}

impl Question {
    /// As a gateway asks.
    pub fn new(terms: Terms<'_>, scene: &Scene, args: &Bytes) -> Self {
        Self::with(terms, scene, args, Extent::Declared)
    }

    /// With more than the declaration asks for.
    pub fn with(terms: Terms<'_>, scene: &Scene, args: &Bytes, extent: Extent) -> Self {
        let candidate = |victims: &Vec<Pod>| {
            let victims = victims.iter().map(|pod| api::Victim {
                uid: pod.identity.uid.clone(),
                pod: Some(Box::new(terms.victim(pod, extent))),
            });
            api::Candidate { victims: victims.collect(), ..api::Candidate::default() }
        };
        let candidates = match terms.verb {
            Verb::Preempt => scene.victims.iter().map(candidate).collect(),
            _ => Vec::new(),
        };
        Self {
            verb: terms.verb,
            call: Some(call(terms, args)),
            pod: Some(terms.pod(&scene.pod, extent)),
            nodes: terms.verb.has_nodes().then(|| in_rows(terms, scene, extent)),
            candidates,
            want_scores: false,
        }
    }

    /// With another `Nodes`, for the same nodes.
    pub fn by_table(mut self, node_ref: api::NodeRef) -> Self {
        let count = number(node_ref.ids.len());
        self.nodes = Some(api::Nodes { count, form: Some(api::nodes::Form::Table(node_ref)) });
        self
    }

    /// With a change of the call.
    pub fn called(mut self, change: impl FnOnce(&mut api::Call)) -> Self {
        self.call.as_mut().map(change);
        self
    }

    /// With a change of each row.
    pub fn rows(mut self, change: impl FnMut(&mut api::NodeRow)) -> Self {
        if let Some(api::nodes::Form::Rows(rows)) = self.nodes.as_mut().and_then(|nodes| nodes.form.as_mut())
        {
            rows.rows.iter_mut().for_each(change);
        }
        self
    }

    /// The number of nodes that it names.
    pub fn count(&self) -> u32 {
        self.nodes.as_ref().map_or(0, |nodes| nodes.count)
    }

    /// `Result.evaluated` of its answer: the hook without nodes is about one pod.
    pub fn evaluated(&self) -> u32 {
        if self.verb == Verb::BeforeFilter { 1 } else { self.count() }
    }

    /// With fields of a later version in the request and in each of its parts.
    pub fn encode_with(&self, unknown: &[u8]) -> Bytes {
        let Self { call, pod, nodes, .. } = self;
        let parts = [
            (1, call.as_ref().map(prost::Message::encode_to_vec)),
            (2, pod.as_ref().map(prost::Message::encode_to_vec)),
            (3, nodes.as_ref().map(prost::Message::encode_to_vec)),
        ];
        let rest = Self { call: None, pod: None, nodes: None, ..self.clone() };
        let mut message = BytesMut::from(&*rest.encode());
        for (field, part) in parts {
            let part = part.map(|part| Bytes::from([&*part, unknown].concat()));
            if let Some(part) = part {
                prost::encoding::bytes::encode(field, &part, &mut message);
            }
        }
        message.extend_from_slice(unknown);
        message.freeze()
    }

    /// As a gateway asks a backend that holds the args.
    pub fn encode_by_digest(&self) -> Bytes {
        self.clone().called(|call| call.args = Bytes::new()).into_bytes()
    }

    /// With the args.
    pub fn encode(&self) -> Bytes {
        self.clone().into_bytes()
    }

    fn into_bytes(self) -> Bytes {
        let Self { verb, call, pod, nodes, candidates, want_scores } = self;
        let encoded = match verb {
            Verb::Score => api::ScoreRequest { call, pod, nodes }.encode_to_vec(),
            Verb::Preempt => api::PreemptRequest { call, pod, nodes, candidates }.encode_to_vec(),
            Verb::BeforeFilter | Verb::BeforeFilterNodes | Verb::BeforeScore => {
                api::ChangeRequest { call, pod, nodes, hook: verb.declared().into() }.encode_to_vec()
            }
            Verb::Filter | Verb::Bind => api::FilterRequest { call, pod, nodes, want_scores }.encode_to_vec(),
        };
        encoded.into()
    }
}

/// All nodes of a scene, each as a row.
fn in_rows(terms: Terms<'_>, scene: &Scene, extent: Extent) -> api::Nodes {
    let rows: Vec<_> = scene.nodes.iter().map(|node| terms.row(node, extent)).collect();
    api::Nodes { count: number(rows.len()), form: Some(api::nodes::Form::Rows(api::NodeRows { rows })) }
}

/// The beginning of a request, with the args, as to a backend that does not hold them.
pub fn call(terms: Terms<'_>, args: &Bytes) -> api::Call {
    api::Call {
        id: "conformance".to_owned(),
        purpose: api::Purpose::Decide.into(),
        gateway: "policy-conformance".to_owned(),
        backend: "conformance".to_owned(),
        args: args.clone(),
        args_sha256: args_sha256(args),
        reads: terms.reads_sha256.clone(),
        ..api::Call::default()
    }
}

/// `Call.args_sha256` of calls with these args.
pub fn args_sha256(args: &Bytes) -> Bytes {
    if args.is_empty() { Bytes::new() } else { sha256(args) }
}

/// A length as the contract counts it.
pub fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
