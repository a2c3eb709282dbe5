//! `check-config`: all mistakes of a configuration, or what it means and what is hardly meant.

use std::path::Path;

use super::{Console, Failure};
use crate::config::{Config, Effective};

/// Prints what the configuration means, as YAML, and notes its warnings.
pub(super) fn run(file: &Path, console: &mut Console<'_>) -> Result<(), Failure> {
    let config = Config::read(file)?;
    for warning in config.warnings() {
        writeln!(console.notes, "warning: {warning}")?;
    }
    writeln!(console.out, "# {} has no mistakes. This is what it means:", file.display())?;
    write!(console.out, "{}", Effective(&config))?;
    Ok(())
}
