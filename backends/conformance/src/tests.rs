//! What ends a run before any case; [`broken`] are the cases themselves.

mod broken;

use clap::Parser as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;
use broken::Subject;

async fn refused(arguments: &[&str]) -> String {
    let line = [&["policy-conformance"], arguments].concat();
    let target = Options::try_parse_from(line).unwrap().target().unwrap();
    begin(target).await.unwrap_err().to_string()
}

/// A server that answers whatever it reads with this.
async fn answering(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut read = [0; 1024];
                let _ = stream.read(&mut read).await;
                let _ = stream.write_all(answer).await;
                // Read on, so that the connection is not reset before the answer is read.
                while stream.read(&mut read).await.is_ok_and(|length| length > 0) {}
            });
        }
    });
    url
}

#[tokio::test]
async fn another_protocol_is_named_as_the_likely_cause() {
    let alert: &[u8] = &[0x15, 3, 3, 0, 2, 2, 70];
    for answer in [&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"[..], alert]
    {
        let url = answering(answer).await;
        let said = refused(&["--endpoint", &url]).await;
        let expected = "does another service listen, or is TLS missing (an https:// URL)?";
        assert!(said.starts_with(&url) && said.ends_with(expected) && !said.contains("--args"), "{said}");
    }
}

#[tokio::test]
async fn a_replica_is_reached_before_any_case() {
    let endpoint = format!("http://{}", Subject::Filters.serve().await);
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let said = refused(&["--endpoint", &endpoint, "--replica", &closed]).await;
    assert!(said.starts_with(&format!("cannot connect to {closed}: ")), "{said}");
    let other = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let said = refused(&["--endpoint", &endpoint, "--replica", &other]).await;
    assert!(said.starts_with(&format!("{other} refuses the handshake: ")), "{said}");
}

#[test]
fn only_a_wrong_argument_points_to_the_args() {
    assert_eq!(remedy(&Status::invalid_argument("no label")), "; --args has the operator's args");
    assert_eq!(remedy(&Status::unimplemented("")), "; does another service listen there?");
    assert_eq!(remedy(&Status::unavailable("not now")), "");
}
