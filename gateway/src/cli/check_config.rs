//! `check-config`: all mistakes of a configuration, or what it means.

use std::io::Write;
use std::path::Path;

use super::Failure;
use crate::config::{Config, Effective};

/// Prints what the configuration means, as YAML.
pub(super) fn run(file: &Path, out: &mut impl Write) -> Result<(), Failure> {
    let config = Config::read(file)?;
    writeln!(out, "# {} has no mistakes. This is what it means:", file.display())?;
    write!(out, "{}", Effective(&config))?;
    Ok(())
}
