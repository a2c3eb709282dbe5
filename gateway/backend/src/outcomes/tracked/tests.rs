use extender_policy_api::v1beta1::ReportRequest;
use prost::Message;

use super::*;

fn asked<'r>(uid: &'r str, call: &'r str) -> AskedPod<'r> {
    AskedPod { call, namespace: "shop", name: "web-0", uid }
}

impl TrackedPods {
    /// A request that was answered at once.
    fn asked(&mut self, uid: &str, call: &str) {
        self.begin(asked(uid, call));
        self.end_request(uid);
    }

    /// What is pending, which is then acknowledged.
    fn told(&mut self) -> Vec<String> {
        let Some(batch) = self.pending.batch(usize::MAX) else { return Vec::new() };
        self.pending.remove_until(batch.end);
        let text = |outcome: Outcome| {
            assert_eq!((&*outcome.namespace, &*outcome.name), ("shop", "web-0"));
            let kind = outcome.kind().as_str_name().trim_start_matches("OUTCOME_KIND_");
            format!("{} {} {kind} {}", outcome.uid, outcome.call, outcome.node).trim_end().to_owned()
        };
        ReportRequest::decode(batch.field).unwrap().outcomes.into_iter().map(text).collect()
    }
}

#[test]
fn each_attempt_has_one_end_and_then_the_pod_its_own() {
    let mut pods = TrackedPods::default();
    pods.asked("u-1", "f1");
    pods.not_bound("u-1", Some("f1"));
    pods.not_bound("u-1", None);
    assert_eq!(pods.told(), ["u-1 f1 NOT_BOUND"]);
    // Its end is known, so it is not superseded.
    pods.superseded("u-1");
    pods.asked("u-1", "f2");
    pods.asked("u-1", "f2");
    assert_eq!(pods.told(), [""; 0]);
    pods.not_bound("u-1", Some("f1"));
    pods.superseded("u-1");
    pods.asked("u-1", "f3");
    // Of the same attempt.
    pods.asked("u-1", "b3");
    pods.on_node("u-1", "a");
    pods.on_node("u-1", "a");
    pods.superseded("u-1");
    pods.not_bound("u-1", None);
    pods.gone("u-1");
    pods.gone("u-1");
    pods.on_node("u-1", "a");
    assert_eq!(pods.told(), ["u-1 f2 SUPERSEDED", "u-1 b3 BOUND a", "u-1 b3 DELETED"]);
    assert!(pods.pods.is_empty() && pods.by_request.is_empty());
}

#[test]
fn another_scheduler_may_bind_a_pod_after_an_attempt() {
    let mut pods = TrackedPods::default();
    pods.asked("u-1", "f1");
    pods.not_bound("u-1", None);
    pods.on_node("u-1", "b");
    assert_eq!(pods.told(), ["u-1 f1 NOT_BOUND", "u-1 f1 BOUND b"]);
    // The backend is asked once more: that has an end, too.
    pods.asked("u-1", "f2");
    pods.on_node("u-1", "b");
    assert_eq!(pods.told(), ["u-1 f2 BOUND b"]);
}

#[test]
fn pods_that_the_backend_was_not_asked_about_are_no_news() {
    let mut pods = TrackedPods::default();
    pods.superseded("u-1");
    pods.not_bound("u-1", None);
    pods.on_node("u-1", "a");
    pods.gone("u-1");
    assert_eq!(pods.told(), [""; 0]);
}

#[test]
fn the_end_of_a_pod_waits_for_the_answers_about_it() {
    let mut pods = TrackedPods::default();
    pods.begin(asked("u-1", "b1"));
    pods.begin(asked("u-1", "b1"));
    pods.on_node("u-1", "a");
    pods.gone("u-1");
    pods.end_request("u-1");
    assert_eq!(pods.told(), [""; 0]);
    pods.end_request("u-1");
    assert_eq!(pods.told(), ["u-1 b1 BOUND a", "u-1 b1 DELETED"]);
    // kube-scheduler does not know yet that it is gone.
    pods.begin(asked("u-1", "f2"));
    assert_eq!(pods.told(), [""; 0]);
    pods.end_request("u-1");
    assert_eq!(pods.told(), ["u-1 f2 DELETED"]);
}

#[test]
fn pods_outcomes_and_memories_are_bounded() {
    let mut pods = TrackedPods::default();
    let uid = |number: usize| format!("u-{number}");
    (0..MOST_PODS).for_each(|number| pods.asked(&uid(number), "f1"));
    // The oldest is another one then.
    pods.asked(&uid(0), "f2");
    pods.asked("one-more", "f1");
    pods.gone(&uid(1));
    assert_eq!((pods.told(), pods.pods.len(), pods.by_request.len()), (vec![], MOST_PODS, MOST_PODS));
    pods.not_bound(&uid(0), None);
    assert_eq!(pods.told(), ["u-0 f2 NOT_BOUND"]);

    (2..10_003).for_each(|number| pods.gone(&uid(number)));
    assert_eq!(
        (pods.pending.len(), pods.pending.take_dropped(), pods.pending.take_dropped()),
        (10_000, 1, 0)
    );
    assert_eq!((pods.gone.uids.len(), pods.gone.order.len()), (MOST_GONE, MOST_GONE));
    let first = pods.pending.batch(usize::MAX).unwrap();
    assert_eq!(first.count, 256);
    // Others were dropped while these were sent.
    pods.gone(&uid(10_003));
    pods.pending.remove_until(first.end);
    assert_eq!(pods.told()[0], format!("u-{} f1 DELETED", 3 + 256));
    let batch = |most| pods.pending.batch(most).unwrap().count;
    let bytes = pods.pending.batch(0).unwrap().field.len();
    assert_eq!([batch(0), batch(2 * bytes), batch(2 * bytes - 1)], [1, 2, 1]);
}
