//! The debug flags of the admin address, and requests from untrusted clients.

use std::time::Duration;

use crate::support::{
    admin::Seen,
    backend::{Scripted, configured},
    by_name,
    http::{Answer, Client},
    until,
    written::Written,
};
use serde_json::json;
use tokio::time::timeout;

async fn start() -> (Scripted, Seen) {
    let backend = Scripted::refusing(&["b"], "in | drain", 3).await;
    let only = configured("zones", &backend, "filter: {timeout: 60s}, score: {timeout: 60s, weight: 2}");
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{only}")).await;
    (backend, seen)
}

fn text(answer: &Answer) -> (u16, &str) {
    (answer.status, std::str::from_utf8(&answer.body).unwrap())
}

#[tokio::test]
async fn what_is_set_is_said_as_koordinator_says_it() {
    let (_backend, seen) = start().await;
    for (method, path, body, said, now) in [
        ("POST", "s", "10", "successfully set debugTopNScores to 10\n", "10\n"),
        ("PUT", "s", " 7\n", "successfully set debugTopNScores to 7\n", "7\n"),
        ("PUT", "s", "0", "successfully set debugTopNScores to 0\n", "0\n"),
        ("POST", "f", "true", "successfully set debugFilterFailure to true\n", "1000\n"),
        ("PUT", "f", "5", "successfully set debugFilterFailure to 5\n", "5\n"),
        ("PUT", "f", "false", "successfully set debugFilterFailure to false\n", "0\n"),
    ] {
        let path = format!("/debug/flags/{path}");
        assert_eq!(text(&seen.admin.send(method, &path, body).await), (200, said));
        assert_eq!(text(&seen.admin.send("GET", &path, "").await), (200, now));
    }
}

#[tokio::test]
async fn pages_of_the_web_are_let_in_nowhere() {
    let (_backend, seen) = start().await;
    for (method, path) in [("GET", "/debug/decisions"), ("GET", "/debug/status"), ("POST", "/debug/flags/s")]
    {
        let mut client = Client::connect(seen.admin.0).await;
        let head = format!("{method} {path} HTTP/1.1\r\nHost: gateway\r\nOrigin: http://evil.example\r\n");
        client.write(format!("{head}Content-Length: 1\r\n\r\n7").as_bytes()).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, 403, "{method} {path}");
        assert!(answer.json()["error"].as_str().unwrap().contains("Origin header"), "{answer:?}");
    }
    for path in ["/debug/decisions", "/debug/status", "/nothing"] {
        let answer = seen.admin.send("GET", path, "").await;
        let headers = ["x-content-type-options", "cache-control"].map(|name| answer.header(name));
        assert_eq!(headers, [Some("nosniff"), Some("no-store")], "{path}");
    }
    assert_eq!(text(&seen.admin.send("GET", "/debug/flags/s", "").await), (200, "0\n"));
}

#[tokio::test]
async fn a_wrong_value_changes_nothing() {
    let (_backend, seen) = start().await;
    seen.admin.send("PUT", "/debug/flags/s", "3").await;
    for (path, name, value, shown) in [
        ("s", "debugTopNScores", "many", "\"many\""),
        ("s", "debugTopNScores", "-1", "\"-1\""),
        ("s", "debugTopNScores", "1001", "\"1001\""),
        ("s", "debugTopNScores", "true", "\"true\""),
        ("s", "debugTopNScores", "", "\"\""),
        ("s", "debugTopNScores", "1\n2", "\"1\\n2\""),
        ("f", "debugFilterFailure", "\u{1b}[31m", "\"\\u{1b}[31m\""),
    ] {
        let answer = seen.admin.send("PUT", &format!("/debug/flags/{path}"), value).await;
        let words = if path == "f" { ", or true or false" } else { "" };
        let rest = format!("expected a number of rows from 0 (off) to 1000{words}");
        assert_eq!(answer.json(), json!({"error": format!("failed to set {name} to {shown}; {rest}")}));
        assert_eq!(answer.status, 400, "{value}");
    }
    assert_eq!(text(&seen.admin.send("GET", "/debug/flags/s", "").await), (200, "3\n"));
}

#[tokio::test]
async fn a_body_without_an_end_or_without_letters_is_refused() {
    let (_backend, seen) = start().await;
    for path in ["/debug/flags/s", "/debug/flags/f", "/debug/flags/v"] {
        let answer = seen.admin.send("PUT", path, [0xff, 0xfe]).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.json()["error"].as_str().unwrap().contains("UTF-8"), "{answer:?}");
        // The request declares a gigabyte; at most two megabytes of it are read.
        let mut client = Client::connect(seen.admin.0).await;
        client
            .write(
                format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 1 << 30).as_bytes(),
            )
            .await;
        client.write(&vec![b'1'; (2 << 20) + 1]).await;
        let answer = timeout(Duration::from_mins(1), client.answer()).await.unwrap();
        assert_eq!(
            (answer.status, answer.json()),
            (413, json!({"error": "Failed to buffer the request body: length limit exceeded"}))
        );
    }
    let answer = seen.admin.send("DELETE", "/debug/flags/v", "").await;
    assert_eq!(
        (answer.status, answer.json()["error"].as_str().unwrap()),
        (405, "method DELETE not allowed at /debug/flags/v")
    );
}

#[tokio::test]
async fn tables_go_to_the_log_while_they_are_wanted() {
    let (written, _guard) = Written::here();
    let (_backend, seen) = start().await;
    let calls = async |count| {
        seen.gateway.post("/filter", by_name(&["a", "b"])).await;
        seen.gateway.post("/prioritize", by_name(&["a", "c"])).await;
        seen.settled(count).await;
    };
    calls(2).await;
    assert_eq!(written.with(&["shop/web-0"]), [""; 0], "the flag is off");
    seen.admin.send("PUT", "/debug/flags/s", "1").await;
    seen.admin.send("PUT", "/debug/flags/f", "9").await;
    calls(4).await;
    until("no table", || written.with(&["| 0 | shop/web-0 |"]).len() == 2).await;
    assert_eq!(written.with(&["| #"]), ["| # | Pod | Node | zones |", "| # | Pod | Node | Score | zones |"]);
    assert_eq!(
        written.with(&["shop/web-0"]),
        ["| 0 | shop/web-0 | b | in   drain |", "| 0 | shop/web-0 | a | 6 | 6 |"]
    );
    seen.admin.send("PUT", "/debug/flags/s", "0").await;
    seen.admin.send("PUT", "/debug/flags/f", "false").await;
    calls(6).await;
    assert_eq!(written.with(&["shop/web-0"]).len(), 2);
}
