//! Whatever happens to a table, the backend ends up with the same rows.

use std::collections::{BTreeMap, BTreeSet};

use extender_gateway_cluster::{
    table::{self, NodeTable},
    usage::{NodePods, UsageChange},
};
use extender_gateway_contract::row::{RowFields, RowView};
use extender_gateway_object::view::{KeyPrefixes, NodeFactsView};
use extender_policy_api::v1beta1::{
    MapReads, NodePart, NodeReads, NodeRow, NodeUsage, Resources, SyncNodesRequest, TableEntry,
};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::info::ApiVersion;

fn name(number: u64) -> TableName {
    TableName { number, api: ApiVersion::NEWEST }
}

fn sent_to(
    held: &mut BTreeMap<u32, NodeRow>,
    sent: &mut SentRows,
    difference: &Difference,
) -> Vec<SyncNodesRequest> {
    let messages = difference.parts.iter().map(|part| (sent.message(part), sent.version)).collect();
    applied(held, messages)
}

fn applied(held: &mut BTreeMap<u32, NodeRow>, messages: Vec<(Bytes, u64)>) -> Vec<SyncNodesRequest> {
    let decode = |(framed, version): (Bytes, u64)| {
        assert_eq!(
            framed[..PREFIX],
            [&[0][..], &(u32::try_from(framed.len() - PREFIX).unwrap()).to_be_bytes()].concat()
        );
        let message = SyncNodesRequest::decode(&framed[PREFIX..]).unwrap();
        assert_eq!(message.version, version);
        message
    };
    let messages: Vec<_> = messages.into_iter().map(decode).collect();
    for message in &messages {
        message.removed.iter().for_each(|id| drop(held.remove(id).expect("only a known node is removed")));
        held.extend(message.upserts.iter().map(|TableEntry { id, row }| (*id, row.clone().unwrap())));
    }
    messages
}

fn node(name: u8, zone: u8, padding: usize) -> Vec<u8> {
    let padding = "x".repeat(padding);
    format!(r#"{{"metadata":{{"name":"n{name}","labels":{{"zone":"z{zone}","padding":"{padding}"}}}}}}"#)
        .into_bytes()
}

#[test]
fn a_large_table_goes_in_parts_and_only_the_last_is_complete() {
    let table = NodeTable::new();
    let view = table.register(RowView::Facts(KeyPrefixes::default().into())).leak();
    for name in 0..10 {
        table.apply(&node(name, 0, MESSAGE_BYTES / 3)).unwrap();
    }
    let mut sent = SentRows::new(name(7), RowView::Name);
    let mut held = BTreeMap::new();
    let difference = sent.difference(&table.read(), view);
    let messages = sent_to(&mut held, &mut sent, &difference);
    assert!(messages.len() >= 4 && held.len() == 10);
    let complete: Vec<_> = messages.iter().map(|message| message.complete).collect();
    assert_eq!(complete.iter().filter(|complete| **complete).count(), 1);
    assert!(complete[complete.len() - 1] && messages[0].reads.is_some() && messages[1].reads.is_none());
    assert!(messages.iter().all(|message| message.table == name(7).text()));
    assert!(sent.difference(&table.read(), view).parts.is_empty());
}

#[test]
fn an_empty_table_is_complete_at_once() {
    let table = NodeTable::new();
    let view = table.register(RowView::Name).leak();
    let mut sent = SentRows::new(name(1), RowView::Name);
    let difference = sent.difference(&table.read(), view);
    let messages = sent_to(&mut BTreeMap::new(), &mut sent, &difference);
    assert!(messages.len() == 1 && messages[0].complete);
}

/// The bytes of the first messages to a backend that reads two labels of these nodes.
async fn first_bytes(table: &NodeTable, parts: Vec<i32>) -> usize {
    let keys = ["topology.acme.io/rack", "topology.kubernetes.io/zone"].map(str::to_owned).to_vec();
    let labels = Some(MapReads { keys, ..MapReads::default() });
    let reads = NodeReads { parts, labels, ..NodeReads::default() };
    let view = RowView::Facts(NodeFactsView::from(&reads).into());
    let column = table.register(view.clone());
    let mut sent = SentRows::new(name(7), view);
    table.fill(column.id()).await;
    let difference = sent.difference(&table.read(), column.id());
    difference.parts.iter().map(|part| sent.message(part).len()).sum()
}

#[tokio::test]
async fn a_backend_that_reads_two_labels_of_15_000_nodes_is_sent_half_a_megabyte() {
    let table = NodeTable::new();
    let mut relist = table.relist();
    for number in 0..15_000 {
        let (rack, zone) = (number % 500, number % 3);
        let node = format!(
            r#"{{"metadata":{{"name":"ip-10-{}-{}.eu-central-1.compute.internal","labels":{{
            "topology.acme.io/rack":"rack-{rack}","topology.kubernetes.io/zone":"eu-central-1{zone}"}}}}}}"#,
            number / 250,
            number % 250
        );
        relist.add(node.as_bytes()).unwrap();
    }
    table.replace(relist);
    let unnamed = first_bytes(&table, vec![]).await;
    let named = first_bytes(&table, vec![NodePart::Name.into()]).await;
    assert!((400_000..=600_000).contains(&unnamed), "{unnamed}");
    assert!((1_000_000..=1_250_000).contains(&named), "{named}");
}

