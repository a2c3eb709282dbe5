//! Tables without sockets: rules of messages, limits, and that a table gives the same answers as rows in the call.

use std::{
    collections::BTreeMap,
    task::{Context, Poll, Waker},
};

use extender_policy_api::v1beta1::{self as api, result::Outcome};
use proptest::{prelude::*, sample::Index};
use prost::bytes::Bytes;
use tonic::{Code, Status};

use super::{filling::Filling, *};
use crate::{
    Info, Node, Pod, Policy, Reads, Scale, Verb, Verdict,
    answer::{self, Patience, at_once},
    backend::NamedArgs,
    error::CallError,
    request::{FilterRequest, SyncNodesRequest},
};

/// Refuses cordoned nodes and those with taints or too little memory, each with a reason of its own; scores by
/// labels.
struct Curious;

impl Policy for Curious {
    fn info(&self) -> Info {
        let verb = Verb::per_node().reads(&Reads::everything());
        Info::new("curious", "1").filters(verb.clone()).scores(verb, Scale::unbounded())
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        let memory = node.allocatable().map_or(0, |amounts| amounts.memory);
        match node.taints() {
            [taint, ..] => Verdict::reject(format!("{}: {}", node.name(), taint.key)),
            [] if node.is_unschedulable() => Verdict::reject("cordoned"),
            [] if memory < 5 => Verdict::reject(format!("memory {memory}")),
            [] => Verdict::Accept,
        }
    }

    fn score(&self, _: &Pod<'_>, node: &Node<'_>) -> i32 {
        let length = |(key, value): (&str, &str)| key.len() + 10 * value.len();
        i32::try_from(node.labels().map(length).sum::<usize>() + 1000 * node.name().len()).unwrap()
    }
}

fn row(name: &str) -> api::NodeRow {
    api::NodeRow { name: name.into(), facts: Some(api::NodeFacts::default()), ..api::NodeRow::default() }
}

fn table_name(table: u32) -> String {
    if table == 0 { String::new() } else { format!("t-{table}") }
}

fn message(table: u32, version: u64, upserts: &[(u32, api::NodeRow)], removed: &[u32]) -> SyncNodesRequest {
    let entry = |(id, row): &(u32, api::NodeRow)| api::TableEntry { id: *id, row: Some(row.clone()) };
    decoded(&api::SyncNodesRequest {
        table: table_name(table),
        version,
        reads: Some(everything()),
        upserts: upserts.iter().map(entry).collect(),
        removed: removed.into(),
        complete: false,
    })
}

fn everything() -> api::NodeReads {
    api::NodeReads { everything: true, ..api::NodeReads::default() }
}

/// `Call.reads` for the filter of this backend.
fn reads_of(backend: &crate::Backend) -> Bytes {
    let prepared = backend.policy_for(NamedArgs::whole(&[]).unwrap()).unwrap();
    Bytes::copy_from_slice(prepared.declaration.verb(api::Verb::Filter).unwrap().reads_digest())
}

/// As read from the socket.
fn decoded<R: prost::Message + Default>(message: &impl prost::Message) -> R {
    R::decode(&*message.encode_to_vec()).unwrap()
}

/// Applies a message that is too small to yield.
fn applied(filling: &mut Filling, message: SyncNodesRequest) -> Result<u64, Mistake> {
    let mut applying = Box::pin(filling.apply(message));
    match applying.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(applied) => applied,
        Poll::Pending => panic!("a short message was applied in parts"),
    }
}

fn begun(tables: &Tables, first: SyncNodesRequest) -> Result<Filling, Mistake> {
    let mut filling = Filling::begin(tables, &first)?;
    applied(&mut filling, first)?;
    Ok(filling)
}

fn request(form: api::nodes::Form, count: usize) -> FilterRequest {
    let pod = api::Pod { facts: Some(api::PodFacts::default()), ..api::Pod::default() };
    let (purpose, reads) = (api::Purpose::Decide.into(), reads_of(&Curious.into()));
    decoded(&api::FilterRequest {
        call: Some(api::Call { purpose, reads, ..api::Call::default() }),
        pod: Some(pod),
        nodes: Some(api::Nodes { count: count.try_into().unwrap(), form: Some(form) }),
        want_scores: true,
    })
}

