//! `version`: the build of this program, and the version of each gateway that answers.

#[cfg(test)]
mod tests;

use std::fmt;

use clap::Args;
use extender_gateway_api::explain::replicas::{Away, Gathered};
use extender_gateway_api::{API_VERSION, LogState};
use extender_gateway_object::text::clean;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Commit,
    admin::{GatewayOptions, ReplicaAnswer},
    block_on,
    output::{Console, Failure, Output},
};

/// The command's description.
pub(super) const ABOUT: &str = "Print the version of this program, and of each gateway that answers.\n\n\
    The gateways are those of `status`. If the command line names none and none answers at the default address, only the version \
    of this program is printed.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway version
  extender-gateway version --client -o json
  kubectl extender version --gateway-namespace extender-gateway

Exit codes:
  0  success
  1  cannot write the output
  2  usage error
  5  gateways are named, and none answered";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct VersionOptions {
    /// Print only the version of this program; query no gateway
    #[arg(long, conflicts_with_all = ["urls", "gateway_namespace"])]
    client: bool,

    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,

    #[command(flatten)]
    gateways: GatewayOptions,
}

/// A build of this program.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Build {
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Commit,
    /// The version of the Rust compiler.
    rust_version: &'static str,
    /// The target triple.
    target: &'static str,
}

impl Build {
    /// The build of this program.
    const fn of(commit: Commit) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit,
            rust_version: env!("EXTENDER_GATEWAY_RUST_VERSION"),
            target: env!("EXTENDER_GATEWAY_TARGET"),
        }
    }
}

/// The part of a gateway's status that this command reads, so that the rest may be of any version.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GatewayVersion {
    gateway: String,
    version: String,
    #[serde(skip_serializing)]
    log: LogState,
}

impl ReplicaAnswer for GatewayVersion {
    fn replica(&mut self) -> (&mut String, Timestamp) {
        (&mut self.gateway, self.log.since)
    }
}

/// The output of `-o json` and `-o yaml`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionReport {
    api_version: &'static str,
    kind: &'static str,
    client: Build,
    /// The gateways that answered, by name.
    gateways: Vec<GatewayVersion>,
    /// The named gateways that did not answer.
    away: Vec<Away>,
}

/// Prints the versions.
pub(super) fn run(
    options: &VersionOptions,
    commit: Commit,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let report = VersionReport::new(Build::of(commit), block_on(options.query())??);
    options.output.write(&report, console)?;
    if report.gateways.is_empty() && !report.away.is_empty() {
        return Err(Failure::Away(report.away));
    }
    Ok(())
}

impl VersionOptions {
    async fn query(&self) -> Result<Gathered<GatewayVersion>, Failure> {
        if self.client {
            return Ok(Gathered { answers: Vec::new(), away: Vec::new() });
        }
        let mut gathered = self.gateways.reach().await?.query("/debug/status").await;
        if !self.gateways.are_named() {
            // That none runs at the default address is no failure.
            gathered.away.clear();
        }
        Ok(gathered)
    }
}

impl VersionReport {
    fn new(client: Build, gathered: Gathered<GatewayVersion>) -> Self {
        let Gathered { answers: mut gateways, away } = gathered;
        gateways.sort_by(|a, b| a.gateway.cmp(&b.gateway));
        Self { api_version: API_VERSION, kind: "VersionReport", client, gateways, away }
    }
}

impl fmt::Display for Build {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, commit, rust_version, target } = self;
        write!(out, "{version} (")?;
        if let Some(commit) = commit {
            write!(out, "commit {commit}, ")?;
        }
        write!(out, "Rust {rust_version}, {target})")
    }
}

impl fmt::Display for VersionReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "Client: {}", self.client)?;
        for GatewayVersion { gateway, version, .. } in &self.gateways {
            writeln!(out, "Gateway {}: {}", clean(gateway), clean(version))?;
        }
        // If none answered, the failure names them.
        for Away { gateway, why } in self.away.iter().filter(|_| !self.gateways.is_empty()) {
            writeln!(out, "{} does not answer: {}", clean(gateway), clean(why))?;
        }
        Ok(())
    }
}
