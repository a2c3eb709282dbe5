//! Shells in place of programs: their output, their end, and which process outlives which.

use std::{
    env, fs,
    io::{BufRead, BufReader},
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
