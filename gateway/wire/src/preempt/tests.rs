use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const NAMES: &str = include_str!("../../../../tests/captures/preempt-names.json");
const NODES: &str = include_str!("../../../../tests/captures/preempt-nodes.json");

fn read(body: &str) -> Result<PreemptRequest, String> {
    PreemptRequest::read(Bytes::copy_from_slice(body.as_bytes())).map_err(|error| error.to_string())
}

fn reply(request: &PreemptRequest, left: &[Candidate]) -> String {
    String::from_utf8(preempted(request, left).into_pieces().concat()).unwrap()
}

#[test]
fn what_kube_scheduler_sends_comes_back_with_uids() {
    let sent: Value = serde_json::from_str(NAMES).unwrap();
    let request = read(NAMES).unwrap();
    let echo: Value = serde_json::from_str(&reply(&request, &request.candidates())).unwrap();
    assert_eq!(echo, json!({"NodeNameToMetaVictims": sent["NodeNameToMetaVictims"]}));
    assert_eq!(serde_json::from_slice::<Value>(&request.pod()).unwrap(), sent["Pod"]);
    assert!(request.objects(0).is_empty());
}

#[test]
fn full_objects_are_there_for_those_who_want_facts() {
    let sent: Value = serde_json::from_str(NODES).unwrap();
    let request = read(NODES).unwrap();
    let candidates = request.candidates();
    assert!(!candidates.is_empty());
    for candidate in candidates {
        let offered = &sent["NodeNameToVictims"][request.name(candidate.node)];
        let objects = request.objects(candidate.node);
        assert_eq!(objects.len(), candidate.victims.len());
        let object = |uid: &String| serde_json::from_slice(&objects[uid.as_str()]).unwrap();
        let objects: Vec<Value> = candidate.victims.iter().map(object).collect();
        assert_eq!(json!(objects), offered["Pods"]);
    }
}

#[test]
fn keys_may_be_of_any_case_and_the_last_of_a_node_counts() {
    let request = read(
        r#"{"pod":{},"nodenametovictims":null,"nodeNameToMetaVictims":{
            "b":{"pods":[{"uid":"1"}],"numPDBViolations":2,"x":[0]},
            "\u0061":{"Pods":[{"Uid":"2","UID":"3"},{"UID":"\"4"}]},
            "b":{"Pods":[{"UID":"5"}],"NumPDBViolations":null}}}"#,
    )
    .unwrap();
    assert_eq!(
        reply(&request, &request.candidates()),
        r#"{"NodeNameToMetaVictims":{"b":{"Pods":[{"UID":"5"}],"NumPDBViolations":0},"a":{"Pods":[{"UID":"3"},{"UID":"\"4"}],"NumPDBViolations":0}}}"#
    );
    assert_eq!(reply(&request, &[]), r#"{"NodeNameToMetaVictims":{}}"#);
}

