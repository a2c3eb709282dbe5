//! `check-config`: all mistakes of a configuration, or the effective configuration and warnings.

mod files;

use std::path::PathBuf;

use clap::Args;

use super::{Console, Failure};
use crate::config::{Config, ConfigErrors, Content, Effective, shown_path};

/// The command's description.
pub(super) const ABOUT: &str = "Validate a configuration; print all mistakes or the effective configuration.\n\n\
    Prints every mistake to standard error with its line, path, what is wrong and what is expected; the exit code is then 3. Also \
    reads the files named in the configuration: certificates, keys, the kubeconfig and the node file; --no-files skips them, for \
    use on another machine. A valid configuration is printed to standard output with all defaults and the backends in effective \
    order. A line that begins with `warning:` on standard error marks settings that are valid but probably unintended. Contacts \
    neither backends nor the apiserver.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway check-config --config gateway.yaml
  extender-gateway check-config --config gateway.yaml > effective.yaml
  helm template policies ./chart | yq '.data.\"gateway.yaml\"' | extender-gateway check-config --no-files --config -";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct CheckConfigOptions {
    /// Configuration file (YAML); relative paths are relative to its folder. `-` reads standard input, with paths
    /// relative to the working directory
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Do not read the files named in the configuration
    #[arg(long)]
    no_files: bool,
}

/// Prints the effective configuration as YAML, and its warnings as notes.
pub(super) fn run(options: &CheckConfigOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    let file = &options.config;
    let content = Content::read(file)?;
    let config = Config::of_file(file, &content)?;
    let found = if options.no_files { Vec::new() } else { files::findings(&config) };
    if let Some(errors) = ConfigErrors::of_findings(file, &content, found) {
        return Err(errors.into());
    }
    for warning in config.warnings() {
        writeln!(console.notes, "warning: {warning}")?;
    }
    writeln!(console.out, "# {} is valid. Effective configuration:", shown_path(file))?;
    write!(console.out, "{}", Effective(&config))?;
    Ok(())
}
