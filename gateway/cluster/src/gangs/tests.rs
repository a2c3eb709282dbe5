use futures_util::FutureExt as _;

use super::*;

const WAIT: Duration = Duration::from_secs(6);

fn pod(name: &str, group: &str, node: &str, phase: &str) -> String {
    serde_json::json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": {"nodeName": node, "schedulingGroup": {"podGroupName": group}},
        "status": {"phase": phase},
    })
    .to_string()
}

/// A table in which the pods `0`, `1` and so on of the group `g` are pending.
fn pending(pods: usize) -> Arc<PodTable> {
    let table = Arc::new(PodTable::new());
    for name in 0..pods {
        table.apply(pod(&name.to_string(), "g", "", "Pending").as_bytes()).unwrap();
    }
    table
}

fn key(name: &str) -> GroupKey {
    GroupKey { namespace: "shop".into(), name: name.into() }
}

/// The call about a pod of the group `g`, for which its `minCount` was read.
async fn enter(pods: &Arc<PodTable>, uid: usize, min_count: usize) -> Result<Member, String> {
    let member = Gangs::enter(pods, key("g"), &uid.to_string())?;
    let read = member.min_count(async || Ok::<_, ()>(Some(min_count))).await;
    assert_eq!(read, Ok(Some(min_count)));
    Ok(member)
}

/// The call about a pod that was accepted: ends when the pod may be bound, or must not be.
fn accepted(mut member: Member) -> tokio::task::JoinHandle<Result<Member, String>> {
    tokio::spawn(async move { member.accepted(Instant::now() + WAIT).await.map(|()| member) })
}

