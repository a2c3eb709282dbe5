//! The programs without files of their own: exit codes, the line with their address, and stopping by signal.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

const PROGRAMS: [&str; 3] =
    [env!("CARGO_BIN_EXE_node-resources"), env!("CARGO_BIN_EXE_node-affinity"), env!("CARGO_BIN_EXE_spread")];

#[test]
fn exit_codes_tell_bad_usage_from_a_failed_start() {
    for (arguments, code, expected) in [
        (["--name", ""], 2, "expected 1 to 63"),
        (["--address", "here"], 2, "expected HOST:PORT such as 127.0.0.1:9000"),
        // An address that no machine has.
        (["--address", "192.0.2.1:1"], 1, "cannot listen on 192.0.2.1:1"),
    ] {
        for program in PROGRAMS {
            let output = Command::new(program).args(arguments).output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{program} {arguments:?}: {text}");
            assert!(text.contains(expected), "{program} {arguments:?}: {text}");
        }
    }
}

#[test]
fn they_say_where_they_listen_and_stop_when_told() {
    for program in PROGRAMS {
        let mut child = Command::new(program).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on 127.0.0.1:") && !line.contains(":0\n"), "{line}");
        let told = Command::new("sh").args(["-c", &format!("kill -TERM {}", child.id())]).status().unwrap();
        assert!(told.success());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{program}");
    }
}
