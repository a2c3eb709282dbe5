use std::time::Duration;

use extender_gateway_core::score::Normalization;
use extender_gateway_record::CallOutcome;

use super::*;
use crate::samples::{part, record, refused, scored};

/// The id of the call that pods get the answer of.
const ASKED: &str = "asked";

fn log(max_bytes: usize) -> DecisionLog {
    DecisionLog::new(max_bytes, Counter::default())
}

/// A call of this id about pod `web`, which was received at this second.
fn called(id: &str, second: u64, record: CallRecord) -> CallRecord {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
    CallRecord { id: id.to_owned(), time, left: Some(1), ..record }
}

fn put(log: &DecisionLog, verb: Verb, record: &CallRecord) {
    let took = Duration::from_millis(3);
    let http_call = HttpCall { outcome: CallOutcome::Ok, generation: 7, took, ..HttpCall::default() };
    log.put(verb, record, Some(&http_call));
}

/// Node a is rejected.
fn filtered() -> CallRecord {
    record("web", &["a", "b", "c"], vec![part("zones", refused(&[("full", &[0])]))])
}

fn prioritized(scores: &[i32]) -> CallRecord {
    record("web", &["b", "c"], vec![part("zones", scored((1, Normalization::None), None, scores))])
}

/// A call of kube-scheduler's plugin, with scores. They begin with it, and either is stored first.
fn put_place(log: &DecisionLog, id: &str, second: u64) {
    let filter = || put(log, Verb::Filter, &called(id, second, filtered()));
    let prioritize =
        || put(log, Verb::Prioritize, &called(&format!("{id}-scores"), second, prioritized(&[3, 5])));
    if second.is_multiple_of(2) {
        filter();
        prioritize();
    } else {
        prioritize();
        filter();
    }
}

fn other() -> PodRef {
    PodRef {
        namespace: "search".to_owned(),
        name: "other".to_owned(),
        uid: "uid-other".to_owned(),
        ..PodRef::default()
    }
}

/// The calls about this pod, the oldest first.
fn calls(log: &DecisionLog, pod: &str) -> Vec<Decision> {
    let (mut found, _) = log.find(&Query { pod: Some(pod.to_owned()), ..Query::default() });
    found.reverse();
    found
}

fn verbs(calls: &[Decision]) -> Vec<&str> {
    calls.iter().map(|call| &*call.verb).collect()
}

#[tokio::test]
async fn a_pod_that_got_a_kept_answer_has_its_calls_as_if_it_had_been_asked_about() {
    for second in [1, 2] {
        let log = log(1 << 20);
        put_place(&log, ASKED, second);
        let before = timestamp(SystemTime::now());
        log.put_kept(ASKED, "uid-web", &other());
        let found = calls(&log, "other");
        assert_eq!(verbs(&found), ["filter", "prioritize"], "as kube-scheduler uses them");
        let [filter, prioritize] = &found[..] else { panic!("{found:?}") };
        for call in &found {
            assert!(call.kept && call.time >= before && call.seconds == 0.0, "{call:?}");
            let pod = (&*call.pod.namespace, &*call.pod.name, &*call.pod.uid);
            assert_eq!((pod, &call.pod.nominated_node), (("search", "other", "uid-other"), &None));
            assert_eq!((&*call.outcome, call.generation), ("ok", 7));
        }
        assert_eq!((&*filter.id, filter.offered, filter.left), (ASKED, 3, Some(1)));
        assert_eq!(filter.nodes[0].reason.as_deref(), Some("full"));
        let totals: Vec<_> = prioritize.nodes.iter().map(|node| (&*node.name, node.total)).collect();
        assert_eq!(totals, [("b", Some(3)), ("c", Some(5))]);
        assert!(calls(&log, "web").iter().all(|call| !call.kept), "those that it was taken from stay");
    }
}

#[tokio::test]
async fn the_answer_of_one_call_is_that_call_alone() {
    let log = log(1 << 20);
    // Attempts whose scores were asked for later, which another pod's are, too.
    for (second, filter, prioritize) in [(1, "earlier", "earlier-scores"), (3, ASKED, "scores")] {
        put(&log, Verb::Filter, &called(filter, second, filtered()));
        put(&log, Verb::Prioritize, &called(prioritize, second + 1, prioritized(&[1, 1])));
    }
    log.put_kept(ASKED, "uid-web", &other());
    assert_eq!(verbs(&calls(&log, "other")), ["filter"], "it has no scores of another call");
    // Scores have an id of their own, and are no filter call.
    let before = log.state().calls;
    for (call, asked) in
        [("earlier-scores", "uid-web"), ("unknown", "uid-web"), (ASKED, "uid-of-nobody"), (ASKED, "")]
    {
        log.put_kept(call, asked, &other());
        assert_eq!(log.state().calls, before, "{call} {asked}");
    }
}

#[tokio::test]
async fn shadow_calls_are_not_given_to_another_pod() {
    let log = log(1 << 20);
    log.put(Verb::Filter, &called(ASKED, 3, filtered()), None);
    put(&log, Verb::Filter, &called(ASKED, 3, filtered()));
    log.put_kept(ASKED, "uid-web", &other());
    let found = calls(&log, "other");
    assert_eq!((found.len(), found[0].backends.len()), (1, 1), "{found:?}");
}

#[tokio::test]
async fn answers_that_were_kept_take_as_much_room_as_others() {
    let log = log(1 << 20);
    let grown = |act: &dyn Fn()| {
        let [_, before, ..] = log.size();
        act();
        let [_, after, ..] = log.size();
        after - before
    };
    // The first one brings its pod and its texts.
    put_place(&log, "asked-1", 1);
    let asked = grown(&|| put_place(&log, "asked-2", 2));
    log.put_kept("asked-1", "uid-web", &other());
    assert_eq!(grown(&|| log.put_kept("asked-2", "uid-web", &other())), asked);
    assert_eq!(grown(&|| log.put_kept("asked-2", "uid-web", &other())), 0, "it is told again");
}

#[tokio::test]
async fn a_log_with_answers_that_were_kept_stays_below_what_it_may_take() {
    const MOST: usize = 64 << 10;
    let log = log(MOST);
    let (mut asked, mut stored) = (String::new(), 0);
    for pod in 0..2_000 {
        if calls(&log, "web").len() < 2 {
            // The log has let go of it: another call.
            asked = format!("{ASKED}-{pod}");
            put_place(&log, &asked, pod);
            stored += 2;
        }
        let name = format!("other-{pod}");
        log.put_kept(&asked, "uid-web", &PodRef { uid: name.clone(), name, ..other() });
        stored += 2;
        let [_, bytes, ..] = log.size();
        assert!(bytes <= MOST, "{bytes} bytes");
    }
    let state = log.state();
    assert_eq!(state.calls + state.evicted, stored);
    assert!(state.evicted > 0 && state.calls > 50, "{state:?}");
}

#[tokio::test]
async fn a_log_of_nothing_keeps_no_answers() {
    let log = log(0);
    put_place(&log, ASKED, 1);
    log.put_kept(ASKED, "uid-web", &other());
    assert_eq!(log.state().calls, 0);
}
