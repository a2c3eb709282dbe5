use proptest::prelude::*;

use super::*;

fn read(body: &str) -> Result<Request, String> {
    Request::read(Bytes::copy_from_slice(body.as_bytes())).map_err(|error| error.to_string())
}

fn names(request: &Request) -> Vec<&str> {
    (0..request.names.count()).map(|node| request.names.name(node)).collect()
}

#[test]
fn real_requests_are_sliced() {
    let by_name = read(include_str!("../../../../tests/captures/filter-names.json")).unwrap();
    let in_full = read(include_str!("../../../../tests/captures/prioritize-nodes.json")).unwrap();
    assert_eq!(names(&by_name)[0], "ip-10-16-0-0.eu-west-1.compute.internal");
    assert_eq!((by_name.names.count(), in_full.names.count()), (3, 3));
    assert!(by_name.pod().starts_with(br#"{"metadata":{"name":"low-0""#) && by_name.object(0).is_none());
    for node in 0..3 {
        let object: serde_json::Value = serde_json::from_slice(in_full.object(node).unwrap()).unwrap();
        assert_eq!(object["metadata"]["name"], in_full.names.name(node));
    }
}

#[test]
fn odd_but_legal_requests_are_served() {
    for (body, expected) in [
        (r#"{"Pod":{},"Nodes":null,"NodeNames":[]}"#, &[][..]),
        (r#"{"Pod":{},"Nodes":{"metadata":{},"items":null},"NodeNames":null}"#, &[]),
        (r#"{"Pod":{},"Nodes":{}}"#, &[]),
        (r#" { "pod" : { } , "nodenames" : [ "a" , "b" ] } "#, &["a", "b"]),
        (r#"{"NODENAMES":["a"],"unknown":[{}],"POD":{"a":"}"}}"#, &["a"]),
        (r#"{"Pod":{},"NodeNames":["a","b","a"]}"#, &["a", "b"]),
        (r#"{"Pod":{},"NodeNames":["a\u002db","a-b"]}"#, &["a-b"]),
        (r#"{"Pod":{},"NodeNames":["a"],"NodeNames":["b"]}"#, &["b"]),
        (r#"{"pod":{},"nodes":{"items":[{"spec":{"x":[]},"metadata":{"labels":{},"name":"a"}}]}}"#, &["a"]),
    ] {
        assert_eq!(names(&read(body).unwrap()), expected, "{body}");
    }
}

#[test]
fn bad_requests_are_refused_with_the_place() {
    for (body, message) in [
        ("", "malformed JSON: expected an object, found the end of the text at byte 0"),
        ("[]", "malformed JSON: expected an object, found '[' at byte 0"),
        (
            r#"{"Pod":{}"#,
            "malformed JSON: expected ',' or '}' in an object, found the end of the text at byte 9",
        ),
        (r#"{"Pod":{},}"#, "malformed JSON: expected a key in quotes, found '}' at byte 10"),
        (r#"{"NodeNames":["a"]}"#, "the request has no Pod"),
        (r#"{"Pod":null,"NodeNames":["a"]}"#, "the request has no Pod"),
        (r#"{"Pod":[],"NodeNames":["a"]}"#, "the Pod is not an object at byte 7"),
        (r#"{"Pod":{}}"#, "the request has neither Nodes nor NodeNames; exactly one of them is expected"),
        (
            r#"{"Pod":{},"Nodes":{"items":[]},"NodeNames":[]}"#,
            "the request has both Nodes and NodeNames; exactly one of them is expected",
        ),
        (
            r#"{"Pod":{},"NodeNames":["a",1]}"#,
            "malformed JSON: expected a node's name in quotes, found '1' at byte 27",
        ),
        (
            r#"{"Pod":{},"NodeNames":["a",]}"#,
            "malformed JSON: expected a node's name in quotes, found ']' at byte 27",
        ),
        (r#"{"Pod":{},"NodeNames":"a"}"#, "malformed JSON: expected an array, found '\\\"' at byte 22"),
        (r#"{"Pod":{},"Nodes":{"items":[{"metadata":{}}]}}"#, "a node without metadata.name at byte 28"),
        (
            r#"{"Pod":{},"Nodes":{"items":[null]}}"#,
            "malformed JSON: expected an object, found 'n' at byte 28",
        ),
        (r#"{"Pod":{},"NodeNames":["a"]} x"#, "unexpected text after the JSON value at byte 29"),
    ] {
        assert_eq!(read(body).err().as_deref(), Some(message), "{body}");
    }
    let many = format!(r#"{{"Pod":{{}},"NodeNames":[{}"a"]}}"#, r#""a","#.repeat(100_000));
    assert_eq!(read(&many).err().as_deref(), Some("more than 100000 nodes at byte 400026"));
}

#[test]
fn each_name_is_read_as_go_reads_it() {
    // The last one has a character that is split between both names.
    for (names, expected) in [
        (&b"\"\xff\""[..], vec!["\u{fffd}"]),
        (b"\"ab\",\"c\xff\"", vec!["ab", "c\u{fffd}"]),
        (b"\"a\\ud800\",\"b\"", vec!["a\u{fffd}", "b"]),
        (b"\"a\",\"\xc3\",\"\xa9b\"", vec!["a", "\u{fffd}", "\u{fffd}b"]),
    ] {
        let body = [br#"{"Pod":{},"NodeNames":["#, names, b"]}"].concat();
        let request = Request::read(body.into()).unwrap();
        let read: Vec<_> = (0..request.names.count()).map(|node| request.names.name(node)).collect();
        assert_eq!(read, expected, "{}", names.escape_ascii());
    }
}

#[test]
fn a_request_about_a_list_shares_its_names() {
    let names = Arc::new(Names::of(&["a"]));
    let about = |pod: &'static str| Request::about(pod.into(), Arc::clone(&names));
    let request = about(r#" {"metadata":{}} "#).unwrap();
    assert!(Arc::ptr_eq(&request.names, &names) && matches!(request.offer, Offer::Names));
    assert_eq!((request.pod(), request.object(0)), (Bytes::from(r#"{"metadata":{}}"#), None));
    for (pod, message) in [
        ("", "the Pod is not an object at byte 0"),
        ("[]", "the Pod is not an object at byte 0"),
        ("null", "the request has no Pod"),
        ("{", "malformed JSON: an array or object that does not end at byte 0"),
        ("{} x", "unexpected text after the JSON value at byte 3"),
    ] {
        assert_eq!(about(pod).map(drop).map_err(|error| error.to_string()), Err(message.to_owned()));
    }
}

#[test]
fn metadata_that_is_there_twice_is_merged() {
    let body = br#"{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a"},"metadata":{"labels":{}}},{"METADATA":{"Name":"b"}}]}}"#;
    let request = Request::read(body.to_vec().into()).unwrap();
    assert_eq!((request.names.name(0), request.names.name(1)), ("a", "b"));
}

#[test]
fn a_node_name_longer_than_any_name_is_refused() {
    let long = "a node's name has 1025 bytes, and the gateway accepts at most 1024";
    for (length, expected) in [(1024, Ok(())), (1025, Err(long.to_owned()))] {
        let name = "n".repeat(length);
        for body in [
            format!(r#"{{"Pod":{{}},"NodeNames":["{name}"]}}"#),
            format!(r#"{{"Pod":{{}},"Nodes":{{"items":[{{"metadata":{{"name":"{name}"}}}}]}}}}"#),
        ] {
            let read =
                read(&body).map(drop).map_err(|error| error.split(" at byte").next().unwrap().to_owned());
            assert_eq!(read, expected);
        }
    }
}

/// The JSON of nodes by name.
impl KnownObjects for std::collections::BTreeMap<String, String> {
    fn json(&self, name: &str) -> Option<&[u8]> {
        self.get(name).map(String::as_bytes)
    }
}

/// Nodes as Go encodes them, and otherwise.
const NODES: [&str; 7] = [
    r#"{"metadata":{"name":"a"}}"#,
    r#"{"metadata":{"name":"a"},"spec":{"x":"}"}}"#,
    r#"{"metadata":{"name":"ab","labels":{"name":"c"}}}"#,
    r#"{"metadata":{"name":"a","name":"b"}}"#,
    r#"{"metadata":{"name":"a\u0062"}}"#,
    r#"{ "metadata":{"name":"a"}}"#,
    r#"{"spec":{},"metadata":{"name":"b"}}"#,
];

/// All that is asked of names.
fn all_of(names: &Names) -> impl PartialEq + std::fmt::Debug {
    (
        (0..names.count()).map(|node| names.name(node)).collect::<Vec<_>>(),
        (0..names.entries()).map(|entry| names.node_at(entry)).collect::<Vec<_>>(),
        names.in_one_piece(),
    )
}

proptest! {
    /// Names of a list are those that are read from JSON, also a part of them.
    #[test]
    fn a_list_is_that_of_a_request(
        list in prop::collection::vec("[a-c\"\\\\\n\u{1}é😀]{1,2}", 0..12),
        is_taken in prop::collection::vec(any::<bool>(), 12),
    ) {
        let request = |names: &[&str]| {
            let names = serde_json::to_string(names).unwrap();
            read(&format!(r#"{{"Pod":{{}},"NodeNames":{names}}}"#)).unwrap()
        };
        let names = Names::of(&list);
        let sent = request(&list.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert_eq!(all_of(&names), all_of(&sent.names));
        let some: Vec<u32> = (0..names.count()).filter(|node| is_taken[*node as usize]).collect();
        let only = names.only(&some);
        let sent = request(&some.iter().map(|node| names.name(*node)).collect::<Vec<_>>());
        prop_assert_eq!(all_of(&only), all_of(&sent.names));
    }

    /// With known objects, whatever they are, a request is read as without.
    #[test]
    fn known_objects_change_nothing(
        nodes in prop::collection::vec(
            prop::sample::select([&NODES[..], &[r#"{"metadata":{"name":"a"}"#, r#"{"metadata":{"name":"a"#]].concat()),
            0..6,
        ),
        space in prop::sample::select(vec!["", " "]),
        earlier in prop::collection::vec(prop::sample::select(NODES.to_vec()), 0..6),
    ) {
        // Known by the name that they are read with, as in the table.
        let known: std::collections::BTreeMap<_, _> = earlier
            .into_iter()
            .map(|node| {
                let request = read(&format!(r#"{{"Pod":{{}},"Nodes":{{"items":[{node}]}}}}"#)).unwrap();
                (request.names.name(0).to_owned(), node.to_owned())
            })
            .collect();
        let items = nodes.join(&format!("{space},{space}"));
        let body = Bytes::from(format!(r#"{{"Pod":{{}},"Nodes":{{"items":[{space}{items}{space}]}}}}"#));
        let seen = |request: Result<Request, WireError>| {
            let request = request.map_err(|error| error.to_string())?;
            let nodes = 0..request.names.count();
            Ok::<_, String>(
                nodes
                    .map(|node| {
                        let entry = request.names.first_entry(node);
                        let quoted = request.quoted(entry).to_vec();
                        (request.names.name(node).to_owned(), quoted, request.object(node).map(<[u8]>::to_vec))
                    })
                    .collect::<Vec<_>>(),
            )
        };
        prop_assert_eq!(seen(Request::read_with(body.clone(), &known)), seen(Request::read(body)));
    }
}
