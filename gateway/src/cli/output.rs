//! `-o`: the form in which a command answers.

use std::fmt::Display;

use clap::ValueEnum;
use serde::Serialize;

use super::{Console, Failure};

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people
    Table,
    /// For programs
    Json,
    /// For programs, and for people who like to see all of it
    Yaml,
}

impl Output {
    /// Writes `value`; as a table, `table`.
    pub(super) fn write(
        self,
        value: &impl Serialize,
        table: &impl Display,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        match self {
            Self::Table => write!(console.out, "{table}")?,
            Self::Json => writeln!(console.out, "{}", json(value)?)?,
            Self::Yaml => write!(console.out, "{}", yaml(value)?)?,
        }
        Ok(())
    }
}

fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|error| Failure::Print(error.into()))
}

fn yaml(value: &impl Serialize) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(|error| Failure::Print(std::io::Error::other(error)))
}
