//! What `extender.policy.v1alpha1` says otherwise, for one release: its handshake, what its tables contain, and where it has labels
//! and annotations.

use extender_policy_api::v1beta1::{
    Effects, MapReads, NodePart, NodeReads, PodPart, PodReads, Reads, Verb, VerbInfo,
};
use prost::Message;

use super::{
    protobuf::{fields, next_field, put_bytes},
    row::RowView,
};

/// Fields of `GetInfoResponse` that the newest package has no longer.
#[derive(Message)]
pub(super) struct OldInfo {
    #[prost(bool, tag = "8")]
    pod_raw: bool,
    #[prost(string, repeated, tag = "9")]
    annotation_prefixes: Vec<String>,
}

/// Fields of `VerbInfo` that it has no longer.
#[derive(Message)]
pub(super) struct OldVerb {
    #[prost(int32, tag = "2")]
    node_view: i32,
    #[prost(bool, tag = "4")]
    side_effects: bool,
    #[prost(bool, tag = "5")]
    pure: bool,
    #[prost(bool, tag = "10")]
    usage: bool,
    #[prost(message, optional, tag = "11")]
    reads: Option<OldReads>,
}

/// The field of `Reads` that it has no longer.
#[derive(Message)]
struct OldReads {
    #[prost(uint32, tag = "1")]
    id: u32,
}

/// Values of `NodeView`.
const NAME: i32 = 1;
const FACTS: i32 = 2;
const FACTS_AND_RAW: i32 = 3;

/// The view of nodes is none of those.
struct UnknownView;

impl OldVerb {
    /// `Reads.id`; 0 without a declaration.
    pub(super) fn id(&self) -> u32 {
        self.reads.as_ref().map_or(0, |reads| reads.id)
    }

    /// Declares the verb as the newest package does.
    pub(super) fn complete(&self, verb: &mut VerbInfo, info: &OldInfo) {
        verb.set_effects(match (self.side_effects, self.pure) {
            (true, _) => Effects::ChangesOutside,
            (false, true) => Effects::Pure,
            (false, false) => Effects::ReadsOutside,
        });
        let declared = verb.reads.take();
        // Without a view that is known, the verb stays without a declaration, and is refused.
        if let Ok(node) = self.node(verb.verb(), declared.as_ref(), info) {
            verb.reads = Some(Reads { pod: Some(self.pod(declared, info)), node });
        }
    }

    fn pod(&self, declared: Option<Reads>, info: &OldInfo) -> PodReads {
        let mut pod = match declared {
            Some(reads) => reads.pod.unwrap_or_default(),
            None => PodReads {
                everything: true,
                annotations: info.annotations(),
                // A pure verb did not get it.
                parts: if self.pure { Vec::new() } else { vec![PodPart::Identity.into()] },
                ..PodReads::default()
            },
        };
        pod.parts.extend(info.pod_raw.then_some(i32::from(PodPart::RawJson)));
        pod
    }

    /// What is read of nodes.
    fn node(
        &self,
        verb: Verb,
        declared: Option<&Reads>,
        info: &OldInfo,
    ) -> Result<Option<NodeReads>, UnknownView> {
        let mut node = match (self.node_view, verb) {
            (_, Verb::Bind) | (0, Verb::BeforeFilter) => return Ok(None),
            (NAME, _) => NodeReads { parts: vec![NodePart::Name.into()], ..NodeReads::default() },
            (FACTS | FACTS_AND_RAW, _) => match declared {
                Some(reads) => reads.node.clone().unwrap_or_default(),
                None => {
                    NodeReads { everything: true, annotations: info.annotations(), ..NodeReads::default() }
                }
            },
            _ => return Err(UnknownView),
        };
        node.parts.extend(self.usage.then_some(i32::from(NodePart::Usage)));
        node.parts.extend((self.node_view == FACTS_AND_RAW).then_some(i32::from(NodePart::RawJson)));
        Ok(Some(node))
    }
}

