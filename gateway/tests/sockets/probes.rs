//! The health probes of the program's metrics address.

use std::{fs, net::SocketAddr};

use tempfile::NamedTempFile;
use tokio::time::timeout;

use crate::support::{
    TEST_TIMEOUT,
    http::Client,
    program::{OWN, Program},
};

async fn program() -> Program {
    let file = NamedTempFile::new().unwrap();
    let rest = "nodes: {source: Request}\nbackends: [{name: a, url: 'http://127.0.0.1:1', filter: {}}]\n";
    fs::write(file.path(), [OWN, rest].concat()).unwrap();
    Program::start(file.path()).await
}

async fn silence(metrics: SocketAddr) -> f64 {
    let answer = Client::connect(metrics).await.send("GET", "/metrics", b"").await;
    let text = String::from_utf8(answer.body).unwrap();
    let value =
        text.lines().find_map(|line| line.strip_prefix("extender_gateway_call_thread_silence_seconds "));
    value.unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_thread_that_answers_calls_leaves_heartbeats() {
    let test = async {
        let program = program().await;
        let mut before = silence(program.metrics).await;
        loop {
            let now = silence(program.metrics).await;
            if now < before {
                return;
            }
            before = now;
        }
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}