fn named(table: u32, at_least: u64, ids: &[u32], rows: Vec<api::NodeRow>) -> FilterRequest {
    let form = api::NodeRef { table: table_name(table), at_least, ids: ids.into(), rows };
    request(api::nodes::Form::Table(form), ids.len())
}

fn inline(rows: Vec<api::NodeRow>) -> FilterRequest {
    let count = rows.len();
    request(api::nodes::Form::Rows(api::NodeRows { rows }), count)
}

fn answered(
    backend: &crate::Backend,
    tables: &Tables,
    request: &FilterRequest,
) -> Result<api::FilterResponse, CallError> {
    at_once("Filter", answer::filter(backend, tables, request, Patience::None)).unwrap()
}

fn asked(tables: &Tables, request: &FilterRequest) -> Result<api::FilterResponse, CallError> {
    answered(&Curious.into(), tables, request)
}

fn miss(tables: &Tables, request: &FilterRequest) -> api::Miss {
    let result = asked(tables, request).unwrap().result.unwrap();
    assert_eq!(result.revision.is_empty(), missed(&result) != api::Miss::Unspecified, "{result:?}");
    missed(&result)
}

/// Unspecified: it is an answer.
fn missed(result: &api::Result) -> api::Miss {
    match result.outcome {
        Some(Outcome::Evaluated(1..)) => api::Miss::Unspecified,
        Some(Outcome::Miss(miss)) => api::Miss::try_from(miss).unwrap(),
        other => panic!("neither an answer nor a miss: {other:?}"),
    }
}

fn status(error: impl Into<Status>) -> (Code, String) {
    let status = error.into();
    (status.code(), status.message().to_owned())
}

#[test]
fn nodes_are_named_by_ids_and_by_rows_between_them() {
    let tables = Tables::default();
    let labelled = |name: &str, length: usize| {
        let facts =
            api::NodeFacts { labels: Some(entry("k", "v".repeat(length))), ..api::NodeFacts::default() };
        api::NodeRow { facts: Some(facts), ..row(name) }
    };
    let _filling = begun(&tables, message(5, 1, &[(1, labelled("a", 1)), (7, labelled("b", 2))], &[]));
    let by_id = named(5, 1, &[7, 0, 1, 0, 7], vec![labelled("c", 3), labelled("d", 4)]);
    let answer = asked(&tables, &by_id).unwrap();
    assert_eq!(answer.scores.unwrap().values, [1021, 1031, 1011, 1041, 1021]);
    assert_eq!(answer.result.unwrap().outcome, Some(Outcome::Evaluated(5)));
}

#[test]
fn a_table_that_is_not_here_or_not_so_far_is_a_miss() {
    let tables = Tables::default();
    let mut filling = begun(&tables, message(5, 3, &[(1, row("a")), (2, row("b"))], &[])).unwrap();
    assert_eq!(miss(&tables, &named(6, 3, &[1], vec![])), api::Miss::TableUnknown);
    assert_eq!(miss(&tables, &named(5, 4, &[1], vec![])), api::Miss::TableBehind);
    assert_eq!(miss(&tables, &named(5, 3, &[1, 9], vec![])), api::Miss::TableBehind);
    assert_eq!(miss(&tables, &named(5, 3, &[1, 2], vec![])), api::Miss::Unspecified);
    applied(&mut filling, message(5, 4, &[], &[2])).unwrap();
    assert_eq!(miss(&tables, &named(5, 3, &[1, 2], vec![])), api::Miss::TableBehind);
    assert_eq!(miss(&tables, &named(5, 4, &[1], vec![])), api::Miss::Unspecified);
    drop(filling);
    assert_eq!(miss(&tables, &named(5, 4, &[1], vec![])), api::Miss::TableUnknown);
}

