//! The client against a scripted server.

use std::{net::TcpListener, thread};

use super::*;

/// Answers each request on one connection with the next of the answers, written in pieces, and returns the
/// requests.
fn server(answers: &'static [&'static [&'static str]]) -> (SocketAddr, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        answers.iter().map(|answer| exchange(&mut stream, answer)).collect()
    };
    (address, thread::spawn(serve))
}

/// Every request of these tests has the body "request".
fn exchange(stream: &mut TcpStream, answer: &[&str]) -> String {
    let mut asked = String::new();
    while !asked.ends_with("\r\n\r\nrequest") {
        let mut piece = [0; 1024];
        let count = stream.read(&mut piece).unwrap();
        asked.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
    for piece in answer {
        stream.write_all(piece.as_bytes()).unwrap();
    }
    asked
}

#[test]
fn one_connection_carries_many_calls() {
    let (address, asked) = server(&[
        &["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "fi", "rst"],
        &["HTTP/1.1 503 Busy\r\ncontent-length:  0 \r\nX: y\r\n\r\n"],
        &["HTTP/1.1 200 OK\r\nContent-Len", "gth: 1\r\n\r\n3"],
    ]);
    let mut connection = Connection::open(address).unwrap();
    for expected in [(200, "first"), (503, ""), (200, "3")] {
        let answer = connection.post("/filter", &[b"req", b"", b"uest"]).unwrap();
        assert_eq!((answer.status, std::str::from_utf8(answer.body).unwrap()), expected);
    }
    for asked in asked.join().unwrap() {
        assert!(asked.starts_with("POST /filter HTTP/1.1\r\nHost: 127.0.0.1:"), "{asked}");
        assert!(asked.contains("\r\nContent-Length: 7\r\n"), "{asked}");
    }
}

#[test]
fn the_headers_are_those_of_kube_scheduler() {
    let (address, asked) = server(&[&["HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]]);
    Connection::open(address).unwrap().post("/filter", &[b"request"]).unwrap();
    let asked = asked.join().unwrap().remove(0);
    let real = include_str!("../../../captures/filter-names.headers.txt");
    let real = real.replace("Content-Length: 1807", "Content-Length: 7");
    for line in real.lines() {
        assert!(asked.contains(&format!("{}\r\n", line.trim())), "{line} is not in {asked}");
    }
}

#[test]
fn an_answer_that_would_cost_the_connection_is_an_error() {
    let cases: [&'static [&'static [&'static str]]; 4] = [
        &[&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]],
        &[&["HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"]],
        &[&["HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ntrash"]],
        &[&["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"]],
    ];
    for answers in cases {
        let (address, _asked) = server(answers);
        let error = Connection::open(address).unwrap().post("/filter", &[b"request"]).unwrap_err();
        assert!(error.to_string().starts_with(&address.to_string()), "{error}");
    }
}
