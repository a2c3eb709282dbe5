//! The program: exit codes, the line with its address, and stopping by signal.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_extender-policies");
const RACKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/racks-drained.yaml");

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(PROGRAM);
    command.arg("label-rules").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn outcome(arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = start(arguments);
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code(), text)
}

#[test]
fn exit_codes_tell_bad_usage_from_a_failed_start() {
    let cases: [(&[&str], i32, &str); 5] = [
        (&[], 2, "--rules <FILE>"),
        (&["--rules", RACKS, "--name", ""], 2, "expected 1 to 63"),
        (&["--rules", RACKS, "--address", "here"], 2, "expected HOST:PORT such as 127.0.0.1:9000"),
        (&["--rules", "no/such/file.yaml"], 2, "no/such/file.yaml: "),
        // An address that no machine has.
        (&["--rules", RACKS, "--address", "192.0.2.1:1"], 1, "cannot listen on 192.0.2.1:1"),
    ];
    for (arguments, code, expected) in cases {
        let (exited, text) = outcome(arguments);
        assert_eq!(exited, Some(code), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

#[test]
fn it_says_where_it_listens_and_stops_when_told() {
    let mut child = start(&["--rules", RACKS]);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on 127.0.0.1:") && !line.contains(":0\n"), "{line}");
    let told = Command::new("sh").args(["-c", &format!("kill -TERM {}", child.id())]).status().unwrap();
    assert!(told.success());
    line.clear();
    stdout.read_to_string(&mut line).unwrap();
    assert_eq!((child.wait().unwrap().code(), &*line), (Some(0), ""));
}
