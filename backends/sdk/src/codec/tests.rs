use allocation_counter::measure;
use prost::Message;

use super::*;
use crate::{
    Node, Verdict,
    codec::{Incoming, decode},
    error::CallError,
    node::row::{Row, RowRef},
    request::{ChangeRequest, FilterRequest, PreemptRequest, ScoreRequest, SyncNodesRequest},
};

/// A nested message, short enough for lengths of one byte.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
}

/// The same for a number of two bytes.
fn long_field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 & 0x78 | 0x82, number >> 4, u8::try_from(content.len()).unwrap()], content].concat()
}

/// The peak memory while these bytes, repeated, are decoded, per byte of the message.
fn memory_per_byte<Q: Incoming>(piece: &[u8]) -> u64 {
    let message = Bytes::from(piece.repeat((1 << 20) / piece.len()));
    let cost = measure(|| drop(decode::<Q>(message.clone())));
    cost.bytes_max / u64::try_from(message.len()).unwrap()
}

#[test]
fn a_victim_is_small() {
    assert!(size_of::<api::Victim>() <= 64, "{} bytes", size_of::<api::Victim>());
}

#[test]
fn a_row_is_counted_with_what_it_takes() {
    assert!(size_of::<Row<'_>>() + size_of::<RowRef<'_>>() + size_of::<Verdict>() <= READ_ROW);
    assert!(size_of::<RowRef<'_>>() + size_of::<Node<'_>>() + size_of::<Verdict>() <= FOUND_ROW);
}

#[test]
fn decoding_takes_a_small_multiple_of_the_message() {
    let pod = |facts: &[u8]| field(2, &field(2, facts));
    let rows = |row: &[u8]| field(3, &field(2, &field(1, row)));
    for (what, per_byte) in [
        ("empty candidates", memory_per_byte::<PreemptRequest>(&field(4, &[]))),
        ("empty victims", memory_per_byte::<PreemptRequest>(&field(4, &field(1, &[])))),
        (
            "victims with an empty pod",
            memory_per_byte::<PreemptRequest>(&field(4, &field(1, &field(2, &[])))),
        ),
        ("victims with a UID", memory_per_byte::<PreemptRequest>(&field(4, &field(1, &field(1, b"u"))))),
        ("empty tolerations", memory_per_byte::<FilterRequest>(&pod(&field(8, &[])))),
        (
            "tolerations for a hook",
            memory_per_byte::<ChangeRequest>(&pod(&field(8, &[]).repeat(40))),
        ),
        ("tolerations for a score", memory_per_byte::<ScoreRequest>(&pod(&field(8, &[]).repeat(40)))),
        ("empty containers", memory_per_byte::<FilterRequest>(&pod(&long_field(20, &[])))),
        ("empty host ports", memory_per_byte::<FilterRequest>(&pod(&long_field(20, &field(4, &[]).repeat(60))))),
        ("empty affinity terms", memory_per_byte::<FilterRequest>(&pod(&long_field(21, &field(3, &[]).repeat(60))))),
        (
            "affinity terms with a selector",
            memory_per_byte::<FilterRequest>(&pod(&long_field(21, &field(4, &field(2, &field(1, &field(1, &[]))))))),
        ),
        ("empty constraints", memory_per_byte::<FilterRequest>(&pod(&long_field(22, &[])))),
        (
            "constraints with a selector",
            memory_per_byte::<FilterRequest>(&pod(&long_field(22, &field(4, &field(1, &[]))))),
        ),
        (
            "long constraints with a selector",
            memory_per_byte::<FilterRequest>(&pod(&long_field(
                22,
                &[field(2, &[b'k'; 60]), field(4, &field(1, &[]))].concat(),
            ))),
        ),
        ("empty resource claims", memory_per_byte::<FilterRequest>(&pod(&long_field(23, &[])))),
        ("empty outcomes", memory_per_byte::<api::ReportRequest>(&field(2, &[]))),
        ("empty volumes", memory_per_byte::<FilterRequest>(&pod(&field(10, &[])))),
        ("empty terms", memory_per_byte::<FilterRequest>(&pod(&field(12, &field(1, &field(1, &[])))))),
        (
            "empty requirements",
            memory_per_byte::<FilterRequest>(&pod(&field(12, &field(1, &field(1, &field(1, &[])))))),
        ),
        ("empty counts by topology", memory_per_byte::<FilterRequest>(&field(2, &field(4, &[])))),
        ("empty domains", memory_per_byte::<FilterRequest>(&field(2, &field(4, &field(1, &[]))))),
        (
            "domains with sums",
            memory_per_byte::<FilterRequest>(&field(2, &field(4, &field(1, &field(4, &field(5, &[])))))),
        ),
        ("empty rows", memory_per_byte::<FilterRequest>(&rows(&[]))),
        ("rows with a name", memory_per_byte::<FilterRequest>(&rows(&field(1, b"n")))),
        ("ids", memory_per_byte::<FilterRequest>(&field(3, &field(3, &field(3, &[1; 100]))))),
        ("empty upserts", memory_per_byte::<SyncNodesRequest>(&field(4, &[]))),
        ("upserts", memory_per_byte::<SyncNodesRequest>(&field(4, &[8, 1, 18, 3, 10, 1, b'n']))),
        ("counts of a table", memory_per_byte::<SyncNodesRequest>(&field(8, &field(4, &[]).repeat(60)))),
        ("keys of a table", memory_per_byte::<SyncNodesRequest>(&field(8, &field(2, &field(1, &[]).repeat(60))))),
        ("api versions", memory_per_byte::<api::GetInfoRequest>(&field(2, &[]))),
        ("known verbs", memory_per_byte::<api::GetInfoRequest>(&field(5, &field(1, &[1; 100])))),
        ("known features", memory_per_byte::<api::GetInfoRequest>(&field(5, &field(7, &[]).repeat(60)))),
    ] {
        assert!(per_byte <= 2 * PER_BYTE as u64, "{what}: {per_byte} bytes per byte");
    }
}

