//! `explain`: why a pod is where it is, or not scheduled.
//!
//! The apiserver reports where the pod is, and every replica of the gateway what it decided about it. Both are
//! combined into a [`case::Evidence`], which is turned into [`notes`] and [`render`]ed without further queries.

mod attempt;
mod case;
mod cluster;
mod notes;
mod pod;
mod render;
#[cfg(test)]
mod samples;
mod target;
#[cfg(test)]
mod tests;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use tokio::{join, runtime};

use self::{
    case::{Evidence, ExplainedPod},
    cluster::ClusterView,
    render::{Rendered, Top},
    target::PodName,
};
use super::{
    Console, Failure,
    admin::GatewayOptions,
    apiserver::{ClusterOptions, Way},
    names,
    output::Output,
};
use crate::api::{DecisionList, Status};

/// The command's description.
pub(super) const ABOUT: &str = "Explain why a pod was scheduled where it is, or not at all.\n\n\
    Queries all replicas of the gateway for their decisions about the pod, and the apiserver for the pod. Prints a summary, notes \
    about what the gateway cannot know, each backend's part in the latest attempt, the scored nodes as raw score → normalized × \
    weight, and the rejected nodes with backend and reason. With --node, prints what every backend answered for that node in the \
    latest attempts.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway explain pod/web-0 -n shop
  extender-gateway explain web-0 -n shop --node node-7
  extender-gateway explain web-0 -n shop --gateway http://gateways.extender-gateway.svc:9403
  kubectl extender-explain web-0 -n shop --gateway-namespace extender-gateway
  kubectl extender-explain web-0 -n shop -o json | jq '.attempts[0].calls[].backends'

Exit codes:
  0  success
  1  cannot write the output
  2  usage error
  5  no gateway answered
  6  pod not found, or no decisions known for it";

/// How many calls of each replica are read: more than a log keeps for one pod.
const MOST_CALLS: u32 = 1000;

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct ExplainOptions {
    /// The pod, as NAME or pod/NAME
    #[arg(value_name = "pod/NAME")]
    pod: PodName,

    /// The pod's namespace [default: that of the kubeconfig's context, or default]
    #[arg(long, short, value_name = "NAMESPACE", value_parser = names::namespace)]
    namespace: Option<String>,

    /// Show every backend's answer for this node
    #[arg(long, value_name = "NODE", value_parser = names::node_name)]
    node: Option<String>,

    /// Maximum rows per table (0 = no limit)
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,

    #[command(flatten)]
    gateways: GatewayOptions,

    #[command(flatten)]
    cluster: ClusterOptions,

    /// Do not query the apiserver
    #[arg(long, conflicts_with_all = ["kubeconfig", "context", "gateway_namespace"])]
    no_cluster: bool,
}

/// The output of `-o json` and `-o yaml`.
#[derive(Debug, Serialize)]
struct Explanation<'a> {
    #[serde(flatten)]
    case: &'a Evidence,
    /// The sentences.
    notes: &'a [String],
}

/// Prints the explanation.
pub(super) fn run(options: &ExplainOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    // Neither files nor a second thread are needed.
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let case = runtime.block_on(find_out(options))?;
    if case.gateways.is_empty() {
        return Err(Failure::Away(case.away));
    }
    if case.is_unknown() {
        return Err(Failure::Unknown(render::unknown(&case)));
    }
    let notes = notes::of(&case);
    let table = Rendered { case: &case, notes: &notes, top: Top::new(options.top) };
    options.output.write(&Explanation { case: &case, notes: &notes }, &table, console)
}

async fn find_out(options: &ExplainOptions) -> Result<Evidence, Failure> {
    let way = options.way().await?;
    let subject = options.subject(&way);
    let gateways = options.gateways.find(&way).await;
    let path = subject.decisions();
    let (cluster, decisions, statuses) = join!(
        look(&way, &subject),
        gateways.ask::<DecisionList>(&path),
        gateways.ask::<Status>("/debug/status"),
    );
    Ok(Evidence::new(subject, cluster, decisions, &statuses.answers, Timestamp::now()))
}

async fn look(way: &Way, subject: &ExplainedPod) -> ClusterView {
    let ExplainedPod { namespace, name, node } = subject;
    match way {
        Way::Open(apiserver) => ClusterView::of(apiserver, namespace, name, node.as_deref()).await,
        Way::Closed(why) => ClusterView::unasked(why),
    }
}

impl ExplainOptions {
    async fn way(&self) -> Result<Way, Failure> {
        if self.no_cluster {
            return Ok(Way::Closed("--no-cluster is set".to_owned()));
        }
        self.cluster.way().await
    }

    fn subject(&self, way: &Way) -> ExplainedPod {
        let namespace = self.namespace.clone().unwrap_or_else(|| match way {
            Way::Open(apiserver) => apiserver.namespace.clone(),
            Way::Closed(_) => "default".to_owned(),
        });
        let PodName(name) = self.pod.clone();
        ExplainedPod { namespace, name, node: self.node.clone() }
    }
}

impl ExplainedPod {
    /// The path of the decisions about the pod. The names need no escaping.
    fn decisions(&self) -> String {
        let Self { namespace, name, .. } = self;
        format!("/debug/decisions?namespace={namespace}&pod={name}&limit={MOST_CALLS}")
    }
}
