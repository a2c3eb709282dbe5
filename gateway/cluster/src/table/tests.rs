//! The table: rows for every view, changes that are reported once and never lost, and heartbeats without effect.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_contract::row::RowView;
use extender_gateway_object::{node, view::KeyPrefixes};
use extender_policy_api::v1beta1::{NodeRow, NodeRows};
use proptest::prelude::*;
use prost::Message;
use tokio::{sync::watch, time::Instant};

use super::{NodeTable, RowId, ViewId};

fn json(name: &str, zone: &str, heartbeat: u32) -> Vec<u8> {
    format!(
        r#"{{"metadata":{{"name":"{name}","resourceVersion":"{heartbeat}","labels":{{"zone":"{zone}"}},
            "annotations":{{"acme.io/rack":"r","other":"o"}}}}}}"#
    )
    .into_bytes()
}

fn facts() -> RowView {
    RowView::Facts(KeyPrefixes::new(["acme.io/"]).into())
}

fn raw() -> RowView {
    RowView::FactsAndRaw(KeyPrefixes::all().into())
}

fn replace(table: &NodeTable, nodes: &[Vec<u8>]) {
    let mut relist = table.relist();
    for node in nodes {
        relist.add(node).unwrap();
    }
    table.replace(relist);
}

fn row(table: &NodeTable, name: &str, view: ViewId) -> Option<NodeRow> {
    let mut rows = NodeRows::decode(&**table.read().row(name, view)?.bytes).unwrap().rows;
    assert_eq!(rows.len(), 1, "an entry is one row");
    rows.pop()
}

/// The row of a node in a view without a declaration.
fn direct(view: &RowView, json: &[u8]) -> NodeRow {
    let node = node::parse(json).unwrap();
    let facts = view.facts().map(|view| {
        let mut facts = node.facts();
        let wanted = |key: &String, _: &mut String| view.annotations.prefixes.want(key);
        if let Some(annotations) = &mut facts.annotations {
            annotations.entries.retain(wanted);
        }
        facts.annotations.take_if(|annotations| annotations.entries.is_empty());
        facts
    });
    let raw_json = if view.wants_raw() { Bytes::copy_from_slice(json) } else { Bytes::new() };
    NodeRow { name: node.name().to_owned(), facts, raw_json, ..NodeRow::default() }
}

/// Writes the rows of nodes that were known before the view.
fn fill(table: &NodeTable, view: ViewId) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(table.fill(view));
}

/// Whether the table has changed since the previous call.
fn changed(receiver: &mut watch::Receiver<()>) -> bool {
    let changed = receiver.has_changed().unwrap();
    receiver.mark_unchanged();
    changed
}

#[test]
fn rows_are_those_of_a_request_with_objects() {
    let table = NodeTable::new();
    let early = [RowView::Name, facts(), raw()];
    let early_ids = early.clone().map(|view| table.register(view).leak());
    let node = json("n1", "a", 1);
    assert!(table.apply(&node).unwrap());
    let late =
        [RowView::Facts(KeyPrefixes::all().into()), RowView::FactsAndRaw(KeyPrefixes::default().into())];
    let late_ids = late.clone().map(|view| table.register(view).leak());
    for view in late_ids {
        fill(&table, view);
    }

    for (view, id) in early.iter().zip(early_ids).chain(late.iter().zip(late_ids)) {
        assert_eq!(row(&table, "n1", id), Some(direct(view, &node)), "{view:?}");
        assert_eq!(row(&table, "n2", id), None);
    }
}

#[test]
fn a_view_is_registered_once() {
    let table = NodeTable::new();
    let id = table.register(facts()).leak();
    assert_ne!(table.register(RowView::Name).leak(), id);
    let mut changes = table.changes();
    assert_eq!(table.register(facts()).leak(), id);
    assert!(!changed(&mut changes));
}

