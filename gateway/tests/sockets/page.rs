//! The page at the admin address, and the overviews that it reads.

use extender_gateway_api::{BackendHistory, History, HistoryBucket, PodList};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{
    admin::Seen,
    backend::{Scripted, configured},
    until,
};

/// Calls that `real` and `shadow` filter: of two nodes each rejects one, but not the same one.
struct Started {
    seen: Seen,
    _backends: [Scripted; 2],
}

async fn start() -> Started {
    let backends = [Scripted::refusing(&["b"], "no", 3).await, Scripted::refusing(&["a"], "<b>no", 3).await];
    let settings = "filter: {timeout: 60s}, score: {timeout: 60s}";
    let configured = configured("real", &backends[0], settings)
        + &configured("shadow", &backends[1], &format!("mode: Shadow, {settings}"));
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{configured}")).await;
    Started { seen, _backends: backends }
}

impl Started {
    async fn json(&self, path: &str) -> Value {
        let answer = self.seen.admin.send("GET", path, "").await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// Filters for a pod, and waits for the call in the log and for the shadow.
    async fn filter(&self, pod: &str, count: u64) {
        let owner = json!([{"kind": "ReplicaSet", "name": pod.split('-').next(), "controller": true}]);
        let metadata =
            json!({"name": pod, "namespace": "shop", "uid": format!("uid-{pod}"), "ownerReferences": owner});
        let pod = json!({"metadata": metadata});
        let body = json!({"Pod": pod, "Nodes": null, "NodeNames": ["a", "b"]}).to_string();
        self.seen.gateway.post("/filter", body).await;
        self.seen.settled(count).await;
        let log = &self.seen.gateway.observer.decisions;
        let wanted = extender_gateway_observe::Query { limit: Some(1), ..Default::default() };
        until("the shadow does not answer", || log.find(&wanted).0[0].backends.len() == 2).await;
    }
}

/// What the gateway sends until it closes the connection.
async fn raw(seen: &Seen, request: &str) -> String {
    let mut stream = TcpStream::connect(seen.admin.0).await.unwrap();
    stream
        .write_all(format!("{request}\r\nHost: gateway\r\nConnection: close\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn nothing_but_the_page_itself_runs_in_it() {
    let Started { seen, .. } = start().await;
    let answer = seen.admin.send("GET", "/", "").await;
    assert_eq!(answer.status, 200);
    for (name, value) in [
        ("content-type", "text/html; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    let policy = answer.header("content-security-policy").unwrap();
    let nonce = policy.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    let expected = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    assert_eq!((policy, nonce.len()), (expected.as_str(), 32));
    let page = std::str::from_utf8(&answer.body).unwrap();
    assert_eq!(page.matches(&format!(" nonce=\"{nonce}\">")).count(), 2, "style and script");
    let again = seen.admin.send("GET", "/", "").await;
    assert!(!again.header("content-security-policy").unwrap().contains(nonce), "each response has its own");
}

#[tokio::test]
async fn the_page_has_no_external_part_and_writes_no_markup() {
    let Started { seen, .. } = start().await;
    let answer = seen.admin.send("GET", "/", "").await;
    let page = std::str::from_utf8(&answer.body).unwrap();
    let page = page.replace("'http://www.w3.org/2000/svg'", "");
    for part in [
        "http:",
        "https:",
        "src=",
        "@import",
        "url(",
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "style=",
        "onclick",
        "NONCE",
    ] {
        assert!(!page.contains(part), "{part}");
    }
}

#[tokio::test]
async fn other_methods_and_web_pages_get_what_they_get_elsewhere() {
    let Started { seen, .. } = start().await;
    let head = raw(&seen, "HEAD / HTTP/1.1").await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    let answer = seen.admin.send("POST", "/", "").await;
    assert_eq!((answer.status, &answer.json()["error"]), (405, &json!("method POST not allowed at /")));
    assert_eq!(seen.admin.refused("/index.html").await.0, 404);
    let answer = raw(&seen, "GET / HTTP/1.1\r\nOrigin: http://evil.example").await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

#[tokio::test]
async fn pods_are_found_by_a_part_of_their_name() {
    let started = start().await;
    for (count, pod) in [(1, "web-0"), (2, "web-1"), (3, "db-0"), (4, "web-0")] {
        started.filter(pod, count).await;
    }
    let names = async |query: &str| {
        let list: PodList =
            serde_json::from_value(started.json(&format!("/debug/pods{query}")).await).unwrap();
        let names: Vec<String> = list.items.iter().map(|item| item.pod.name.clone()).collect();
        (names.join(" "), list.truncated)
    };
    for (query, expected, truncated) in [
        ("", "web-0 db-0 web-1", false),
        ("?search=web", "web-0 web-1", false),
        ("?search=shop/web-1", "web-1", false),
        ("?search=op%2Fdb", "db-0", false),
        ("?search=mill", "", false),
        ("?search=web&limit=1", "web-0", true),
    ] {
        assert_eq!(names(query).await, (expected.to_owned(), truncated), "{query}");
    }
    let item = &started.json("/debug/pods?limit=1").await["items"][0];
    let shown = [&item["calls"], &item["verb"], &item["offered"], &item["left"], &item["waits"]];
    assert_eq!(shown, [&json!(2), &json!("filter"), &json!(2), &json!(1), &json!(false)]);
    assert_eq!(started.seen.admin.refused("/debug/pods?limit=-1").await.0, 400);
}

#[tokio::test]
async fn the_answers_of_each_backend_over_time_are_summed() {
    let started = start().await;
    for (count, pod) in [(1, "web-0"), (2, "web-1")] {
        started.filter(pod, count).await;
    }
    let history: History =
        serde_json::from_value(started.json("/debug/history?seconds=86400").await).unwrap();
    assert_eq!((history.bucket_seconds, history.log.calls), (1440.0, 2));
    let sum = |BackendHistory { buckets, .. }: &BackendHistory| {
        assert_eq!(buckets.len(), 60);
        buckets.iter().fold(HistoryBucket::default(), |sum, bucket| HistoryBucket {
            answers: sum.answers + bucket.answers,
            nodes: sum.nodes + bucket.nodes,
            rejected: sum.rejected + bucket.rejected,
            disagreed: sum.disagreed + bucket.disagreed,
            failed: sum.failed + bucket.failed,
            agreed: sum.agreed + bucket.agreed,
            p99_seconds: bucket.p99_seconds.or(sum.p99_seconds),
        })
    };
    let [real, shadow] = &history.backends[..] else { panic!("{history:?}") };
    assert_eq!([&real.name, &real.mode, &shadow.name, &shadow.mode], ["real", "Enforce", "shadow", "Shadow"]);
    let expected = HistoryBucket { answers: 2, nodes: 4, rejected: 2, ..HistoryBucket::default() };
    let took = sum(real).p99_seconds;
    assert!(took.is_some_and(|took| took > 0.0), "{real:?}");
    assert_eq!(sum(real), HistoryBucket { p99_seconds: took, ..expected });
    // It is asked about what is offered, and rejects the node that is left.
    assert_eq!((sum(shadow).answers, sum(shadow).rejected, sum(shadow).disagreed), (2, 2, 2));
    let [filter] = &history.verbs[..] else { panic!("{history:?}") };
    assert_eq!((&*filter.verb, filter.buckets.len()), ("filter", 60));
    let calls: u64 = filter.buckets.iter().map(|bucket| bucket.calls).sum();
    assert_eq!((calls, filter.buckets.iter().any(|bucket| bucket.failed > 0)), (2, false));
    let timed = filter.buckets.iter().filter(|bucket| bucket.calls > 0);
    assert!(
        timed
            .clone()
            .all(|bucket| bucket.median_seconds > Some(0.0) && bucket.p99_seconds >= bucket.median_seconds),
        "{filter:?}"
    );
    for seconds in ["59", "2592001", "x"] {
        assert_eq!(started.seen.admin.refused(&format!("/debug/history?seconds={seconds}")).await.0, 400);
    }
}

#[tokio::test]
async fn a_pod_is_explained_as_by_the_command() {
    let started = start().await;
    started.filter("web-0", 1).await;
    started.filter("web-0", 2).await;
    let path = "/debug/explain?namespace=shop&pod=web-0";
    let explained = started.json(path).await;
    assert_eq!([&explained["kind"], &explained["pod"]["state"]], ["Explanation", "NotAsked"]);
    assert_eq!(explained["summary"][2], "Latest attempt: 2 nodes were offered, 1 left, 1 rejected.");
    assert!(
        explained["notes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|note| note.as_str().unwrap().starts_with("One feasible node"))
    );
    let nodes = |explained: &Value| -> Vec<usize> {
        let attempts = explained["attempts"].as_array().unwrap();
        attempts.iter().map(|attempt| attempt["calls"][0]["nodes"].as_array().unwrap().len()).collect()
    };
    assert_eq!(nodes(&explained), [2, 0], "only the latest attempt has its nodes");
    let first = explained["attempts"][1]["calls"][0]["id"].as_str().unwrap();
    assert_eq!(nodes(&started.json(&format!("{path}&call={first}")).await), [2, 2]);
    assert_eq!(nodes(&started.json(&format!("{path}&call=unknown")).await), [2, 0]);
    let unknown = started.json("/debug/explain?namespace=shop&pod=web-9").await;
    assert_eq!((&unknown["attempts"], unknown.get("uid")), (&json!([]), None));
    for query in ["", "?pod=web-0", "?namespace=shop", "?namespace=shop&pod=web-0&nodes=all"] {
        assert_eq!(started.seen.admin.refused(&format!("/debug/explain{query}")).await.0, 400, "{query}");
    }
}
