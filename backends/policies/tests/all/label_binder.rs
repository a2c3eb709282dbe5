//! The program: exit codes, and the line with its address.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_extender-policies");
const KUBECONFIG: &str = r#"{"apiVersion":"v1","kind":"Config","current-context":"c",
    "clusters":[{"name":"c","cluster":{"server":"https://192.0.2.1:6443"}}],
    "contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}],"users":[{"name":"c","user":{}}]}"#;

#[test]
fn exit_codes_tell_what_to_set_right() {
    for (arguments, expected) in [
        (&["--name", ""][..], "expected 1 to 63"),
        (&["--kubeconfig", "no/such/file"], "invalid kubeconfig no/such/file: "),
    ] {
        let output = Command::new(PROGRAM).arg("label-binder").args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn it_says_where_it_listens_and_stops_when_told() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(KUBECONFIG.as_bytes()).unwrap();
    let mut command = Command::new(PROGRAM);
    let mut child = command
        .args(["label-binder", "--kubeconfig"])
        .arg(file.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on 127.0.0.1:") && !line.contains(":0\n"), "{line}");
    let told = Command::new("sh").args(["-c", &format!("kill -TERM {}", child.id())]).status().unwrap();
    assert!(told.success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
