//! Every way in which a backend can fail × verb × failure policy: generated, on real sockets.

mod binds;
mod failures;
mod metadata;
mod nodes;
mod verbs;

use std::{net::SocketAddr, sync::LazyLock};

use crate::support::{
    ClosedPort, Gateway,
    backend::{Act, Scripted, info},
    by_name, eager, reading, until,
};
use extender_gateway_pace::cadences::Cadences;
use extender_policy_api::v1beta1::{FilterResponse, Result as Evaluated, Verb as Declared, VerbInfo};
use futures_util::{
    FutureExt,
    future::{LocalBoxFuture, join_all},
};
use prost::Message;
use serde_json::json;
use tokio::{runtime, time::Duration};

use self::{
    failures::{Fault, Script, faults},
    verbs::{ABOUT_NODES, Verb},
};

/// Cases that run at the same time: each has a gateway and its backends, with a dozen sockets.
const AT_ONCE: usize = 32;

type Case<'f> = LocalBoxFuture<'f, ()>;

/// A backend that serves all verbs by this script.
async fn start(script: impl Fn(&str) -> Act + Send + Sync + 'static) -> Scripted {
    let mut served = info(reading::names());
    for (verb, reads) in [(Declared::Preempt, reading::names()), (Declared::Bind, reading::pods())] {
        served.verbs.push(VerbInfo { verb: verb as i32, reads: Some(reads), ..served.verbs[0].clone() });
    }
    Scripted::start(served, move |verb, _| script(verb)).await
}

/// An address without a listener, for all cases.
fn closed_port() -> SocketAddr {
    static CLOSED: LazyLock<ClosedPort> = LazyLock::new(ClosedPort::new);
    CLOSED.address
}

/// A backend that does `first` with every call, and then fails in this way.
async fn failing(fault: &Fault, verb: Verb, first: impl Fn() + Send + Sync + 'static) -> SocketAddr {
    let backend = match fault.script.clone() {
        Script::ClosedPort => return closed_port(),
        Script::Greets(act) => {
            let answer = move |verb_called: &str, _| match verb_called {
                "GetInfo" => act.clone(),
                _ => Act::Message(verb.answer(2)),
            };
            return Scripted::start_bare(answer, None).await.address;
        }
        Script::Does(does) => does(verb),
        Script::Status(code) => Act::Status(code, "no, %"),
    };
    let script = move |_: &str| {
        first();
        backend.clone()
    };
    start(script).await.address
}

/// Waits until the failure is counted, which happens after the response.
async fn counted(gateway: &Gateway, fault: &Fault, verb: Verb, case: &str) {
    let counted = format!(
        "extender_gateway_backend_failures_total{{backend=\"bad\",verb=\"{}\",kind=\"{}\",",
        verb.block(),
        fault.kind
    );
    gateway.until_counted(case, &counted).await;
}

/// Runs cases in batches, each batch on its own runtime, which closes their sockets.
fn run(cases: Vec<Case<'_>>) {
    println!("{} cases", cases.len());
    let mut cases = cases.into_iter();
    while cases.len() > 0 {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(join_all(cases.by_ref().take(AT_ONCE)));
    }
}

#[test]
fn every_failure_of_a_verb_about_nodes_is_decided_by_its_policy() {
    let faults = faults();
    let mut cases: Vec<Case<'_>> = Vec::new();
    for verb in ABOUT_NODES {
        for fault in faults.iter().filter(|fault| fault.verbs.contains(verb)) {
            let policies = verb.policies().iter();
            cases.extend(policies.map(|policy| nodes::check(fault, *verb, policy).boxed_local()));
        }
    }
    run(cases);
}

#[test]
fn every_failure_of_a_bind_is_decided_by_the_truth_and_then_by_its_policy() {
    let faults = faults();
    let mut cases: Vec<Case<'_>> = Vec::new();
    for fault in faults.iter().filter(|fault| fault.verbs.contains(&Verb::Bind)) {
        let situations = binds::situations().filter(|situation| situation.can_be(fault));
        cases.extend(situations.map(|situation| binds::check(fault, situation).boxed_local()));
    }
    run(cases);
}

#[tokio::test]
async fn an_answer_of_another_revision_counts_and_brings_a_new_handshake() {
    let revised = |verb: &str| {
        let result = Some(Evaluated::answered(2, "r2"));
        assert_eq!(verb, "Filter");
        Act::Message(FilterResponse { result, ..FilterResponse::default() }.encode_to_vec())
    };
    let backend = start(revised).await;
    let rest = format!(
        "nodes: {{source: Request}}\nbackends: [{{name: only, url: 'http://{}', filter: {{}}}}]\n",
        backend.address
    );
    // No unrequested handshakes.
    let cadences = Cadences { refresh: Duration::from_hours(1), ..eager() };
    let gateway = Gateway::start_paced(&rest, cadences).await;
    let handshakes = || backend.messages("GetInfo").len();
    for _ in 0..10 {
        let before = handshakes();
        let answer = gateway.post("/filter", by_name(&["a", "b"])).await;
        assert_eq!(answer.json()["NodeNames"], json!(["a", "b"]));
        until("no handshake", || handshakes() > before).await;
    }
}
