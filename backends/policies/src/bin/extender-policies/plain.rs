//! Serves policies that have a name, their args and nothing else.

use std::process::ExitCode;

use clap::Arg;
use extender_policies::program::{self, Listen};
use extender_policy_sdk::{Args, ArgsError, Policy};

/// The options of such a policy.
#[derive(Debug, clap::Args)]
pub(crate) struct Plain {
    /// Name of the policy in its handshake, 1 to 63 bytes
    #[arg(long, required = false, value_parser = program::name)]
    name: String,
    #[command(flatten)]
    listen: Listen,
}

impl Plain {
    /// Serves until a signal stops it.
    pub(crate) fn serve<P: Policy>(
        self,
        build: impl Fn(&str, &Args) -> Result<P, ArgsError> + Send + Sync + 'static,
    ) -> ExitCode {
        program::serve(self.name, self.listen, build)
    }
}

/// Sets the name that a policy has without `--name`.
pub(crate) fn named(default: &'static str) -> impl FnOnce(Arg) -> Arg {
    move |name| name.default_value(default)
}

/// The end of the help: the policy alone, and under another name.
pub(crate) fn examples(policy: &str, other: &str) -> String {
    format!(
        "\
Examples:
  extender-policies {policy}
  extender-policies {policy} --name {other} --address 0.0.0.0:9000

Exit codes: 0 stopped by a signal, 1 failed to start, 2 usage error."
    )
}