impl OldInfo {
    fn annotations(&self) -> Option<MapReads> {
        let prefixes = self.annotation_prefixes.clone();
        (!prefixes.is_empty()).then(|| MapReads { keys: Vec::new(), prefixes })
    }
}

/// `TableView`, the content of a table's rows.
#[derive(PartialEq, Message)]
pub struct TableView {
    #[prost(int32, tag = "1")]
    node_view: i32,
    #[prost(string, repeated, tag = "2")]
    annotation_prefixes: Vec<String>,
    #[prost(bool, tag = "3")]
    usage: bool,
    #[prost(message, optional, tag = "4")]
    reads: Option<NodeReads>,
}

impl TableView {
    /// The content of the rows of a view.
    pub fn new(rows: &RowView) -> Self {
        let NodeReads { everything, mut parts, annotations, labels, pod_counts } = rows.reads();
        let apart = [NodePart::Usage, NodePart::RawJson, NodePart::Images].map(i32::from);
        parts.retain(|part| !apart.contains(part));
        let node_view = if rows.wants_raw() { FACTS_AND_RAW } else { FACTS };
        let (annotation_prefixes, reads) = if everything {
            (annotations.map_or_else(Vec::new, |annotations| annotations.prefixes), None)
        } else {
            (Vec::new(), Some(NodeReads { parts, labels, annotations, pod_counts, everything }))
        };
        Self { node_view, annotation_prefixes, usage: rows.wants_usage(), reads }
    }
}

/// Where this package has what is in a field of the newest one.
pub(super) enum Moved {
    /// In fields of this message that are elsewhere.
    Inside(&'static [(u32, Moved)]),
    /// Not in a message `MapValues`, but in these fields of the message around it.
    Map { values: u32, absent: u32, entries: u32 },
}

const FACTS_OF_POD: &[(u32, Moved)] = &[
    (18, Moved::Map { values: 14, absent: 16, entries: 2 }),
    (19, Moved::Map { values: 15, absent: 17, entries: 3 }),
];
const FACTS_OF_NODE: &[(u32, Moved)] = &[
    (12, Moved::Map { values: 8, absent: 10, entries: 1 }),
    (13, Moved::Map { values: 9, absent: 11, entries: 2 }),
];
/// Of `Pod`.
pub(super) const POD: &[(u32, Moved)] = &[(2, Moved::Inside(FACTS_OF_POD))];
/// Of a `NodeRow`.
pub(super) const ROW: &[(u32, Moved)] = &[(2, Moved::Inside(FACTS_OF_NODE))];
/// Of entries of `NodeRows.rows`.
pub(super) const ROWS: &[(u32, Moved)] = &[(1, Moved::Inside(ROW))];
/// Of entries of `NodeRef.rows`.
pub(super) const REFERENCE: &[(u32, Moved)] = &[(4, Moved::Inside(ROW))];
/// Of entries of `SyncNodesRequest.upserts`.
const UPSERTS: &[(u32, Moved)] = &[(4, Moved::Inside(&[(2, Moved::Inside(ROW))]))];
/// Of entries of `PreemptRequest.candidates`.
pub(super) const CANDIDATES: &[(u32, Moved)] =
    &[(4, Moved::Inside(&[(1, Moved::Inside(&[(2, Moved::Inside(POD))]))]))];
/// Of `BindRequest`.
pub(super) const BIND: &[(u32, Moved)] = &[(6, Moved::Inside(POD))];
/// Of the pod as a field of a request.
pub(super) const POD_FIELD: &[(u32, Moved)] = &[(2, Moved::Inside(POD))];

/// `upserts` of a message for a table, as this package has them.
pub fn upserts(encoded: &[u8]) -> Vec<u8> {
    older(encoded, UPSERTS)
}

/// A message with what is moved where this package has it.
///
/// # Panics
/// `message` is not the gateway's own encoding.
pub(super) fn older(mut message: &[u8], moved: &[(u32, Moved)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len());
    while !message.is_empty() {
        let before = message;
        let (number, content) = next_field(&mut message).expect(OWN);
        let field = moved.iter().find(|(field, _)| *field == number);
        match (field, content) {
            (Some((_, Moved::Inside(inner))), Some(content)) => {
                put_bytes(number, &older(content, inner), &mut out);
            }
            (Some((_, Moved::Map { values, absent, entries })), Some(content)) => {
                for field in fields(content) {
                    let (number, content) = field.expect(OWN);
                    let to = [*values, *absent, *entries][number as usize - 1];
                    let content = content.expect(OWN);
                    put_bytes(to, content, &mut out);
                }
            }
            _ => out.extend_from_slice(&before[..before.len() - message.len()]),
        }
    }
    out
}

/// Why decoding cannot fail.
const OWN: &str = "the gateway encoded this message itself";

#[cfg(test)]
mod tests {
    use extender_policy_api::v1beta1::{MapValues, NodeFacts, NodeRow, NodeRows, Pod, PodFacts, Taint};

