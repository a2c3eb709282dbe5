//! A backend that turns on the gateway while it serves calls: it fails alone, what it sends is bounded, and it counts again when
//! it behaves.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};

use extender_policy_api::v1beta1::{self as api, FilterResponse, GetInfoResponse};
use prost::Message;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::time::timeout;

use crate::support::{
    Gateway, TEST_TIMEOUT,
    backend::{Act, Scripted, configured, filtered},
    frames::{FLOOD, FrameRelay, Misuse},
    function::pure,
    http::Client,
    in_full,
    program::{OWN, Program},
    reading, steady,
};
use extender_gateway_pace::cadences::Cadences;

/// A gateway before a backend that may be ignored and refuses `a`, and one that refuses `b`.
struct Scene {
    gateway: Gateway,
    relay: FrameRelay,
    _backends: [Scripted; 2],
}

impl Scene {
    async fn of(misuse: Misuse) -> Self {
        let bad = Scripted::refusing(&["a"], "no", 0).await;
        let good = Scripted::refusing(&["b"], "no", 0).await;
        let relay = FrameRelay::to(bad.address, misuse).await;
        let may_be_ignored = "filter: {timeout: 500ms, failurePolicy: Ignore}";
        let backends = format!(
            "nodes: {{source: Request}}\nbackends:\n{}- {{name: bad, url: 'http://{}', {may_be_ignored}}}\n",
            configured("good", &good, "filter: {timeout: 60s}"),
            relay.address,
        );
        // A connection whose handshake fails is made again.
        let short = Duration::from_millis(100);
        let cadences = Cadences {
            handshake: Duration::from_secs(2),
            refresh: short,
            shortest_refresh: short,
            ..steady()
        };
        let gateway = Gateway::start_paced(&backends, cadences).await;
        Self { gateway, relay, _backends: [bad, good] }
    }

    /// The nodes that are left by a call, in which the good backend's answer always counts.
    async fn filter(&self) -> Vec<Value> {
        let reply = self.gateway.post("/filter", in_full(&["a", "b", "c"])).await.json();
        assert_eq!(reply["FailedAndUnresolvableNodes"]["b"], "good: no", "{reply}");
        let left = reply["Nodes"]["items"].as_array().unwrap();
        left.iter().map(|node| node["metadata"]["name"].clone()).collect()
    }

    /// Makes calls until the bad backend's answer counts.
    async fn until_it_counts(&self, when: &str) {
        let counts = async { while self.filter().await != [json!("c")] {} };
        timeout(TEST_TIMEOUT, counts).await.unwrap_or_else(|_| panic!("it does not count {when}"));
    }

    fn failed(&self, backend: &str) -> bool {
        let failed = format!("extender_gateway_backend_failures_total{{backend=\"{backend}\"");
        self.gateway.metrics.text().contains(&failed)
    }

    /// Makes calls until the bad backend has failed one, or has lost its connection.
    async fn until_it_fails(&self) {
        let before = self.relay.connections();
        let fails = async {
            while !self.failed("bad") && self.relay.connections() == before {
                self.filter().await;
            }
        };
        timeout(TEST_TIMEOUT, fails).await.expect("it fails");
    }
}

async fn fails_alone(misuse: Misuse) {
    let scene = Scene::of(misuse).await;
    scene.until_it_counts("at the beginning").await;
    scene.relay.misuse(true);
    scene.until_it_fails().await;
    for _ in 0..20 {
        scene.filter().await;
    }
    scene.relay.misuse(false);
    scene.until_it_counts("afterwards").await;
    assert!(scene.relay.taken() < FLOOD, "{misuse:?}: all of it was taken");
    assert!(!scene.failed("good"), "{misuse:?}");
    let text = scene.gateway.metrics.text();
    assert!(text.contains("extender_gateway_panics_total 0\n"), "{misuse:?}: {text}");
}

#[tokio::test]
async fn floods_between_answers_cost_the_connection_and_no_other_call() {
    for misuse in [Misuse::Settings, Misuse::Pings, Misuse::WindowUpdates] {
        fails_alone(misuse).await;
    }
}

#[tokio::test]
async fn headers_that_do_not_end_cost_the_connection_and_no_other_call() {
    for misuse in [Misuse::EndlessHead, Misuse::EndlessTrailers] {
        fails_alone(misuse).await;
    }
}

#[tokio::test]
async fn connections_that_are_closed_instead_of_an_answer_cost_no_other_call() {
    fails_alone(Misuse::GoAway).await;
}

#[tokio::test]
async fn a_window_that_is_never_opened_costs_no_other_call() {
    fails_alone(Misuse::NoWindow).await;
}

/// The most memory that the process has had, in KiB.
#[cfg(target_os = "linux")]
fn most_memory(program: &Program) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.child.id().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A program in front of these backends, without a decision log, which would grow with the calls.
#[cfg(target_os = "linux")]
async fn program(backends: &str) -> (Program, NamedTempFile) {
    let file = NamedTempFile::new().unwrap();
    let own = "decisions: {maxBytes: 0}\ntimeouts: {decision: 60s}\nnodes: {source: Request}\n";
    fs::write(file.path(), format!("{OWN}{own}backends:\n{backends}")).unwrap();
    (Program::start(file.path()).await, file)
}

/// A pure backend that has another revision in each answer and each handshake.
async fn restless() -> Scripted {
    static REVISION: AtomicU64 = AtomicU64::new(0);
    let revision = || format!("r{}", REVISION.fetch_add(1, SeqCst));
    let act = move |verb: &str, message| {
        if verb == "GetInfo" {
            let info = GetInfoResponse { revision: revision(), ..pure(reading::facts()) };
            return Act::Message(info.encode_to_vec());
        }
        let FilterResponse { result, rejections, scores } = filtered(&message, &["a"], "no");
        let result = result.map(|result| api::Result { revision: revision(), ..result });
        Act::Message(FilterResponse { result, rejections, scores }.encode_to_vec())
    };
    Scripted::start_bare(act, None).await
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_revision_for_each_answer_costs_neither_memory_nor_metrics_nor_log_lines() {
    let (bad, good) = (restless().await, Scripted::refusing(&["b"], "no", 0).await);
    let filter = "filter: {timeout: 60s}";
    let backends = configured("bad", &bad, filter) + &configured("good", &good, filter);
    let (program, _file) = program(&backends).await;
    let mut client = Client::connect(program.extender).await;
    let body = in_full(&["a", "b", "c"]);
    let mut page = String::new();
    let mut memory = 0;
    for call in 0..3_000 {
        let reply = client.post("/filter", body.as_bytes()).await.json();
        assert_eq!(reply["Nodes"]["items"].as_array().map(Vec::len), Some(1), "{reply}");
        if call == 500 {
            (page, memory) = (metrics(&program).await, most_memory(&program));
        }
    }
    // The kernel's peak is not exact.
    let grown = most_memory(&program).saturating_sub(memory);
    assert!(grown < 16 << 10, "{grown} KiB for 2,500 revisions");
    let lines = |page: &str| page.lines().count();
    let after = metrics(&program).await;
    assert!(lines(&after) <= lines(&page) + 20, "{after}");
    let said = program.said("revision");
    assert!(said.len() < 100, "{said:?}");
    assert!(bad.messages("Filter").len() >= 3_000, "answers were used after their revision");
}

#[cfg(target_os = "linux")]
async fn metrics(program: &Program) -> String {
    let answer = Client::connect(program.metrics).await.send("GET", "/metrics", b"").await;
    String::from_utf8(answer.body).unwrap()
}
