use extender_gateway_core::FailureKind;
use tokio::time::advance;

use super::*;
use crate::observe::samples::{account, failed, part, refused, visit};

const SECOND: Duration = Duration::from_secs(1);

fn wanted() -> Unscheduled {
    let unscheduled = Unscheduled::default();
    unscheduled.want(true);
    unscheduled
}

/// A call about three nodes, of which `zones` refuses so many of the first and `racks` the last.
fn refusing(pod: &str, many: u32) -> Account {
    let first: Vec<u32> = (0..many).collect();
    let parts =
        vec![part("zones", refused(&[("in drain", &first)])), part("racks", refused(&[("full", &[2])]))];
    Account { left: Some(0), ..account(pod, &["a", "b", "c"], parts) }
}

fn see(unscheduled: &Unscheduled, account: &Account) {
    assert!(unscheduled.see(&visit("ok", ""), account), "no room");
}

fn note(unscheduled: &Unscheduled) -> Option<String> {
    unscheduled.due().map(|due| due.note)
}

#[tokio::test(start_paused = true)]
async fn one_event_tells_of_a_pod_that_has_waited_for_a_while() {
    let unscheduled = wanted();
    see(&unscheduled, &refusing("web", 2));
    advance(PATIENCE.saturating_sub(SECOND)).await;
    assert_eq!(unscheduled.due(), None);
    advance(SECOND).await;
    let due = unscheduled.due().unwrap();
    let text = "0 of 3 nodes are left by policies: zones rejects 2, racks rejects 1. \
                extender-gateway explain pod/web -n shop says more.";
    assert_eq!((due.pod.uid.as_str(), due.note.as_str()), ("uid-web", text));
    assert_eq!(unscheduled.due(), None, "said");
}

#[tokio::test(start_paused = true)]
async fn it_is_told_again_only_when_counts_have_changed_and_after_a_pause() {
    let unscheduled = wanted();
    see(&unscheduled, &refusing("web", 2));
    advance(PATIENCE).await;
    assert!(unscheduled.due().is_some());
    see(&unscheduled, &refusing("web", 3));
    advance(PAUSE.saturating_sub(SECOND)).await;
    assert_eq!(unscheduled.due(), None, "changed, and too soon");
    see(&unscheduled, &refusing("web", 2));
    advance(SECOND).await;
    assert_eq!(unscheduled.due(), None, "as it was");
    see(&unscheduled, &refusing("web", 3));
    let text = note(&unscheduled).unwrap();
    assert!(text.contains("zones rejects 3. "), "racks rejects none that is left: {text}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_finds_a_node_is_forgotten() {
    let unscheduled = wanted();
    for pod in ["one", "two", "three"] {
        see(&unscheduled, &refusing(pod, 3));
    }
    see(&unscheduled, &Account { left: Some(1), ..refusing("one", 3) });
    unscheduled.forget("uid-two");
    advance(PATIENCE).await;
    assert_eq!(unscheduled.due().unwrap().pod.name, "three");
    assert_eq!(unscheduled.due(), None);
}

#[tokio::test(start_paused = true)]
async fn who_has_waited_longest_is_told_of_first() {
    let unscheduled = wanted();
    for pod in ["first", "second"] {
        see(&unscheduled, &refusing(pod, 3));
        advance(SECOND).await;
    }
    advance(PATIENCE).await;
    let names = [unscheduled.due(), unscheduled.due()].map(|due| due.unwrap().pod.name);
    assert_eq!(names, ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_fails_keeps_pods_waiting_too() {
    let unscheduled = wanted();
    let parts = vec![part("zones", failed(FailureKind::Late))];
    assert!(unscheduled.see(&visit("backend", "zones: late"), &account("web", &["a"], parts)));
    advance(PATIENCE).await;
    let text = note(&unscheduled).unwrap();
    assert!(text.starts_with("zones: late: zones failed (late). extender-gateway explain "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn only_pods_that_policies_keep_waiting_are_followed() {
    let unscheduled = Unscheduled::default();
    see(&unscheduled, &refusing("before", 3));
    unscheduled.want(true);
    see(&unscheduled, &Account { left: Some(0), ..account("nobody", &["a"], Vec::new()) });
    let mut nameless = refusing("nameless", 3);
    nameless.pod.uid.clear();
    see(&unscheduled, &nameless);
    assert!(unscheduled.see(&Visit { verb: "preempt", ..visit("ok", "") }, &refusing("preempt", 3)));
    advance(PATIENCE).await;
    assert_eq!(unscheduled.due(), None);
    see(&unscheduled, &refusing("after", 3));
    unscheduled.want(false);
    unscheduled.want(true);
    advance(PATIENCE).await;
    assert_eq!(unscheduled.due(), None, "forgotten when nobody wanted it");
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_no_more_make_room_for_others() {
    let unscheduled = wanted();
    let mut account = refusing("web", 3);
    for number in 0..MOST {
        account.pod.uid = number.to_string();
        see(&unscheduled, &account);
    }
    assert!(!unscheduled.see(&visit("ok", ""), &refusing("late", 3)), "there is no room");
    assert_eq!(unscheduled.lock().len(), MOST);
    advance(GONE.saturating_sub(SECOND)).await;
    account.pod.uid = "7".to_owned();
    see(&unscheduled, &account);
    advance(SECOND).await;
    unscheduled.due();
    assert_eq!(unscheduled.lock().keys().collect::<Vec<_>>(), ["7"]);
    see(&unscheduled, &refusing("late", 3));
    assert_eq!(unscheduled.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_note_is_as_long_as_the_apiserver_takes() {
    let unscheduled = wanted();
    let names: Vec<String> = (0..60).map(|at| format!("policy-with-a-long-name-{at}")).collect();
    let parts = names.iter().zip(0..).map(|(name, at)| part(name, refused(&[("no", &[at])]))).collect();
    let nodes: Vec<String> = (0..60).map(|at| format!("n{at}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    see(&unscheduled, &Account { left: Some(0), ..account("web", &nodes, parts) });
    advance(PATIENCE).await;
    let text = note(&unscheduled).unwrap();
    assert!(text.len() <= LONGEST && text.len() > LONGEST - 10, "{} bytes", text.len());
}