/// Rows that are not as the gateway writes them are decoded.
#[test]
fn reading_a_row_takes_a_small_multiple_of_it() {
    for (what, piece) in [
        ("empty lists of counts", field(5, &[])),
        ("empty counts", field(5, &field(1, &[]).repeat(60))),
        ("counts with empty sums", field(5, &field(1, &field(5, &field(5, &[]))).repeat(15))),
        ("empty taints", field(2, &field(3, &[]).repeat(60))),
        ("empty images", field(2, &field(14, &[]).repeat(60))),
        ("empty names of images", field(2, &field(14, &field(1, &[]).repeat(60)))),
        ("empty addresses", field(2, &long_field(16, &[]).repeat(40))),
        ("empty values", field(2, &field(12, &field(1, &[]).repeat(60)))),
        ("absent values", field(2, &field(13, &field(2, &[1; 100])))),
    ] {
        let row = [field(2, &[]), field(1, b"n"), piece.repeat((1 << 20) / piece.len())].concat();
        let cost = measure(|| drop(Row::read(&row)));
        let per_byte = cost.bytes_max / u64::try_from(row.len()).unwrap();
        assert!(per_byte <= 2 * PER_BYTE as u64, "{what}: {per_byte} bytes per byte");
    }
}

#[test]
fn an_element_with_nothing_in_it_is_refused() {
    let refused = |result: Result<(), Refused>| result.unwrap_err().to_string();
    let candidate = field(4, &field(1, &[]));
    assert_eq!(
        refused(check(&candidate, PREEMPT, 1 << 20)),
        "victims has an empty entry; each entry has content"
    );
    assert_eq!(check(&field(4, &[]), SYNC_NODES, 1 << 20), Err(Refused::Empty("upserts")));
}

