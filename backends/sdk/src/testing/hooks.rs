//! Hooks, tried without a server.

use extender_policy_api::v1beta1 as api;

use super::{NoAnswer, SentCall, TestNode, TestPod, complete, mistakes};
use crate::{
    Backend, NodeChange, PodChange,
    answer::{self, Patience, unpanicking},
    error::CallError,
    request::ChangeRequest,
    table::Tables,
};

/// What the policy changes about the pod before filter; [`PodChange::none`] if it changes nothing.
///
/// ```
/// # use extender_policy_sdk::{ChangedPart, Hook, Info, Pod, PodChange, Policy, Reads, testing};
/// # struct Batch;
/// # impl Policy for Batch {
/// #     fn info(&self) -> Info {
/// #         let mut reads = Reads::new();
/// #         reads.pod_label("batch");
/// #         let hook = Hook::changes([ChangedPart::PodNodeSelector]).pure().reads(&reads);
/// #         Info::new("batch", "1").before_filter(hook)
/// #     }
/// #     fn before_filter(&self, pod: &Pod) -> PodChange {
/// #         match pod.label("batch") {
/// #             Some(_) => PodChange::none().set_node_selector("pool", "batch"),
/// #             None => PodChange::none(),
/// #         }
/// #     }
/// # }
/// let pod = testing::TestPod::new("shop");
/// let change = testing::before_filter(Batch, &pod.clone().label("batch", ""));
/// assert_eq!(change.unwrap(), PodChange::none().set_node_selector("pool", "batch"));
/// assert!(testing::before_filter(Batch, &pod).unwrap().is_none());
/// ```
///
/// # Errors
///
/// As for [`filter`](super::filter). There is [`before_filter_later`].
pub fn before_filter(backend: impl Into<Backend>, pod: &TestPod) -> Result<PodChange, NoAnswer> {
    complete("BeforeFilter", pod_changed(&backend.into(), pod, Patience::None))
}

/// [`before_filter`], for a hook that may wait.
///
/// # Errors
///
/// As for [`before_filter`].
pub async fn before_filter_later(backend: impl Into<Backend>, pod: &TestPod) -> Result<PodChange, NoAnswer> {
    Ok(unpanicking("BeforeFilter", pod_changed(&backend.into(), pod, Patience::Endless)).await?)
}

async fn pod_changed(backend: &Backend, pod: &TestPod, patience: Patience) -> Result<PodChange, CallError> {
    let verb = api::Verb::BeforeFilter;
    let changed = mistakes::of_pod(backend, verb, async || {
        let SentCall { call, pod, .. } = SentCall::new(backend, verb, pod, &[])?;
        let request = ChangeRequest { call, pod, nodes: None, hook: verb.into() };
        let answer = answer::change(backend, &Tables::default(), &request, patience).await?;
        mistakes::changes(backend, verb, &answer)?;
        Ok(PodChange::of(answer.pod))
    });
    changed.await
}

/// The nodes that the policy changes before filter, in the order given, each with its change.
///
/// # Errors
///
/// As for [`before_filter`]; there is [`before_filter_nodes_later`].
pub fn before_filter_nodes(
    backend: impl Into<Backend>,
    pod: &TestPod,
    nodes: &[TestNode],
) -> Result<Vec<(String, NodeChange)>, NoAnswer> {
    complete("BeforeFilterNodes", nodes_changed(&backend.into(), pod, nodes, Patience::None))
}

/// [`before_filter_nodes`], for a hook that may wait.
///
/// # Errors
///
/// As for [`before_filter`].
pub async fn before_filter_nodes_later(
    backend: impl Into<Backend>,
    pod: &TestPod,
    nodes: &[TestNode],
) -> Result<Vec<(String, NodeChange)>, NoAnswer> {
    Ok(unpanicking("BeforeFilterNodes", nodes_changed(&backend.into(), pod, nodes, Patience::Endless))
        .await?)
}

async fn nodes_changed(
    backend: &Backend,
    pod: &TestPod,
    nodes: &[TestNode],
    patience: Patience,
) -> Result<Vec<(String, NodeChange)>, CallError> {
    let verb = api::Verb::BeforeFilterNodes;
    let changed = mistakes::per_node(backend, verb, nodes, async |nodes: &[TestNode]| {
        let SentCall { call, pod, nodes: asked } = SentCall::new(backend, verb, pod, nodes)?;
        let request = ChangeRequest { call, pod, nodes: asked, hook: verb.into() };
        let answer = answer::change(backend, &Tables::default(), &request, patience).await?;
        mistakes::changes(backend, verb, &answer)?;
        Ok(each(&answer.nodes, nodes))
    });
    Ok(named(changed.await?, nodes))
}

/// What the policy changes before score: about the pod, and of the nodes those that change, in the order given.
///
/// # Errors
///
/// As for [`before_filter`]; there is [`before_score_later`].
pub fn before_score(
    backend: impl Into<Backend>,
    pod: &TestPod,
    nodes: &[TestNode],
) -> Result<(PodChange, Vec<(String, NodeChange)>), NoAnswer> {
    complete("BeforeScore", changed(&backend.into(), pod, nodes, Patience::None))
}

/// [`before_score`], for a hook that may wait.
///
/// # Errors
///
/// As for [`before_filter`].
pub async fn before_score_later(
    backend: impl Into<Backend>,
    pod: &TestPod,
    nodes: &[TestNode],
) -> Result<(PodChange, Vec<(String, NodeChange)>), NoAnswer> {
    Ok(unpanicking("BeforeScore", changed(&backend.into(), pod, nodes, Patience::Endless)).await?)
}

async fn changed(
    backend: &Backend,
    pod: &TestPod,
    nodes: &[TestNode],
    patience: Patience,
) -> Result<(PodChange, Vec<(String, NodeChange)>), CallError> {
    let verb = api::Verb::BeforeScore;
    let changed = mistakes::per_node(backend, verb, nodes, async |nodes: &[TestNode]| {
        let SentCall { call, pod, nodes: asked } = SentCall::new(backend, verb, pod, nodes)?;
        let request = ChangeRequest { call, pod, nodes: asked, hook: verb.into() };
        let answer = answer::change(backend, &Tables::default(), &request, patience).await?;
        mistakes::changes(backend, verb, &answer)?;
        let of_pod = PodChange::of(answer.pod);
        Ok(each(&answer.nodes, nodes).into_iter().map(|of_node| (of_pod.clone(), of_node)).collect())
    });
    let (of_pod, of_nodes): (Vec<_>, _) = changed.await?.into_iter().unzip();
    Ok((of_pod.into_iter().next().unwrap_or_default(), named(of_nodes, nodes)))
}

/// The changes of each node.
fn each(changes: &[api::NodeChange], nodes: &[TestNode]) -> Vec<Option<NodeChange>> {
    let change = |position| changes.iter().find(|change| change.positions.contains(&position));
    (0..).zip(nodes).map(|(position, _)| change(position).map(NodeChange::of)).collect()
}

/// The nodes that change.
fn named(changes: Vec<Option<NodeChange>>, nodes: &[TestNode]) -> Vec<(String, NodeChange)> {
    let named = nodes.iter().zip(changes).filter_map(|(node, change)| Some((node.row.name.clone(), change?)));
    named.collect()
}
