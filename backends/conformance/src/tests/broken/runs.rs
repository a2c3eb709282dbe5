//! Whole runs: one mistake is one failure, and what ends a run early.

use tonic::Code;

use super::{
    changes::{Sent, VerbAnswer, answers, before, is_labeled, is_verb, pauses_for, refuses, sent},
    proxy::{Fault, status},
    *,
};
use crate::{Run, report, yaml::yaml};

/// A run of the cases about filter and tables.
async fn run(suite: &Suite, most: Option<Duration>) -> (Vec<Finding>, Option<&'static str>) {
    let (mut run, mut findings) = (Run::new(suite, most), Vec::new());
    let is_of = |case: &&Case| ["filter.", "table."].iter().any(|area| case.name().starts_with(area));
    for case in cases::all().iter().filter(is_of) {
        findings.push(run.case(case).await);
    }
    (findings, run.over())
}

/// Changes the rejections of every answer.
fn rejections(change: impl Fn(&mut api::Rejection) + Send + Sync + 'static) -> Fault {
    answers(
        |_, _| true,
        move |answer| {
            if let VerbAnswer::Filter(response) = answer {
                response.rejections.iter_mut().for_each(&change);
            }
        },
    )
}

/// Filter fails for nodes for which this holds.
fn fails(when: impl Fn(&Sent) -> bool + Send + Sync + 'static) -> Fault {
    refuses(move |ask| ask.method == "Filter" && sent(ask).is_some_and(|sent| when(&sent)), Code::Internal)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_mistake_is_one_failure_with_its_sentence() {
    let strange = |sent: &Sent| sent.facts().any(|facts| is_labeled(facts, "zone", "amd64"));
    for (fault, begins, ends, rule) in [
        (
            answers(|_, _| true, |answer| answer.evaluated(|evaluated| evaluated - 1)),
            "filter.answered: `result.evaluated` is 2; the request has ",
            "3 nodes",
            "11.1",
        ),
        (
            rejections(|rejection| rejection.positions.push(1_000)),
            "filter.answered: `rejections[0].positions` has position 1000; there are ",
            " nodes",
            "13.1",
        ),
        (
            // Much longer than what gRPC libraries read unless told otherwise.
            rejections(|rejection| rejection.reason = "r".repeat(20 << 20)),
            "filter.answered: the response of Filter has 20971",
            " are read by the gateway",
            "13.4",
        ),
        (
            fails(strange),
            "filter.answered: Filter about 60 nodes was refused: INTERNAL: ",
            "; that is an error in the policy's own code (SPEC.md 49)",
            "10.1",
        ),
        (
            refuses(|ask| ask.method == "Filter", Code::Unavailable),
            "filter.answered: Filter about 3 nodes was refused: UNAVAILABLE: ",
            "broken on purpose",
            "10.1",
        ),
        (
            // No plain question meets this one, and several cases do.
            fails(|sent| sent.nodes.count == 1),
            "filter.evaluated: Filter about 1 node was refused: INTERNAL: ",
            "; that is an error in the policy's own code (SPEC.md 49)",
            "10.1",
        ),
    ] {
        let (suite, _proxy) = suite(Subject::Filters, fault, 60).await;
        let (findings, _) = run(&suite, None).await;
        let wrong: Vec<_> = findings.iter().filter(|finding| finding.outcome.fails(true)).collect();
        let texts = not_passed(&findings);
        assert!(texts.len() == 1 && texts[0].starts_with(begins) && texts[0].ends_with(ends), "{texts:#?}");
        assert_eq!(wrong[0].rules(), [rule]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_is_one_failure_with_the_last_request() {
    let fatal = |ask: &proxy::Ask| sent(ask).is_some_and(|sent| sent.nodes.count == 7);
    let fault = Fault { fatal: Some(Box::new(fatal)), ..Fault::none() };
    let (suite, proxy) = suite(Subject::Filters, fault, 60).await;
    let (findings, over) = run(&suite, None).await;
    let wrong = not_passed(&findings);
    let begins = format!(
        "filter.evaluated: the backend has ended: connections to http://{} are refused; the last request was Filter \
         about 7 nodes with ",
        proxy.address()
    );
    assert!(wrong.len() == 1 && wrong[0].starts_with(&begins) && wrong[0].ends_with(" bytes"), "{wrong:?}");
    assert_eq!(over, Some("the backend has ended"));
    assert_eq!(findings.last().unwrap().outcome, Outcome::Skipped("the backend has ended".to_owned()));
    assert!(
        report::summary(&suite, &findings, over).contains("note: the backend has ended: the cases since")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_when_its_time_is_over() {
    let hangs = pauses_for(|ask, _| {
        let hangs = is_verb(&ask.method);
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
        })
    });
    let (suite, _proxy) = suite(Subject::Filters, hangs, 2).await;
    let (findings, over) = run(&suite, Some(Duration::from_millis(1))).await;
    assert_eq!(over, Some("out of time"));
    let out_of_time = Outcome::Skipped("out of time".to_owned());
    assert!(findings.iter().all(|finding| finding.outcome == out_of_time), "{:?}", not_passed(&findings));
}

#[tokio::test]
async fn a_backend_that_is_starting_is_waited_for() {
    for (wait, works) in [("0s", false), ("60s", true)] {
        let starts = before(|ask, _| match (ask.method.as_str(), ask.number) {
            ("GetInfo", 0) => Err(status(Code::Unavailable)),
            _ => Ok(ask.message.clone()),
        });
        let proxy = Proxy::start(Subject::Filters.serve().await, starts).await;
        let url = format!("http://{}", proxy.address());
        let line = ["policy-conformance", "--endpoint", &url, "--wait", wait];
        let target = Options::try_parse_from(line).unwrap().target().unwrap();
        assert_eq!(begin(target).await.is_ok(), works, "{wait}");
    }
}

#[tokio::test]
async fn a_policy_that_cannot_decide_yet_is_waited_for() {
    let plain = cases::plain();
    let plain = plain.iter().find(|case| case.name() == "filter.answered").unwrap();
    for (wait, works) in [(0, false), (60, true)] {
        let starts = refuses(|ask| ask.method == "Filter" && ask.number < 3, Code::Unavailable);
        let (mut suite, _proxy) = suite(Subject::Filters, starts, 60).await;
        suite.target.wait = Duration::from_secs(wait);
        assert_eq!(plain.run(&suite).await.outcome == Outcome::Passed, works, "{wait} s");
    }
}

#[tokio::test]
async fn a_report_has_versions_results_and_times_and_names_what_was_not_bound() {
    let (mut suite, _proxy) = suite(Subject::Reading, Fault::none(), 60).await;
    suite.bindable = None;
    let mut findings = Vec::new();
    for case in cases::all()
        .iter()
        .filter(|case| ["handshake.time", "bind.again", "bind.no-pod"].contains(&case.name()))
    {
        findings.push(case.run(&suite).await);
    }
    let yaml = yaml(&suite, &findings);
    for part in [
        "\nsuite: \"0.1.0\"\n",
        "api: extender.policy.v1beta1\n",
        "  name: reading\n",
        "    filter:\n",
        "case: bind.again\n",
        "outcome: skipped\n",
        "method: GetInfo\n",
        "p99Ms: ",
    ] {
        assert!(yaml.contains(part), "{part:?} is not in\n{yaml}");
    }
    let summary = report::summary(&suite, &findings, None);
    assert!(summary.contains("note: nothing was bound, and not checked: bind.again; --bind "), "{summary}");
    assert!(summary.contains("time of a call, in ms"), "{summary}");
}
