//! The log stores the backends' answers and computes the result again: it must equal the response.

use std::cell::Cell;

use bytes::Bytes;
use extender_policy_api::v1beta1::{FilterResponse, GetInfoResponse, Normalization, Rejection, Scope, Verb};
use proptest::{
    prelude::*,
    test_runner::{Config, TestCaseError, TestRunner},
};
use prost::Message;
use serde_json::json;
use tokio::{runtime, time::timeout};

use super::{of_pod, rejections, totals};
use crate::support::{
    TEST_TIMEOUT,
    admin::Seen,
    backend::{Act, Scripted, configured, info, names, result, scored},
    http::Client,
    reading,
};

/// The number of backends. The second one is called after the first; the third may fail, and is ignored then.
const BACKENDS: usize = 3;
const REASONS: [&str; 4] = ["in drain", "100% full", "two\nlines", ""];
/// The backends' answers about a node: by which reason each of them refuses it, and their scores.
type Script = ([Option<usize>; BACKENDS], [i32; BACKENDS]);

/// A name that contains the backends' answers: `n0.r-1.2.3.s5.-7.9.f`.
fn name(at: usize, (refused, scores): &Script, fails: bool) -> String {
    let refused = refused.map(|reason| reason.map_or("-".to_owned(), |at| at.to_string())).join(".");
    let scores = scores.map(|score| score.to_string()).join(".");
    format!("{at}.{refused}.{scores}.{}", if fails { "fails" } else { "answers" })
}

fn word(name: &str, at: usize) -> &str {
    name.split('.').nth(at).unwrap()
}

fn does(backend: usize, verb: &str, message: &Bytes) -> Act {
    let names = names(message);
    if backend == 2 && names.iter().any(|name| word(name, 7) == "fails") {
        return Act::Status(13, "broken");
    }
    if verb == "Score" {
        let score = |name: &str| word(name, 4 + backend).parse().unwrap();
        return Act::Message(scored(message, score).encode_to_vec());
    }
    let refused = |(at, name): (u32, &String)| {
        let reason = REASONS[word(name, 1 + backend).parse::<usize>().ok()?];
        Some(Rejection { reason: reason.to_owned(), positions: vec![at], ..Rejection::default() })
    };
    let rejections = (0..).zip(&names).filter_map(refused).collect();
    let response = FilterResponse { result: Some(result(names.len())), rejections, scores: None };
    Act::Message(response.encode_to_vec())
}

fn introduced(backend: usize) -> GetInfoResponse {
    let mut info = info(reading::names());
    for verb in &mut info.verbs {
        if verb.verb() == Verb::Filter {
            verb.scope = if backend == 1 { Scope::WholeSet } else { Scope::Node } as i32;
        } else {
            let (normalization, reversed, most) = [
                (Normalization::None, false, 10),
                (Normalization::MinMax, false, 90),
                (Normalization::Max, true, 90),
            ][backend];
            (verb.normalization, verb.reversed) = (normalization as i32, reversed);
            (verb.score_min, verb.score_max) = (Some(0), Some(most));
        }
    }
    info
}

async fn start() -> (Vec<Scripted>, Seen) {
    let (mut backends, mut configuration) = (Vec::new(), String::new());
    for at in 0..BACKENDS {
        let backend = Scripted::start(introduced(at), move |verb, message| does(at, verb, &message)).await;
        let policy = if at == 2 { ", failurePolicy: Ignore" } else { "" };
        let settings =
            format!("filter: {{timeout: 60s{policy}}}, score: {{timeout: 60s, weight: {}}}", 3 * at + 1);
        configuration += &configured(&format!("b{at}"), &backend, &settings);
        backends.push(backend);
    }
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{configuration}")).await;
    (backends, seen)
}

/// One pod's two calls about these nodes, and their entries in the log.
async fn check(seen: &Seen, number: u64, names: &[String]) -> Result<(), TestCaseError> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let body = of_pod(&number.to_string(), &names);
    let mut client = Client::connect(seen.gateway.address).await;
    let filtered = client.post("/filter", body.as_bytes()).await.json();
    let prioritized = client.post("/prioritize", body.as_bytes()).await.json();
    seen.settled(2 * number).await;
    let list = seen.admin.decisions(&format!("?uid={number}")).await;
    let [scored, call] = &list.items[..] else { panic!("two calls: {list:?}") };

    let (told, logged) = rejections(&filtered, call);
    prop_assert_eq!(logged, told);
    let left = call.nodes.iter().filter(|node| node.rejected_by.is_none());
    let left: Vec<&str> = left.map(|node| node.name.as_str()).collect();
    prop_assert_eq!(&json!(left), &filtered["NodeNames"]);
    prop_assert_eq!(call.left.map(|count| count as usize), Some(left.len()));
    let (told, logged) = totals(&prioritized, scored);
    prop_assert_eq!(logged, told);
    for node in &scored.nodes {
        // Each share is an exact fraction in the sum and a float here.
        let shares: f64 = node.backends.values().filter_map(|said| said.weighted).sum();
        #[expect(clippy::cast_precision_loss, reason = "it is small")]
        let total = node.total.unwrap() as f64;
        prop_assert!((shares - total).abs() <= 0.5 + 1e-9, "{} is not about {}", shares, total);
    }
    Ok(())
}

fn script() -> impl Strategy<Value = Script> {
    let refused = prop::option::weighted(0.3, 0..REASONS.len());
    (prop::array::uniform3(refused), prop::array::uniform3(-20..120))
}

#[test]
fn what_the_log_works_out_is_what_was_answered() {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (_backends, seen) = runtime.block_on(start());
    let mut runner = TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() });
    let strategy = (prop::collection::vec(script(), 1..12), any::<bool>());
    let count = Cell::new(0);
    let checked = runner.run(&strategy, |(nodes, fails)| {
        count.set(count.get() + 1);
        let names: Vec<String> = (0..).zip(&nodes).map(|(at, node)| name(at, node, fails)).collect();
        let check = async { timeout(TEST_TIMEOUT, check(&seen, count.get(), &names)).await };
        runtime.block_on(check).expect("calls and the log answer")
    });
    checked.unwrap_or_else(|counterexample| panic!("{counterexample}"));
}
