use proptest::prelude::*;

use super::*;

fn span(text: &str) -> Result<Range<usize>, String> {
    Cursor::new(text.as_bytes()).value().map_err(|error| error.to_string())
}

#[test]
fn values_end_where_they_end() {
    for (text, rest) in [
        ("{}x", "x"),
        (" [1, {\"a\\\"]\": [\"}\"]}] ,", " ,"),
        ("\"a\\\\\"b", "b"),
        ("-1.5e+3,", ","),
        ("null}", "}"),
    ] {
        assert_eq!(&text[span(text).unwrap().end..], rest, "{text}");
    }
}

#[test]
fn malformed_text_is_named_with_its_place() {
    let deep = "[".repeat(DEEPEST + 1);
    for (text, message) in [
        ("", "malformed JSON: expected a value, found the end of the text at byte 0"),
        (" }", "malformed JSON: expected a value, found '}' at byte 1"),
        ("[1, 2", "malformed JSON: an array or object that does not end at byte 0"),
        ("[\"a]", "malformed JSON: a string that does not end at byte 1"),
        ("[\"a\\", "malformed JSON: a string that does not end at byte 1"),
        ("[}", "malformed JSON: expected the bracket that closes the last opened one, found '}' at byte 1"),
        (deep.as_str(), "nested deeper than 10240 levels at byte 10241"),
    ] {
        assert_eq!(span(text), Err(message.to_owned()), "{text}");
    }
}

#[test]
fn nesting_ends_where_it_ends_at_every_depth() {
    for depth in [1, 127, 128, 129, 255, 256, 257, 10_000, DEEPEST] {
        let (open, close) = (r#"{"a":["#.repeat(depth / 2), "]}".repeat(depth / 2));
        if depth > 1 && depth < DEEPEST {
            let wrong = "expected the bracket that closes the last opened one, found '}'";
            assert!(span(&format!("{open}[{close}")).unwrap_err().contains(wrong), "{depth}");
        }
        let (open, close) = ("[".repeat(depth % 2) + &open, close + &"]".repeat(depth % 2));
        assert_eq!(span(&format!("{open}{close},")), Ok(0..open.len() + close.len()), "{depth}");
    }
}

#[test]
fn strings_are_read_as_go_reads_them() {
    for (text, expected) in [
        (&b"\"\\u00e4\\/\\n\""[..], "ä/\n"),
        (b"\"\xff\\ud800x\\udc00\\ud83d\\ude00\"", "\u{fffd}\u{fffd}x\u{fffd}😀"),
        (b"\"a\xe2\x82\"", "a\u{fffd}\u{fffd}"),
    ] {
        let mut cursor = Cursor::new(text);
        let string = cursor.string("a string").unwrap();
        assert_eq!(cursor.text(string).unwrap(), expected, "{}", text.escape_ascii());
    }
    let mut cursor = Cursor::new(br#""\x""#);
    let string = cursor.string("a string").unwrap();
    assert!(cursor.text(string).unwrap_err().to_string().contains("malformed string"));
}

#[test]
fn keys_may_be_escaped_and_of_any_case() {
    let mut seen = Vec::new();
    let text = br#"{ "P\u006fD" : 1 , "x": [2] }"#;
    let mut cursor = Cursor::new(text);
    let read = cursor.object(|cursor, key| {
        seen.push((key_is(key, "Pod"), cursor.value()?.len()));
        Ok(())
    });
    assert_eq!((read, seen), (Ok(()), vec![(true, 1), (false, 3)]));
    assert_eq!(cursor.end(), Ok(()));
}

#[test]
fn texts_are_quoted() {
    let mut out = Vec::new();
    push_string(&mut out, "plain ä");
    push_string(&mut out, "\"\\\n");
    assert_eq!(out, r#""plain ä""\"\\\n""#.as_bytes());
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        ".*".prop_map(serde_json::Value::String),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(".*", inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_value_is_passed_whole(value in json(), pretty in any::<bool>()) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        prop_assert_eq!(span(&text), Ok(0..text.len()));
        let mut quoted = Vec::new();
        push_string(&mut quoted, &text);
        prop_assert_eq!(serde_json::from_slice::<String>(&quoted).unwrap(), text);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut cursor = Cursor::new(&bytes);
        let _ = cursor.object(|cursor, _| cursor.value().map(drop));
        let _ = Cursor::new(&bytes).value();
    }
}
