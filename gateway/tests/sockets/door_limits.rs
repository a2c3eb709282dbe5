//! The limits of connections and requests at the address for calls: age, silence, unread answers, and memory.

use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use serde_json::json;
use tokio::{io::AsyncReadExt, net::TcpStream};

use crate::support::{
    Gateway,
    backend::{Act, Scripted, configured},
    by_name, ended,
    http::Client,
    pass,
    secured::{HTTP_2, Secured, connect_h2, open, post},
    until,
};

/// A gateway with these further fields of `extender`, and this backend for filter alone.
async fn gateway_with(backend: &Scripted, extender: &str) -> Gateway {
    let only = configured("only", backend, "filter: {timeout: 60s}");
    let rest = format!("nodes: {{source: Request}}\nbackends:\n{only}");
    Gateway::start_as(extender, &rest, std::future::pending()).await
}

/// A gateway whose only backend refuses node a.
async fn gateway() -> (Gateway, Scripted) {
    let backend = Scripted::refusing(&["a"], "no", 0).await;
    (gateway_with(&backend, "").await, backend)
}

/// A body of this length about two nodes.
fn padded(length: usize) -> Vec<u8> {
    let mut body = by_name(&["a", "b"]).into_bytes();
    body.resize(length, b' ');
    body
}

#[tokio::test]
async fn all_requests_in_progress_have_so_many_bytes_and_what_is_beyond_is_refused_at_once() {
    const SIZE: usize = 500 << 10;
    let backend = Scripted::always(Act::Hang).await;
    let gateway = gateway_with(&backend, ", maxBytesInFlight: 1100Ki").await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = Client::connect(gateway.address).await;
        client
            .write(
                format!("POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: {SIZE}\r\n\r\n")
                    .as_bytes(),
            )
            .await;
        client.write(&padded(SIZE)).await;
        held.push(client);
    }
    until("they are not decided", || backend.asked("Filter").len() == 2).await;
    let answer = gateway.post("/filter", padded(SIZE)).await;
    let text = "extender-gateway: overloaded: the requests in progress have 1126400 bytes together; look for callers that send too many, or raise extender.maxBytesInFlight";
    assert_eq!((answer.status, answer.error()), (200, text.to_owned()));
    let small = gateway.post("/prioritize", by_name(&["a"])).await;
    assert_eq!(small.json(), json!([{"Host": "a", "Score": 0}]), "a small one has room");
    let refused = gateway.post("/prioritize", padded(SIZE)).await;
    assert_eq!((refused.status, refused.body.len()), (503, 0), "as every error of this verb");
    assert_eq!(refused.header("x-extender-gateway-error"), Some(text));
    gateway.until_counted("overload", "calls_total{verb=\"filter\",outcome=\"overload\"} 1").await;
    drop(held);
    let served = async { while gateway.post("/prioritize", padded(SIZE)).await.status == 503 {} };
    ended("memory of requests that are gone is not returned", served).await;
}

#[tokio::test]
async fn an_old_connection_is_asked_to_close_with_a_response() {
    let (gateway, _backend) = gateway().await;
    let mut client = Client::connect(gateway.address).await;
    let body = by_name(&["a", "b"]);
    for minute in 0..10 {
        let answer = client.post("/filter", body.as_bytes()).await;
        assert_eq!((answer.status, answer.header("connection")), (200, None), "after {minute} minutes");
        pass(Duration::from_mins(1)).await;
    }
    let answer = client.post("/filter", body.as_bytes()).await;
    assert_eq!((&answer.json()["NodeNames"], answer.header("connection")), (&json!(["b"]), Some("close")));
    assert_eq!(client.stream.read(&mut [0]).await.unwrap(), 0);
}

