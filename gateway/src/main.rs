//! The program: reads the command line and runs the command. The crates beside this one are the gateway; a change of a command
//! does not compile the path of a call.

use std::process::ExitCode;

use clap::Parser;
use extender_gateway_cli::Arguments;

/// The system's allocator takes twice as long for the many short-lived allocations of a call.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The commit, from the environment of the build. Read here and not in a crate of the gateway, which would be compiled
/// for every commit.
const COMMIT: Option<&str> = option_env!("EXTENDER_GATEWAY_COMMIT");

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.run(COMMIT, extender_gateway_serve::run)
}
