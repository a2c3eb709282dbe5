//! The built programs together: label-rules, tried with nodes and a workload of files, recorded and expected.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use extender_harness::{binaries::Program, policy::Policy};

const RULES: &str = "rules:\n- {name: rack drain, require: [{key: rack, notIn: [r1]}], reason: rack is being drained}\n\
                     - {pods: {namespaces: [shop]}, prefer: [{key: disk, equals: ssd}], score: 10}\n";
const NODES: &str = "metadata: {name: node-a, labels: {rack: r1}}\n---\n\
                     metadata: {name: node-b, labels: {rack: r2, disk: ssd}}\n---\n\
                     metadata: {name: node-c, labels: {rack: r2}}\n";
const POD: &str = "kind: Deployment\nmetadata: {name: web, namespace: shop}\n\
                   spec: {template: {spec: {containers: [{name: web}]}}}\n";

/// The exit code, standard output and standard error of `try`.
fn tried(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(Program::Gateway.path().unwrap());
    command.args(["try", "--nodes", "nodes.yaml"]).args(arguments).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, said)
}

#[test]
#[ignore = "starts the built programs, like `make programs`"]
fn decisions_of_label_rules_are_recorded_and_a_change_of_the_rules_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    for (name, text) in [("rules.yaml", RULES), ("nodes.yaml", NODES), ("pod.yaml", POD)] {
        write(name, text);
    }
    let policy = Policy::start("racks", &folder.path().join("rules.yaml")).unwrap();
    let url = format!("racks=http://{}", policy.address);
    let recorded =
        tried(folder.path(), &["--pod", "pod.yaml", "--backend", &url, "--record", "expected.yaml"]);
    assert_eq!((recorded.0, recorded.2.as_str()), (Some(0), "wrote expected.yaml\n"), "{}", recorded.1);
    assert_eq!(
        fs::read_to_string(folder.path().join("expected.yaml")).unwrap(),
        "# Written by `extender-gateway try --record`; read with --expect.\nexpect:\n- pod: pod.yaml\n  \
         feasible: [node-b, node-c]\n  rejected:\n    node-a: \"racks: rack is being drained (rule rack drain)\"\n  \
         first: node-b\n  scores:\n    node-b: 10\n    node-c: 0\n"
    );
    let met = "ok: pod.yaml: 2 feasible nodes, 1 rejected\n".to_owned();
    let expect = ["--backend", &url, "--expect", "expected.yaml"];
    assert_eq!(tried(folder.path(), &expect), (Some(0), met, String::new()));
    drop(policy);
    write("rules.yaml", &RULES.replace("score: 10", "score: -10"));
    let policy = Policy::start("racks", &folder.path().join("rules.yaml")).unwrap();
    let url = format!("racks=http://{}", policy.address);
    let (code, _, said) = tried(folder.path(), &["--backend", &url, "--expect", "expected.yaml"]);
    let expected = "extender-gateway: 2 differences\n\
                    - pod.yaml: node-c is first, and node-b has the total -10; expected node-b first\n\
                    - pod.yaml: node-b has the total -10; expected 10\n";
    assert_eq!((code, said.as_str()), (Some(1), expected));
}