#[test]
fn a_reference_that_is_not_whole_is_an_error_wherever_the_table_is() {
    let tables = Tables::default();
    let _filling = begun(&tables, message(5, 1, &[(1, row("a"))], &[]));
    let bare = api::NodeRow { name: "a".into(), ..api::NodeRow::default() };
    let miscounted = |table: u32| {
        let form = api::NodeRef { table: table_name(table), at_least: 1, ids: vec![1], rows: vec![] };
        request(api::nodes::Form::Table(form), 2)
    };
    for table in [5, 6] {
        let cases = [
            (miscounted(table), "nodes.count is 2 and there are 1 rows"),
            (named(table, 1, &[], vec![]), "nodes.count is 0"),
            (named(table, 1, &[0, 1], vec![]), "nodes.table.ids has 1 zeros and there are 0 rows"),
            (named(table, 1, &[1], vec![row("b")]), "nodes.table.ids has 0 zeros and there are 1 rows"),
            (named(table, 1, &[0], vec![row("")]), "nodes.table.rows[0].name is missing"),
            (named(table, 1, &[1, 0], vec![bare.clone()]), "nodes.table.rows[0].facts is missing"),
        ];
        for (request, expected) in cases {
            let (code, text) = status(asked(&tables, &request).unwrap_err());
            assert_eq!(code, Code::InvalidArgument, "{text}");
            assert!(text.contains(expected), "{text:?} lacks {expected:?}");
        }
    }
}

/// Refuses nodes that have a label `rack`.
struct Racks(Reads);

impl Policy for Racks {
    fn info(&self) -> Info {
        Info::new("racks", "1").filters(Verb::per_node().reads(&self.0))
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        node.label("rack").map_or(Verdict::Accept, |rack| Verdict::reject(rack.to_owned()))
    }
}

fn racks() -> Reads {
    let mut reads = Reads::new();
    reads.node_label("rack");
    reads
}

fn entry(key: &str, value: String) -> api::MapValues {
    api::MapValues { entries: [(key.to_owned(), value)].into(), ..api::MapValues::default() }
}

fn labels(keys: &[&str]) -> api::NodeReads {
    let keys = keys.iter().map(|&key| key.to_owned()).collect();
    let labels = Some(api::MapReads { keys, prefixes: vec![] });
    api::NodeReads { labels, ..api::NodeReads::default() }
}

fn counted(labels: &[&str]) -> api::NodeReads {
    let by = |label: &&str| api::PodCountReads {
        by: api::PodCountBy::Label.into(),
        label: (*label).to_owned(),
        requests: false,
    };
    api::NodeReads { pod_counts: labels.iter().map(by).collect(), ..api::NodeReads::default() }
}

fn with_values(values: &[&str], absent: &[u32]) -> api::NodeRow {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    let labels = Some(api::MapValues { values, absent: absent.into(), ..api::MapValues::default() });
    let facts = api::NodeFacts { labels, ..api::NodeFacts::default() };
    api::NodeRow { facts: Some(facts), ..row("n") }
}

#[test]
fn a_table_that_contains_something_else_is_not_there() {
    let tables = Tables::default();
    let fill = |name, reads, row: api::NodeRow| {
        let first = SyncNodesRequest { reads: Some(reads), ..message(name, 1, &[(1, row)], &[]) };
        begun(&tables, first).unwrap()
    };
    let _fillings = [
        fill(1, labels(&["rack"]), with_values(&["r1"], &[])),
        fill(2, everything(), row("n")),
        fill(3, labels(&["zone"]), with_values(&["z1"], &[])),
        fill(4, api::NodeReads::default(), row("n")),
        fill(5, api::NodeReads { parts: vec![api::NodePart::Usage.into()], ..everything() }, row("n")),
    ];
    let backend = crate::Backend::from(Racks(racks()));
    let reads = reads_of(&backend);
    for (table, expected) in [
        (1, api::Miss::Unspecified),
        (2, api::Miss::TableUnknown),
        (3, api::Miss::TableUnknown),
        (4, api::Miss::TableUnknown),
        (5, api::Miss::TableUnknown),
    ] {
        let mut request = named(table, 1, &[1, 0], vec![with_values(&[""], &[0])]);
        request.call.as_mut().unwrap().reads = reads.clone();
        let answer = answered(&backend, &tables, &request).unwrap();
        assert_eq!(missed(&answer.result.unwrap()), expected, "{table}");
        let refused = answer.rejections.iter().map(|rejection| (&*rejection.reason, &*rejection.positions));
        let all = if table == 1 { vec![("r1", &[0][..])] } else { vec![] };
        assert_eq!(refused.collect::<Vec<_>>(), all);
    }
    for (table, expected) in
        [(1, api::Miss::TableUnknown), (2, api::Miss::Unspecified), (5, api::Miss::TableUnknown)]
    {
        assert_eq!(miss(&tables, &named(table, 1, &[1], vec![])), expected, "a verb that reads everything");
    }
}

