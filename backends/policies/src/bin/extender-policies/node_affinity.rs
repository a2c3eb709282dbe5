//! Serves `node-affinity` as a policy backend.

use std::process::ExitCode;

use clap::Args;
use extender_policies::{
    node_affinity::NodeAffinity,
    program::{self, Listen},
};

/// Refuses nodes that a pod's node selector and affinity exclude, and scores the others by its preferences.
///
/// The `args` of the backend's entry in the gateway's configuration may add to the affinity of every pod. Prints
/// `listening on ADDRESS` when it is ready.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the policy in its handshake, 1 to 63 bytes
    #[arg(long, default_value = "node-affinity", value_parser = program::name)]
    name: String,
    #[command(flatten)]
    listen: Listen,
}

const EXAMPLES: &str = "\
Examples:
  extender-policies node-affinity
  extender-policies node-affinity --name tenants --address 0.0.0.0:9000

Exit codes: 0 stopped by a signal, 1 failed to start, 2 usage error.";

impl Arguments {
    /// Serves until a signal stops it.
    pub(crate) fn run(self) -> ExitCode {
        program::serve(self.name, self.listen, NodeAffinity::new)
    }
}
