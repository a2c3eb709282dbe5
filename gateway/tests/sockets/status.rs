//! The status of the program: before it is ready, and while its configuration changes.

use std::{fs, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use crate::support::{
    TEST_TIMEOUT,
    backend::{Act, Scripted, configured, filtered, info},
    by_name,
    http::Client,
    program::{OWN, Program, Starting},
    reading,
};
use extender_gateway_api::{DecisionList, RejectedBecause, Status};
use jiff::{SignedDuration, Timestamp};
use prost::Message;
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

fn configuration(rest: &str) -> String {
    format!("{OWN}nodes: {{source: NamesOnly}}\ntimeouts: {{decision: 60s}}\n{rest}")
}

async fn get(admin: SocketAddr, path: &str) -> crate::support::http::Answer {
    Client::connect(admin).await.send("GET", path, b"").await
}

async fn status(admin: SocketAddr) -> Status {
    let answer = get(admin, "/debug/status").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

async fn decisions(admin: SocketAddr) -> DecisionList {
    serde_json::from_slice(&get(admin, "/debug/decisions").await.body).unwrap()
}

/// Waits until the status is like that.
async fn once(admin: SocketAddr, is_so: impl Fn(&Status) -> bool) -> Status {
    loop {
        let status = status(admin).await;
        if is_so(&status) {
            return status;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Whether the time is about that of the start. The wall clock may be set back meanwhile: no order can be asked for.
fn is_recent(time: Timestamp, status: &Status) -> bool {
    time.duration_since(status.started).abs() < SignedDuration::from_hours(1)
}

async fn within(test: impl Future<Output = ()>) {
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn before_it_serves_it_says_what_it_waits_for() {
    within(async {
        let asked = Arc::new(Semaphore::new(0));
        // Its handshake never ends.
        let seen = Arc::clone(&asked);
        let mute = Scripted::start_bare(
            move |_, _| {
                seen.add_permits(1);
                Act::Hang
            },
            None,
        )
        .await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        fs::write(&file, configuration(&format!("backends:\n{}", configured("mute", &mute, "filter: {}"))))
            .unwrap();
        let starting = Starting::new(&file).await;
        asked.acquire().await.unwrap().forget();
        let answer = get(starting.admin, "/debug/status").await;
        let why = "the gateway is starting: waiting for nodes, pods or backends";
        assert_eq!((answer.status, answer.json()), (503, serde_json::json!({"error": why})));
        assert_eq!(get(starting.admin, "/debug/decisions").await.status, 200);
        let program = starting.serving().await;
        let status = once(program.admin, |status| status.ready).await;
        assert!(!status.backends[0].connected && status.backends[0].failure.is_some(), "{status:?}");
        let problem = &status.problems[0];
        assert_eq!(problem.about, "backend mute");
    })
    .await;
}

#[tokio::test]
async fn a_gateway_says_how_it_and_its_backends_are() {
    within(async {
        let good = Scripted::start(info(reading::names()), |verb, message| match verb {
            "Filter" => Act::Message(filtered(&message, &["b"], "no").encode_to_vec()),
            _ => Act::Status(13, "broken"),
        })
        .await;
        let backends = configured("good", &good, "filter: {timeout: 60s}, score: {timeout: 60s}")
            + "- {name: off, url: 'http://127.0.0.1:1', mode: Disabled, filter: {}}\n";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        fs::write(&file, configuration(&format!("backends:\n{backends}"))).unwrap();
        let program = Program::start(&file).await;
        let mut client = Client::connect(program.extender).await;
        client.post("/filter", by_name(&["a", "b"]).as_bytes()).await;
        client.post("/prioritize", by_name(&["a"]).as_bytes()).await;
        client.post("/prioritize", b"{").await;
        let status = once(program.admin, |status| status.verbs[1].calls == 2).await;

        assert_eq!((status.kind.as_str(), status.ready), ("Status", true));
        assert_eq!((status.configuration.generation, &status.configuration.refused), (1, &None));
        assert_eq!(status.configuration.file, file.display().to_string());
        assert_eq!(
            (status.nodes.source.as_str(), status.nodes.synced, &status.pods),
            ("NamesOnly", true, &None)
        );
        let names: Vec<&str> = status.verbs.iter().map(|verb| verb.verb.as_str()).collect();
        assert_eq!(names, ["filter", "prioritize", "preempt", "bind"]);
        let calls: Vec<_> = status.verbs.iter().map(|verb| (verb.calls, verb.failed)).collect();
        assert_eq!(calls, [(1, 0), (2, 1), (0, 0), (0, 0)]);
        let last = status.verbs[0].last.as_ref().unwrap();
        assert_eq!((last.nodes, last.outcome.as_str()), (2, "ok"));
        assert_eq!(status.verbs[1].last.as_ref().unwrap().outcome, "request");
        assert_eq!(status.verbs[2].last, None);

        let [good, off] = &status.backends[..] else { panic!("{:?}", status.backends) };
        assert_eq!((good.name.as_str(), good.mode.as_str(), good.connected), ("good", "Enforce", true));
        assert_eq!(good.handshake.as_ref().unwrap().name, "scripted");
        assert_eq!((off.name.as_str(), off.mode.as_str(), off.connected), ("off", "Disabled", false));
        let [filter, score] = &good.verbs[..] else { panic!("{good:?}") };
        assert_eq!((filter.verb.as_str(), filter.calls, filter.failures), ("filter", 1, 0));
        assert_eq!((filter.rejected_share, &filter.last_failure), (Some(0.5), &None));
        assert!(filter.median_seconds.is_some_and(|seconds| seconds > 0.0));
        assert_eq!((score.verb.as_str(), score.calls, score.failures), ("score", 1, 1));
        assert_eq!(
            ((filter.failed_lately, filter.lately), (score.failed_lately, score.lately)),
            ((0, 1), (1, 1))
        );
        let failure = score.last_failure.as_ref().unwrap();
        assert_eq!((score.minute.calls, score.minute.failed, score.last_failed), (1, 1, true));
        assert_eq!((score.failure_kinds[0].kind.as_str(), score.failure_kinds[0].calls), ("status", 1));
        let problem = status.problems.iter().find(|problem| problem.about == "backend good").unwrap();
        assert_eq!(problem.impact.as_deref(), Some("score Ignore: pods are placed without its scores"));
        assert!(problem.what.contains("1 of the latest 1 calls to score failed (status 1)"), "{problem:?}");
        assert!(failure.message.contains("broken") && is_recent(failure.time, &status), "{failure:?}");
        assert_eq!(status.log.calls, 2);
    })
    .await;
}

#[tokio::test]
async fn a_reload_is_seen_and_so_is_one_that_is_refused() {
    within(async {
        let backend = Scripted::refusing(&["b"], "no", 3).await;
        let with = |more: &str| {
            configuration(&format!(
                "{more}backends:\n{}",
                configured("only", &backend, "filter: {timeout: 60s}")
            ))
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        fs::write(&file, with("")).unwrap();
        let program = Program::start(&file).await;
        assert_eq!(decisions(program.admin).await.log.max_bytes, 64 << 20);
        change(&program, &file, &with("decisions: {maxBytes: 1Mi}\n")).await;
        let status = once(program.admin, |status| status.configuration.generation == 2).await;
        assert_eq!(status.configuration.refused, None);
        // Not later: the wall clock may have been set back.
        assert_ne!(status.configuration.loaded, status.started);
        assert!(is_recent(status.configuration.loaded, &status), "{status:?}");
        assert_eq!(decisions(program.admin).await.log.max_bytes, 1 << 20);

        change(&program, &file, &with("decisions: {maxBytes: many}\n")).await;
        let status = once(program.admin, |status| status.configuration.refused.is_some()).await;
        assert_eq!(status.configuration.generation, 2, "the one before is in use");
        let refused = status.configuration.refused.unwrap();
        assert!(
            refused.message.contains("decisions.maxBytes") && refused.because == RejectedBecause::File,
            "{refused:?}"
        );
        let problem = status.problems.iter().find(|problem| problem.about == "the configuration").unwrap();
        assert!(problem.what.contains("decisions.maxBytes"), "{problem:?}");

        change(&program, &file, &with("decisions: {maxBytes: 1Mi}\n")).await;
        let status = once(program.admin, |status| status.configuration.refused.is_none()).await;
        assert_eq!(status.configuration.generation, 2, "it is what is in use");
        change(&program, &file, &with("decisions: {maxBytes: 0}\n")).await;
        once(program.admin, |status| status.log.max_bytes == 0).await;
        let mut client = Client::connect(program.extender).await;
        let answer = client.post("/filter", by_name(&["a", "b"]).as_bytes()).await.json();
        assert_eq!(answer["NodeNames"], serde_json::json!(["a"]), "calls go on without a log");
        assert_eq!(decisions(program.admin).await.items, []);
    })
    .await;
}

/// Writes the file and marks it as complete.
async fn change(program: &Program, file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    program.signal("HUP").await;
}

#[tokio::test]
async fn the_log_level_changes_while_it_runs_and_nothing_else_comes_into_the_log() {
    within(async {
        let backend = Scripted::refusing(&["b"], "no", 3).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        fs::write(
            &file,
            configuration(&format!("backends:\n{}", configured("only", &backend, "filter: {timeout: 60s}"))),
        )
        .unwrap();
        let program = Program::start(&file).await;
        let put = async |value: &str| {
            Client::connect(program.admin).await.send("PUT", "/debug/flags/v", value.as_bytes()).await
        };
        let refused = async |count| {
            Client::connect(program.extender).await.post("/made/up", b"").await;
            program.wrote("no verb in path /made/up", count).await;
        };
        assert_eq!(put("debug").await.status, 200);
        refused(1).await;
        let said = String::from_utf8(put("error").await.body).unwrap();
        assert!(said.starts_with("successfully set log level to error,extender_gateway=error"), "{said}");
        for value in ["loud", "", "a=b=c", "x\u{1b}[31m=loud", "debug\nforged line", "\u{1b}[2J"] {
            let answer = put(value).await;
            assert_eq!(answer.status, 400, "{value:?}");
            assert!(answer.json()["error"].as_str().unwrap().contains("is not a log level"), "{answer:?}");
        }
        let now = String::from_utf8(get(program.admin, "/debug/flags/v").await.body).unwrap();
        assert!(now.starts_with("error,extender_gateway=error"), "{now}");
        assert!(program.said("forged").is_empty() && program.said("\u{1b}").is_empty());
    })
    .await;
}
