//! Serves `spread` as a policy backend.

use std::process::ExitCode;

use clap::Args;
use extender_policies::{
    program::{self, Listen},
    spread::Spread,
};

/// Limits how many pods of one owner, namespace, label or priority class run in one rack, zone or other topology, or in
/// the whole cluster, and prefers nodes where fewer of them run.
///
/// The `args` of the backend's entry in the gateway's configuration are the constraints. Prints `listening on ADDRESS`
/// when it is ready.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the policy in its handshake, 1 to 63 bytes
    #[arg(long, default_value = "spread", value_parser = program::name)]
    name: String,
    #[command(flatten)]
    listen: Listen,
}

const EXAMPLES: &str = "\
Examples:
  extender-policies spread
  extender-policies spread --name racks --address 0.0.0.0:9000

Exit codes: 0 stopped by a signal, 1 failed to start, 2 usage error.";

impl Arguments {
    /// Serves until a signal stops it.
    pub(crate) fn run(self) -> ExitCode {
        program::serve(self.name, self.listen, Spread::new)
    }
}