#[test]
fn a_heartbeat_changes_nothing_but_rows_with_json() {
    let table = NodeTable::new();
    let view = table.register(facts()).leak();
    table.apply(&json("n1", "a", 1)).unwrap();
    let mut changes = table.changes();
    assert!(!table.apply(&json("n1", "a", 2)).unwrap());
    replace(&table, &[json("n1", "a", 3)]);
    assert!(!changed(&mut changes));

    assert!(table.apply(&json("n1", "b", 3)).unwrap());
    assert!(changed(&mut changes));
    assert_eq!(row(&table, "n1", view).unwrap().facts.unwrap().labels.unwrap().entries["zone"], "b");

    let raw = table.register(raw()).leak();
    table.apply(&json("n1", "b", 4)).unwrap();
    assert!(table.apply(&json("n1", "b", 5)).unwrap());
    assert_eq!(row(&table, "n1", raw).unwrap().raw_json, json("n1", "b", 5));
}

#[test]
fn a_write_without_a_change_does_not_block_calls() {
    let table = NodeTable::new();
    let view = table.register(facts()).leak();
    table.apply(&json("n1", "a", 1)).unwrap();
    let read = table.read();
    // Would never return if it took the write lock.
    assert!(!table.apply(&json("n1", "a", 2)).unwrap());
    assert!(table.apply(b"{}").is_err());
    assert!(!table.remove("n2"));
    assert!(read.row("n1", view).is_some());
}

#[test]
fn a_list_replaces_everything() {
    let table = NodeTable::new();
    let view = table.register(facts()).leak();
    replace(&table, &[json("n1", "a", 1), json("n2", "a", 1)]);
    let mut changes = table.changes();
    replace(&table, &[json("n2", "b", 2), json("n3", "c", 2)]);
    assert!(changed(&mut changes) && !changed(&mut changes), "one change");
    let zones = ["n1", "n2", "n3"].map(|name| row(&table, name, view)?.facts?.labels?.entries.remove("zone"));
    assert_eq!(zones, [None, Some("b".to_owned()), Some("c".to_owned())]);
    assert_eq!(table.len(), 2);

    assert!(table.remove("n3"));
    assert!(changed(&mut changes));
    assert_eq!(row(&table, "n3", view), None);
    replace(&table, &[]);
    assert!(table.is_empty() && row(&table, "n2", view).is_none());
}

