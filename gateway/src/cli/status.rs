//! `status`: the health of every replica and its backends, and remedies.

mod render;
mod report;
#[cfg(test)]
mod tests;

use clap::Args;
use jiff::Timestamp;
use tokio::runtime;

use self::{render::Rendered, report::Report};
use super::{
    Console, Failure,
    admin::GatewayOptions,
    apiserver::{ClusterOptions, Way},
    output::Output,
};
use crate::api::Status;

/// The command's description.
pub(super) const ABOUT: &str = "Show the health of the gateway and its backends, and how to fix problems.\n\n\
    All replicas are asked. For each: its version and configuration, calls by verb, backends with their handshake, failures and \
    times, nodes and pods, the decision log, and every problem with what to do about it. Replicas that differ are pointed out.\n\n\
    For scripts: the exit code is 4 when pods may not be scheduled, or a replica does not answer. Warnings alone, such as a \
    configuration that was refused, are printed and end with 0.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway status
  extender-gateway status --gateway http://gateways.extender-gateway.svc:9403
  extender-gateway status --gateway-namespace extender-gateway --context production
  extender-gateway status -o json | jq '.replicas[].backends[] | select(.connected | not)'

Exit codes:
  0  no problem, warnings at most
  1  the answer cannot be printed
  2  the command line is wrong
  4  a problem, or a replica that does not answer
  5  no gateway answered";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct StatusOptions {
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,

    #[command(flatten)]
    gateways: GatewayOptions,

    #[command(flatten)]
    cluster: ClusterOptions,
}

/// Prints the status of all replicas.
pub(super) fn run(options: &StatusOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    // Neither files nor a second thread are needed.
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(find_out(options))?;
    if report.replicas.is_empty() {
        return Err(Failure::Away(report.away));
    }
    options.output.write(&report, &Rendered(&report), console)?;
    match report.errors() {
        0 => Ok(()),
        count => Err(Failure::Problems(count)),
    }
}

async fn find_out(options: &StatusOptions) -> Result<Report, Failure> {
    let way = if options.gateways.needs_apiserver() {
        options.cluster.way().await?
    } else {
        Way::Closed("it was not needed".to_owned())
    };
    let gateways = options.gateways.find(&way).await;
    Ok(Report::new(gateways.ask::<Status>("/debug/status").await, Timestamp::now()))
}
