//! Checks that the example of docs/explain.md matches the output.

use super::*;

const DOCUMENT: &str = include_str!("../../../../../docs/explain.md");

#[test]
fn the_document_shows_what_is_printed() {
    let shown = format!(
        "```text\n$ extender-gateway explain pod/web-0 -n shop --top 4\n{}```\n",
        text(&example(), 4)
    );
    assert!(DOCUMENT.contains(&shown), "docs/explain.md has to show this:\n{shown}");
}

/// One backend's scores in the document.
struct Scored {
    name: &'static str,
    weight: u32,
    normalization: &'static str,
    /// Raw and normalized, in the order of the nodes.
    scores: [(i32, f64); 5],
}

const LEFT: [&str; 5] = ["node-a-017", "node-a-018", "node-b-003", "node-b-004", "node-c-001"];

fn example() -> Evidence {
    let racks = Scored {
        name: "racks",
        weight: 2,
        normalization: "Max",
        scores: [(70, 10.0), (35, 5.0), (70, 10.0), (14, 2.0), (0, 0.0)],
    };
    let images = Scored {
        name: "images",
        weight: 1,
        normalization: "None",
        scores: [(3, 3.0), (10, 10.0), (1, 1.0), (9, 9.0), (10, 10.0)],
    };
    let calls = vec![first_attempt(), filtered(), scored(&[racks, images]), bound()];
    let mut case = case(PodFacts { created: samples::at(480), ..pod(Some("node-a-018")) }, calls);
    case.cluster.cluster_nodes = Some(5000);
    case
}

/// Eight of nine nodes are in a zone that is being drained, and one is full.
fn first_attempt() -> Decision {
    filter(481, &[("node-c-001", Some("zone c is being drained"))])
}

fn filtered() -> Decision {
    let mut call = filter(
        590,
        &[
            ("node-a-017", None),
            ("node-a-018", None),
            ("node-b-003", None),
            ("node-b-004", None),
            ("node-c-001", None),
            ("node-c-002", Some("zone c is being drained")),
            ("node-c-003", Some("zone c is being drained")),
            ("node-c-004", Some("zone c is being drained")),
            ("node-c-005", Some("zone c is being drained")),
            ("node-c-006", Some("zone c is being drained")),
        ],
    );
    call.backends[0].known = 3;
    call.backends[0].reads_of_pods = Some("namespace, label tier".to_owned());
    call.backends[0].asked = 7;
    let late = BackendPart {
        failure: Some(failed("late", "no answer within 200 ms", "ignore")),
        seconds: 0.2,
        ..backend("quota", 5)
    };
    call.backends.push(late);
    call
}

fn scored(backends: &[Scored]) -> Decision {
    let part = |scored: &Scored| BackendPart {
        weight: Some(scored.weight),
        normalization: Some(scored.normalization.to_owned()),
        ..backend(scored.name, LEFT.len())
    };
    let verdict = |scored: &Scored, at: usize| {
        let (raw, normalized) = scored.scores[at];
        let weighted = Some(normalized * f64::from(scored.weight));
        (
            scored.name.to_owned(),
            NodeVerdict { raw: Some(raw), normalized: Some(normalized), weighted, ..NodeVerdict::default() },
        )
    };
    let node = |(at, name): (usize, &&str)| {
        let backends: std::collections::BTreeMap<_, _> =
            backends.iter().map(|scored| verdict(scored, at)).collect();
        let sum: f64 = backends.values().filter_map(|verdict| verdict.weighted).sum();
        #[expect(clippy::cast_possible_truncation, reason = "a small whole number")]
        NodePart { total: Some(sum as i64), backends, ..node(name) }
    };
    Decision {
        offered: 5,
        backends: backends.iter().map(part).collect(),
        nodes: LEFT.iter().enumerate().map(node).collect(),
        ..decision("prioritize", 590)
    }
}

fn bound() -> Decision {
    Decision { backends: Vec::new(), ..bind(591, "node-a-018") }
}