/// The status of a call.
async fn call(requests: &SendRequest<Bytes>) -> Result<u16, h2::Error> {
    let mut ready = requests.clone().ready().await?;
    let (response, mut body) = ready.send_request(post("/filter"), false)?;
    body.send_data(by_name(&["a", "b"]).into(), true)?;
    let (head, mut body) = response.await?.into_parts();
    while let Some(chunk) = body.data().await {
        body.flow_control().release_capacity(chunk?.len())?;
    }
    Ok(head.status.as_u16())
}

#[tokio::test]
async fn an_old_connection_of_http_2_accepts_no_more_calls_and_loses_none() {
    let secured = Secured::start("").await;
    let client = secured.client(None, HTTP_2);
    let requests = connect_h2(secured.gateway.address, &client).await;
    assert_eq!(call(&requests).await.unwrap(), 200);
    // Shorter than the time for the answer to a ping, so that only the age counts.
    for _ in 0..61 {
        pass(Duration::from_secs(10)).await;
        if let Err(error) = call(&requests).await {
            assert!(error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR), "{error:?}");
        }
    }
    let refused = async { while call(&requests).await.is_ok() {} };
    ended("an old connection is kept", refused).await;
    assert_eq!(call(&connect_h2(secured.gateway.address, &client).await).await.unwrap(), 200);
}

#[tokio::test]
async fn a_connection_of_http_2_without_a_call_is_asked_to_end_and_one_that_never_begins_is_closed() {
    let secured = Secured::start("").await;
    let client = secured.client(None, HTTP_2);
    let mut without_preface = open(secured.gateway.address, &client).await.unwrap();
    let unused = connect_h2(secured.gateway.address, &client).await;
    let used = connect_h2(secured.gateway.address, &client).await;
    assert_eq!(call(&used).await.unwrap(), 200);
    pass(Duration::from_secs(31)).await;
    let asked = async {
        loop {
            if let Err(error) = unused.clone().ready().await {
                return error;
            }
            tokio::task::yield_now().await;
        }
    };
    let error = ended("a connection without a call is kept", asked).await;
    assert!(error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR), "{error:?}");
    assert_eq!(call(&used).await.unwrap(), 200);
    let closing =
        tokio::spawn(
            async move { while without_preface.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {} },
        );
    let closed = async {
        while !closing.is_finished() {
            pass(Duration::from_secs(10)).await;
            // Another caller's call, so that the gateway has run meanwhile.
            secured.filter(&secured.client(None, &["http/1.1"])).await.unwrap();
        }
    };
    ended("a connection without a preface is kept", closed).await;
}

#[tokio::test]
async fn an_answer_that_a_caller_of_http_2_does_not_take_ends_its_connection() {
    let secured = Secured::start("").await;
    let client = secured.client(None, HTTP_2);
    let stream = open(secured.gateway.address, &client).await.unwrap();
    // The caller lets no byte of an answer through, and answers pings.
    let (requests, connection) =
        h2::client::Builder::new().initial_window_size(0).handshake::<_, Bytes>(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let (response, mut body) = requests.ready().await.unwrap().send_request(post("/filter"), false).unwrap();
    body.send_data(by_name(&["a", "b"]).into(), true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
    let ended_in_time = async {
        let mut passed = Duration::ZERO;
        while !connection.is_finished() {
            pass(Duration::from_secs(10)).await;
            passed += Duration::from_secs(10);
            // Another caller's call, so that the gateway has run meanwhile.
            secured.filter(&secured.client(None, &["http/1.1"])).await.unwrap();
        }
        passed
    };
    let passed = ended("an answer is kept that nobody takes", ended_in_time).await;
    assert!(passed >= Duration::from_mins(1), "{passed:?}");
    let dropped = "dropped_connections_total{address=\"extender\",cause=\"unread\"} 1";
    secured.gateway.until_counted("unread", dropped).await;
}

#[tokio::test]
async fn a_host_is_not_needed_for_calls() {
    let (gateway, _backend) = gateway().await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let body = by_name(&["a", "b"]);
    let head = format!("POST /filter HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
    tokio::io::AsyncWriteExt::write_all(&mut stream, (head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 OK"), "{answer}");
}
