use extender_gateway_core::filter::{By, Group};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn request(body: &str) -> Request {
    Request::read(Bytes::copy_from_slice(body.as_bytes())).unwrap()
}

fn text(body: Body) -> String {
    String::from_utf8(body.into_pieces().concat()).unwrap()
}

fn rejected(nodes: &[Option<u32>]) -> Rejected {
    let group = |at| Group { by: By::Seat(at), reason: String::new(), preemption_may_help: false };
    Rejected { groups: vec![group(0), group(1)], nodes: nodes.into() }
}

fn reasons() -> Vec<Reason> {
    [("no \"gpu\"", false), ("full", true)]
        .map(|(text, preemption_may_help)| Reason {
            text: text.into(),
            preemption_may_help,
            ..Reason::default()
        })
        .into()
}

#[test]
fn accepted_names_go_back_as_they_came_and_every_other_has_a_reason() {
    let request = request(r#"{"Pod":{},"NodeNames":["a", "b","\u0063" ,"d","a","d"]}"#);
    for (nodes, expected) in [
        (
            &[][..],
            r#"{"NodeNames":["a", "b","\u0063" ,"d","a","d"],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}"#,
        ),
        (
            &[Some(0), None, None, Some(1)],
            r#"{"NodeNames":["b","\u0063"],"FailedNodes":{"d":"full"},"FailedAndUnresolvableNodes":{"a":"no \"gpu\""},"Error":""}"#,
        ),
        (
            &[None, Some(0), Some(0), None],
            r#"{"NodeNames":["a","d","a","d"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"b":"no \"gpu\"","\u0063":"no \"gpu\""},"Error":""}"#,
        ),
        (
            &[Some(1), Some(1), Some(1), Some(1)],
            r#"{"NodeNames":[],"FailedNodes":{"a":"full","b":"full","\u0063":"full","d":"full"},"FailedAndUnresolvableNodes":{},"Error":""}"#,
        ),
    ] {
        assert_eq!(text(filtered(&request, &rejected(nodes), &reasons())), expected);
    }
}

#[test]
fn objects_go_back_byte_for_byte() {
    let body = include_str!("../../../../tests/captures/filter-nodes.json");
    let request = request(body);
    let reply = text(filtered(&request, &rejected(&[None, Some(0), None]), &reasons()));
    let kept = |node| String::from_utf8(request.object(node).unwrap().into()).unwrap();
    let expected =
        format!(r#"{{"Nodes":{{"metadata":{{}},"items":[{},{}]}},"FailedNodes""#, kept(0), kept(2));
    assert!(reply.starts_with(&expected), "{reply}");
    let empty = text(filtered(&request, &rejected(&[Some(0), Some(0), Some(0)]), &reasons()));
    assert!(empty.starts_with(r#"{"Nodes":{"metadata":{},"items":[]},"FailedNodes""#), "{empty}");
}

#[test]
fn long_runs_are_slices_of_the_request() {
    let names: Vec<String> =
        (0..5000).map(|at| format!("ip-10-16-{at}.eu-west-1.compute.internal")).collect();
    let body = Bytes::from(json!({"Pod": {}, "NodeNames": names}).to_string());
    let request = Request::read(body.clone()).unwrap();
    let pieces = filtered(&request, &Rejected::default(), &[]).into_pieces();
    assert_eq!(pieces.len(), 3);
    assert!(body.as_ptr_range().contains(&pieces[1].as_ptr()));
}

#[test]
fn full_nodes_are_slices_of_the_request_around_a_rejected_one() {
    let node =
        |name: &str| json!({"metadata": {"name": name, "annotations": {"images": "x".repeat(9 << 10)}}});
    let nodes = ["a", "b", "c"].map(node);
    let body = Bytes::from(json!({"Pod": {}, "Nodes": {"items": nodes}}).to_string());
    let request = Request::read(body.clone()).unwrap();
    let pieces = filtered(&request, &rejected(&[None, Some(0), None]), &reasons()).into_pieces();
    let are_slices: Vec<bool> =
        pieces.iter().map(|piece| body.as_ptr_range().contains(&piece.as_ptr())).collect();
    assert_eq!(are_slices, [false, true, false, true, false]);
    let reply: Value = serde_json::from_slice(&pieces.concat()).unwrap();
    assert_eq!(reply["Nodes"]["items"], json!([nodes[0], nodes[2]]));
    assert_eq!(reply["FailedAndUnresolvableNodes"], json!({"b": "no \"gpu\""}));
}

#[test]
fn scores_are_plain_integers_and_unscored_nodes_are_left_out() {
    let request = request(r#"{"Pod":{},"NodeNames":["a","b","c","a"]}"#);
    let reply = text(prioritized(&request, &[Some(0), None, Some(-92)]));
    assert_eq!(reply, r#"[{"Host":"a","Score":0},{"Host":"c","Score":-92},{"Host":"a","Score":0}]"#);
    assert_eq!(text(prioritized(&request, &[None, None, None])), "[]");
    assert_eq!(text(error("a \"b\"")), r#"{"Error":"a \"b\""}"#);
}

proptest! {
    #[test]
    fn the_reply_is_the_request_less_the_rejected(
        nodes in prop::collection::vec(("[a-c\"\\\\é]{1,2}", prop::option::of(0_u32..2)), 0..12)
    ) {
        let names: Vec<&String> = nodes.iter().map(|(name, _)| name).collect();
        let request = request(&json!({"Pod": {}, "NodeNames": names}).to_string());
        let fates: Vec<_> = nodes.iter().map(|(_, fate)| *fate).take(request.names.count() as usize).collect();
        let fate = |entry: &usize| fates[request.names.node_at(*entry) as usize];
        let reply: Value = serde_json::from_str(&text(filtered(&request, &rejected(&fates), &reasons()))).unwrap();
        let entries = 0..nodes.len();
        let kept: Vec<&String> = entries.clone().filter(|entry| fate(entry).is_none()).map(|at| names[at]).collect();
        prop_assert_eq!(&reply["NodeNames"], &json!(kept));
        for entry in entries {
            let name = names[entry].as_str();
            let found = [reply["FailedAndUnresolvableNodes"].get(name), reply["FailedNodes"].get(name)];
            let expected = [(0, "no \"gpu\""), (1, "full")]
                .map(|(group, text)| (fate(&entry) == Some(group)).then(|| json!(text)));
            prop_assert_eq!(found.map(Option::<&Value>::cloned), expected);
        }
    }
}

#[test]
fn old_callers_find_every_reason_in_the_map_they_know() {
    let rejected = rejected(&[Some(0), None, Some(1)]);
    for (key, maps) in [
        ("pod", r#""FailedNodes":{"a":"no \"gpu\"","c":"full"},"FailedAndUnresolvableNodes":{}"#),
        ("Pod", r#""FailedNodes":{"c":"full"},"FailedAndUnresolvableNodes":{"a":"no \"gpu\""}"#),
        ("POD", r#""FailedNodes":{"c":"full"},"FailedAndUnresolvableNodes":{"a":"no \"gpu\""}"#),
    ] {
        let request = request(&format!(r#"{{"{key}":{{}},"nodenames":["a","b","c"]}}"#));
        let expected = format!(r#"{{"NodeNames":["b"],{maps},"Error":""}}"#);
        assert_eq!(text(filtered(&request, &rejected, &reasons())), expected);
    }
}
