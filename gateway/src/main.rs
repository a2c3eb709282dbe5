//! The program: reads the command line and runs the command.

use std::process::ExitCode;

use clap::Parser;
use extender_gateway::{cli::Arguments, serve};

/// The system's allocator takes twice as long for the many short-lived allocations of a call.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The commit, from the environment of the build. Read here and not in the library, which would be compiled for every
/// commit.
const COMMIT: Option<&str> = option_env!("EXTENDER_GATEWAY_COMMIT");

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.run(COMMIT, serve::run)
}
