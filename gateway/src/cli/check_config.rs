//! `check-config`: all mistakes of a configuration, or what it means and what is hardly meant.

mod files;

use std::path::PathBuf;

use clap::Args;

use super::{Console, Failure};
use crate::config::{Config, ConfigErrors, Content, Effective, spoken};

/// What the command is for.
pub(super) const ABOUT: &str = "Print all mistakes of a configuration, or what it means.\n\n\
    Every mistake is printed to standard error with its line, its path, what is wrong and what would be right; the \
    exit code is then 3. The files that the configuration names are read, too: certificates, keys, the kubeconfig \
    and the file of nodes. --no-files leaves them alone, for a look from another machine. A configuration without \
    mistakes is printed to standard output with every default written out and the backends in the order in which \
    their answers count. A line that begins with `warning:` on standard error is about what works and is hardly \
    meant. No backend is asked, nor is the apiserver.";

/// How it is used.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway check-config --config gateway.yaml
  extender-gateway check-config --config gateway.yaml > effective.yaml
  helm template policies ./chart | yq '.data.\"gateway.yaml\"' | extender-gateway check-config --no-files --config -";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct CheckConfigOptions {
    /// The configuration, a YAML file; relative paths in it are relative to its folder. `-`: standard input, with
    /// paths relative to the working directory
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Do not read the files that the configuration names
    #[arg(long)]
    no_files: bool,
}

/// Prints what the configuration means, as YAML, and notes its warnings.
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
    writeln!(console.out, "# {} has no mistakes. This is what it means:", spoken(file))?;
    write!(console.out, "{}", Effective(&config))?;
    Ok(())
}
