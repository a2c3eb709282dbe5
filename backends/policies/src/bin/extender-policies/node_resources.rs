//! Serves `node-resources` as a policy backend.

use std::process::ExitCode;

use clap::Args;
use extender_policies::{
    node_resources::NodeResources,
    program::{self, Listen},
};

/// Refuses nodes that have too little left for a pod, and scores the others by what is requested on them.
///
/// The `args` of the backend's entry in the gateway's configuration select the resources and the scoring strategy.
/// Prints `listening on ADDRESS` when it is ready.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the policy in its handshake, 1 to 63 bytes
    #[arg(long, default_value = "node-resources", value_parser = program::name)]
    name: String,
    #[command(flatten)]
    listen: Listen,
}

const EXAMPLES: &str = "\
Examples:
  extender-policies node-resources
  extender-policies node-resources --name bin-packing --address 0.0.0.0:9000

Exit codes: 0 stopped by a signal, 1 failed to start, 2 usage error.";

impl Arguments {
    /// Serves until a signal stops it.
    pub(crate) fn run(self) -> ExitCode {
        program::serve(self.name, self.listen, NodeResources::new)
    }
}