/// What can happen to a table, or to one of two streams that copy it to backends.
#[derive(Debug, Clone)]
enum Step {
    Apply(u8, u8),
    Remove(u8),
    Replace(Vec<(u8, u8)>),
    /// A call brings nodes.
    Offer(Vec<(u8, u8)>),
    /// Everything is evicted.
    Evict,
    /// Pods come and go on a node.
    Use(u8, i64),
    /// A backend requests another view.
    Register(u8),
    /// A stream computes what to send.
    Look(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let listed = || prop::collection::vec((0_u8..6, 0_u8..3), 0..6);
    prop_oneof![
        6 => (0_u8..6, 0_u8..3).prop_map(|(name, zone)| Step::Apply(name, zone)),
        2 => (0_u8..6).prop_map(Step::Remove),
        1 => listed().prop_map(Step::Replace),
        2 => listed().prop_map(Step::Offer),
        1 => Just(Step::Evict),
        2 => (0_u8..6, 0_i64..3).prop_map(|(name, cpu)| Step::Use(name, cpu)),
        1 => (0_u8..3).prop_map(Step::Register),
        6 => (0_usize..2).prop_map(Step::Look),
    ]
}

fn annotated(prefix: &str, usage: bool) -> RowView {
    RowView::Facts(RowFields { usage, ..KeyPrefixes::new([prefix]).into() })
}

fn happen(table: &NodeTable, step: &Step) {
    let named = |nodes: &[(u8, u8)]| -> Vec<_> {
        nodes.iter().map(|(name, zone)| (format!("n{name}"), node(*name, *zone, 0))).collect()
    };
    match step {
        Step::Apply(name, zone) => {
            table.apply(&node(*name, *zone, 0)).unwrap();
        }
        Step::Remove(name) => {
            table.remove(&format!("n{name}"));
        }
        Step::Replace(nodes) => {
            let mut relist = table.relist();
            for (_, node) in named(nodes) {
                relist.add(&node).unwrap();
            }
            table.replace(relist);
        }
        Step::Offer(nodes) => {
            let nodes = named(nodes);
            let view = table.register(annotated("none/", false)).id();
            let offered = nodes.iter().map(|(name, _)| name.as_str());
            table.import(offered, |place| Some(&nodes[place as usize].1), view).unwrap();
        }
        Step::Evict => table.limit(0, 0),
        Step::Use(name, milli_cpu) => {
            let requested = Some(Resources { milli_cpu: *milli_cpu, ..Resources::default() });
            let usage = NodeUsage { requested, ..NodeUsage::default() };
            let pods = NodePods { usage, counts: Vec::new() };
            table.apply_usage(&UsageChange {
                number: 1,
                nodes: vec![(format!("n{name}").into(), pods)],
                ..UsageChange::default()
            });
        }
        Step::Register(number) => {
            table.register(annotated(&format!("{number}/"), false)).leak();
        }
        Step::Look(_) => {}
    }
}

fn number(row: table::NodeRow<'_>) -> u32 {
    row.id.unwrap().number.get()
}

/// A backend with the stream that fills its table.
struct Backend {
    view: ViewId,
    sent: SentRows,
    held: BTreeMap<u32, NodeRow>,
    /// Ids that were removed.
    gone: BTreeSet<u32>,
}

impl Backend {
    fn look(&mut self, table: &NodeTable) -> Difference {
        let difference = self.sent.difference(&table.read(), self.view);
        for message in sent_to(&mut self.held, &mut self.sent, &difference) {
            let again = message.upserts.iter().find(|entry| self.gone.contains(&entry.id));
            assert!(again.is_none(), "an id that was removed comes again: {again:?}");
            self.gone.extend(message.removed);
        }
        difference
    }
}

proptest! {
    /// However much happens between two messages, the backend has the rows of the table.
    #[test]
    fn the_backend_has_what_the_table_has(
        steps in prop::collection::vec(step(), 1..60),
        of_calls in any::<bool>(),
    ) {
        let table = if of_calls { NodeTable::of_calls() } else { NodeTable::new() };
        let mut backends = [false, true].map(|usage| Backend {
            view: table.register(annotated("none/", usage)).leak(),
            sent: SentRows::new(name(1), RowView::Name),
            held: BTreeMap::new(),
            gone: BTreeSet::new(),
        });
        let (mut ids, mut contents) = (BTreeMap::new(), BTreeMap::new());
        for step in steps {
            happen(&table, &step);
            let Step::Look(which) = step else { continue };
            let rows = backends[which].look(&table).rows;
            let Backend { view, held, .. } = &backends[which];
            let read = table.read();
            let known: Vec<_> = (0..6).filter_map(|name| read.row(&format!("n{name}"), *view)).collect();
            prop_assert_eq!(known.len(), held.len());
            for row in known {
                prop_assert!(row.version <= rows);
                let mut entry = Vec::new();
                message::encode(1, &held[&number(row)], &mut entry);
                prop_assert_eq!(entry, row.bytes.to_vec());
                let name = &held[&number(row)].name;
                let earlier = ids.insert(number(row), name.clone());
                prop_assert!(earlier.is_none_or(|earlier| earlier == *name), "an id is never another node's");
                if of_calls {
                    let earlier = contents.insert(number(row), row.bytes.clone());
                    prop_assert!(
                        earlier.is_none_or(|earlier| earlier == *row.bytes),
                        "an id never means what another call has brought"
                    );
                }
            }
        }
    }
}

#[test]
fn a_row_that_is_not_known_for_a_while_comes_back_with_another_id() {
    let table = NodeTable::new();
    let early = table.relist();
    let view = table.register(RowView::FactsAndRaw(KeyPrefixes::default().into())).leak();
    let mut backend = Backend {
        view,
        sent: SentRows::new(name(1), RowView::Name),
        held: BTreeMap::new(),
        gone: BTreeSet::new(),
    };
    table.apply(&node(1, 1, 0)).unwrap();
    backend.look(&table);
    // A list that started before a view needed JSON, and the next one.
    let mut listed = early;
    listed.add(&node(1, 1, 0)).unwrap();
    table.replace(listed);
    assert!(table.read().row("n1", view).is_none());
    backend.look(&table);
    assert_eq!((backend.held.len(), backend.gone.len()), (0, 1));
    let mut listed = table.relist();
    listed.add(&node(1, 2, 0)).unwrap();
    table.replace(listed);
    backend.look(&table);
    let number = number(table.read().row("n1", view).unwrap());
    assert_eq!(backend.held[&number].raw_json, node(1, 2, 0));
}
