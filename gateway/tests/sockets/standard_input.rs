//! The program, whose configuration comes from standard input.

use std::{
    fs::File,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    time::timeout,
};

use crate::support::program::OWN;

const BACKENDS: &str = "backends: [{name: a, url: 'http://127.0.0.1:1', filter: {}}]\n";

/// Runs a command in this folder with this standard input.
fn run(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_extender-gateway"));
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn paths_are_relative_to_the_working_directory_and_mistakes_have_a_name_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{OWN}nodes: {{source: File, file: nodes.json}}\n{BACKENDS}");
    let output = run(folder.path(), &["check-config", "--config", "-"], &text);
    let said = String::from_utf8(output.stderr).unwrap();
    let expected = "standard input line 6: nodes.file: nodes.json: cannot be read: No such file";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(output.status.code(), Some(3));
    let nodes = br#"{"kind": "Node", "metadata": {"name": "a"}}"#;
    std::fs::write(folder.path().join("nodes.json"), nodes).unwrap();
    let output = run(folder.path(), &["check-config", "--config", "-"], &text);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("# standard input is valid. "), "{said}");
    let arguments = ["scheduler-config", "--url", "http://a:1", "--config", "-"];
    let output = run(folder.path(), &arguments, &text);
    assert!(output.stdout.starts_with(b"extenders:\n- urlPrefix: \"http://a:1\"\n"));
}

#[tokio::test]
async fn a_gateway_serves_what_it_read_once_and_says_so_at_sighup() {
    let test = async {
        let text = format!("{OWN}nodes: {{source: NamesOnly}}\n{BACKENDS}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        std::fs::write(&file, text).unwrap();
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_extender-gateway"));
        command.args(["serve", "--config", "-"]).stdin(File::open(&file).unwrap());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut addresses = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        while !addresses.next_line().await.unwrap().unwrap().starts_with("extender listening on ") {}
        let id = child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-s", "HUP", &id]).status().unwrap().success());
        while !log
            .next_line()
            .await
            .unwrap()
            .unwrap()
            .contains("cannot reload: the configuration was read from standard input")
        {}
    };
    timeout(Duration::from_mins(1), test).await.unwrap();
}
