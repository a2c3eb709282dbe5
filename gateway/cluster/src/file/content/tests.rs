//! Valid node files, and the errors for invalid ones.

use super::read;
use crate::table::NodeTable;

/// The number of nodes.
fn count(text: &str) -> Result<usize, String> {
    let table = NodeTable::new();
    table.replace(read(text, table.relist()).map_err(|error| error.to_string())?);
    Ok(table.len())
}

#[test]
fn all_forms_of_node_files_are_read() {
    let two = r#"{"kind":"Node","metadata":{"name":"a"}},{"metadata":{"name":"b"}}"#;
    let yaml =
        "metadata:\n  name: b\n  labels: {on: \"true\"}\nstatus:\n  capacity: {cpu: 2, memory: 1.5Gi}\n";
    let cases = [
        (format!(r#"{{"kind":"List","apiVersion":"v1","items":[{two}]}}"#), 2),
        (format!(r#"{{"kind":"NodeList","metadata":{{}},"items":[{two}]}}"#), 2),
        (format!("  [{two}]"), 2),
        (two.replace("},{", "}\n{"), 2),
        (r#"{"metadata":{"name":"a"}}"#.to_owned(), 1),
        (
            format!(
                "kind: List\nitems:\n- kind: Node\n  metadata: {{name: a}}\n- {}",
                yaml.replace('\n', "\n  ")
            ),
            2,
        ),
        (format!("---\nkind: Node\nmetadata: {{name: a}}\n---\n{yaml}---\n"), 2),
        (format!("# nodes\n- metadata: {{name: a}}\n- {}", yaml.replace('\n', "\n  ")), 2),
    ];
    for (text, expected) in cases {
        assert_eq!(count(&text), Ok(expected), "{text}");
    }
}

/// As people write them; what kubectl reads is read.
#[test]
fn aliases_are_read_within_limits() {
    let labels =
        "metadata: {name: a, labels: &labels {rack: r1}}\nspec: {selector: *labels, again: *labels}\n";
    assert_eq!(count(labels), Ok(1));
    let chain: Vec<_> =
        (1..40).map(|level| format!("a{level}: &a{level} [*a{0}, *a{0}]", level - 1)).collect();
    let chain = chain.join("\n");
    let large = format!("name: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a,".repeat(1_000));
    for bomb in [format!("metadata: {{name: a}}\na0: &a0 x\n{chain}"), large] {
        let said = count(&bomb).unwrap_err();
        assert!(said.starts_with("not YAML: ") && said.contains("too large or too complex"), "{said}");
    }
}

#[test]
fn an_error_names_the_object() {
    let cases = [
        ("", "no node"),
        ("---\n", "no node"),
        (r#"{"kind":"List","items":[]}"#, "no node"),
        (r#"{"kind":"List","items":null}"#, "no node"),
        (r#"{"kind":"List","items":["#, "not JSON"),
        ("a: [", "not YAML"),
        ("a: 1\na: 2\n", "not YAML: duplicate mapping key: a not allowed here"),
        (
            r#"[{"metadata":{"name":"a"}},{"kind":"Pod","metadata":{"name":"b"}}]"#,
            "object 2 is of kind \"Pod\"",
        ),
        (r#"{"kind":"List","items":[{"metadata":{}}]}"#, "object 1: Node.metadata.name"),
        ("metadata: {name: a}\n---\nmetadata: {name: a}\n", "object 2 (Node a) has the same name"),
        (
            "metadata: {name: a}\nstatus: {capacity: {cpu: two}}\n",
            "object 1 (Node a): Node.status.capacity.cpu: invalid quantity \"two\"",
        ),
        ("metadata: {name: a, labels: {on: true}}\n", "object 1 (Node a): Node.metadata.labels.on"),
        ("just words\n", "is not an object"),
        ("kind: \"\\e[2JPod\"\n", "kind \"\\u{1b}[2JPod\""),
        ("- &a {metadata: {name: a}}\n- *a\n", "object 2 (Node a) has the same name"),
    ];
    for (text, problem) in cases {
        let error = count(text).unwrap_err();
        assert!(error.contains(problem), "{text:?}: {error}");
    }
}

#[test]
fn a_large_cluster_is_read() {
    // More documents than the parser's default limit.
    let nodes = (0..1_100).map(|number| format!("metadata: {{name: n{number}}}\n"));
    assert_eq!(count(&nodes.collect::<Vec<_>>().join("---\n")), Ok(1_100));
}
