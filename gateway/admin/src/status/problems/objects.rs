//! Objects of the cluster that cannot be read or are too large: each costs itself or its namespace.

use extender_gateway_api::Problem;
use extender_gateway_cluster::unreadable::{ObjectName, UnreadableObject};
use extender_gateway_object::text::clean;

use super::warning;

use crate::status::GatewayStatus;

/// The most objects and namespaces that are named; the others are counted.
const MOST: usize = 5;

pub(super) fn of(gateway_status: &GatewayStatus) -> Vec<Problem> {
    let sources = &gateway_status.sources;
    let nodes = sources.table.iter().flat_map(|table| of_source(table.unreadable.all()));
    let pods = of_source(sources.pods.unreadable.all());
    let mut problems: Vec<_> = nodes.chain(pods).collect();
    if let Some(served) = gateway_status.served() {
        let named = |problem: &Problem| problems.iter().any(|known| known.about == problem.about);
        let calls = of_source(served.decider.unreadable().of_recent_calls());
        let calls: Vec<_> = calls.into_iter().filter(|problem| !named(problem)).collect();
        problems.extend(calls);
    }
    problems.extend(
        sources.pods.crowded().into_iter().take(MOST).map(|(namespace, pods)| crowded(&namespace, pods)),
    );
    problems
}

fn of_source(unreadable: (Vec<(ObjectName, UnreadableObject)>, usize)) -> Vec<Problem> {
    let (objects, count) = unreadable;
    let mut problems: Vec<_> = objects.iter().take(MOST).map(|(name, object)| unread(name, object)).collect();
    if let Some(last) = problems.last_mut()
        && count > MOST
    {
        last.what = format!("{}; {} more objects cannot be read", last.what, count - MOST);
    }
    problems
}

fn unread(name: &ObjectName, object: &UnreadableObject) -> Problem {
    let what = format!("cannot be read: {}", clean(&object.error));
    let impact = match name.kind {
        "Node" => "calls reject this node, the others are decided",
        _ => "its calls are errors, and what it requests may not count on its node; other pods are decided",
    };
    let place =
        if name.namespace.is_empty() { String::new() } else { format!(" --namespace {}", name.namespace) };
    let kind = name.kind.to_lowercase();
    let remedy = if name.name.is_empty() {
        "find it in the gateway's log, and correct or delete it".to_owned()
    } else {
        let command = format!("kubectl get {kind} {}{place} --output yaml --show-managed-fields", name.name);
        format!("look at it with `{}`, and correct or delete it", clean(&command))
    };
    warning("unreadable-object", &clean(&name.words()), what, remedy).with_impact(impact)
}

fn crowded(namespace: &str, pods: usize) -> Problem {
    let what = format!("its pods have too much JSON: of {pods} only identity, labels and placement are kept");
    let impact = "their requests count; binds read them from the apiserver, and backends get them as victims by UID alone";
    let remedy = "look for large pods, such as pods with much in env or annotations, and limit the pods of the namespace by a \
                  ResourceQuota";
    warning("namespace-too-large", &format!("namespace {}", clean(namespace)), what, remedy)
        .with_impact(impact)
}
