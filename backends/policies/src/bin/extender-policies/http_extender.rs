//! Serves `http-extender` as a policy backend: one process for any number of extenders.

use std::process::ExitCode;

use clap::Args;
use extender_policies::{
    http_extender::HttpExtender,
    program::{self, Listen},
};

/// Asks existing HTTP scheduler extenders.
///
/// The `args` of the backend's entry in the gateway's configuration are an item of `extenders` in kube-scheduler's
/// configuration; `extender-gateway scheduler-config --import` writes them. One process serves any number of
/// extenders. Prints `listening on ADDRESS` when it is ready.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the policy in its handshake, 1 to 63 bytes
    #[arg(long, default_value = "http-extender", value_parser = program::name)]
    name: String,
    #[command(flatten)]
    listen: Listen,
}

const EXAMPLES: &str = "\
Examples:
  extender-policies http-extender
  extender-policies http-extender --address 0.0.0.0:9000

Exit codes: 0 stopped by a signal, 1 failed to start, 2 usage error.";

impl Arguments {
    /// Serves until a signal stops it.
    pub(crate) fn run(self) -> ExitCode {
        program::serve(self.name, self.listen, HttpExtender::new)
    }
}