#[test]
fn rows_that_do_not_match_the_tables_declaration_end_the_stream() {
    let tables = Tables::default();
    let begin = |reads, row: api::NodeRow| {
        let first = SyncNodesRequest { reads: Some(reads), ..message(5, 1, &[(1, row)], &[]) };
        status(begun(&tables, first).err().unwrap())
    };
    let many: Vec<_> = (0..=1000).map(|number| number.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for ((code, text), expected) in [
        (
            begin(labels(&["rack"]), row("n")),
            "upserts[0].row.facts.labels.values has 0 values, and 1 keys are declared",
        ),
        (
            begin(everything(), with_values(&["r1"], &[])),
            "labels.values has 1 values, and 0 keys are declared",
        ),
        (
            begin(labels(&["rack"]), with_values(&[""], &[1])),
            "labels.absent is not a list of ascending positions below 1",
        ),
        (
            begin(labels(&["rack"]), api::NodeRow { facts: None, ..row("n") }),
            "upserts[0].row.facts is missing",
        ),
        (begin(labels(&many), row("n")), "reads has 1001 keys and prefixes; expected at most 1000"),
        (
            begin(labels(&[&"k".repeat(318)]), row("n")),
            "reads has a key or prefix of 318 bytes; expected at most 317",
        ),
        (
            begin(api::NodeReads { parts: vec![1; 65], ..labels(&[]) }, row("n")),
            "reads has 65 parts; expected at most 64",
        ),
        (begin(counted(&["app"]), row("n")), "upserts[0].row.pod_counts has 0 entries, and 1 are declared"),
        (
            begin(everything(), api::NodeRow { pod_counts: vec![api::PodCounts::default()], ..row("n") }),
            "upserts[0].row.pod_counts has 1 entries, and 0 are declared",
        ),
        (begin(counted(&["app"; 9]), row("n")), "reads has 9 pod_counts; expected at most 8"),
        (
            begin(counted(&[&"k".repeat(318)]), row("n")),
            "reads has a key or prefix of 318 bytes; expected at most 317",
        ),
        (
            begin(counted(&["app"]), api::NodeRow { facts: None, ..row("n") }),
            "upserts[0].row.facts is missing",
        ),
    ] {
        assert_eq!(code, Code::InvalidArgument, "{text}");
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
}

#[test]
fn a_first_message_that_breaks_the_rules_opens_no_table() {
    let tables = Tables::default();
    let _other = begun(&tables, message(1, 1, &[], &[])).unwrap();
    let good = || message(5, 1, &[], &[]);
    let cases = [
        (message(0, 1, &[], &[]), "table is missing"),
        (SyncNodesRequest { table: "t".repeat(65), ..good() }, "table is no text of at most 64 bytes"),
        (SyncNodesRequest { table: "t\n".to_owned(), ..good() }, "table is no text of at most 64 bytes"),
        (SyncNodesRequest { table: "tä".to_owned(), ..good() }, "table is no text of at most 64 bytes"),
        (message(1, 1, &[], &[]), "table \"t-1\" already has a stream"),
        (SyncNodesRequest { version: 0, ..good() }, "version is 0 and was 0"),
        (
            SyncNodesRequest { reads: None, ..good() },
            "reads is missing; the first message says what the rows contain",
        ),
        (message(5, 1, &[(0, row("a"))], &[]), "upserts[0].id is missing"),
        (message(5, 1, &[(1, row("a")), (2, row(""))], &[]), "upserts[1].row.name is missing"),
    ];
    for (first, expected) in cases {
        let (code, text) = status(begun(&tables, first).err().unwrap());
        assert_eq!(code, Code::InvalidArgument, "{text}");
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
        assert!(tables.find(&table_name(5)).is_none(), "{text}");
    }
    assert!(tables.find(&table_name(1)).is_some());
}

#[test]
fn a_later_message_that_breaks_the_rules_changes_nothing() {
    let tables = Tables::default();
    let mut filling = begun(&tables, SyncNodesRequest { complete: true, ..message(5, 2, &[], &[]) }).unwrap();
    let bare = api::NodeRow { name: "a".into(), ..api::NodeRow::default() };
    let mut rowless = message(5, 3, &[(1, row("a")), (2, row("b"))], &[]);
    rowless.upserts[1].row = None;
    let mut broken = message(5, 3, &[(1, row("a")), (2, row("b"))], &[]);
    broken.upserts[1].row = Some(b"\x0a\x09a".to_vec().into());
    let cases = [
        (message(6, 3, &[(1, row("a"))], &[]), "table is no longer \"t-5\""),
        (message(5, 2, &[(1, row("a"))], &[]), "version is 2 and was 2"),
        (message(5, 3, &[(1, row("a")), (2, bare)], &[]), "upserts[1].row.facts is missing"),
        (rowless, "upserts[1].row is missing"),
        (broken, "upserts[1].row is not a NodeRow: "),
        (
            SyncNodesRequest { complete: true, ..message(5, 3, &[(1, row("a"))], &[]) },
            "complete is set twice",
        ),
    ];
    for (message, expected) in cases {
        let (code, text) = status(applied(&mut filling, message).unwrap_err());
        assert_eq!(code, Code::InvalidArgument, "{text}");
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
        assert!(tables.find(&table_name(5)).unwrap().at_least(2).unwrap().row(1).is_none(), "{text}");
        assert!(tables.find(&table_name(5)).unwrap().at_least(3).is_none(), "{text}");
    }
    assert_eq!(applied(&mut filling, message(5, 3, &[(1, row("a"))], &[])).unwrap(), 3);
}

#[test]
fn tables_and_bytes_are_limited_and_come_back() {
    let tables = Tables::limited(2, 2000);
    let long = |id: u32| (id, row(&"n".repeat(500)));
    let mut filling = begun(&tables, message(1, 1, &[long(1), long(2)], &[])).unwrap();
    let second = begun(&tables, message(2, 1, &[], &[])).unwrap();
    let exhausted = |mistake| {
        let (code, text) = status(mistake);
        assert_eq!(code, Code::ResourceExhausted, "{text}");
        text
    };
    let text = exhausted(begun(&tables, message(3, 1, &[], &[])).err().unwrap());
    assert_eq!(text, "this backend already holds 2 tables, the maximum");
    let text = exhausted(applied(&mut filling, message(1, 2, &[long(3)], &[])).unwrap_err());
    assert_eq!(text, "the rows of all tables would need more than 2000 bytes; more are refused");
    drop(second);
    let held = tables.find(&table_name(1)).unwrap().at_least(1).unwrap();
    drop(filling);
    // A call still holds the rows.
    assert!(matches!(begun(&tables, message(4, 1, &[long(1)], &[])).err(), Some(Mistake::TooLarge(2000))));
    drop(held);
    let _all = begun(&tables, message(4, 1, &[long(1), long(2)], &[])).unwrap();
    let tables = Tables::default();
    let _many: Vec<_> = (1..=64).map(|table| begun(&tables, message(table, 1, &[], &[])).unwrap()).collect();
    let text = exhausted(begun(&tables, message(65, 1, &[], &[])).err().unwrap());
    assert_eq!(text, "this backend already holds 64 tables, the maximum");
}

/// A row that differs from all others.
fn labelled(id: u32) -> (u32, api::NodeRow) {
    let facts = api::NodeFacts { labels: Some(entry("id", id.to_string())), ..api::NodeFacts::default() };
    (id, api::NodeRow { facts: Some(facts), ..row("n") })
}

/// Contents are shared, and wait for a while for rows that could share them.
#[test]
fn rows_that_are_removed_leave_no_memory_behind() {
    let tables = Tables::limited(2, 2 << 20);
    let upserts: Vec<_> = (1..=400).map(labelled).collect();
    let removed: Vec<_> = (1..=400).collect();
    let mut fillings = [1, 2].map(|table| begun(&tables, message(table, 1, &[], &[])).unwrap());
    for version in [2, 4, 6] {
        for (table, filling) in (1..).zip(&mut fillings) {
            applied(filling, message(table, version, &upserts, &[])).unwrap();
            applied(filling, message(table, version + 1, &[], &removed)).unwrap();
        }
    }
    assert!(tables.shared.budget.take(2 << 20).is_some());
}

/// A table that needs room drops the contents that no row has.
#[test]
fn unused_contents_make_room() {
    let tables = Tables::limited(1, 20_000);
    let mut filling = begun(&tables, message(1, 1, &[], &[])).unwrap();
    for round in 0..20 {
        let ids = || (1..=20).map(|id| round * 20 + id);
        let removed: Vec<_> = ids().collect();
        let version = u64::from(round) * 2 + 2;
        applied(&mut filling, message(1, version, &ids().map(labelled).collect::<Vec<_>>(), &[])).unwrap();
        applied(&mut filling, message(1, version + 1, &[], &removed)).unwrap();
    }
}

#[test]
fn others_have_their_turn_while_a_long_message_is_applied() {
    let tables = Tables::default();
    let first = message(5, 1, &[(1, row("old"))], &[]);
    let mut filling = begun(&tables, first).unwrap();
    let upserts: Vec<_> = (1..=1000).map(|id| (id, row("new"))).collect();
    let mut applying = Box::pin(filling.apply(message(5, 2, &upserts, &[])));
    let mut turns = 0;
    while applying.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        turns += 1;
        // No row is visible yet.
        assert_eq!(miss(&tables, &named(5, 2, &[1], vec![])), api::Miss::TableBehind);
        assert_eq!(miss(&tables, &named(5, 1, &[2], vec![])), api::Miss::TableBehind);
        assert_eq!(asked(&tables, &named(5, 1, &[1], vec![])).unwrap().scores.unwrap().values, [3000]);
    }
    // 1,000 rows of 7 bytes and their overhead are a bit more than 256 KiB.
    assert_eq!(turns, 2);
    assert_eq!(miss(&tables, &named(5, 2, &(1..=1000).collect::<Vec<_>>(), vec![])), api::Miss::Unspecified);
}

#[test]
fn a_message_that_is_left_half_applied_gives_its_bytes_back() {
    let tables = Tables::limited(1, 300_000);
    let upserts: Vec<_> = (1..=1000).map(|id| (id, row("n"))).collect();
    for _ in 0..3 {
        let first = message(5, 1, &upserts, &[]);
        let mut filling = Filling::begin(&tables, &first).unwrap();
        let mut applying = Box::pin(filling.apply(first));
        assert!(applying.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert!(tables.shared.budget.take(300_000).is_some());
}

#[test]
fn tables_outlive_their_streams_when_the_server_stops() {
    let tables = Tables::default();
    let filling = begun(&tables, message(5, 1, &[(1, row("a"))], &[])).unwrap();
    tables.stopping().begin();
    drop(filling);
    assert_eq!(miss(&tables, &named(5, 1, &[1], vec![])), api::Miss::Unspecified);
}

#[derive(Clone, Debug)]
enum Step {
    Upsert(Vec<(u32, api::NodeRow)>),
    Remove(Vec<u32>),
    /// Both in one message.
    Both(Vec<(u32, api::NodeRow)>, Vec<u32>),
}

fn any_row() -> impl Strategy<Value = api::NodeRow> {
    let labels = prop::collection::btree_map("[a-c]{0,2}", "[a-c]{0,2}", 0..3);
    let taints = prop::collection::vec("[a-c]", 0..2);
    let facts = (labels, taints, any::<bool>(), prop::option::of(0..9_i64));
    ("[a-c]{1,3}", facts, any::<bool>()).prop_map(|(name, (labels, taints, unschedulable, memory), twice)| {
        let taint = |key: String| api::Taint { key, ..api::Taint::default() };
        let allocatable = memory.map(|memory| api::Resources { memory, ..api::Resources::default() });
        let taints =
            taints.into_iter().flat_map(|key| vec![key; 1 + usize::from(twice)]).map(taint).collect();
        let labels = Some(api::MapValues { entries: labels, ..api::MapValues::default() });
        let unschedulable = Some(unschedulable);
        let facts =
            api::NodeFacts { labels, taints, unschedulable, allocatable, ..api::NodeFacts::default() };
        api::NodeRow { name, facts: Some(facts), ..api::NodeRow::default() }
    })
}

fn step() -> impl Strategy<Value = Step> {
    // Few ids, so that they repeat; some large, as after years.
    let id = || prop_oneof![1..12_u32, (u32::MAX - 3)..=u32::MAX];
    let upserts = || prop::collection::vec((id(), any_row()), 0..8);
    let removed = || prop::collection::vec(id(), 0..5);
    prop_oneof![
        4 => upserts().prop_map(Step::Upsert),
        1 => removed().prop_map(Step::Remove),
        1 => (upserts(), removed()).prop_map(|(upserts, removed)| Step::Both(upserts, removed)),
    ]
}

/// What the table should hold.
fn play(model: &mut BTreeMap<u32, api::NodeRow>, upserts: &[(u32, api::NodeRow)], removed: &[u32]) {
    model.extend(upserts.iter().cloned());
    model.retain(|id, _| !removed.contains(id));
}

/// The model's nodes in some order, some of them named, the others inline.
fn either_way(
    model: &BTreeMap<u32, api::NodeRow>,
    version: u64,
    picks: &[(Index, bool)],
) -> (FilterRequest, FilterRequest) {
    let nodes: Vec<_> = model.iter().collect();
    let picked: Vec<_> = picks.iter().map(|(index, by_id)| (*index.get(&nodes), *by_id)).collect();
    let ids: Vec<_> = picked.iter().map(|((id, _), by_id)| if *by_id { **id } else { 0 }).collect();
    let rows = |wanted: fn(bool) -> bool| {
        let picked = picked.iter().filter(|(_, by_id)| wanted(*by_id));
        picked.map(|((_, row), _)| (*row).clone()).collect()
    };
    (named(5, version, &ids, rows(|by_id| !by_id)), inline(rows(|_| true)))
}

proptest! {
    #[test]
    fn a_table_answers_as_rows_in_the_call_would(
        steps in prop::collection::vec(step(), 1..12),
        picks in prop::collection::vec((any::<Index>(), prop::bool::weighted(0.8)), 1..20),
    ) {
        let (tables, mut model) = (Tables::default(), BTreeMap::new());
        let mut filling = begun(&tables, message(5, 1, &[], &[])).unwrap();
        for (version, step) in (2..).zip(&steps) {
            let (upserts, removed) = match step {
                Step::Upsert(upserts) => (&upserts[..], &[][..]),
                Step::Remove(removed) => (&[][..], &removed[..]),
                Step::Both(upserts, removed) => (&upserts[..], &removed[..]),
            };
            prop_assert_eq!(applied(&mut filling, message(5, version, upserts, removed)), Ok(version));
            play(&mut model, upserts, removed);
            for gone in removed {
                prop_assert_eq!(miss(&tables, &named(5, version, &[*gone], vec![])), api::Miss::TableBehind);
            }
            if !model.is_empty() {
                let (by_id, inline) = either_way(&model, version, &picks);
                prop_assert_eq!(asked(&tables, &by_id), asked(&tables, &inline));
            }
        }
    }
}
