//! The output for people and for programs.

use serde_json::json;

use super::*;

const BUILD: Build = Build::of(None);

fn gateway(name: &str, version: &str) -> GatewayVersion {
    // Of a later version, with fields that this one does not know.
    let status = json!({"kind": "Status", "gateway": name, "version": version, "mood": "good",
        "log": {"maxBytes": 1, "bytes": 0, "calls": 0, "pods": 0, "evicted": 0, "since": "2026-11-21T23:00:00Z"}});
    serde_json::from_value(status).unwrap()
}

fn away() -> Away {
    Away::new(&"http://10.0.0.9:9403", &"no\u{1b}answer")
}

#[test]
fn gateways_are_listed_by_name_and_escaped() {
    let answers = vec![gateway("gateway-1", "0.2.0"), gateway("gateway-0", "0.1\u{1b}")];
    let text = VersionReport::new(BUILD, Gathered { answers, away: vec![away()] }).to_string();
    let (client, others) = text.split_once('\n').unwrap();
    assert_eq!(client, format!("Client: {BUILD}"));
    assert_eq!(
        others,
        "Gateway gateway-0: 0.1\\u{1b}\nGateway gateway-1: 0.2.0\nhttp://10.0.0.9:9403 does not answer: no\\u{1b}answer\n"
    );
}

#[test]
fn a_build_says_what_it_knows() {
    let build = Build { version: "1.2.3", commit: None, rust_version: "1.95.0", target: "some-target" };
    assert_eq!(build.to_string(), "1.2.3 (Rust 1.95.0, some-target)");
    let told = Build { commit: Some("5ac0ffee"), ..build };
    assert_eq!(told.to_string(), "1.2.3 (commit 5ac0ffee, Rust 1.95.0, some-target)");
    let json = json!({"version": "1.2.3", "rustVersion": "1.95.0", "target": "some-target"});
    assert_eq!(serde_json::to_value(build).unwrap(), json);
    assert!(BUILD.rust_version.starts_with("1.") && BUILD.target.contains("linux"), "{BUILD}");
}

#[test]
fn programs_get_names_and_versions() {
    let report =
        VersionReport::new(BUILD, Gathered { answers: vec![gateway("gateway-0", "0.1.0")], away: vec![] });
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["kind"], "VersionReport");
    assert_eq!(json["gateways"], json!([{"gateway": "gateway-0", "version": "0.1.0"}]));
    assert_eq!(json["client"]["version"], env!("CARGO_PKG_VERSION"));
}
