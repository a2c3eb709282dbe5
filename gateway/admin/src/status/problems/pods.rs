//! Problems of waiting pods, whatever they wait for.

use extender_gateway_api::{Problem, Severity, Status, UntriedPods};
use extender_gateway_object::text::age;

use super::problem;

/// Within this time the gateway has made kube-scheduler try the pods again, in seconds.
const MAX_REQUEUEING: u64 = 60;

/// Pods that still wait although what held them has recovered or changed: kube-scheduler does not know that.
pub(super) fn untried(status: &Status) -> Option<Problem> {
    let UntriedPods { pods, changed_seconds, is_requeued } = *status.untried.as_ref()?;
    let changed = status.backends.iter().filter(|it| it.waiting.as_ref().is_some_and(|it| it.untried > 0));
    let names: Vec<_> = changed.map(|backend| backend.name.as_str()).collect();
    let name =
        if names.is_empty() { "a backend".to_owned() } else { format!("backend {}", names.join(", ")) };
    let what = format!(
        "{} for an event of the cluster, although {name} recovered or changed {} ago",
        wait(pods),
        age(changed_seconds),
    );
    let severity =
        if is_requeued && changed_seconds < MAX_REQUEUEING { Severity::Recent } else { Severity::Warning };
    let remedy = if is_requeued {
        "nothing if this ends within a minute: their status is being updated, so that kube-scheduler tries them again; otherwise run \
         `extender-gateway status --retry`"
    } else {
        "run `extender-gateway status --retry`: it makes kube-scheduler try all rejected pods now, by an annotation at a node, with your \
         own access; `requeue: PodCondition` does it by itself"
    };
    let untried = problem(severity, "pods-wait-for-an-event", "waiting pods", what, remedy);
    if is_requeued {
        return Some(untried);
    }
    Some(untried.with_impact("kube-scheduler tries each of them again in 5.5 minutes at most"))
}

/// `1 pod waits`, `12 pods wait`.
pub(super) fn wait(pods: u32) -> String {
    if pods == 1 { "1 pod waits".to_owned() } else { format!("{pods} pods wait") }
}
