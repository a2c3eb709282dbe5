//! `kubectl extender-explain`: `extender-gateway explain` as a plugin of kubectl, which looks for a program with
//! this name.

use std::process::ExitCode;

use clap::Parser;
use extender_gateway::cli::Plugin;

fn main() -> ExitCode {
    let plugin = Plugin::parse();
    plugin.run()
}