#[test]
fn a_request_that_is_not_one_says_what_is_wrong() {
    let victims = |victims: &str| format!(r#"{{"Pod":{{}},"NodeNameToMetaVictims":{{"n":{victims}}}}}"#);
    for (body, message) in [
        (r#"{"NodeNameToMetaVictims":{}}"#.to_owned(), "the request has no Pod"),
        (r#"{"Pod":null,"NodeNameToMetaVictims":{}}"#.to_owned(), "the request has no Pod"),
        (
            r#"{"Pod":{}}"#.to_owned(),
            "the request has neither NodeNameToVictims nor NodeNameToMetaVictims; exactly one of them is expected",
        ),
        (
            r#"{"Pod":{},"NodeNameToVictims":{},"NodeNameToMetaVictims":{}}"#.to_owned(),
            "the request has both NodeNameToVictims and NodeNameToMetaVictims; exactly one of them is expected",
        ),
        (
            r#"{"Pod":{},"NodeNameToVictims":{"n":{"Pods":[{"metadata":null}]}}}"#.to_owned(),
            "a victim without UID at byte 44",
        ),
        (victims(r#"{"Pods":[null]}"#), "a victim without UID at byte 48"),
        (victims(r#"{"Pods":[{"UID":""}]}"#), "a victim without UID at byte 48"),
        (victims(r#"{"Pods":[{"UID":"1"},{"UID":"1"}]}"#), "node n has victim 1 twice"),
        (
            victims(r#"{"Pods":[{"UID":"1"}],"NumPDBViolations":1.5}"#),
            "NumPDBViolations is not a whole number at byte 80",
        ),
        (victims(r#"{"Pods":[{"UID":"1"}]}"#) + "x", "unexpected text after the JSON value at byte 63"),
    ] {
        assert_eq!(read(&body).map(drop), Err(message.to_owned()), "{body}");
    }
}

#[test]
fn a_node_without_victims_is_a_candidate_that_goes_out_as_it_came() {
    let request = read(
        r#"{"Pod":{},"NodeNameToMetaVictims":{"a":null,"b":{"Pods":null},"c":{"Pods":[{"UID":"1"}]},"d":{"Pods":[]},
            "e":{"Pods":[{"UID":"2"}]},"e":{}}}"#,
    )
    .unwrap();
    let left = request.candidates();
    assert_eq!(
        reply(&request, &left),
        concat!(
            r#"{"NodeNameToMetaVictims":{"a":{"Pods":[],"NumPDBViolations":0},"b":{"Pods":[],"NumPDBViolations":0},"#,
            r#""c":{"Pods":[{"UID":"1"}],"NumPDBViolations":0},"d":{"Pods":[],"NumPDBViolations":0},"#,
            r#""e":{"Pods":[],"NumPDBViolations":0}}}"#
        )
    );
}

#[test]
fn more_than_any_cluster_has_is_refused() {
    let body = |nodes: &str| format!(r#"{{"Pod":{{}},"NodeNameToMetaVictims":{{{nodes}}}}}"#);
    let victims = |count: usize| {
        let uids: Vec<String> = (0..count).map(|uid| format!(r#"{{"UID":"{uid}"}}"#)).collect();
        format!(r#"{{"Pods":[{}]}}"#, uids.join(","))
    };
    let nodes = |count: usize, victims: &str| {
        body(&(0..count).map(|node| format!(r#""{node}":{victims}"#)).collect::<Vec<_>>().join(","))
    };
    let full = victims(MOST_ON_A_NODE);
    let most = MOST_VICTIMS / MOST_ON_A_NODE;
    assert_eq!(read(&nodes(most, &full)).unwrap().candidates().len(), most);
    for (body, message) in [
        (nodes(1, &victims(MOST_ON_A_NODE + 1)), "more than 10000 victims on a node"),
        (nodes(most + 1, &full), "more than 500000 victims"),
        (nodes(MOST_NODES + 1, "null"), "more than 100000 nodes"),
    ] {
        let error = read(&body).unwrap_err();
        assert_eq!(error.split(" at ").next(), Some(message));
    }
}

#[test]
fn names_and_uids_longer_than_any_are_refused() {
    let (fits, long) = ("x".repeat(1024), "x".repeat(1025));
    let by_uid = |node: &str, uid: &str| {
        format!(r#"{{"Pod":{{}},"NodeNameToMetaVictims":{{"{node}":{{"Pods":[{{"UID":"{uid}"}}]}}}}}}"#)
    };
    let in_full = format!(
        r#"{{"Pod":{{}},"NodeNameToVictims":{{"n":{{"Pods":[{{"metadata":{{"uid":"{long}"}}}}]}}}}}}"#
    );
    assert!(read(&by_uid(&fits, &fits)).is_ok());
    for (body, what) in
        [(by_uid(&long, "u"), "a node's name"), (by_uid("n", &long), "a UID"), (in_full, "a UID")]
    {
        let error = read(&body).unwrap_err();
        let expected = format!("{what} has 1025 bytes, and the gateway accepts at most 1024");
        assert_eq!(error.split(" at byte").next(), Some(&*expected));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = PreemptRequest::read(Bytes::from(bytes));
    }

    #[test]
    fn no_reply_holds_a_null_or_what_was_not_sent(
        nodes in prop::collection::btree_map("[a-c\"\\\\é]{1,2}", (prop::collection::btree_set("[a-d\"]{1,2}", 1..4), any::<i64>()), 0..4)
    ) {
        let sent: serde_json::Map<String, Value> = nodes
            .into_iter()
            .map(|(name, (uids, violations))| {
                let pods: Vec<Value> = uids.into_iter().map(|uid| json!({"UID": uid})).collect();
                (name, json!({"Pods": pods, "NumPDBViolations": violations}))
            })
            .collect();
        let request = read(&json!({"Pod": {}, "NodeNameToMetaVictims": sent}).to_string()).unwrap();
        let reply: Value = serde_json::from_str(&reply(&request, &request.candidates())).unwrap();
        prop_assert_eq!(reply, json!({"NodeNameToMetaVictims": sent}));
    }
}
