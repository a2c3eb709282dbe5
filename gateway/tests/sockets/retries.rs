//! Calls that a backend has not processed are tried at another of its addresses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use extender_gateway_pace::cadences::Cadences;
use extender_policy_api::v1beta1::{self as api, Verb};
use prost::Message;
use serde_json::json;
use tokio::sync::watch;

use crate::{
    addresses::{Hosts, before, calls, connected, filter, resolving},
    hooks::{agrees, hooks},
    support::{
        Gateway,
        admin::Admin,
        backend::{Act, Scripted, filtered, info},
        in_full, node, pass, preempting,
        preempting::kept,
        reading, until,
    },
};

/// A backend that refuses every call before it is processed.
async fn refusing(has_side_effects: bool) -> Scripted {
    let mut info = info(reading::names());
    if has_side_effects {
        info.verbs[0].set_effects(api::Effects::ChangesOutside);
    }
    Scripted::start(info, |_, _| Act::Refuse).await
}

/// No pause ends.
fn patient() -> Cadences {
    Cadences { probe: Duration::from_hours(1), ..resolving() }
}

#[tokio::test]
async fn a_call_that_was_refused_before_it_was_processed_is_tried_once_at_another_address() {
    let (refuses, works) = (refusing(false).await, Scripted::refusing(&["a"], "no", 0).await);
    let (gateway, _) = before(&Hosts::of(&[&refuses, &works]), patient(), "filter: {}").await;
    for pod in 0..30 {
        assert_eq!(filter(&gateway, pod).await["NodeNames"], json!(["b"]));
    }
    // Then it is left out.
    assert_eq!((calls(&refuses), calls(&works)), (5, 30));
    gateway.until_counted("retries", r#"backend_retries_total{backend="racks",verb="filter"} 5"#).await;
}

/// The status is no reason to try the call again, but one to send the next ones elsewhere.
#[tokio::test]
async fn an_address_that_is_not_available_is_left_out_while_another_is() {
    let (away, works) =
        (Scripted::always(Act::Status(14, "not now")).await, Scripted::refusing(&["a"], "no", 0).await);
    let hosts = Hosts::of(&[&away, &works]);
    let (gateway, admin) = before(&hosts, patient(), "filter: {timeout: 30s, failurePolicy: Ignore}").await;
    let mut pod = 0;
    while calls(&away) < 5 {
        filter(&gateway, pod).await;
        pod += 1;
    }
    for pod in 0..20 {
        assert_eq!(filter(&gateway, pod).await["NodeNames"], json!(["b"]));
    }
    assert_eq!(calls(&away), 5);
    hosts.set(&[&away]);
    connected(admin, 1).await;
    filter(&gateway, 0).await;
    assert_eq!(calls(&away), 6, "it is called where there is no other");
}

#[tokio::test]
async fn one_retry_is_all_and_a_single_address_has_none() {
    let backends = [refusing(false).await, refusing(false).await];
    let (gateway, _) = before(&Hosts::of(&[&backends[0], &backends[1]]), resolving(), "filter: {}").await;
    let error = filter(&gateway, 0).await["Error"].as_str().unwrap().to_owned();
    assert!(error.contains("the stream was reset"), "{error}");
    assert_eq!((calls(&backends[0]), calls(&backends[1])), (1, 1));
    let (gateway, _) = before(&Hosts::of(&[&backends[0]]), resolving(), "filter: {}").await;
    filter(&gateway, 0).await;
    assert_eq!(calls(&backends[0]), 2);
    gateway.until_counted("no retry", r#"backend_retries_total{backend="racks",verb="filter"} 0"#).await;
}

#[tokio::test]
async fn a_call_that_may_have_been_processed_or_has_side_effects_is_not_tried_again() {
    for (act, side_effects) in [(Act::Reset, false), (Act::Status(14, "not now"), false), (Act::Refuse, true)]
    {
        let script = |act: Act| {
            let mut info = info(reading::names());
            if side_effects {
                info.verbs[0].set_effects(api::Effects::ChangesOutside);
            }
            Scripted::start(info, move |_, _| act.clone())
        };
        let backends = [script(act.clone()).await, script(act.clone()).await];
        let hosts = Hosts::of(&[&backends[0], &backends[1]]);
        let (gateway, _) = before(&hosts, resolving(), "filter: {}").await;
        for pod in 0..4 {
            assert_ne!(filter(&gateway, pod).await["Error"], "");
        }
        assert_eq!(calls(&backends[0]) + calls(&backends[1]), 4, "{act:?}");
    }
}

#[tokio::test]
async fn retries_are_a_share_of_the_calls() {
    let refusals = Arc::new(AtomicUsize::new(0));
    let (counted, asked) = (Arc::clone(&refusals), AtomicUsize::new(0));
    let moody = Scripted::start(info(reading::names()), move |_, message| {
        // After five refusals in a row it would be left out.
        if asked.fetch_add(1, Ordering::Relaxed) % 5 == 4 {
            return Act::Message(filtered(&message, &["a"], "no").encode_to_vec());
        }
        counted.fetch_add(1, Ordering::Relaxed);
        Act::Refuse
    })
    .await;
    let works = Scripted::refusing(&["a"], "no", 0).await;
    let (gateway, _) = before(&Hosts::of(&[&moody, &works]), patient(), "filter: {}").await;
    let mut pods = 0;
    while filter(&gateway, pods).await["Error"] == "" {
        pods += 1;
        assert!(pods < 1_000, "every refusal is followed by a retry");
    }
    // All but the last one were tried again. The reserve of ten comes first.
    let retries = refusals.load(Ordering::Relaxed) - 1;
    assert!((10..=10 + (pods as usize).div_ceil(5)).contains(&retries), "{retries} of {pods}");
}

/// The other address needs facts about a node for which the call waits.
#[tokio::test]
async fn the_wait_for_nodes_before_a_retry_is_a_part_of_its_time() {
    let refuses = Scripted::start(preempting::info(reading::names()), |_, _| Act::Refuse).await;
    let answers = preempting::keeping(reading::facts(), vec![kept(0, &[0, 1])]).await;
    let cadences = Cadences { unknown_nodes: Duration::from_millis(200), ..patient() };
    let sources = "nodes: {source: Watch}\npods: {source: None}\ntimeouts: {decision: 60s}";
    let racks = "- {name: racks, url: 'http://racks.test:9000', preempt: {timeout: 30s}}";
    let hosts = Hosts::of(&[&refuses, &answers]);
    let gateway =
        Gateway::start_resolving(&format!("{sources}\nbackends:\n{racks}\n"), cadences, hosts).await;
    connected(Admin::of(&gateway).await, 2).await;
    assert!(gateway.table.apply(node("n1").to_string().as_bytes()).unwrap());
    let mut pod = 0;
    // The others begin at the address that answers.
    while refuses.messages("Preempt").is_empty() {
        pod += 1;
        // A node is waited for once.
        let body = preempting::call().replace("u-1", &format!("u-{pod}")).replace("n2", &format!("n2-{pod}"));
        assert_eq!(gateway.post("/preempt", body).await.status, 200);
    }
    let told = answers.metadata("Preempt", "grpc-timeout").pop().unwrap();
    let micros: u64 = told.trim_end_matches('u').parse().unwrap();
    assert!(micros <= 29_800_000, "{micros}");
}

/// Ten of thirty seconds after the first address was called it refuses the call.
#[tokio::test]
async fn all_tries_of_a_call_have_one_deadline() {
    for (method, field, path) in [
        ("Filter", "filter", "/filter"),
        ("Preempt", "preempt", "/preempt"),
        ("BeforeFilter", "beforeFilter", "/filter"),
        ("BeforeFilterNodes", "beforeFilterNodes", "/filter"),
        ("BeforeScore", "beforeScore", "/prioritize"),
    ] {
        let (refuse, refuses) = watch::channel(false);
        let first = Arc::new(AtomicUsize::new(0));
        let address = || {
            let (first, refuses) = (Arc::clone(&first), refuses.clone());
            let info = match method {
                "Preempt" => preempting::info(reading::names()),
                _ => hooks(&[Verb::BeforeFilter, Verb::BeforeFilterNodes, Verb::BeforeScore]),
            };
            Scripted::start(info, move |verb, message| match verb {
                _ if first.fetch_add(1, Ordering::Relaxed) == 0 => {
                    Act::Later(refuses.clone(), Box::new(Act::Refuse))
                }
                "Preempt" => preempting::answer(&message, vec![kept(0, &[0, 1]), kept(1, &[0])]),
                _ => agrees(verb, &message),
            })
        };
        let backends = [address().await, address().await];
        let hosts = Hosts::of(&backends.each_ref());
        let (gateway, _) = before(&hosts, patient(), &format!("{field}: {{timeout: 30s}}")).await;
        let body = if method == "Preempt" { preempting::call() } else { in_full(&["a"]) };
        let passes = async {
            until("the first address is called", || first.load(Ordering::Relaxed) > 0).await;
            pass(Duration::from_secs(10)).await;
            refuse.send(true).unwrap();
        };
        let (answer, ()) = tokio::join!(gateway.post(path, body), passes);
        assert_eq!(answer.status, 200, "{method}");
        let told = backends.iter().flat_map(|backend| backend.metadata(method, "grpc-timeout"));
        let told: Vec<u64> = told.map(|text| text.trim_end_matches('u').parse().unwrap()).collect();
        let late = told.iter().filter(|micros| **micros <= 20_000_000).count();
        assert_eq!((told.len(), late), (2, 1), "{method}: {told:?}");
    }
}
