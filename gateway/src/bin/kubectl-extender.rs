//! `kubectl extender`: the commands that query running gateways, as a plugin of kubectl, which looks for a program
//! with this name.

use std::process::ExitCode;

use clap::Parser;
use extender_gateway_cli::Plugin;

fn main() -> ExitCode {
    let plugin = Plugin::parse();
    // As in the gateway's program.
    plugin.run(option_env!("EXTENDER_GATEWAY_COMMIT"))
}
