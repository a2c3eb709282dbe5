//! The program with a low limit of descriptors, and idle connections.

use std::{fs, net::SocketAddr, sync::Arc, time::Duration};

use prost::Message;
use tempfile::NamedTempFile;
use tokio::{io::AsyncWriteExt, net::TcpStream, sync::Semaphore, time::timeout};

use crate::support::{
    TEST_TIMEOUT,
    backend::{Act, Scripted, filtered, info},
    by_name,
    http::Client,
    program::{OWN, Program, Starting},
    reading,
};

/// The program's limit, and how many connections try to exhaust it.
const DESCRIPTORS: u32 = 128;
const SILENT: usize = 200;

async fn program() -> Program {
    program_with(&Scripted::refusing(&["a"], "no", 0).await).await
}

async fn program_with(backend: &Scripted) -> Program {
    let file = NamedTempFile::new().unwrap();
    let text = format!(
        "{OWN}timeouts: {{decision: 60s}}\nnodes: {{source: Request}}\n\
         backends: [{{name: only, url: 'http://{}', filter: {{timeout: 60s}}}}]\n",
        backend.address
    );
    fs::write(file.path(), text).unwrap();
    Starting::with_descriptors(file.path(), DESCRIPTORS).await.serving().await
}

/// Connections that begin a request and send no more.
async fn silent(address: SocketAddr) -> Vec<TcpStream> {
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // One of many may have been closed already.
        let _ = stream.write_all(b"POST /filter HTTP/1.1\r\nHos").await;
        silent.push(stream);
    }
    silent
}

async fn is_served(program: &Program) {
    let answer =
        Client::connect(program.extender).await.post("/filter", by_name(&["a", "b"]).as_bytes()).await;
    assert_eq!(answer.json()["NodeNames"], serde_json::json!(["b"]));
    for probe in ["/livez", "/readyz"] {
        assert_eq!(Client::connect(program.metrics).await.send("GET", probe, b"").await.status, 200);
    }
    assert_eq!(Client::connect(program.admin).await.send("GET", "/debug/status", b"").await.status, 200);
}

#[tokio::test]
async fn connections_that_do_nothing_keep_nobody_out_at_any_address() {
    let test = async {
        let program = program().await;
        for address in [program.metrics, program.admin, program.extender] {
            let held = silent(address).await;
            is_served(&program).await;
            drop(held);
        }
        let mut held = Vec::new();
        for address in [program.metrics, program.admin, program.extender] {
            held.extend(silent(address).await);
        }
        is_served(&program).await;
        program
            .counted("extender_gateway_dropped_connections_total{address=\"metrics\",cause=\"evicted\"}")
            .await;
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

/// Connections that send the head of a request, and none of its body.
async fn without_bodies(address: SocketAddr, head: &str) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..SILENT {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let _ = stream
            .write_all(format!("{head} HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n").as_bytes())
            .await;
        streams.push(stream);
    }
    streams
}

#[tokio::test]
async fn requests_without_their_bodies_keep_nobody_out() {
    let test = async {
        let program = program().await;
        let body = by_name(&["a", "b"]);
        let mut kept = Client::connect(program.extender).await;
        kept.post("/filter", body.as_bytes()).await;
        let _calls = without_bodies(program.extender, "POST /filter").await;
        let _flags = without_bodies(program.admin, "PUT /debug/flags/v").await;
        is_served(&program).await;
        let answer = kept.post("/filter", body.as_bytes()).await.json();
        assert_eq!(answer["NodeNames"], serde_json::json!(["b"]), "{answer}");
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn requests_under_way_are_not_ended_for_new_connections() {
    let test = async {
        let answers = Arc::new(Semaphore::new(0));
        let permits = Arc::clone(&answers);
        let backend = Scripted::start(info(reading::names()), move |_, message| {
            Act::After(Arc::clone(&permits), filtered(&message, &["a"], "no").encode_to_vec())
        })
        .await;
        let program = program_with(&backend).await;
        let body = by_name(&["a", "b"]);
        let head =
            format!("POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut decided = Client::connect(program.extender).await;
        decided.write(head.as_bytes()).await;
        decided.write(body.as_bytes()).await;
        while backend.messages("Filter").is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let _held = silent(program.extender).await;
        let _without_bodies = without_bodies(program.extender, "POST /filter").await;
        answers.add_permits(1);
        let answer = decided.answer().await.json();
        assert_eq!(answer["NodeNames"], serde_json::json!(["b"]), "{answer}");
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}