    use super::*;
    use crate::{
        api::{ApiVersion, Handshake, ReadsId},
        protobuf::put_number,
    };

    /// The handshake of a backend with this verb, and the fields of its info.
    fn handshake(verb: &[u8], info: &OldInfo) -> Handshake {
        let mut answer = info.encode_to_vec();
        put_bytes(7, verb, &mut answer);
        Handshake::read(&answer, ApiVersion::V1Alpha1).unwrap()
    }

    fn verb(number: u8, old: &OldVerb) -> Vec<u8> {
        let mut verb = vec![8, number];
        old.encode(&mut verb).unwrap();
        verb
    }

    #[test]
    fn effects_are_booleans() {
        for (side_effects, pure, effects) in [
            (false, false, Effects::ReadsOutside),
            (true, false, Effects::ChangesOutside),
            (false, true, Effects::Pure),
            (true, true, Effects::ChangesOutside),
        ] {
            let old = OldVerb { side_effects, pure, ..OldVerb::default() };
            let read = handshake(&verb(1, &old), &OldInfo::default());
            assert_eq!(read.response.verbs[0].effects(), effects, "{side_effects} {pure}");
        }
    }

    #[test]
    fn without_a_declaration_everything_is_read() {
        let info = OldInfo { pod_raw: true, annotation_prefixes: vec!["a/".to_owned()] };
        let read = |old: OldVerb| {
            let read = handshake(&verb(2, &old), &info);
            assert_eq!(read.reads, [ReadsId::Number(0)]);
            read.response.verbs[0].reads.clone()
        };
        let annotations = Some(MapReads { keys: Vec::new(), prefixes: vec!["a/".to_owned()] });
        let pod = |parts: &[PodPart]| PodReads {
            parts: parts.iter().map(|part| i32::from(*part)).collect(),
            annotations: annotations.clone(),
            everything: true,
            ..PodReads::default()
        };
        let name = NodeReads { parts: vec![NodePart::Name.into()], ..NodeReads::default() };
        assert_eq!(
            read(OldVerb { node_view: NAME, ..OldVerb::default() }),
            Some(Reads { pod: Some(pod(&[PodPart::Identity, PodPart::RawJson])), node: Some(name) })
        );
        let node = NodeReads {
            parts: vec![NodePart::Usage.into(), NodePart::RawJson.into()],
            annotations: annotations.clone(),
            everything: true,
            ..NodeReads::default()
        };
        let old = OldVerb { node_view: FACTS_AND_RAW, usage: true, pure: true, ..OldVerb::default() };
        assert_eq!(read(old), Some(Reads { pod: Some(pod(&[PodPart::RawJson])), node: Some(node) }));
        assert_eq!(read(OldVerb { node_view: 9, ..OldVerb::default() }), None);
    }

