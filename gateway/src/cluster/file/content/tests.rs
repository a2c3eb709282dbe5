//! What is a file of nodes, and what is said about one that is not.

use super::read;
use crate::cluster::table::NodeTable;

fn names(text: &str) -> Result<usize, String> {
    read(text, NodeTable::new().relist()).map(|relist| relist.len()).map_err(|error| error.to_string())
}

#[test]
fn every_form_that_kubectl_writes_and_people_write() {
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
    for (text, count) in cases {
        assert_eq!(names(&text), Ok(count), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let cases = [
        ("", "no node"),
        ("---\n", "no node"),
        (r#"{"kind":"List","items":[]}"#, "no node"),
        (r#"{"kind":"List","items":null}"#, "no node"),
        (r#"{"kind":"List","items":["#, "not JSON"),
        ("a: [", "not YAML"),
        ("a: 1\na: 2\n", "not YAML"),
        (
            r#"[{"metadata":{"name":"a"}},{"kind":"Pod","metadata":{"name":"b"}}]"#,
            "object 2 is of kind \"Pod\"",
        ),
        (r#"{"kind":"List","items":[{"metadata":{}}]}"#, "object 1: Node.metadata.name"),
        ("metadata: {name: a}\n---\nmetadata: {name: a}\n", "object 2 has the same name"),
        (
            "metadata: {name: a}\nstatus: {capacity: {cpu: two}}\n",
            "object 1: Node.status.capacity.cpu: invalid quantity \"two\"",
        ),
        ("metadata: {name: a, labels: {on: true}}\n", "object 1: Node.metadata.labels.on"),
        ("just words\n", "not JSON"),
        ("kind: \"\\e[2JPod\"\n", "kind \"\\u{1b}[2JPod\""),
        ("- &a {metadata: {name: a}}\n- *a\n", "not YAML"),
    ];
    for (text, problem) in cases {
        let error = names(text).unwrap_err();
        assert!(error.contains(problem), "{text:?}: {error}");
    }
}

#[test]
fn a_big_cluster_is_not_too_much() {
    // More documents than the parser takes unless it is told that this is no configuration file.
    let nodes = (0..1_100).map(|number| format!("metadata: {{name: n{number}}}\n"));
    assert_eq!(names(&nodes.collect::<Vec<_>>().join("---\n")), Ok(1_100));
}
