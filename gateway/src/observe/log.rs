//! The log: one line a fact, on standard error, so that standard output holds only what scripts read.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Which lines are written when `RUST_LOG` does not say: ours, and warnings of the libraries, except that
/// kube repeats at each attempt what the watch says once.
const USUAL: &str = "warn,extender_gateway=info,kube_client=off,kube_runtime=off";

/// Begins to write the log. Call it once.
pub fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(USUAL));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours).init();
}
