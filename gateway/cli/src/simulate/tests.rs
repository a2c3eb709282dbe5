//! The values of options, and the errors for invalid expectations.

use std::path::Path;

use super::{backends, expectations};

#[test]
fn backends_have_a_url_and_perhaps_a_name() {
    for text in ["http://127.0.0.1:9000", "racks=http://127.0.0.1:9000", "http2=http://[::1]:9000"] {
        backends::url(text).unwrap();
    }
    for (text, expected) in [
        ("127.0.0.1:9000", "; expected http://HOST:PORT such as http://127.0.0.1:9000"),
        ("http://127.0.0.1", "; expected http://HOST:PORT such as http://127.0.0.1:9000"),
        ("Racks=http://a:1", "\"Racks\" is not a valid backend name"),
        (
            "racks=https://a:1",
            "TLS needs files; describe this backend in a configuration, and name it with --config",
        ),
    ] {
        let wrong = backends::url(text).unwrap_err();
        assert!(wrong.ends_with(expected), "{text}: {wrong}");
    }
}

#[test]
fn args_are_an_object() {
    for text in [r#"{"a": "b=c"}"#, r#"racks={"a": {"b": [1, 2.5]}}"#, "a-b={}"] {
        backends::args(text).unwrap();
    }
    for (text, expected) in [
        ("[1]", "not a JSON object: "),
        ("racks=", "not a JSON object: "),
        ("{\"a\"}", "not a JSON object: "),
        ("a_b={}", "\"a_b\" is not a valid backend name"),
    ] {
        let wrong = backends::args(text).unwrap_err();
        assert!(wrong.starts_with(expected), "{text}: {wrong}");
    }
}

#[test]
fn mistakes_of_expectations_are_all_said_with_line_field_and_remedy() {
    let cases = [
        ("", "line 1: is empty; expected a mapping with expect"),
        ("expect: [\n", "line 1: "),
        ("expected: []\n", "line 1: expected: unknown field; did you mean expect? Known fields: expect"),
        ("expect: []\n", "line 1: expect: is an empty list; expected a list with at least one entry"),
        (
            "expect: [{pod: a}]\n",
            "line 1: expect[0]: expects nothing; add feasible, rejected, first, scores or error",
        ),
        (
            "expect:\n- first: a\n",
            "line 2: expect[0].pod: is missing; name the file of the pod here, or with --pod",
        ),
        ("expect:\n- {pod: a, firts: a}\n", "line 2: expect[0].firts: unknown field; did you mean first?"),
        (
            "expect:\n- {pod: a, first: 1}\n",
            "line 2: expect[0].first: 1 without quotes is a number; expected the name of a node",
        ),
        (
            "expect:\n- {pod: a, feasible: b}\n",
            "line 2: expect[0].feasible: \"b\" is a string; expected a list of the nodes that are not rejected",
        ),
        (
            "expect:\n- {pod: a, rejected: [b]}\n",
            "line 2: expect[0].rejected: is a list; expected a mapping from nodes to a part of the reason",
        ),
        (
            "expect:\n- {pod: a, rejected: {b: }}\n",
            "line 2: expect[0].rejected.b: is empty; expected a part of the reason",
        ),
        (
            "expect:\n- {pod: a, scores: {b: 1.5}}\n",
            "line 2: expect[0].scores.b: 1.5 is a number; expected a whole number",
        ),
        (
            "expect:\n- {pod: a, error: x, first: b}\n",
            "line 2: expect[0].error: cannot be combined with others; remove it, or the other",
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("expected.yaml");
    for (text, expected) in cases {
        std::fs::write(&file, text).unwrap();
        let errors = expectations::read(&file, None).unwrap_err();
        let is_said = errors.mistakes().iter().any(|error| error.to_string().starts_with(expected));
        assert!(is_said, "{text}\n{errors}\n{expected}");
    }
    std::fs::write(&file, "expect:\n- {first: 1, scores: {a: b}}\n- {}\n").unwrap();
    assert_eq!(expectations::read(&file, None).unwrap_err().mistakes().len(), 5);
    assert_eq!(expectations::read(&file, Some(Path::new("pod.yaml"))).unwrap_err().mistakes().len(), 3);
}

#[test]
fn pods_are_beside_their_expectations() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("expected.yaml");
    std::fs::write(&file, "expect:\n- {pod: a.yaml, first: n}\n- {error: no}\n").unwrap();
    let read = expectations::read(&file, Some(Path::new("given.yaml"))).unwrap();
    let files: Vec<_> = read.into_iter().map(|(file, _)| file).collect();
    assert_eq!(files, [folder.path().join("a.yaml"), "given.yaml".into()]);
}