    #[test]
    fn a_declaration_is_named_by_its_number_and_has_the_usage() {
        let mut reads = vec![];
        put_number(1, 77, &mut reads);
        put_bytes(3, &NodeReads { parts: vec![1], ..NodeReads::default() }.encode_to_vec(), &mut reads);
        let mut declared = vec![8, 1, 16, 2, 80, 1];
        put_bytes(11, &reads, &mut declared);
        let read = handshake(&declared, &OldInfo::default());
        assert_eq!(read.reads, [ReadsId::Number(77)]);
        let node = NodeReads { parts: vec![1, NodePart::Usage.into()], ..NodeReads::default() };
        let reads = Reads { pod: Some(PodReads::default()), node: Some(node.clone()) };
        assert_eq!(read.response.verbs[0].reads, Some(reads));
        let table = TableView::new(&RowView::new(&node, ApiVersion::V1Alpha1));
        let node = NodeReads { parts: vec![1], ..NodeReads::default() };
        let expected = TableView { node_view: FACTS, usage: true, reads: Some(node), ..TableView::default() };
        assert_eq!(table, expected);
    }

    /// `NodeFacts`, the maps.
    #[derive(Clone, PartialEq, Message)]
    struct OldFacts {
        #[prost(btree_map = "string, string", tag = "1")]
        labels: std::collections::BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "2")]
        annotations: std::collections::BTreeMap<String, String>,
        #[prost(message, repeated, tag = "3")]
        taints: Vec<Taint>,
        #[prost(string, repeated, tag = "8")]
        label_values: Vec<String>,
        #[prost(uint32, repeated, tag = "10")]
        absent_labels: Vec<u32>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct OldRow {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(message, optional, tag = "2")]
        facts: Option<OldFacts>,
    }

    #[derive(Clone, PartialEq, Message)]
    struct OldRows {
        #[prost(message, repeated, tag = "1")]
        rows: Vec<OldRow>,
    }

    fn one_of_each(key: &str) -> MapValues {
        MapValues {
            values: vec!["v".to_owned(), String::new()],
            absent: vec![1],
            entries: [(key.to_owned(), "e".to_owned())].into(),
        }
    }

    #[test]
    fn maps_of_rows_are_where_they_were() {
        let facts = NodeFacts {
            labels: Some(one_of_each("l")),
            annotations: Some(MapValues { entries: one_of_each("a").entries, ..MapValues::default() }),
            taints: vec![Taint { key: "t".to_owned(), ..Taint::default() }],
            ..NodeFacts::default()
        };
        let row = NodeRow { name: "n".to_owned(), facts: Some(facts), ..NodeRow::default() };
        let rows = NodeRows { rows: vec![row.clone(), NodeRow::default(), row] };
        let old = OldRow {
            name: "n".to_owned(),
            facts: Some(OldFacts {
                labels: one_of_each("l").entries,
                annotations: one_of_each("a").entries,
                taints: vec![Taint { key: "t".to_owned(), ..Taint::default() }],
                label_values: vec!["v".to_owned(), String::new()],
                absent_labels: vec![1],
            }),
        };
        let expected = OldRows { rows: vec![old.clone(), OldRow::default(), old] };
        assert_eq!(OldRows::decode(&*older(&rows.encode_to_vec(), ROWS)).unwrap(), expected);
    }

    #[test]
    fn maps_of_pods_are_where_they_were() {
        let facts = PodFacts { labels: Some(one_of_each("l")), ..PodFacts::default() };
        let pod = Pod { facts: Some(facts), ..Pod::default() }.encode_to_vec();
        let pod = older(&pod, POD);
        let facts =
            fields(&pod).map(Result::unwrap).find_map(|(number, content)| content.filter(|_| number == 2));
        let numbers: Vec<u32> = fields(facts.unwrap()).map(|field| field.unwrap().0).collect();
        assert_eq!(numbers, [14, 14, 16, 2]);
    }
}
