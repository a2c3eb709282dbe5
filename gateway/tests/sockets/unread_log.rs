//! The program with a log that is not read.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener},
    os::fd::{AsFd, AsRawFd},
    process::Command,
};

use tempfile::NamedTempFile;
use tokio::{io::Interest, net::unix::pipe, time::timeout};

use crate::support::{
    TEST_TIMEOUT,
    backend::Scripted,
    by_name,
    http::Client,
    program::{Program, Starting},
};

const ANY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// Fills the pipe behind this end, to which the program continues to write.
async fn fill(end: impl AsFd) {
    // Opened again: this end does not block, and the program's still does.
    let path = format!("/proc/self/fd/{}", end.as_fd().as_raw_fd());
    let sender = pipe::OpenOptions::new().open_sender(path).unwrap();
    sender.ready(Interest::WRITABLE).await.unwrap();
    while sender.try_write(&[b'.'; 4096]).is_ok() {}
    while sender.try_write(b".").is_ok() {}
}

/// A program that serves, and the end of a full, unread pipe that its log goes to.
async fn unread(file: &NamedTempFile) -> (Program, std::io::PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    let program = Starting::with_errors_to(file.path(), writer.try_clone().unwrap()).await.serving().await;
    fill(writer).await;
    (program, reader)
}

async fn configuration(extender: SocketAddr) -> NamedTempFile {
    let backend = Scripted::refusing(&["a"], "no", 0).await;
    let file = NamedTempFile::new().unwrap();
    let text = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
         extender: {{address: '{extender}'}}\nmetrics: {{address: 127.0.0.1:0}}\nadmin: {{address: 127.0.0.1:0}}\n\
         timeouts: {{decision: 60s}}\nnodes: {{source: Request}}\n\
         backends: [{{name: only, url: 'http://{}', filter: {{timeout: 60s}}}}]\n",
        backend.address
    );
    fs::write(file.path(), text).unwrap();
    file
}

#[tokio::test]
async fn a_log_that_nobody_reads_delays_no_call_no_probe_and_no_end() {
    let test = async {
        let file = configuration(ANY).await;
        let (mut program, _reader) = unread(&file).await;
        let mut caller = Client::connect(program.extender).await;
        let refused = caller.post("/filter", b"{").await;
        assert!(refused.error().contains("bad request"), "each call writes a line");
        let answer = caller.post("/filter", by_name(&["a", "b"]).as_bytes()).await;
        assert_eq!(answer.json()["NodeNames"], serde_json::json!(["b"]));
        for probe in ["/livez", "/readyz"] {
            assert_eq!(Client::connect(program.metrics).await.send("GET", probe, b"").await.status, 200);
        }
        program.signal("TERM").await;
        assert_eq!(program.child.wait().await.unwrap().code(), Some(0));
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn a_start_that_fails_ends_though_nobody_reads_why() {
    let taken = TcpListener::bind(ANY).unwrap();
    let file = configuration(taken.local_addr().unwrap()).await;
    let (_reader, writer) = std::io::pipe().unwrap();
    fill(&writer).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_extender-gateway"));
    command.args(["serve", "--config"]).arg(file.path()).stderr(writer);
    let ended = tokio::task::spawn_blocking(move || command.status().unwrap());
    assert_eq!(timeout(TEST_TIMEOUT, ended).await.unwrap().unwrap().code(), Some(1));
}
