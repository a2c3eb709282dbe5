use extender_policy_api::v1beta1::{NodeFacts, NodeRow, Taint};
use prost::Message as _;

use super::{
    super::{contents::Contents, space::Budget},
    *,
};
use crate::{
    Nodes,
    node::row::Row,
    reads::{access::Access, layout::everything},
};

fn table() -> Table {
    Table::new(api::NodeReads { everything: true, ..api::NodeReads::default() })
}

fn access() -> Access<'static> {
    Access::to(&everything().node)
}

fn kept(name: &str) -> Kept {
    let taint = Taint { key: name.into(), ..Taint::default() };
    let facts = NodeFacts { taints: vec![taint], ..NodeFacts::default() };
    let row = NodeRow { name: name.into(), facts: Some(facts), ..NodeRow::default() };
    let encoded = row.encode_to_vec();
    let space = || Budget::new(1).take(1).unwrap();
    let (name, content) = Row::read(&encoded).unwrap().into_parts();
    let content = Contents::default().share(content, |_| Ok(space())).unwrap();
    Kept::new(&name, content, space())
}

fn change(version: u64, upserts: &[(u32, &str)], removed: &[u32]) -> Change {
    let upserts = upserts.iter().map(|(id, name)| (*id, kept(name))).collect();
    Change { version, upserts, removed: removed.into() }
}

fn names(rows: &Rows, ids: &[u32]) -> Vec<Option<String>> {
    let name =
        |row: RowRef<'_>| Nodes::new(&[row], access()).iter().map(|node| node.name().to_owned()).collect();
    ids.iter().map(|id| rows.row(*id).map(name)).collect()
}

fn some(names: &[&str]) -> Vec<Option<String>> {
    names.iter().map(|name| Some(name.to_string()).filter(|name| !name.is_empty())).collect()
}

#[test]
fn a_version_is_there_once_it_is_applied() {
    let table = table();
    assert!(table.at_least(0).is_some() && table.at_least(1).is_none());
    table.apply(change(7, &[(1, "a")], &[]));
    assert!(table.at_least(7).is_some() && table.at_least(8).is_none());
}

#[test]
fn what_a_call_holds_does_not_change_under_it() {
    let table = table();
    table.apply(change(1, &[(1, "a"), (2, "b"), (3, "c")], &[]));
    let held = table.at_least(1).unwrap();
    table.apply(change(2, &[(1, "new"), (4, "d")], &[2]));
    assert_eq!(names(&held, &[1, 2, 3, 4]), some(&["a", "b", "c", ""]));
    let later = table.at_least(2).unwrap();
    assert_eq!(names(&later, &[1, 2, 3, 4]), some(&["new", "", "c", "d"]));
    // Only changed rows exist twice.
    assert!(std::ptr::eq(held.row(3).unwrap().content, later.row(3).unwrap().content));
}

#[test]
fn a_row_is_decoded_once_a_change() {
    let table = table();
    let decoded_at = |version| {
        let rows = table.at_least(version).unwrap();
        let row = rows.row(1).unwrap();
        Nodes::new(&[row], access()).iter().map(|node| node.taints().as_ptr() as usize).sum::<usize>()
    };
    table.apply(change(1, &[(1, "a")], &[]));
    let first = decoded_at(1);
    table.apply(change(2, &[(2, "b")], &[]));
    assert_eq!(decoded_at(2), first);
    let _held = table.at_least(2);
    table.apply(change(3, &[(1, "c")], &[]));
    assert_ne!(decoded_at(3), first);
}

#[test]
fn an_id_that_is_removed_by_the_message_that_brings_it_is_gone() {
    let table = table();
    table.apply(change(1, &[(1, "a"), (1, "b"), (2, "c")], &[2, 99]));
    assert_eq!(names(&table.at_least(1).unwrap(), &[1, 2]), some(&["b", ""]));
}

#[test]
fn ids_that_are_used_up_cost_nothing() {
    let table = table();
    // 100 nodes at a time, of 100,000 in all.
    for version in 1..=1000_u32 {
        let first = version * 100;
        let upserts: Vec<_> = (first..first + 100).map(|id| (id, "n")).collect();
        let removed: Vec<_> = (first - 100..first).collect();
        table.apply(change(version.into(), &upserts, &removed));
    }
    let rows = table.at_least(1000).unwrap();
    assert_eq!(rows.by_id.len(), 100);
    assert!(rows.by_id.capacity() < 1000, "{}", rows.by_id.capacity());
}

#[test]
fn a_cluster_that_shrinks_gives_memory_back() {
    let table = table();
    let upserts: Vec<_> = (1..=10_000).map(|id| (id, "n")).collect();
    table.apply(change(1, &upserts, &[]));
    table.apply(change(2, &[], &(11..=10_000).collect::<Vec<_>>()));
    let rows = table.at_least(2).unwrap();
    assert_eq!(rows.by_id.len(), 10);
    assert!(rows.by_id.capacity() < 100, "{}", rows.by_id.capacity());
}