#[test]
fn an_invalid_node_leaves_the_old_row() {
    let table = NodeTable::new();
    let view = table.register(facts()).leak();
    table.apply(&json("n1", "a", 1)).unwrap();
    let error = table.apply(br#"{"metadata":{"name":"n1"},"status":{"capacity":{"cpu":"x"}}}"#).unwrap_err();
    assert_eq!(error.path(), "status.capacity.cpu");
    assert_eq!(row(&table, "n1", view), Some(direct(&facts(), &json("n1", "a", 1))));
}

#[test]
fn json_is_requested_once_and_kept_from_then_on() {
    let table = NodeTable::new();
    let mut wanted = table.raw_wanted();
    table.register(facts()).leak();
    replace(&table, &[json("n1", "a", 1)]);
    assert!(!wanted.has_changed().unwrap());

    let first = table.register(raw()).leak();
    assert!(wanted.has_changed().unwrap() && *wanted.borrow_and_update());
    assert_eq!(row(&table, "n1", first), None, "the JSON was not kept");
    replace(&table, &[json("n1", "a", 1)]);
    assert_eq!(row(&table, "n1", first), Some(direct(&raw(), &json("n1", "a", 1))));

    let second = RowView::FactsAndRaw(KeyPrefixes::default().into());
    let id = table.register(second.clone()).leak();
    fill(&table, id);
    assert!(!wanted.has_changed().unwrap());
    assert_eq!(row(&table, "n1", id), Some(direct(&second, &json("n1", "a", 1))));
}

#[test]
fn a_reader_gets_the_slots_that_have_changed_since_a_version() {
    let table = NodeTable::new();
    let view = table.register(facts()).leak();
    let names: Vec<_> = (0..50).map(|number| format!("n{number}")).collect();
    replace(&table, &names.iter().map(|name| json(name, "a", 1)).collect::<Vec<_>>());
    let since = |version| table.read().changed_since(version).map(Iterator::collect::<Vec<_>>);
    let listed = table.read().version();
    assert_eq!((since(listed - 1), since(listed)), (None, Some(vec![])));

    table.apply(&json("n7", "b", 1)).unwrap();
    table.remove("n8");
    let slots = since(listed).unwrap();
    assert_eq!(slots.len(), 2);
    assert_eq!([0, 1].map(|at| table.read().at(slots[at], view).is_some()), [true, false]);
    // A new node gets a free slot, and a heartbeat is not a change.
    table.apply(&json("n50", "a", 1)).unwrap();
    table.apply(&json("n7", "b", 2)).unwrap();
    assert_eq!(since(listed), Some(vec![slots[0], slots[1], slots[1]]));

    for zone in 0..48 {
        table.apply(&json("n7", &format!("z{zone}"), 1)).unwrap();
    }
    assert_eq!(since(listed), None, "the log has as many changes as there are slots");
    table.limit(0, 0);
    assert_eq!(since(table.read().version()), Some(vec![]));
    assert_eq!(since(table.read().version() - 1), None);
}

#[tokio::test]
async fn waiting_ends_with_the_list_and_with_the_rows() {
    let table = Arc::new(NodeTable::new());
    table.register(facts()).leak();
    assert!(!table.is_synced());
    let writer = Arc::clone(&table);
    let (register, registered) = tokio::sync::oneshot::channel::<()>();
    // A thread without a runtime: the source has another runtime.
    let source = std::thread::spawn(move || {
        replace(&writer, &[json("n1", "a", 1)]);
        registered.blocking_recv().unwrap();
        replace(&writer, &[json("n1", "a", 1)]);
    });
    table.synced().await;
    assert!(table.is_synced());
    let view = table.register(raw()).leak();
    table.fill(view).await;
    register.send(()).unwrap();
    table.complete(view).await;
    assert!(row(&table, "n1", view).is_some());
    source.join().unwrap();
}

#[tokio::test]
async fn a_change_before_the_wait_is_not_lost() {
    let table = NodeTable::new();
    let view = table.register(facts()).leak();
    let mut changes = table.changes();
    assert!(table.read().row("n1", view).is_none());
    table.apply(&json("n1", "a", 1)).unwrap();
    changes.changed().await.unwrap();
    assert!(table.read().row("n1", view).is_some());
}

/// How long calls wait for unknown nodes.
const WAIT: Duration = Duration::from_millis(100);

/// Which of `n1` and `n2` are unknown and which are deleted, and how long the look-up took.
async fn look(table: &NodeTable, view: ViewId) -> (Vec<u32>, Vec<u32>, Duration) {
    let began = Instant::now();
    let found = table.rows(["n1", "n2"].into_iter(), view, &mut None, began + WAIT).await;
    (found.unknown, found.deleted, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_a_deleted_node() {
    let table = NodeTable::new();
    let view = table.register(facts()).leak();
    replace(&table, &[json("n1", "a", 1), json("n2", "a", 1)]);
    let deleted = (vec![0], vec![0], Duration::ZERO);
    table.remove("n1");
    assert_eq!(look(&table, view).await, deleted);
    table.apply(&json("n1", "a", 2)).unwrap();
    assert_eq!(look(&table, view).await, (vec![], vec![], Duration::ZERO));
    // Deleted while the watch was broken.
    replace(&table, &[json("n2", "a", 1)]);
    assert_eq!(look(&table, view).await, deleted);
    replace(&table, &[json("n1", "a", 1), json("n2", "a", 1)]);
    assert_eq!(look(&table, view).await, (vec![], vec![], Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn calls_wait_once_for_an_unknown_name() {
    let table = NodeTable::new();
    let view = table.register(facts()).leak();
    replace(&table, &[json("n2", "a", 1)]);
    assert_eq!(look(&table, view).await, (vec![0], vec![], WAIT));
    assert_eq!(look(&table, view).await, (vec![0], vec![], Duration::ZERO));
    table.apply(&json("n1", "a", 1)).unwrap();
    assert_eq!(look(&table, view).await, (vec![], vec![], Duration::ZERO));
}

#[derive(Debug, Clone)]
enum Step {
    Apply(u8, u8),
    Remove(u8),
    Replace(Vec<(u8, u8)>),
    Register(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..6, 0_u8..3).prop_map(|(name, zone)| Step::Apply(name, zone)),
        1 => (0_u8..6).prop_map(Step::Remove),
        1 => proptest::collection::vec((0_u8..6, 0_u8..3), 0..6).prop_map(Step::Replace),
        1 => (0_u8..4).prop_map(Step::Register),
    ]
}

fn view(number: u8) -> RowView {
    [RowView::Name, facts(), RowView::Facts(KeyPrefixes::all().into()), raw()][usize::from(number)].clone()
}

proptest! {
    /// After any events, a row is that of the latest state of its node, and only JSON that was never kept may be
    /// missing.
    #[test]
    fn rows_are_those_of_the_latest_states(steps in proptest::collection::vec(step(), 0..40)) {
        let table = NodeTable::new();
        let node = |name: &u8, zone: &u8| json(&format!("n{name}"), &format!("z{zone}"), 0);
        let mut nodes = std::collections::BTreeMap::new();
        let mut views = std::collections::BTreeMap::new();
        for step in steps {
            match step {
                Step::Apply(name, zone) => {
                    table.apply(&node(&name, &zone)).unwrap();
                    nodes.insert(name, zone);
                }
                Step::Remove(name) => { table.remove(&format!("n{name}")); nodes.remove(&name); }
                Step::Register(number) => {
                    let id = table.register(view(number)).leak();
                    fill(&table, id);
                    views.insert(number, id);
                }
                Step::Replace(list) => {
                    nodes = list.into_iter().collect();
                    replace(&table, &nodes.iter().map(|(name, zone)| node(name, zone)).collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(table.len(), nodes.len());
            for (number, id) in &views {
                for name in 0..6 {
                    let row = row(&table, &format!("n{name}"), *id);
                    let expected = nodes.get(&name).map(|zone| direct(&view(*number), &node(&name, zone)));
                    prop_assert!(row == expected || (row.is_none() && *number == 3), "{:?} {:?}", row, expected);
                }
            }
        }
    }
}

proptest! {
    /// Whatever happens to nodes, a look-up finds the current rows of exactly these.
    #[test]
    fn a_look_up_returns_the_current_rows(
        steps in proptest::collection::vec(
            prop_oneof![
                1 => (0_u8..6, 0_u8..3).prop_map(|(node, zone)| (vec![node], Some(zone))),
                4 => proptest::sample::subsequence((0_u8..6).collect::<Vec<_>>(), 0..6)
                    .prop_map(|nodes| (nodes, None)),
                1 => Just(vec![5, 3, 1]).prop_map(|nodes| (nodes, None)),
            ],
            1..40,
        ),
        removed in 0_u8..6,
        views in proptest::collection::vec(0_usize..2, 40),
    ) {
        let table = NodeTable::new();
        let registered = [table.register(facts()).leak(), table.register(RowView::Name).leak()];
        for node in 0..6 {
            table.apply(&json(&format!("n{node}"), "z", 0)).unwrap();
        }
        for ((nodes, zone), view) in steps.into_iter().zip(views) {
            match zone {
                Some(0) if nodes == [removed] => drop(table.remove(&format!("n{removed}"))),
                Some(zone) => drop(table.apply(&json(&format!("n{}", nodes[0]), &format!("z{zone}"), 0)).unwrap()),
                None => {}
            }
            let names: Vec<String> = nodes.iter().map(|node| format!("n{node}")).collect();
            let found = table.look_up(names.iter().map(String::as_str), registered[view], &mut None);
            let read = table.read();
            let there: Vec<_> = names.iter().filter_map(|name| read.row(name, registered[view])).collect();
            let lines: Vec<_> = found.rows.iter().map(|line| (line.slot, line.id, line.version)).collect();
            prop_assert_eq!(lines, there.iter().map(|line| (line.slot, line.id, line.version)).collect::<Vec<_>>());
            prop_assert_eq!(found.unknown.len() + there.len(), names.len());
        }
    }
}

/// The id of the row and the row of a node that a call brings.
fn send(table: &NodeTable, json: &[u8], view: ViewId) -> (Option<RowId>, Bytes) {
    let found = table.import(["n1"].into_iter(), |_| Some(json), view).unwrap();
    let row = found.rows.iter().next().unwrap();
    (row.id, row.bytes.clone())
}

#[test]
fn an_id_means_one_row_of_a_node_from_calls_and_the_latest_row_of_a_watched_node() {
    let table = NodeTable::of_calls();
    let [facts, raw] = [facts(), raw()].map(|view| table.register(view).leak());
    let first = send(&table, &json("n1", "a", 1), facts);
    assert_eq!(send(&table, &json("n1", "a", 2), facts).0, first.0, "the same facts are the same row");
    let changed = send(&table, &json("n1", "b", 2), facts);
    let back = send(&table, &json("n1", "a", 2), facts);
    assert!(first.0 != changed.0 && back.0 != first.0 && back.0 != changed.0);
    assert_eq!(back.1, first.1);
    assert_ne!(send(&table, &json("n1", "a", 3), raw).0, send(&table, &json("n1", "a", 4), raw).0);

    let table = NodeTable::new();
    let view = table.register(RowView::Name).leak();
    let facts = table.register(super::tests::facts()).leak();
    let id = |zone| {
        table.apply(&json("n1", zone, 1)).unwrap();
        table.read().row("n1", facts).unwrap().id
    };
    assert_eq!(id("a"), id("b"));
    assert_ne!(table.read().row("n1", view).unwrap().id, id("b"));
}

#[test]
fn a_call_gets_the_rows_of_its_own_nodes() {
    let table = NodeTable::of_calls();
    let early = table.register(facts()).leak();
    for _ in 0..2 {
        send(&table, &json("n1", "a", 1), early);
        send(&table, &json("n1", "b", 1), early);
        let late = table.register(RowView::Facts(KeyPrefixes::all().into())).leak();
        let (_, row) = send(&table, &json("n1", "a", 1), late);
        let row = NodeRows::decode(row).unwrap().rows.remove(0);
        assert_eq!(row.facts.unwrap().labels.unwrap().entries["zone"], "a");
    }
}

#[test]
fn when_ids_are_exhausted_all_rows_get_ids_of_another_generation() {
    for table in [NodeTable::new(), NodeTable::of_calls()] {
        let view = table.register(facts()).leak();
        replace(&table, &[json("n1", "a", 1), json("n2", "a", 1)]);
        let ids = || ["n1", "n2", "n3"].map(|name| table.read().row(name, view)?.id);
        let before = ids();
        table.lock_writer().rows.number = u32::MAX - 1;
        table.apply(&json("n3", "a", 1)).unwrap();
        let last = ids();
        assert_eq!((last[0], last[1]), (before[0], before[1]));
        assert_eq!(last[2].unwrap().number.get(), u32::MAX);
        let generation = table.read().generation();
        table.remove("n3");
        table.apply(&json("n3", "a", 1)).unwrap();
        let after = ids();
        assert_ne!(table.read().generation(), generation);
        assert!(after.iter().all(|id| id.unwrap().generation == table.read().generation()));
        let numbers: std::collections::BTreeSet<_> =
            after.iter().flatten().map(|id| id.number.get()).collect();
        assert_eq!(numbers, [1, 2, 3].into());
    }
}

#[test]
fn rows_without_columns_are_dropped() {
    let table = NodeTable::new();
    let [held, unheld] = [facts(), raw()].map(|view| table.register(view));
    table.apply(&json("n1", "a", 1)).unwrap();
    let same = table.register(raw());
    assert_eq!(same, unheld);
    let place = same.id();
    drop((unheld, same));
    assert_eq!(table.columns(), 1);
    assert_eq!(
        (table.read().row("n1", place).is_none(), table.read().row("n1", held.id()).is_some()),
        (true, true)
    );
    assert!(!*table.raw_wanted().borrow());
    // The position is reused, without rows of the previous view.
    let next = table.register(RowView::Name);
    assert_eq!(next.id(), place);
    assert!(table.read().row("n1", place).is_none());
    fill(&table, place);
    assert_eq!(row(&table, "n1", place).unwrap(), direct(&RowView::Name, &json("n1", "a", 1)));
}

/// Whether the rows of these nodes follow each other in memory.
fn are_in_one_piece(table: &NodeTable, nodes: std::ops::Range<u32>, view: ViewId) -> bool {
    let read = table.read();
    let mut rows: Vec<_> =
        nodes.map(|node| read.row(&format!("n{node}"), view).unwrap().bytes.clone()).collect();
    rows.sort_by_key(|row| row.as_ptr());
    rows.array_windows().all(|[row, next]| row.as_ptr_range().end == next.as_ptr())
}

#[test]
fn rows_that_are_written_together_are_in_one_piece_of_memory() {
    let table = NodeTable::new();
    let views = [facts(), RowView::Name].map(|view| table.register(view).leak());
    let mut nodes: Vec<_> = (0..5).map(|node| json(&format!("n{node}"), "z", 0)).collect();
    replace(&table, &nodes);
    assert!(views.into_iter().all(|view| are_in_one_piece(&table, 0..5, view)));
    let filled = table.register(RowView::Facts(KeyPrefixes::all().into())).leak();
    fill(&table, filled);
    assert!(are_in_one_piece(&table, 0..5, filled));
    nodes[2] = json("n2", "another", 0);
    table.apply(&nodes[2]).unwrap();
    assert!(!are_in_one_piece(&table, 0..5, filled));
    nodes[3] = json("n3", "another", 0);
    replace(&table, &nodes);
    assert!(are_in_one_piece(&table, 0..5, filled), "a list leaves nothing of earlier pieces");
}

#[tokio::test]
async fn a_view_that_several_backends_fill_at_once_is_written_once() {
    let nodes: Vec<_> = (0..100).map(|node| json(&format!("n{node}"), "z", 0)).collect();
    let filled_by = |backends: usize| {
        let nodes = &nodes;
        async move {
            let table = NodeTable::new();
            replace(&table, nodes);
            let view = table.register(facts()).leak();
            let before = table.read().version();
            futures_util::future::join_all((0..backends).map(|_| table.fill(view))).await;
            assert!(table.lock_writer().is_complete(view));
            table.read().version() - before
        }
    };
    assert_eq!(filled_by(3).await, filled_by(1).await);
}

#[test]
fn a_slot_that_another_node_got_is_not_found_by_the_old_name() {
    let table = NodeTable::new();
    let [first, second] = [facts(), RowView::Name].map(|view| table.register(view).leak());
    // Enough that the order of the names is learned.
    let names: Vec<String> = (0..70).map(|node| format!("n{node:02}")).collect();
    assert!(names.iter().all(|name| table.apply(&json(name, "z", 0)).unwrap()));
    let look = |view, slots: &mut _| {
        let found = table.look_up(names.iter().map(String::as_str), view, slots);
        let row = |row: super::NodeRow<'_>| NodeRows::decode(row.bytes.clone()).unwrap().rows[0].name.clone();
        (found.rows.iter().map(row).collect::<Vec<_>>(), found.unknown)
    };
    let mut slots = None;
    assert_eq!(look(first, &mut slots), (names.clone(), vec![]));
    assert_eq!(look(second, &mut slots), (names.clone(), vec![]), "the same slots");
    table.remove("n07");
    table.apply(&json("other", "z", 0)).unwrap();
    let without = [&names[..7], &names[8..]].concat();
    assert_eq!(look(second, &mut slots), (without.clone(), vec![7]), "slots of an earlier view of the call");
    assert_eq!(look(first, &mut None), (without, vec![7]), "the learned order");
    table.remove("other");
    table.apply(&json("n07", "z", 0)).unwrap();
    assert_eq!(look(first, &mut slots), (names.clone(), vec![]));
}

#[test]
fn labels_that_no_node_has_are_found() {
    let keys = ["rack", "zone"].map(str::to_owned);
    let table = NodeTable::new();
    assert_eq!(table.labels_of_no_node(&keys), [""; 0], "there are no nodes");
    table.apply(br#"{"metadata":{"name":"a"}}"#).unwrap();
    assert_eq!(table.labels_of_no_node(&keys), keys);
    table.apply(br#"{"metadata":{"name":"b","labels":{"zone":""}}}"#).unwrap();
    assert_eq!(table.labels_of_no_node(&keys), ["rack"]);
    table.remove("b");
    assert_eq!(table.labels_of_no_node(&keys), keys);
}