/// Lets the tasks run until they wait.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn nobody_binds_before_min_count_are_accepted_and_then_everybody_does() {
    let pods = pending(4);
    let mut waiting = Vec::new();
    for uid in 0..2 {
        waiting.push(accepted(enter(&pods, uid, 3).await.unwrap()));
    }
    settle().await;
    assert!(waiting.iter().all(|call| !call.is_finished()));
    let mut third = enter(&pods, 2, 3).await.unwrap();
    assert_eq!(third.accepted(Instant::now() + WAIT).now_or_never(), Some(Ok(())));
    let mut members = vec![third];
    for call in waiting {
        members.push(call.await.unwrap().unwrap());
    }
    // A further one waits for nobody, also if the watch does not show the others yet.
    for member in members {
        member.ended(true);
    }
    let mut fourth = enter(&pods, 3, 3).await.unwrap();
    assert_eq!(fourth.accepted(Instant::now() + WAIT).now_or_never(), Some(Ok(())));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_answers_all_calls_of_the_attempt_also_the_late_ones_once() {
    let pods = pending(4);
    let waiting = accepted(enter(&pods, 0, 4).await.unwrap());
    let mut deciding = enter(&pods, 1, 4).await.unwrap();
    settle().await;
    enter(&pods, 2, 4).await.unwrap().refused("no room");
    let why = "a pod of it was refused: no room";
    assert_eq!(waiting.await.unwrap().err().as_deref(), Some(why));
    assert_eq!(deciding.answer().await, Err(why.to_owned()));
    assert_eq!(enter(&pods, 3, 4).await.err().as_deref(), Some(why));
    // The next attempt.
    let again = accepted(enter(&pods, 3, 4).await.unwrap());
    settle().await;
    assert!(!again.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_a_second_after_a_failure_begins_an_attempt() {
    let pods = pending(2);
    enter(&pods, 0, 2).await.unwrap().refused("no room");
    tokio::time::sleep(SAME_ATTEMPT).await;
    enter(&pods, 1, 2).await.unwrap();
    assert_eq!(pods.gangs.attempts.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_has_enough_pods_left_goes_on_after_a_refusal() {
    let pods = pending(4);
    let waiting = accepted(enter(&pods, 0, 3).await.unwrap());
    enter(&pods, 1, 3).await.unwrap().refused("no room");
    let also = accepted(enter(&pods, 2, 3).await.unwrap());
    settle().await;
    assert!(!waiting.is_finished() && !also.is_finished());
    let last = accepted(enter(&pods, 3, 3).await.unwrap());
    for call in [waiting, also, last] {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_ends_for_all_when_it_ends_for_one() {
    let pods = pending(3);
    let first = accepted(enter(&pods, 0, 3).await.unwrap());
    tokio::time::sleep(WAIT / 2).await;
    let second = accepted(enter(&pods, 1, 3).await.unwrap());
    let began = Instant::now();
    let why = Some("its other pods did not come to be bound in time");
    assert_eq!(first.await.unwrap().err().as_deref(), why);
    assert_eq!(second.await.unwrap().err().as_deref(), why);
    assert_eq!(began.elapsed().as_secs(), WAIT.as_secs() / 2);
}

#[tokio::test(start_paused = true)]
async fn pods_that_the_watch_shows_on_nodes_count_and_ended_ones_do_not() {
    let pods = pending(3);
    pods.apply(pod("1", "g", "a", "Succeeded").as_bytes()).unwrap();
    let waiting = accepted(enter(&pods, 0, 2).await.unwrap());
    settle().await;
    assert!(!waiting.is_finished());
    pods.apply(pod("2", "g", "a", "Running").as_bytes()).unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_not_waited_for_and_does_not_count() {
    let pods = pending(3);
    let first = accepted(enter(&pods, 0, 3).await.unwrap());
    let second = accepted(enter(&pods, 1, 3).await.unwrap());
    settle().await;
    pods.remove("1");
    assert_eq!(second.await.unwrap().err().as_deref(), Some("the pod is gone"));
    assert_eq!(first.await.unwrap().err().as_deref(), Some("a pod of it is gone"));
}

#[tokio::test(start_paused = true)]
async fn a_canceled_call_ends_the_wait_of_the_others() {
    let pods = pending(2);
    let first = accepted(enter(&pods, 0, 2).await.unwrap());
    drop(enter(&pods, 1, 2).await.unwrap());
    let why = "a bind call about a pod of it was canceled";
    assert_eq!(first.await.unwrap().err().as_deref(), Some(why));
}

#[tokio::test(start_paused = true)]
async fn a_failed_binding_makes_the_next_attempt_wait() {
    let pods = pending(2);
    let first = accepted(enter(&pods, 0, 2).await.unwrap());
    let mut second = enter(&pods, 1, 2).await.unwrap();
    second.accepted(Instant::now() + WAIT).await.unwrap();
    first.await.unwrap().unwrap().ended(false);
    second.ended(false);
    let again = accepted(enter(&pods, 0, 2).await.unwrap());
    settle().await;
    assert!(!again.is_finished());
}

#[tokio::test(start_paused = true)]
async fn groups_do_not_wait_for_each_other_and_leave_nothing_behind() {
    let pods = pending(1);
    pods.apply(pod("x", "h", "", "Pending").as_bytes()).unwrap();
    let waiting = accepted(enter(&pods, 0, 2).await.unwrap());
    let mut other = Gangs::enter(&pods, key("h"), "x").unwrap();
    let read = other.min_count(async || Ok::<_, ()>(Some(1))).await;
    assert_eq!(read, Ok(Some(1)));
    assert_eq!(other.accepted(Instant::now() + WAIT).now_or_never(), Some(Ok(())));
    other.ended(true);
    assert!(waiting.await.unwrap().is_err());
    for uid in ["0", "x"] {
        pods.remove(uid);
    }
    tokio::time::sleep(SAME_ATTEMPT).await;
    drop(Gangs::enter(&pods, key("i"), "y").unwrap());
    assert_eq!(pods.gangs.attempts.lock().keys().collect::<Vec<_>>(), [&key("i")]);
    assert!(["g", "h"].iter().all(|name| pods.with_group(&key(name), |group| group.is_none())));
}

#[tokio::test(start_paused = true)]
async fn the_group_is_read_once_for_an_attempt() {
    let pods = pending(2);
    let one = enter(&pods, 0, 2).await.unwrap();
    let two = Gangs::enter(&pods, key("g"), "1").unwrap();
    let read = async || -> Result<Option<usize>, ()> { unreachable!("it is known") };
    assert_eq!(two.min_count(read).await, Ok(Some(2)));
    drop((one, two));
    tokio::time::sleep(SAME_ATTEMPT).await;
    assert!(enter(&pods, 0, 1).await.is_ok());
}
