//! The program itself, whose configuration changes while it serves.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::symlink,
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use support::{backend::Scripted, by_name, http::Client};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// Bounds each test; nothing is waited for that long.
const PATIENCE: Duration = Duration::from_mins(1);

struct Program {
    child: Child,
    extender: SocketAddr,
    metrics: SocketAddr,
}

impl Program {
    async fn start(file: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_extender-gateway"));
        command.args(["serve", "--config"]).arg(file).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let metrics = address(&mut lines, "metrics listening on ").await;
        let extender = address(&mut lines, "extender listening on ").await;
        Self { child, extender, metrics }
    }

    async fn signal(&self, name: &str) {
        let id = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().await.unwrap().success());
    }

    /// Waits until the metrics have this line.
    async fn counted(&self, line: &str) {
        loop {
            let answer = Client::connect(self.metrics).await.send("GET", "/metrics", b"").await;
            if String::from_utf8(answer.body).unwrap().contains(line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn address(lines: &mut Lines<BufReader<ChildStdout>>, prefix: &str) -> SocketAddr {
    let line = lines.next_line().await.unwrap().expect("the program says where it listens");
    line.strip_prefix(prefix).unwrap_or_else(|| panic!("{line}")).parse().unwrap()
}

fn configuration(backend: &Scripted) -> String {
    format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
         extender: {{address: 127.0.0.1:0}}\nmetrics: {{address: 127.0.0.1:0}}\nnodes: {{source: NamesOnly}}\n\
         reasons: {{prefix: None}}\n\
         backends: [{{name: only, url: 'http://{}', filter: {{timeout: 1s}}}}]\n",
        backend.address
    )
}

/// The reason for which node `a` is refused.
async fn reason(client: &mut Client) -> String {
    let answer = client.post("/filter", by_name(&["a", "b"]).as_bytes()).await.json();
    assert_eq!(answer["Error"], "", "{answer}");
    answer["FailedAndUnresolvableNodes"]["a"].as_str().unwrap().to_owned()
}

async fn until(client: &mut Client, wanted: &str) {
    while reason(client).await != wanted {}
}

/// Puts the text where a kubelet would: in a folder of its own, behind a symlink that is swapped.
fn swap(folder: &Path, version: &str, text: &str) {
    fs::create_dir(folder.join(version)).unwrap();
    fs::write(folder.join(version).join("gateway.yaml"), text).unwrap();
    symlink(version, folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
}

#[tokio::test]
async fn a_changed_file_is_used_without_losing_a_call() {
    let test = async {
        let first = Scripted::refusing(&["a"], "first", 0).await;
        let second = Scripted::refusing(&["a"], "second", 0).await;
        let third = Scripted::refusing(&["a"], "third", 0).await;
        let folder = tempfile::tempdir().unwrap();
        swap(folder.path(), "..1", &configuration(&first));
        let file = folder.path().join("gateway.yaml");
        symlink("..data/gateway.yaml", &file).unwrap();
        let program = Program::start(&file).await;

        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, extender) = (Arc::clone(&stop), program.extender);
        let load = tokio::spawn(async move {
            let mut client = Client::connect(extender).await;
            let mut calls = 0;
            while !stopped.load(Ordering::Relaxed) {
                reason(&mut client).await;
                calls += 1;
            }
            calls
        });
        let mut client = Client::connect(program.extender).await;
        assert_eq!(reason(&mut client).await, "first");
        swap(folder.path(), "..2", &configuration(&second));
        until(&mut client, "second").await;
        fs::remove_file(&file).unwrap();
        fs::write(&file, configuration(&third)).unwrap();
        program.signal("HUP").await;
        until(&mut client, "third").await;
        stop.store(true, Ordering::Relaxed);
        assert!(load.await.unwrap() > 0);
    };
    timeout(PATIENCE, test).await.unwrap();
}

#[tokio::test]
async fn a_file_with_mistakes_changes_nothing_and_is_counted() {
    let test = async {
        let backend = Scripted::refusing(&["a"], "first", 0).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let right = configuration(&backend);
        fs::write(&file, &right).unwrap();
        let program = Program::start(&file).await;
        let refused =
            |count: u32| format!("extender_gateway_config_reloads_total{{outcome=\"refused\"}} {count}");
        fs::write(&file, right.replace("filter", "fliter")).unwrap();
        program.counted(&refused(1)).await;
        program.signal("HUP").await;
        program.counted(&refused(2)).await;
        fs::write(&file, right.replace("NamesOnly", "Request")).unwrap();
        program.counted(&refused(3)).await;
        assert_eq!(reason(&mut Client::connect(program.extender).await).await, "first");
        fs::write(&file, right.replace("prefix: None", "prefix: Backend")).unwrap();
        until(&mut Client::connect(program.extender).await, "only: first").await;
    };
    timeout(PATIENCE, test).await.unwrap();
}
