//! All policies: exit codes, the line with their address, and stopping by signal.

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
};

use crate::{Running, ends};

const POLICIES: [&str; 4] = ["node-resources", "node-affinity", "spread", "http-extender"];
const RACKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/racks-drained.yaml");
const KUBECONFIG: &str = r#"{"apiVersion":"v1","kind":"Config","current-context":"c",
    "clusters":[{"name":"c","cluster":{"server":"https://192.0.2.1:6443"}}],
    "contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}],"users":[{"name":"c","user":{}}]}"#;

#[test]
fn exit_codes_tell_bad_usage_from_a_failed_start() {
    for (arguments, code, expected) in [
        (["--name", ""], 2, "expected 1 to 63"),
        (["--address", "here"], 2, "expected HOST:PORT such as 127.0.0.1:9000"),
        // An address that no machine has.
        (["--allow-unauthenticated-bind", "--address=192.0.2.1:1"], 1, "cannot listen on 192.0.2.1:1"),
        (["--tls-cert", "tls.crt"], 2, "--tls-key FILE is missing"),
        (["--tls-client-ca", "ca.crt"], 2, "--tls-cert FILE and --tls-key FILE are missing"),
        (
            ["--tls-cert=/no/tls.crt", "--tls-key=/no/tls.key"],
            1,
            "--tls-cert /no/tls.crt: cannot be read: No such file",
        ),
    ] {
        for policy in POLICIES {
            ends(&[&[policy][..], &arguments].concat(), code, expected);
        }
        ends(&[&["label-rules", "--rules", RACKS][..], &arguments].concat(), code, expected);
    }
    ends(&["label-rules"], 2, "--rules <FILE>");
    ends(&["label-rules", "--rules", "no/such/file.yaml"], 2, "no/such/file.yaml: ");
    for policy in ["label-binder", "reservation"] {
        ends(&[policy, "--name", ""], 2, "expected 1 to 63");
        ends(&[policy, "--kubeconfig", "no/such/file"], 2, "invalid kubeconfig no/such/file: ");
    }
}

#[test]
fn variables_are_options() {
    let ended = |variable: &str, value: &str| {
        let mut command = std::process::Command::new(crate::PROGRAM);
        let output = command.args(["spread", "--address=192.0.2.1:1"]).env(variable, value).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (variable, value, code, expected) in [
        (
            "EXTENDER_POLICY_METRICS_ADDRESS",
            "here",
            2,
            "invalid EXTENDER_POLICY_METRICS_ADDRESS \"here\": expected",
        ),
        (
            "EXTENDER_POLICY_LOG_CALLS",
            "yes",
            2,
            "invalid EXTENDER_POLICY_LOG_CALLS \"yes\"; expected true or false",
        ),
        // The option wins, and is an address that no machine has.
        ("EXTENDER_POLICY_ADDRESS", "here", 1, "cannot listen on 192.0.2.1:1"),
    ] {
        let (status, text) = ended(variable, value);
        assert!(status == Some(code) && text.contains(expected), "{variable}: {status:?} {text}");
    }
}

#[test]
fn they_say_where_they_listen_and_stop_when_told() {
    let mut kubeconfig = tempfile::NamedTempFile::new().unwrap();
    kubeconfig.write_all(KUBECONFIG.as_bytes()).unwrap();
    let with_files: [&[&str]; 2] = [
        &["label-rules", "--rules", RACKS],
        &["label-binder", "--kubeconfig", kubeconfig.path().to_str().unwrap()],
    ];
    for arguments in POLICIES.iter().map(std::slice::from_ref).chain(with_files) {
        let mut running = Running::start(arguments);
        running.stop();
        let mut rest = String::new();
        running.stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "{arguments:?}");
    }
}

#[test]
fn the_chart_knows_each_policy_and_no_other() {
    let help = std::process::Command::new(crate::PROGRAM).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    // The lines of a command that is explained on several begin further to the right.
    let first_lines =
        commands.lines().map_while(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let first_words = first_lines.filter_map(|line| line.split_whitespace().next());
    let commands: BTreeSet<String> = first_words.filter(|name| *name != "help").map(str::to_owned).collect();
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/chart");
    let schema = std::fs::read_to_string(format!("{chart}/values.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let program = &schema["$defs"]["policy"]["properties"]["program"]["enum"];
    assert_eq!(commands, serde_json::from_value(program.clone()).unwrap(), "`program` in values.schema.json");
    let checks = std::fs::read_to_string(format!("{chart}/templates/_checks.tpl")).unwrap();
    let (_, served) = checks.split_once("$served := dict ").unwrap();
    let (served, _) = served.split_once(" -}}").unwrap();
    let with_verbs = served.split(" (list ").filter_map(|before| before.rsplit('"').nth(1));
    let with_verbs: BTreeSet<String> = with_verbs.take(commands.len()).map(str::to_owned).collect();
    assert_eq!(commands, with_verbs, "`$served` in _checks.tpl");
}
