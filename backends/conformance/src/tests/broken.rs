//! The suite's own test: each case passes with a backend that keeps the rules, and fails with one that breaks the rule
//! that the case is about. The first is a policy on the SDK, the second the same behind a [`proxy`] with a [`faults`].

mod changes;
mod faults;
mod hooks;
mod outcomes;
mod proxy;
mod runs;
mod streams;
mod subjects;
mod wrong;

use std::{collections::BTreeSet, time::Duration};

use clap::Parser as _;
use conformance_report::{Finding, Outcome};
use extender_policy_api::v1beta1 as api;
use futures_util::{StreamExt as _, stream};

pub(crate) use self::subjects::Subject;
use self::{
    faults::fault,
    proxy::{Envelope, Fault, Proxy},
};
use crate::{Case, Options, Suite, begin, case::Stop, cases, client::Client, trail::Trail};

/// The case that waits for the end of a connection.
const SILENT: &str = "service.silent";

/// How many backends are checked at once: most of the time, a suite waits for answers that are late on purpose.
const SIDE_BY_SIDE: usize = 8;

/// What these return, several of them side by side.
async fn side_by_side<F: Future>(asked: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    stream::iter(asked).buffer_unordered(SIDE_BY_SIDE).collect().await
}

/// A suite for a subject behind a proxy with this fault.
async fn suite(subject: Subject, fault: Fault, seconds: u64) -> (Suite, Proxy) {
    let replica = subject.serve().await;
    let proxy = Proxy::start(replica, fault).await;
    let url = format!("http://{}", proxy.address());
    let seconds = seconds.to_string();
    let arguments =
        ["policy-conformance", "--endpoint", &url, "--bind", "shop/web/uid/node", "--timeout", &seconds];
    let mut options = Options::try_parse_from(arguments).unwrap();
    options.asking.replica = Some(format!("http://{replica}"));
    options.asking.args = subject.args().map(str::to_owned);
    options.asking.other_args = subject.args().map(|_| r#"{"zone": "b"}"#.to_owned());
    (begin(options.target().unwrap()).await.unwrap(), proxy)
}

/// Failures with the texts that authors read.
fn not_passed(findings: &[Finding]) -> Vec<String> {
    let texts = findings.iter().filter_map(|finding| match &finding.outcome {
        Outcome::Failed(text) | Outcome::Warned(text) => Some(format!("{}: {text}", finding.case.name())),
        Outcome::Passed | Outcome::Skipped(_) => None,
    });
    texts.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backends_that_keep_the_rules_pass_and_together_skip_nothing() {
    let ran = Subject::ALL.into_iter().map(async |subject| {
        let (suite, _proxy) = suite(subject, Fault::none(), 60).await;
        let (silent, others): (Vec<_>, Vec<_>) =
            cases::all().into_iter().partition(|case| case.name() == SILENT);
        let mut findings = Vec::new();
        // Meanwhile, the connection on which nothing comes is closed.
        for case in others.iter().chain(&silent) {
            findings.push(case.run(&suite).await);
        }
        (subject, findings)
    });
    let mut passed = BTreeSet::new();
    for (subject, findings) in side_by_side(ran).await {
        assert_eq!(not_passed(&findings), <[String; 0]>::default(), "{subject:?}");
        let ended_well = findings.into_iter().filter(|finding| finding.outcome == Outcome::Passed);
        passed.extend(ended_well.map(|finding| finding.case.name().to_owned()));
    }
    let all: BTreeSet<_> = cases::all().iter().map(|case| case.name().to_owned()).collect();
    let skipped: Vec<_> = all.difference(&passed).collect();
    assert!(skipped.is_empty(), "no backend passes {skipped:?}");
}

/// Judged by times, which a busy machine may hide: such a case rather passes.
const TIMED: [&str; 4] = ["time", "dead-calls", "meanwhile", "behind"];

/// How often a backend is asked that such a case does not notice.
const TRIES: usize = 5;

fn is_timed(case: &Case) -> bool {
    TIMED.iter().any(|name| case.name().ends_with(&format!(".{name}")))
}

async fn seen_failing(case: &Case) -> Result<(), String> {
    let mut noticed = Ok(());
    for _ in 0..TRIES {
        noticed = seen_failing_once(case).await;
        if noticed.is_ok() {
            break;
        }
    }
    noticed
}

async fn seen_failing_once(case: &Case) -> Result<(), String> {
    let (subject, fault) = fault(case.name());
    // Cases that wait for a backend to forget would wait that long.
    let seconds = if fault.forgets_late() { 1 } else { 60 };
    let (suite, _proxy) = suite(subject, fault, seconds).await;
    match case.run(&suite).await.outcome {
        Outcome::Failed(_) | Outcome::Warned(_) => Ok(()),
        other => Err(format!("{}: {other:?}", case.name())),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_case_is_seen_failing() {
    let (timed, others): (Vec<_>, Vec<_>) = cases::all().into_iter().partition(is_timed);
    let mut wrong: Vec<_> = side_by_side(others.iter().map(seen_failing_once)).await;
    for case in &timed {
        wrong.push(seen_failing(case).await);
    }
    let wrong: Vec<_> = wrong.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "these do not notice a backend that breaks their rule:\n{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backends_that_are_nearly_always_right_are_seen_failing() {
    let all = cases::all();
    let asked = wrong::all().into_iter().map(async |(case, by, subject, fault)| {
        let (suite, _proxy) = suite(subject, fault, 60).await;
        let case = all.iter().find(|known| known.name() == case).unwrap();
        match case.run(&suite).await.outcome {
            Outcome::Failed(_) | Outcome::Warned(_) => None,
            other => Some(format!("{}, wrong by {by:?}: {other:?}", case.name())),
        }
    });
    let unnoticed: Vec<_> = side_by_side(asked).await.into_iter().flatten().collect();
    assert!(unnoticed.is_empty(), "unnoticed:\n{}", unnoticed.join("\n"));
}

#[tokio::test]
async fn a_refusal_that_does_not_name_the_field_fails() {
    let silent = changes::after(|_, _, answered| answered.map_err(|status| proxy::status(status.code())));
    let (suite, _proxy) = suite(Subject::Reading, silent, 60).await;
    for (name, field) in [
        ("filter.no-pod", "pod"),
        ("filter.no-nodes", "nodes"),
        ("filter.no-facts", "facts"),
        ("filter.count", "count"),
        ("filter.zero-nodes", "nodes"),
        ("filter.row-without-facts", "facts"),
        ("outcomes.invalid", "call"),
    ] {
        let case = cases::all().into_iter().find(|case| case.name() == name).unwrap();
        let outcome = case.run(&suite).await.outcome;
        let expected = format!("it does not name `{field}`");
        assert!(
            matches!(&outcome, Outcome::Failed(text) if text.ends_with(&expected)),
            "{name}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn responses_that_are_no_unary_ones_of_grpc_fail() {
    for (envelope, text) in [
        (Envelope::Empty, "a response without a message"),
        (Envelope::Twice, "a response with more than one message"),
        (Envelope::Web, "content-type is Some(\"application/grpc-web\"); expected application/grpc"),
    ] {
        let replica = Subject::Reading.serve().await;
        let proxy = Proxy::start(replica, Fault { envelope, ..Fault::none() }).await;
        let endpoint = format!("http://{}", proxy.address()).parse().unwrap();
        let client = Client::connect(&endpoint, Duration::from_mins(1), Trail::default()).await.unwrap();
        let args = Subject::Reading.args().unwrap_or_default().as_bytes().into();
        let answered = client.info(&api::GetInfoRequest { args, ..api::GetInfoRequest::default() }).await;
        let expected = format!("/extender.policy.v1beta1.PolicyService/GetInfo: {text}");
        assert_eq!(answered.unwrap_err(), Stop::Failed(expected));
    }
}
