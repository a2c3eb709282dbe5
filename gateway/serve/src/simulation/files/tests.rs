//! Files of nodes and pods, and the errors for invalid ones.

use tempfile::TempDir;

use super::*;

/// A folder with these files of nodes and pods.
fn files(nodes: &str, pods: Option<&str>) -> (TempDir, ClusterFiles) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = ClusterFiles { nodes: path("nodes", nodes), pods: pods.map(|pods| path("pods", pods)) };
    (folder, files)
}

#[test]
fn nodes_have_the_order_of_the_file() {
    let list = r#"{"kind": "NodeList", "items": [{"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}]}"#;
    let (_folder, files) = files(list, None);
    let table = NodeTable::new();
    assert_eq!(files.read_nodes(&table).unwrap().names, ["b", "a"]);
    assert_eq!(table.len(), 2);
}

#[test]
fn pods_that_run_are_known() {
    let pods = "metadata: {name: a, uid: u-1}\n---\nmetadata: {name: b}\n---\nkind: Pod\nmetadata: {name: c}\n---\n\
                metadata: {name: d}\nstatus: {phase: Failed}\n---\nmetadata: {name: e, uid: u-2}\n";
    for (pods, count) in
        [(Some(pods), 3), (Some("[]"), 0), (Some(r#"{"kind": "List", "items": []}"#), 0), (None, 0)]
    {
        let (_folder, files) = files("", pods);
        let table = PodTable::new();
        files.read_pods(&table, &["u-2"]).unwrap();
        assert_eq!((table.len(), table.is_synced()), (count, true), "{pods:?}");
    }
}

#[test]
fn invalid_files_are_named_with_object_field_and_remedy() {
    let node = "metadata: {name: a}\n";
    let nodes = "; expected a file as written by `kubectl get nodes -o yaml`";
    let pods = "; expected a file as written by `kubectl get pods -A -o json`";
    let cases = [
        ("", None, "nodes: the file contains no node; create it with `kubectl get nodes -o yaml`".to_owned()),
        ("metadata: [", None, format!("nodes: not YAML: unclosed bracket '[' at line 1, column 11{nodes}")),
        (
            "kind: Pod\n",
            None,
            "nodes: object 1 is of kind \"Pod\", not Node; keep nodes alone in this file".to_owned(),
        ),
        ("metadata: {}\n", None, format!("nodes: object 1: Node.metadata.name: a node needs a name{nodes}")),
        (
            node,
            Some("metadata: {name: b}\n---\nkind: Node\n"),
            "pods: object 2 is of kind \"Node\", not Pod; keep pods alone in this file".to_owned(),
        ),
        (
            node,
            Some("metadata: {labels: []}\n"),
            format!(
                "pods: object 1: Pod.metadata.labels: invalid type: sequence, expected an object at line 1 column 24{pods}"
            ),
        ),
        (
            node,
            Some("{\"a\": 1"),
            format!("pods: not JSON: EOF while parsing an object at line 1 column 7{pods}"),
        ),
        (node, Some(""), "pods: the file contains no object; for an empty cluster write `[]`".to_owned()),
        (
            node,
            Some("# pods\n---\n"),
            "pods: the file contains no object; for an empty cluster write `[]`".to_owned(),
        ),
        (node, Some("text"), format!("pods: \"\\\"text\\\"\" is not an object{pods}")),
    ];
    for (nodes, pods, expected) in cases {
        let (folder, files) = files(nodes, pods);
        let read = files
            .read_nodes(&NodeTable::new())
            .map(drop)
            .and_then(|()| files.read_pods(&PodTable::new(), &[]));
        let error = read.unwrap_err().to_string().replace(&format!("{}/", folder.path().display()), "");
        assert_eq!(error, expected);
    }
}
