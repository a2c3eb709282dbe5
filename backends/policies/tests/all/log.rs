//! A log that is flooded or not read does not affect the program.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
};

use crate::{PROGRAM, Running};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const ACK: u8 = 1;

/// A frame of type PING.
fn ping(flags: u8, payload: u8) -> [u8; 17] {
    let mut frame = [payload; 17];
    frame[..9].copy_from_slice(&[0, 0, 8, 6, flags, 0, 0, 0, 0]);
    frame
}

/// Starts the program, whose log is piped.
fn start(directives: Option<&str>) -> Running {
    let mut command = Command::new(PROGRAM);
    match directives {
        Some(directives) => command.env("RUST_LOG", directives),
        None => command.env_remove("RUST_LOG"),
    };
    Running::of(command.arg("node-resources").stderr(Stdio::piped()))
}

/// Sends 10,000 unsolicited acknowledgements, then a PING, and waits for its acknowledgement.
fn flood(address: &str) {
    let mut connection = TcpStream::connect(address).unwrap();
    connection.write_all(&[PREFACE, EMPTY_SETTINGS].concat()).unwrap();
    connection.write_all(&ping(ACK, 7).repeat(10_000)).unwrap();
    connection.write_all(&ping(0, 9)).unwrap();
    let mut header = [0; 9];
    loop {
        connection.read_exact(&mut header).unwrap();
        let len = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; usize::try_from(len).unwrap()];
        connection.read_exact(&mut payload).unwrap();
        if header[3..5] == [6, ACK] && payload == [9; 8] {
            return;
        }
    }
}

#[test]
fn a_client_cannot_flood_the_log() {
    let mut running = start(None);
    let mut stderr = running.child.stderr.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        log
    });
    flood(&running.address);
    running.stop();
    let log = reader.join().unwrap();
    assert!(log.lines().count() <= 5, "{} lines, the first: {:?}", log.lines().count(), log.lines().next());
}

#[test]
fn a_program_whose_log_is_not_read_serves_and_ends() {
    let mut running = start(Some("warn"));
    // Open, and not read.
    let stderr = running.child.stderr.take().unwrap();
    flood(&running.address);
    flood(&running.address);
    running.stop();
    drop(stderr);
}
