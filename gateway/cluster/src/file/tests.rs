//! A node file that changes while it is followed. The clock is paused, so that periods take no time.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use extender_gateway_contract::row::RowView;
use extender_gateway_object::view::KeyPrefixes;
use tempfile::TempDir;

use super::NodeFile;

use crate::table::{NodeTable, ViewId};

fn nodes(names: &[&str]) -> String {
    let documents = names.iter().map(|name| format!("kind: Node\nmetadata: {{name: {name}}}\n"));
    documents.collect::<Vec<_>>().join("---\n")
}

/// Replaces the file by renaming another one.
fn put(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, path).unwrap();
}

fn known(table: &NodeTable, view: ViewId) -> Vec<&'static str> {
    let read = table.read();
    ["a", "b", "c"].into_iter().filter(|name| read.row(name, view).is_some()).collect()
}

async fn until(table: &NodeTable, view: ViewId, expected: &[&str]) {
    let mut changes = table.changes();
    while known(table, view) != expected {
        changes.changed().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_replacement_is_noticed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("nodes.yaml");
    put(&path, &nodes(&["a"]));
    let table = Arc::new(NodeTable::new());
    let view = table.register(RowView::Name).leak();
    let file = NodeFile::open(path.clone(), &table).unwrap();
    assert!(table.is_synced());
    assert_eq!(known(&table, view), ["a"]);

    let following = tokio::spawn(file.follow(Arc::clone(&table)));
    put(&path, &nodes(&["b"]));
    until(&table, view, &["b"]).await;

    fs::write(&path, r#"[{"metadata":{"name":"a"}},{"metadata":{"name":"c"}}]"#).unwrap();
    until(&table, view, &["a", "c"]).await;

    // In place with the same length. The time stamps of files are too coarse for a test.
    fs::write(&path, r#"[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]"#).unwrap();
    let later = SystemTime::now() + Duration::from_secs(1);
    fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    until(&table, view, &["a", "b"]).await;

    // As in the volume of a ConfigMap: the symbolic link is replaced.
    let other = folder.path().join("other");
    fs::write(&other, nodes(&["b", "c"])).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&other, &link).unwrap();
    fs::rename(&link, &path).unwrap();
    until(&table, view, &["b", "c"]).await;
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn an_invalid_file_is_ignored() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("nodes.yaml");
    put(&path, &nodes(&["a"]));
    let table = Arc::new(NodeTable::new());
    let view = table.register(RowView::Name).leak();
    let file = NodeFile::open(path.clone(), &table).unwrap();

    for broken in ["", "kind: Pod\nmetadata: {name: p}\n", "metadata: [", "{"] {
        put(&path, broken);
        file.reload(&table).await;
        assert_eq!(known(&table, view), ["a"], "{broken:?}");
    }
    fs::remove_file(&path).unwrap();
    file.reload(&table).await;
    assert_eq!(known(&table, view), ["a"]);

    let following = tokio::spawn(file.follow(Arc::clone(&table)));
    put(&path, &nodes(&["a", "b"]));
    until(&table, view, &["a", "b"]).await;
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn the_file_is_read_again_when_a_backend_needs_json() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("nodes.json");
    put(&path, r#"[{"metadata":{"name":"a"}}]"#);
    let table = Arc::new(NodeTable::new());
    let file = NodeFile::open(path, &table).unwrap();
    // Before the file is followed: the request must not be lost.
    let view = table.register(RowView::FactsAndRaw(KeyPrefixes::default().into())).leak();
    let following = tokio::spawn(file.follow(Arc::clone(&table)));
    table.complete(view).await;
    assert_eq!(known(&table, view), ["a"]);
    following.abort();
}

#[test]
fn the_error_names_an_unusable_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("nodes.yaml");
    let table = NodeTable::new();
    let missing = NodeFile::open(path.clone(), &table).unwrap_err().to_string();
    fs::write(&path, "kind: Pod\n").unwrap();
    let wrong = NodeFile::open(path, &table).unwrap_err().to_string();
    assert!(missing.contains("nodes.yaml") && missing.contains("kubectl get nodes"), "{missing}");
    assert!(wrong.contains("nodes.yaml") && wrong.contains("kind \"Pod\""), "{wrong}");
    assert!(!table.is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_pipe_is_rejected_until_it_is_replaced() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("nodes.yaml");
    put(&path, &nodes(&["a"]));
    let table = Arc::new(NodeTable::new());
    let view = table.register(RowView::Name).leak();
    let file = NodeFile::open(path.clone(), &table).unwrap();
    fs::remove_file(&path).unwrap();
    // Reading it would block until something writes to it.
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let refused = NodeFile::open(path.clone(), &NodeTable::new()).unwrap_err().to_string();
    assert!(refused.contains("not a regular file"), "{refused}");

    let following = tokio::spawn(file.follow(Arc::clone(&table)));
    tokio::time::sleep(10 * super::PERIOD).await;
    assert_eq!(known(&table, view), ["a"]);
    put(&path, &nodes(&["b"]));
    until(&table, view, &["b"]).await;
    following.abort();
}