/// A verb that reads one label gets rows of a few bytes, and one that reads nothing gets empty ones.
#[test]
fn small_rows_of_a_large_cluster_are_decoded() {
    let labels = Some(api::MapValues { values: vec!["a".to_owned()], ..api::MapValues::default() });
    let facts = api::NodeFacts { labels, ..api::NodeFacts::default() };
    let row = api::NodeRow { facts: Some(facts), ..api::NodeRow::default() };
    for (row, most) in [(row, 200_000), (api::NodeRow::default(), 31_000)] {
        let rows = api::NodeRows { rows: vec![row; 15_000] };
        let nodes = api::Nodes { count: 15_000, form: Some(api::nodes::Form::Rows(rows)) };
        let request = api::FilterRequest { nodes: Some(nodes), ..api::FilterRequest::default() };
        let request = request.encode_to_vec();
        assert!(request.len() < most, "{} bytes", request.len());
        assert_eq!(check(&request, QUESTION, usize::MAX), Ok(()));
    }
}

/// The most that the gateway sends, with the shortest values.
#[test]
fn counts_by_topology_of_a_large_cluster_are_decoded() {
    let gpus = || [("a.com/gpu".to_owned(), 1)].into();
    for requested in [
        None,
        Some(api::Resources { milli_cpu: 1, ..api::Resources::default() }),
        Some(api::Resources { others: gpus(), ..api::Resources::default() }),
    ] {
        let domain = |n: u32| api::DomainCount {
            value: n.to_string(),
            pods: 1,
            requested: requested.clone(),
            ..api::DomainCount::default()
        };
        let counts = api::TopologyCounts { domains: (0..4_096).map(domain).collect(), omitted_pods: 0 };
        let pod = api::Pod { topology_counts: vec![counts; 8], ..api::Pod::default() };
        let request = api::FilterRequest { pod: Some(pod), ..api::FilterRequest::default() };
        decode::<FilterRequest>(request.encode_to_vec().into()).unwrap();
    }
}

#[test]
fn requests_of_a_large_cluster_are_decoded() {
    let row = |n: u32| api::NodeRow { name: format!("node-{n}"), ..api::NodeRow::default() };
    let rows: Vec<_> = (0..15_000).map(row).collect();
    let victim = |n: u32| {
        let toleration =
            api::Toleration { key: "node.kubernetes.io/not-ready".into(), ..api::Toleration::default() };
        let facts = api::PodFacts {
            namespace: "shop".into(),
            tolerations: vec![toleration; 3],
            ..api::PodFacts::default()
        };
        let pod = api::Pod { facts: Some(facts), ..api::Pod::default() };
        api::Victim { uid: format!("1f0f1f2e-0000-4000-8000-{n:012}"), pod: Some(Box::new(pod)) }
    };
    let candidate = |n: u32| api::Candidate {
        victims: (0..30).map(|m| victim(30 * n + m)).collect(),
        ..api::Candidate::default()
    };
    let request = api::PreemptRequest {
        nodes: Some(api::Nodes { count: 15_000, form: Some(api::nodes::Form::Rows(api::NodeRows { rows })) }),
        candidates: (0..1_500).map(candidate).collect(),
        ..api::PreemptRequest::default()
    };
    let decoded: PreemptRequest = decode(request.encode_to_vec().into()).unwrap();
    assert_eq!(decoded.candidates, request.candidates);

    let ids: Vec<u32> = (1..=15_000).collect();
    let table = api::NodeRef { ids: ids.clone(), ..api::NodeRef::default() };
    let nodes = api::Nodes { count: 15_000, form: Some(api::nodes::Form::Table(table)) };
    let named = api::FilterRequest { nodes: Some(nodes), ..api::FilterRequest::default() };
    decode::<FilterRequest>(named.encode_to_vec().into()).unwrap();
}

#[test]
fn what_is_no_message_is_refused() {
    for broken in [&[0x22, 5, 1][..], &[0x0b, 0x0c], &[0xff; 11]] {
        let refused = decode::<PreemptRequest>(Bytes::copy_from_slice(broken)).unwrap_err();
        assert_eq!(refused, CallError::Refused(Refused::Broken), "{broken:?}");
    }
}
