//! The program: exit codes, the line with its address, and stopping by signal.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
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
fn files_are_checked_without_serving() {
    let checked = |files: &[&str]| {
        let output = Command::new(PROGRAM).args(["label-rules", "--check"]).args(files).output().unwrap();
        let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), out, said)
    };
    let summary = format!(
        "{RACKS}: valid\n  require topology.acme.io/rack notin (rack-2, rack-5); otherwise rejected: rack is being drained \
         (rule racks under maintenance)\n  reads of nodes: label topology.acme.io/rack\n  reads of pods: nothing\n"
    );
    assert_eq!(checked(&[RACKS]), (Some(0), summary.clone(), String::new()));
    let mut wrong = tempfile::NamedTempFile::new().unwrap();
    wrong.write_all(b"rules:\n- {prefer: [], score: 0}\n- {}\n").unwrap();
    let path = wrong.path().to_str().unwrap();
    let (code, out, said) = checked(&[path, RACKS, "no/such/file.yaml"]);
    assert_eq!((code, out), (Some(2), summary));
    let lines: Vec<_> = said.lines().map(|line| line.replace(path, "wrong")).collect();
    assert_eq!(lines.len(), 4, "{said}");
    assert!(lines[0].starts_with("wrong line 2: rules[0].prefer: is an empty list; expected "), "{said}");
    assert!(lines[3].starts_with("no/such/file.yaml: cannot be read: "), "{said}");
    assert_eq!(checked(&[RACKS, "--rules", RACKS]).0, Some(2));
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
