//! The policies without files of their own: exit codes, the line with their address, and stopping by signal.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_extender-policies");
const POLICIES: [&str; 4] = ["node-resources", "node-affinity", "spread", "http-extender"];

#[test]
fn exit_codes_tell_bad_usage_from_a_failed_start() {
    for (arguments, code, expected) in [
        (["--name", ""], 2, "expected 1 to 63"),
        (["--address", "here"], 2, "expected HOST:PORT such as 127.0.0.1:9000"),
        // An address that no machine has.
        (["--allow-unauthenticated-bind", "--address=192.0.2.1:1"], 1, "cannot listen on 192.0.2.1:1"),
        (["--tls-cert", "tls.crt"], 2, "--tls-key <FILE>"),
        (["--tls-client-ca", "ca.crt"], 2, "--tls-cert <FILE>"),
        (
            ["--tls-cert=/no/tls.crt", "--tls-key=/no/tls.key"],
            1,
            "--tls-cert /no/tls.crt: cannot be read: No such file",
        ),
    ] {
        for policy in POLICIES {
            let output = Command::new(PROGRAM).arg(policy).args(arguments).output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{policy} {arguments:?}: {text}");
            assert!(text.contains(expected), "{policy} {arguments:?}: {text}");
        }
    }
}

#[test]
fn they_say_where_they_listen_and_stop_when_told() {
    for policy in POLICIES {
        let mut child = Command::new(PROGRAM).arg(policy).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on 127.0.0.1:") && !line.contains(":0\n"), "{line}");
        let told = Command::new("sh").args(["-c", &format!("kill -TERM {}", child.id())]).status().unwrap();
        assert!(told.success());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{policy}");
    }
}
