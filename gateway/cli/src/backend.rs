//! `backend`: sets the mode of a backend for a while, in every replica.

#[cfg(test)]
mod tests;

use std::fmt;

use clap::Args;
use extender_gateway_api::explain::replicas::{Away, Gathered};
use extender_gateway_api::{
    API_VERSION, OverrideAction, OverrideList, OverrideRequest, OverrideStatus, UntriedPods,
};
use extender_gateway_object::text::{clean, counted, moment};
use serde::Serialize;

use super::{
    admin::{AdminQuery, GatewayOptions},
    block_on,
    output::{Console, Failure, Output},
    retry::RetryOptions,
};

/// The command's description.
pub(super) const ABOUT: &str = "Set the mode of a backend for a while, in every replica.\n\n\
    shadow: it is called in the background, and its answers do not count; its hooks do not run. disable: it is not called. enforce: its answers count, \
    also if the configuration says Shadow or canary. reset ends this early; at its end the configured mode applies again by itself.\n\n\
    Pods that it has blocked are tried again: by the gateway with `requeue: PodCondition`, otherwise with --retry.\n\n\
    A replica that starts later does not know of it, and a restart forgets it: repeat the command, or change the configuration.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway backend rack-drain shadow --for 30m --reason 'rejects every node since 12:00' --retry
  extender-gateway backend rack-drain reset
  extender-gateway backend --all disable --for 10m --reason 'incident 4711'
  kubectl extender backend rack-drain shadow --for 1h --reason TEXT --gateway-namespace extender-gateway

Exit codes:
  0  all replicas have done it
  1  cannot write the output
  2  usage error
  4  a replica did not answer, or refused; or pods could not be tried again
  5  no gateway has done it";

/// The command's options.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(super) struct BackendOptions {
    /// The backend's name in the configuration
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,

    /// What to do
    #[arg(value_name = "ACTION", value_enum)]
    action: OverrideAction,

    /// All backends that have no override of their own
    #[arg(long)]
    all: bool,

    /// For how long, at most 24h, such as 30m
    #[arg(long = "for", value_name = "DURATION", required_if_eq_any = TIMED)]
    time: Option<String>,

    /// Why: shown by status, and in the log
    #[arg(long, value_name = "TEXT", required_if_eq_any = TIMED)]
    reason: Option<String>,

    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,

    #[command(flatten)]
    retry: RetryOptions,

    #[command(flatten)]
    gateways: GatewayOptions,
}

/// The actions that need a time and a reason.
const TIMED: [(&str, &str); 3] = [("action", "shadow"), ("action", "disable"), ("action", "enforce")];

/// The output of `-o json` and `-o yaml`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OverrideReport {
    api_version: &'static str,
    kind: &'static str,
    /// The pods that wait for an event of the cluster, in the replica that knows most of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    untried: Option<UntriedPods>,
    /// The replicas that have done it, with all of their overrides.
    replicas: Vec<ReplicaOverrides>,
    /// The replicas that have not.
    away: Vec<Away>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplicaOverrides {
    gateway: String,
    overrides: Vec<OverrideStatus>,
}

/// Sets the mode.
pub(super) fn run(options: &BackendOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    let report = OverrideReport::new(block_on(options.send())??);
    if report.replicas.is_empty() {
        return Err(Failure::NotDone(report.away));
    }
    options.output.write(&report, console)?;
    block_on(options.retry.run(&options.gateways.cluster, console))??;
    if report.away.is_empty() { Ok(()) } else { Err(Failure::Problems(report.away.len())) }
}

impl BackendOptions {
    async fn send(&self) -> Result<Gathered<OverrideList>, Failure> {
        let body = serde_json::to_vec(&self.request()).map_err(std::io::Error::from)?;
        let query = AdminQuery { path: "/debug/overrides", posted: Some(&body) };
        Ok(self.gateways.reach().await?.ask(query).await)
    }

    fn request(&self) -> OverrideRequest {
        OverrideRequest {
            backend: self.name.clone(),
            all: self.all,
            action: self.action,
            time: self.time.clone(),
            reason: self.reason.clone(),
        }
    }
}

impl OverrideReport {
    fn new(gathered: Gathered<OverrideList>) -> Self {
        let untried = gathered.answers.iter().filter_map(|list| list.untried.clone());
        let untried = untried.max_by_key(|untried| untried.pods);
        let of_replica =
            |list: OverrideList| ReplicaOverrides { gateway: list.gateway, overrides: list.items };
        let mut replicas: Vec<_> = gathered.answers.into_iter().map(of_replica).collect();
        replicas.sort_by(|a, b| a.gateway.cmp(&b.gateway));
        Self { api_version: API_VERSION, kind: "OverrideReport", untried, replicas, away: gathered.away }
    }
}

impl fmt::Display for OverrideReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(UntriedPods { pods, is_requeued, .. }) = self.untried {
            let pods = counted(u64::from(pods), "waiting pod");
            let what = if is_requeued {
                "the gateway makes kube-scheduler try them again"
            } else {
                "kube-scheduler tries them at the next event of the cluster, in 5.5 minutes at most; now with --retry, or \
                 `extender-gateway status --retry`"
            };
            writeln!(out, "{pods}: {what}")?;
        }
        for ReplicaOverrides { gateway, overrides } in &self.replicas {
            let gateway = clean(gateway);
            if overrides.is_empty() {
                writeln!(out, "{gateway}: all backends have their configured modes")?;
            }
            for it in overrides {
                writeln!(out, "{gateway}: {}", sentence(it))?;
            }
        }
        for Away { gateway, why } in &self.away {
            writeln!(out, "{}: NOT DONE: {}", clean(gateway), clean(why))?;
        }
        Ok(())
    }
}

fn sentence(it: &OverrideStatus) -> String {
    let OverrideStatus { backend, mode, ends, reason, by, .. } = it;
    let about = backend.as_ref().map_or_else(|| "all backends".to_owned(), |name| format!("backend {name}"));
    let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
    clean(&format!("{about}: {mode} until {}{by} ({reason})", moment(*ends))).into_owned()
}
