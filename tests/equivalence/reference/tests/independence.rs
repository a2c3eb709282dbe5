//! The reference shares nothing with what it is compared to.

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;

fn metadata() -> Value {
    // Not offline: what other systems need is described, too, and was perhaps never downloaded.
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--manifest-path", manifest])
        .output()
        .expect("cargo runs this test, and can be run by it");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    serde_json::from_slice(&cargo.stdout).expect("cargo writes JSON")
}

#[test]
fn no_crate_of_the_project_is_used() {
    let metadata = metadata();
    let members: Vec<&str> =
        metadata["workspace_members"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|node| (node["id"].as_str().expect("a node has an id"), node))
        .collect();
    let own = members.iter().find(|id| id.contains("extender-reference")).expect("the reference is a member");
    let (mut seen, mut open) = (vec![*own], vec![*own]);
    while let Some(id) = open.pop() {
        for dependency in nodes[id]["dependencies"].as_array().into_iter().flatten().filter_map(Value::as_str)
        {
            if !seen.contains(&dependency) {
                seen.push(dependency);
                open.push(dependency);
            }
        }
    }
    assert!(seen.len() > 3, "the dependencies were not found: {seen:?}");
    let foreign: Vec<_> = seen.iter().filter(|id| members.contains(id) && *id != own).collect();
    assert!(foreign.is_empty(), "the reference depends on {foreign:?}");
}
