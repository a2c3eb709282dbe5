//! Shells in place of programs: their output, their end, and which process outlives which.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::Path,
    thread,
    time::Instant,
};

use super::*;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Whether the process runs and is not merely waiting to be reaped.
fn lives(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

fn ends_within(id: u32, limit: Duration) -> bool {
    let start = Instant::now();
    while lives(id) {
        if start.elapsed() > limit {
            return false;
        }
        thread::yield_now();
    }
    true
}

#[test]
fn addresses_are_found_between_other_lines() {
    let script = "echo hello; echo metrics on [::1]:81; echo listening on 127.0.0.1:80; exec sleep 60";
    let (process, [door, metrics]) =
        Process::start("it", shell(script), ["listening on ", "metrics on "]).unwrap();
    assert_eq!((door.port(), metrics.port()), (80, 81));
    assert!(metrics.is_ipv6());
    assert!(lives(process.id()));
}

#[test]
fn a_program_that_is_not_ready_says_why() {
    let cases = [
        (
            "echo no such file >&2; exit 3",
            "it ended (exit status: 3) before it printed `on …`; it said:\nno such file",
        ),
        ("exit 0", "it ended (exit status: 0) before it printed `on …`; it said:\n(nothing)"),
        ("echo on port 80; exec sleep 60", "it printed `on port 80`, which does not end with an address"),
    ];
    for (script, expected) in cases {
        let error = Process::start("it", shell(script), ["on "]).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{script}: {error}");
    }
    let error = Process::start("it", Command::new("/no/such/program"), ["on "]).unwrap_err();
    assert!(matches!(error, StartError::Spawn { .. }), "{error}");
}

#[test]
fn a_dropped_process_is_gone() {
    let (process, _) = Process::start("it", shell("echo on 127.0.0.1:1; exec sleep 60"), ["on "]).unwrap();
    let id = process.id();
    drop(process);
    assert!(!Path::new(&format!("/proc/{id}")).exists());
}

#[test]
fn a_finished_process_ends_in_its_own_way_or_is_killed() {
    let polite = "trap 'exit 7' TERM; echo on 127.0.0.1:1; while :; do :; done";
    let (process, _) = Process::start("it", shell(polite), ["on "]).unwrap();
    assert_eq!(process.finish(Duration::from_secs(10)).unwrap().code(), Some(7));
    let deaf = "trap '' TERM; echo on 127.0.0.1:1; exec sleep 60";
    let (process, _) = Process::start("it", shell(deaf), ["on "]).unwrap();
    assert_eq!(process.finish(Duration::ZERO).unwrap().code(), None);
}

/// Set for the test binary that plays the parent of the test below.
const PARENT: &str = "EXTENDER_HARNESS_TEST_PARENT";

#[test]
fn parent_that_is_killed() {
    if env::var_os(PARENT).is_none() {
        return;
    }
    let (process, _) = Process::start("it", shell("echo on 127.0.0.1:1; exec sleep 60"), ["on "]).unwrap();
    println!("\nchild {}", process.id());
    loop {
        thread::park();
    }
}

#[test]
fn a_child_dies_with_a_parent_that_is_killed() {
    let mut parent = Command::new(env::current_exe().unwrap());
    parent.args(["--exact", "process::tests::parent_that_is_killed", "--nocapture"]).env(PARENT, "1");
    let mut parent = parent.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
    let child = lines.into_iter().find_map(|line| line.strip_prefix("child ")?.parse().ok()).unwrap();
    assert!(lives(child));
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert!(ends_within(child, Duration::from_secs(10)), "{child} outlives its parent");
}
