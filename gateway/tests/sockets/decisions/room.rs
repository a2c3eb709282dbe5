//! A log with little memory, or none.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use extender_gateway_observe::{Metrics, Observer};
use tokio::{task::yield_now, time::timeout};

use super::of_pod;
use crate::support::{
    Gateway,
    admin::Seen,
    backend::{Scripted, configured},
    configuration,
    http::Client,
};

/// Enough for some tens of calls.
const LITTLE: usize = 32 << 10;

/// A gateway whose log may take this many bytes. Its backend refuses node `full`.
async fn start(most: usize) -> (Scripted, Seen) {
    let backend = Scripted::refusing(&["full"], "no", 0).await;
    let only = configured("only", &backend, "filter: {timeout: 60s}");
    let rest = format!("timeouts: {{decision: 60s}}\nnodes: {{source: NamesOnly}}\nbackends:\n{only}");
    let observer = Observer::new(Arc::new(Metrics::new()), most);
    let gateway = Gateway::start_seen(configuration("", &rest), observer).await;
    (backend, Seen::with(gateway).await)
}

#[tokio::test]
async fn a_full_log_keeps_the_newest_and_those_that_wait_and_calls_go_on() {
    let (_backend, seen) = start(LITTLE).await;
    let mut client = Client::connect(seen.gateway.address).await;
    client.post("/filter", of_pod("waiting", &["full"]).as_bytes()).await;
    for number in 0..500 {
        let answer = client.post("/filter", of_pod(&number.to_string(), &["a", "full"]).as_bytes()).await;
        assert_eq!(answer.json()["NodeNames"], serde_json::json!(["a"]), "{number}");
    }
    let latest = async { while seen.admin.decisions("?uid=499").await.items.is_empty() {} };
    timeout(Duration::from_mins(1), latest).await.unwrap();
    let list = seen.admin.decisions("?limit=1000").await;
    assert!(list.log.bytes <= list.log.max_bytes && list.log.max_bytes == LITTLE as u64, "{:?}", list.log);
    assert_eq!(list.log.calls + list.log.evicted, 501, "{:?}", list.log);
    assert_eq!(list.items.len() as u64, list.log.calls);
    let uids: Vec<&str> = list.items.iter().map(|call| call.pod.uid.as_str()).collect();
    assert_eq!(uids.last(), Some(&"waiting"), "it found no node: {uids:?}");
    let newest = list.items.len() - 1;
    // They are listed by the time of the wall clock, which may be set back between two calls.
    let kept: BTreeSet<String> = uids[..newest].iter().map(|&uid| uid.to_owned()).collect();
    let expected: BTreeSet<String> = (0..500).rev().take(newest).map(|number| number.to_string()).collect();
    assert!(newest > 5 && kept == expected, "{uids:?}");
    assert_eq!(list.log.oldest, list.items.last().map(|call| call.time));
    let evicted = format!("extender_gateway_decision_log_evictions_total {}\n", list.log.evicted);
    let metrics = seen.gateway.metrics.text();
    assert!(metrics.contains(&evicted), "{evicted}{metrics}");
}

#[tokio::test]
async fn a_log_that_is_switched_off_is_empty_and_says_so() {
    let (_backend, seen) = start(0).await;
    seen.gateway.post("/filter", of_pod("1", &["a"])).await;
    // The metric that is counted before the log is written.
    let counted = "calls_total{verb=\"filter\",outcome=\"ok\"} 1\n";
    seen.gateway.until_counted("the call", counted).await;
    yield_now().await;
    let list = seen.admin.decisions("").await;
    assert_eq!((list.log.max_bytes, list.log.bytes, list.log.calls, list.items.len()), (0, 0, 0, 0));
}

#[tokio::test]
async fn a_log_that_shrinks_lets_the_oldest_go_and_grows_again() {
    let (_backend, seen) = start(1 << 20).await;
    for number in 0..40 {
        seen.gateway.post("/filter", of_pod(&number.to_string(), &["a"])).await;
    }
    assert_eq!(seen.calls(40).await.len(), 40);
    let log = &seen.gateway.observer.decisions;
    log.resize(4 << 10);
    let state = log.state();
    assert!(state.evicted > 0);
    assert!(state.bytes <= 4 << 10 && (1..40).contains(&state.calls), "{state:?}");
    assert_eq!(seen.call(1).await.pod.uid, "39");
    log.resize(1 << 20);
    assert_eq!(log.state().evicted, state.evicted);
    seen.gateway.post("/filter", of_pod("40", &["a"])).await;
    assert_eq!(seen.call(state.calls + 1).await.pod.uid, "40");
}
