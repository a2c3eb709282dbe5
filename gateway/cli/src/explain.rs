//! `explain`: why a pod is where it is, or not scheduled.
//!
//! The apiserver reports where the pod is, and every replica of the gateway what it decided about it. Both are
//! combined into [`Evidence`], which is [`render`]ed without further queries.

mod cluster;
mod group;
mod policy_pages;
mod render;
#[cfg(test)]
mod tests;
mod workload;

use clap::Args;
use extender_gateway_api::explain::{Explanation, MAX_CALLS, evidence::Evidence, pod::ExplainedPod};
use extender_gateway_api::{DecisionList, Status};
use jiff::Timestamp;
use serde::Serialize;
use tokio::join;

use self::policy_pages::PolicyPage;
use super::{
    admin::{GatewayOptions, Gateways},
    apiserver::ClusterAccess,
    block_on,
    names::{self, Subject},
    output::{Console, Failure, Output},
};

/// The command's description.
pub(super) const ABOUT: &str = "Explain why a pod was scheduled where it is, or not at all.\n\n\
    Queries all replicas of the gateway for their decisions about the pod, and the apiserver for the pod. Prints a summary, notes \
    about what the gateway cannot know, each backend's part in the latest attempt, the scored nodes as raw score → normalized × \
    weight, and the rejected nodes with backend and reason. With --node, prints what every backend answered for that node in the \
    latest attempts, and what policies show of it at a path that ends with /nodes/:NAME. For a workload such as deployment/NAME, explains the oldest of its pods that wait for a node; for podgroup/NAME, \
    what happened to each of its pods in the latest attempt, and why one of them found no node.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway explain pod/web-0 -n shop
  extender-gateway explain deployment/web -n shop
  extender-gateway explain podgroup/train -n shop
  extender-gateway explain web-0 -n shop --node node-7
  extender-gateway explain web-0 -n shop --gateway http://gateways.extender-gateway.svc:9403
  kubectl extender explain web-0 -n shop --gateway-namespace extender-gateway
  kubectl extender explain web-0 -n shop -o json | jq '.attempts[0].calls[].backends'

Exit codes:
  0  success
  1  cannot write the output
  2  usage error
  5  no gateway answered
  6  pod not found, or no decisions known for it";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct ExplainOptions {
    /// The pod, as NAME or pod/NAME, or a workload: deployment/NAME, replicaset/, statefulset/, daemonset/, job/ or podgroup/NAME
    #[arg(value_name = "pod/NAME", value_parser = names::subject)]
    subject: Subject,

    /// Its namespace [default: that of the kubeconfig's context, or default]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = names::namespace)]
    namespace: Option<String>,

    /// Show every backend's answer for this node
    #[arg(long, value_name = "NODE", value_parser = names::node)]
    node: Option<String>,

    /// Maximum rows per table (0 = no limit)
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,

    #[command(flatten)]
    gateways: GatewayOptions,

    /// Do not query the apiserver
    #[arg(long, conflicts_with_all = ["kubeconfig", "context", "gateway_namespace"])]
    no_cluster: bool,
}

/// The output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Printed<'a> {
    #[serde(flatten)]
    pub(super) explanation: Explanation<'a>,
    /// The maximum number of rows in a table; 0 shows all.
    #[serde(skip)]
    pub(super) top: usize,
    /// With `--node`, what policies show of it.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) policy_pages: &'a [PolicyPage],
}

/// Prints the explanation.
pub(super) fn run(options: &ExplainOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    let (evidence, policy_pages) = &block_on(options.gather())??;
    if evidence.gateways.is_empty() && evidence.pod().is_none() {
        return Err(Failure::Away(evidence.away.clone()));
    }
    if evidence.pod().is_none() && evidence.attempts.is_empty() {
        return Err(Failure::Unknown(render::unknown(evidence)));
    }
    let printed = Printed { explanation: Explanation::of(evidence), top: options.top, policy_pages };
    options.output.write(&printed, console)?;
    // The pod's condition often names the cause.
    if evidence.gateways.is_empty() { Err(Failure::Away(evidence.away.clone())) } else { Ok(()) }
}

impl ExplainOptions {
    async fn gather(&self) -> Result<(Evidence, Vec<PolicyPage>), Failure> {
        let access = if self.no_cluster {
            Err("--no-cluster is set".to_owned())
        } else {
            self.gateways.cluster.access().await?
        };
        let gateways = self.gateways.find(&access).await;
        let target = self.target(&access, &gateways).await?;
        // The names need no escaping.
        let ExplainedPod { namespace, name, .. } = &target;
        let path = format!("/debug/decisions?namespace={namespace}&pod={name}&limit={MAX_CALLS}");
        let (cluster, decisions, statuses, pages) = join!(
            cluster::query(&access, &target),
            gateways.query::<DecisionList>(&path),
            gateways.query::<Status>("/debug/status"),
            policy_pages::of_node(&gateways, self.node.as_deref()),
        );
        Ok((Evidence::new(target, cluster, decisions, statuses.answers, Timestamp::now()), pages))
    }

    /// The pod to explain.
    ///
    /// # Errors
    /// None of the workload's pods waits for a node, the group has none, or the apiserver does not say.
    async fn target(&self, access: &ClusterAccess, gateways: &Gateways) -> Result<ExplainedPod, Failure> {
        let default = || access.as_ref().map_or("default", |cluster| cluster.namespace.as_str()).to_owned();
        let namespace = self.namespace.clone().unwrap_or_else(default);
        let (name, waiting, group) = match &self.subject {
            Subject::Pod(name) => (name.clone(), None, None),
            Subject::Group(name) => {
                let group = group::explained(access, gateways, &namespace, name).await?;
                (group.members[0].name.clone(), None, Some(group))
            }
            Subject::Workload(workload) => {
                let waiting = workload::waiting(access, &namespace, workload).await?;
                (waiting.names[0].clone(), Some(waiting), None)
            }
        };
        Ok(ExplainedPod { namespace, name, node: self.node.clone(), waiting, group })
    }
}
