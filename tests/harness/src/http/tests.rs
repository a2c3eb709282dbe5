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
