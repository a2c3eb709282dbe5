//! One step, for each state that a Reservation and its pods can be in.

use serde_json::{Value, json};

use super::*;
use crate::{
    controller::waiting::Unscheduled,
    object::parse,
    owners::OwnedAsking,
    recorded::Recorded,
    room::Room,
    watch::{Watched as _, WatchedObject},
};

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn reservation(spec: &Value, status: &Value) -> Reservation {
    let mut object = json!({
        "metadata": {
            "name": "one", "uid": "r-1", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"owners": [{"labelSelector": {}, "namespaces": ["shop"]}]},
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    parse(object.to_string().as_bytes()).unwrap().unwrap()
}

/// One on node a with these owners: UID, seconds since it was recorded, whether it was seen.
fn with_owners(phase: &str, spec: &Value, owners: &[(&str, i64, bool)]) -> Reservation {
    let owner = |(uid, age, bound): &(&str, i64, bool)| {
        let at = Timestamp::from_second(now().as_second() - age).unwrap();
        json!({
            "namespace": "shop", "name": uid, "uid": uid, "requests": {"cpu": "1"}, "bound": bound,
            "allocatedAt": at.to_string(),
        })
    };
    let owners: Vec<_> = owners.iter().map(owner).collect();
    reservation(
        spec,
        &json!({"phase": phase, "nodeName": "a", "allocatable": {"cpu": "4"}, "owners": owners}),
    )
}

fn pod_ref(uid: &str) -> PodRef {
    PodRef { namespace: "shop".to_owned(), name: uid.to_owned(), uid: uid.to_owned() }
}

fn pod(uid: &str, state: State) -> SeenPod {
    SeenPod {
        pod: pod_ref(uid),
        state,
        gated: false,
        leaving: false,
        reservation: None,
        recorded: None,
        unscheduled: None,
    }
}

fn placeholder(uid: &str, state: State, gated: bool) -> SeenPod {
    SeenPod { gated, reservation: Some("r-1".to_owned()), ..pod(uid, state) }
}

fn unscheduled() -> State {
    State::Waiting { reason: String::new(), message: String::new() }
}

fn on(node: &str) -> State {
    State::On(node.to_owned())
}

fn steps(reservation: &Reservation, pods: &[SeenPod]) -> Vec<Action> {
    let nodes = Nodes::default();
    let node = |name: &str| WatchedObject { name: name.to_owned(), version: 1, json: Vec::new() };
    nodes.listed(vec![node("a").into()], 1);
    step(reservation, &Observed { pods, nodes: &nodes, waiting: Some(&[]) }, now())
}

/// Phase, UIDs of owners with what is known of them, and reason of the last condition.
fn written(actions: &[Action]) -> (Value, Vec<(String, bool)>, Value) {
    let [Action::Write(status) | Action::LoseNode(status) | Action::RemoveUnbound(status, _)] = actions
    else {
        panic!("{actions:?}")
    };
    let status = serde_json::to_value(status).unwrap();
    let owner =
        |owner: &Value| (owner["uid"].as_str().unwrap().to_owned(), owner["bound"].as_bool().unwrap());
    let owners = status["owners"].as_array().into_iter().flatten().map(owner).collect();
    let reason = status["conditions"].as_array().and_then(|all| Some(all.last()?["reason"].clone()));
    (status["phase"].clone(), owners, reason.unwrap_or_default())
}

fn pending(spec: &Value, placeholder: &str) -> Reservation {
    reservation(spec, &json!({"phase": "Pending", "placeholder": placeholder}))
}

#[test]
fn a_pending_one_gets_a_placeholder_that_is_scheduled() {
    let none = json!({});
    for (reservation, pods, expected) in [
        (pending(&none, ""), vec![], vec![Action::CreatePlaceholder]),
        (pending(&none, "p-1"), vec![], vec![Action::CreatePlaceholder]),
        (
            pending(&none, "p-1"),
            vec![placeholder("p-1", unscheduled(), true)],
            vec![Action::OpenGate(pod_ref("p-1"))],
        ),
        (pending(&none, "p-1"), vec![placeholder("p-1", unscheduled(), false)], vec![]),
        // One that was created and not recorded.
        (
            pending(&none, ""),
            vec![placeholder("p-2", unscheduled(), true)],
            vec![Action::DeletePod(pod_ref("p-2")), Action::CreatePlaceholder],
        ),
        // One that the controller has not created.
        (pending(&none, ""), vec![placeholder("p-2", unscheduled(), false)], vec![Action::CreatePlaceholder]),
    ] {
        assert_eq!(steps(&reservation, &pods), expected, "{reservation:?} {pods:?}");
    }
}

#[test]
fn a_pending_one_tells_why_it_waits() {
    let state = || State::Waiting { reason: "Unschedulable".to_owned(), message: "0/1 nodes".to_owned() };
    let pods = [placeholder("p-1", state(), false)];
    let mut reservation = pending(&json!({}), "p-1");
    let actions = steps(&reservation, &pods);
    assert_eq!(written(&actions).2, "Unschedulable");
    let [Action::Write(status)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((&*status.conditions[0].kind, &*status.conditions[0].message), ("Scheduled", "0/1 nodes"));
    reservation.status = status.clone();
    assert_eq!(steps(&reservation, &pods), [], "once");
}

#[test]
fn what_is_over_fails_once() {
    let (expired, none) = (json!({"ttl": "1h"}), json!({}));
    let invalid = json!({"owners": []});
    let gone =
        reservation(&none, &json!({"phase": "Available", "nodeName": "gone", "allocatable": {"cpu": "1"}}));
    for (reservation, pods, reason) in [
        (pending(&expired, ""), vec![], "Expired"),
        (pending(&invalid, ""), vec![], "Invalid"),
        (pending(&none, "p-1"), vec![placeholder("p-1", on("a"), false)], "PlaceholderBound"),
        (pending(&none, "p-1"), vec![placeholder("p-1", State::Ended, false)], "PlaceholderBound"),
        (with_owners("Available", &expired, &[]), vec![], "Expired"),
        (with_owners("Available", &invalid, &[]), vec![], "Invalid"),
        (gone, vec![], "NodeLost"),
    ] {
        let actions = steps(&reservation, &pods);
        assert_eq!(written(&actions), (json!("Failed"), vec![], json!(reason)), "{reservation:?}");
        assert_eq!(matches!(actions[0], Action::LoseNode(_)), reason == "NodeLost");
        let [Action::Write(status) | Action::LoseNode(status)] = &actions[..] else { panic!("{actions:?}") };
        let failed = Reservation { status: status.clone(), ..reservation };
        let deletions = pods.iter().map(|pod| Action::DeletePod(pod.pod.clone())).collect::<Vec<_>>();
        assert_eq!(steps(&failed, &pods), deletions, "its placeholder is deleted, and nothing else happens");
    }
}

#[test]
fn a_placeholder_that_is_not_needed_any_more_is_deleted() {
    for phase in ["Available", "Succeeded", "Failed"] {
        let status = json!({"phase": phase, "nodeName": "a", "placeholder": "p-1"});
        let pods = [placeholder("p-1", unscheduled(), false), pod("p-2", unscheduled())];
        assert_eq!(
            steps(&reservation(&json!({}), &status), &pods),
            [Action::DeletePod(pod_ref("p-1"))],
            "{phase}"
        );
    }
}

#[test]
fn owners_are_confirmed_or_removed() {
    let shared = json!({"allocateOnce": false});
    let keeps = |bound| vec![("u".to_owned(), bound)];
    // Seconds since the record, seen before, the pod now, what is written.
    for (age, seen, now, expected) in [
        (5, false, Some(on("a")), Some(keeps(true))),
        (500, false, Some(on("a")), Some(keeps(true))),
        (3, false, Some(on("a")), Some(keeps(true))),
        (2, false, Some(on("a")), None),
        (-500, false, Some(on("a")), Some(keeps(true))),
        (5, true, Some(on("a")), None),
        (5, false, Some(unscheduled()), None),
        (90, false, Some(unscheduled()), None),
        (91, false, Some(unscheduled()), Some(vec![])),
        // A look at the pod tells whether it was deleted, or the watch does not know it yet.
        (1, false, None, Some(vec![])),
        (-500, false, None, Some(vec![])),
        (91, false, None, Some(vec![])),
        (5, true, None, Some(vec![])),
        (5, false, Some(on("b")), Some(vec![])),
        (5, false, Some(State::Ended), Some(vec![])),
        (5, true, Some(State::Ended), Some(vec![])),
    ] {
        for phase in ["Available", "Failed"] {
            let reservation = with_owners(phase, &shared, &[("u", age, seen)]);
            let pods: Vec<_> = now.iter().cloned().map(|state| pod("u", state)).collect();
            let actions = steps(&reservation, &pods);
            let case = format!("{phase} {age} {seen} {now:?}");
            match &expected {
                None => assert_eq!(actions, [], "{case}"),
                Some(owners) => {
                    let (written_phase, written, _) = written(&actions);
                    assert_eq!((written_phase, &written), (json!(phase), owners), "{case}");
                }
            }
        }
    }
}

#[test]
fn claims_that_only_their_time_removes_are_removed_after_a_look_at_their_pods() {
    let shared = json!({"allocateOnce": false});
    let names: Vec<_> = (0..20).map(|number| format!("u{number:02}")).collect();
    let late: Vec<_> = names.iter().map(|name| (name.as_str(), 91, false)).collect();
    let actions = steps(&with_owners("Available", &shared, &late), &[]);
    let [Action::RemoveUnbound(_, looked_at)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(
        looked_at[..],
        names[..16].iter().map(|name| Unbound::Overdue(pod_ref(name))).collect::<Vec<_>>()
    );
    assert_eq!(written(&actions).1.len(), 4, "the next round");
    // Of those that are known to be elsewhere, or to have ended, no look is needed.
    for state in [on("b"), State::Ended] {
        let actions = steps(&with_owners("Available", &shared, &late[..1]), &[pod("u00", state)]);
        assert!(matches!(&actions[..], [Action::Write(_)]), "{actions:?}");
    }
}

#[test]
fn owners_are_confirmed_together() {
    let reservation =
        with_owners("Available", &json!({"allocateOnce": false}), &[("u", 3, false), ("v", 0, false)]);
    let actions = steps(&reservation, &[pod("u", on("a")), pod("v", on("a"))]);
    assert_eq!(written(&actions).1, [("u".to_owned(), true), ("v".to_owned(), true)]);
    // With a single owner there is nothing to wait for.
    let once = with_owners("Succeeded", &json!({}), &[("u", 0, false)]);
    assert_eq!(written(&steps(&once, &[pod("u", on("a"))])).1, [("u".to_owned(), true)]);
}

#[test]
fn one_for_a_single_owner_opens_again_if_the_pod_was_never_bound() {
    let (none, expired) = (json!({}), json!({"ttl": "1h"}));
    for (spec, seen, phase) in
        [(&none, false, "Available"), (&expired, false, "Succeeded"), (&none, true, "Succeeded")]
    {
        let reservation = with_owners("Succeeded", spec, &[("u", 91, seen)]);
        assert_eq!(written(&steps(&reservation, &[])).0, phase, "{spec} {seen}");
    }
    let actions = steps(&with_owners("Succeeded", &none, &[("u", 91, false)]), &[]);
    assert_eq!(written(&actions), (json!("Available"), vec![], json!("Reserved")));
}

#[test]
fn one_that_expires_keeps_what_is_on_the_way() {
    let reservation = with_owners(
        "Available",
        &json!({"ttl": "1h", "allocateOnce": false}),
        &[("u", 5, false), ("v", 91, false)],
    );
    let actions = steps(&reservation, &[pod("u", unscheduled())]);
    assert_eq!(written(&actions), (json!("Failed"), vec![("u".to_owned(), false)], json!("Expired")));
}

#[test]
fn a_placeholder_that_was_changed_ends_the_reservation() {
    let recorded = |cpu: &str| {
        let container = json!({"resources": {"requests": {"cpu": cpu}}});
        Recorded::of(json!({"spec": {"containers": [container]}}).to_string().as_bytes()).unwrap()
    };
    let mut reservation = pending(&json!({}), "");
    reservation.status.record("p-1".to_owned(), &recorded("1"));
    for gated in [true, false] {
        let pod = |cpu| SeenPod { recorded: Some(recorded(cpu)), ..placeholder("p-1", unscheduled(), gated) };
        let actions = steps(&reservation, &[pod("64")]);
        assert_eq!(written(&actions), (json!("Failed"), vec![], json!("Invalid")));
        assert!(steps(&reservation, &[pod("1")]).iter().all(|action| matches!(action, Action::OpenGate(_))));
    }
}

#[test]
fn one_that_is_over_keeps_its_last_owner_and_is_deleted_after_a_day() {
    let once = with_owners("Succeeded", &json!({}), &[("u", 500, true)]);
    let actions = steps(&once, &[]);
    let [Action::Write(status)] = &actions[..] else { panic!("{actions:?}") };
    let shown = serde_json::to_value(status).unwrap();
    assert_eq!((&shown["lastOwner"]["uid"], &shown["owners"]), (&json!("u"), &Value::Null));
    // It was claimed days ago, and is kept for a day after its owner has ended.
    let mut long = with_owners("Succeeded", &json!({}), &[("u", 3 * 86_400, true)]);
    let claimed = now().checked_sub(SignedDuration::from_hours(72)).unwrap();
    let ready = NewCondition { kind: "Ready", holds: true, reason: "Reserved", message: "" };
    long.status.set_condition(ready, claimed);
    let actions = steps(&long, &[]);
    let [Action::Write(status)] = &actions[..] else { panic!("{actions:?}") };
    let ended = Reservation { room: Room::default(), status: status.clone(), ..long };
    assert_eq!(steps(&ended, &[]), [], "its last owner can be seen");
    for (phase, hours, owners, collected) in [
        ("Failed", 24, &[][..], true),
        ("Succeeded", 24, &[], true),
        ("Succeeded", 23, &[], false),
        ("Succeeded", 24, &[("u", 500, true)], false),
        ("Available", 24, &[], false),
    ] {
        let mut reservation = with_owners(phase, &json!({}), owners);
        let (kind, reason) = ("Ready", "Because");
        let before = now().checked_sub(SignedDuration::from_hours(hours)).unwrap();
        reservation.status.set_condition(NewCondition { kind, holds: false, reason, message: "" }, before);
        let expected = if collected { vec![Action::Collect] } else { vec![] };
        assert_eq!(steps(&reservation, &[pod("u", on("a"))]), expected, "{phase} {hours}");
    }
}

#[test]
fn it_tells_that_its_node_is_cordoned() {
    let nodes = Nodes::default();
    let cordon = |unschedulable: bool| {
        let json = json!({"spec": {"unschedulable": unschedulable}}).to_string().into_bytes();
        nodes.told(WatchedObject { name: "a".to_owned(), version: 1, json });
    };
    let mut reservation = with_owners("Available", &json!({}), &[]);
    let observed = Observed { pods: &[], nodes: &nodes, waiting: Some(&[]) };
    let step = |reservation: &Reservation| step(reservation, &observed, now());
    cordon(false);
    assert_eq!(step(&reservation), []);
    for (unschedulable, reason) in [(true, "NodeUnschedulable"), (false, "NodeSchedulable")] {
        cordon(unschedulable);
        let actions = step(&reservation);
        assert_eq!(written(&actions), (json!("Available"), vec![], json!(reason)));
        let [Action::Write(status)] = &actions[..] else { panic!("{actions:?}") };
        reservation.status = status.clone();
        assert_eq!(step(&reservation), [], "once");
    }
}

#[test]
fn what_it_tells_owners_to_come_ends_with_it() {
    let (none, expired) = (json!({}), json!({"ttl": "1h"}));
    for (phase, spec, state, ends) in [
        ("Succeeded", &none, on("a"), true),
        // It may open again.
        ("Succeeded", &none, unscheduled(), false),
        ("Available", &expired, unscheduled(), true),
        ("Failed", &none, unscheduled(), true),
    ] {
        let mut open = with_owners(phase, spec, &[("u", 5, false)]);
        for kind in ["NodeUsable", "OwnersFit"] {
            let condition = NewCondition { kind, holds: false, reason: "Because", message: "" };
            open.status.set_condition(condition, now());
        }
        let actions = steps(&open, &[pod("u", state)]);
        assert_eq!(!actions.is_empty(), ends, "{phase} {spec}: {actions:?}");
        let [Action::Write(status)] = &actions[..] else { continue };
        assert!(
            status.conditions.iter().all(|condition| condition.kind == "Ready"),
            "{phase} {spec}: {status:?}"
        );
    }
}

#[test]
fn owners_that_wait_are_compared_with_what_is_left_after_the_step() {
    let [uid, namespace, name] = ["w", "shop", "w"].map(str::to_owned);
    let (controller, labels, affinity) = Default::default();
    let requests = Resources { milli_cpu: 3_000, ..Resources::default() };
    let asking = OwnedAsking { uid, namespace, controller, labels, affinity, requests };
    let waits = Unscheduled { name, since: Timestamp::UNIX_EPOCH, asking };
    let nodes = Nodes::default();
    nodes.told(WatchedObject { name: "a".to_owned(), version: 1, json: Vec::new() });
    let open = with_owners("Available", &json!({"allocateOnce": false}), &[("u", 5, true), ("v", 5, true)]);
    for (state, reason) in [(on("a"), "RequestsMoreThanLeft".into()), (State::Ended, Value::Null)] {
        let pods = [pod("u", on("a")), pod("v", state)];
        let waiting = [waits.waiting(now()).unwrap()];
        let observed = |waiting| Observed { pods: &pods, nodes: &nodes, waiting };
        assert_eq!(written(&step(&open, &observed(Some(&waiting)), now())).2, reason);
        let of_claims: Vec<_> = step(&open, &observed(None), now());
        assert!(of_claims.is_empty() || written(&of_claims).2 == Value::Null, "the pods were not looked at");
    }
}

#[test]
fn what_is_being_deleted_already_is_left_alone_and_few_are_deleted_at_once() {
    let reservation = with_owners("Available", &json!({}), &[]);
    let pods: Vec<_> = (0..40).map(|at| placeholder(&format!("p{at}"), unscheduled(), true)).collect();
    assert_eq!(steps(&reservation, &pods).len(), DELETES_A_ROUND);
    let leaving: Vec<_> = pods.into_iter().map(|pod| SeenPod { leaving: true, ..pod }).collect();
    assert_eq!(steps(&reservation, &leaving), []);
}
