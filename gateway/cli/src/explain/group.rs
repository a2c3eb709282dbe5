//! The pods of a pod group, and what the gateways decided about them.

use std::{fmt, time::Duration};

use extender_gateway_api::{
    DecisionList,
    explain::{
        MAX_CALLS,
        group::{ExplainedGroup, GroupMember},
    },
};
use extender_gateway_object::text::{NOTHING, Table, clean, number};
use futures_util::stream::{self, StreamExt};
use k8s_openapi::api::{core::v1::Pod, scheduling::v1beta1::PodGroup};
use kube::{Api, api::ListParams};
use tokio::{join, time::timeout};

use super::render::write_hidden;
use crate::{
    admin::Gateways,
    apiserver::{ClusterAccess, error_text},
    output::Failure,
};

/// The timeout of the queries to the apiserver.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many pods of a namespace are looked at.
const MAX_PODS: u32 = 5000;
/// Of how many pods of the group the gateways are asked: each is a query.
const MAX_MEMBERS: usize = 200;
/// How many of these queries are made at once: each is a connection, of which an admin address has 64.
const AT_ONCE: usize = 8;

/// The group, whose pod to explain is its first one.
///
/// # Errors
/// It has no pods, or the apiserver does not say.
pub(super) async fn explained(
    access: &ClusterAccess,
    gateways: &Gateways,
    namespace: &str,
    name: &str,
) -> Result<ExplainedGroup, Failure> {
    let unknown = |why: &str| {
        Failure::Unknown(format!(
            "cannot find the pods of podgroup/{name} in namespace {namespace}: {why}; name a pod instead"
        ))
    };
    let client = &access.as_ref().map_err(|why| unknown(why))?.client;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let groups: Api<PodGroup> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().limit(MAX_PODS);
    let asked = async { join!(pods.list(&params), groups.get_opt(name)) };
    let (listed, group) =
        timeout(TIMEOUT, asked).await.map_err(|_| unknown("no response from the apiserver within 5 s"))?;
    let listed = listed.map_err(|error| unknown(&error_text(error)))?;
    let of =
        if listed.metadata.continue_.is_some() { format!(" of the first {MAX_PODS}") } else { String::new() };
    let mut members: Vec<_> = listed.items.into_iter().filter(|pod| is_in(name, pod)).map(member).collect();
    let pods = members.len();
    if members.is_empty() {
        return Err(unknown(&format!(
            "no pod{of} has it as spec.schedulingGroup.podGroupName; `kubectl get podgroups -n {namespace}` lists groups"
        )));
    }
    members.truncate(MAX_MEMBERS);
    // Without permission to read it, the rest is known.
    let gang = group.ok().flatten().and_then(|group| group.spec.scheduling_policy.gang);
    // The names need no escaping.
    let path = |pod: &GroupMember| {
        let pod = &pod.name;
        format!("/debug/decisions?namespace={namespace}&pod={pod}&verb=filter&nodes=none&limit={MAX_CALLS}")
    };
    let paths: Vec<_> = members.iter().map(path).collect();
    let asked = stream::iter(&paths).map(|path| gateways.query::<DecisionList>(path));
    let gathered: Vec<_> = asked.buffer_unordered(AT_ONCE).collect().await;
    let lacks_calls = gathered.iter().any(|gathered| !gathered.away.is_empty());
    let answers = gathered.into_iter().flat_map(|gathered| gathered.answers);
    let calls = answers.flat_map(|list| list.items).collect();
    let group = ExplainedGroup::new(name.to_owned(), gang.map(|gang| gang.min_count), members, calls);
    Ok(ExplainedGroup { pods, lacks_calls, ..group })
}

fn is_in(group: &str, pod: &Pod) -> bool {
    let named = pod.spec.as_ref().and_then(|spec| spec.scheduling_group.as_ref()?.pod_group_name.as_deref());
    named == Some(group)
}

fn member(pod: Pod) -> GroupMember {
    GroupMember {
        name: pod.metadata.name.unwrap_or_default(),
        uid: pod.metadata.uid.unwrap_or_default(),
        node: pod.spec.and_then(|spec| spec.node_name).filter(|node| !node.is_empty()),
        ..GroupMember::default()
    }
}

/// Writes a line for each pod.
pub(super) fn write(group: &ExplainedGroup, max_rows: usize, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut table =
        Table::new(["POD", "NODE", "CALLS", "OFFERED", "LEFT", "REJECTED IN THE LATEST CALL BY"], 2..5);
    for member in group.members.iter().take(max_rows) {
        let GroupMember { name, node, calls, offered, left, rejected, message, .. } = member;
        let by: Vec<_> =
            rejected.iter().map(|(backend, count)| format!("{backend} {}", number(*count))).collect();
        let why = message.as_ref().map_or_else(|| by.join(", "), |message| clean(message).into_owned());
        let shown = |is_known: bool, count: u32| if is_known { number(count) } else { NOTHING.to_owned() };
        table.row([
            name.clone(),
            node.clone().unwrap_or_else(|| NOTHING.to_owned()),
            number(*calls),
            shown(*calls > 0, *offered),
            shown(left.is_some(), left.unwrap_or_default()),
            if why.is_empty() { NOTHING.to_owned() } else { why },
        ]);
    }
    write!(out, "\n{table}")?;
    write_hidden(out, group.members.len().saturating_sub(max_rows), "pod")
}
