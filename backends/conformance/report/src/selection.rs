//! The options of both suites, and what they write.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use clap::{Args, ValueEnum};

use crate::{CaseInfo, list};

/// Which cases run, and where their results go.
#[derive(Args, Clone, Debug, Default)]
pub struct Selection {
    /// Runs the cases whose name contains one of these.
    #[arg(long = "only", value_name = "TEXT")]
    pub only: Vec<String>,
    /// Omits the cases whose name contains one of these.
    #[arg(long = "skip", value_name = "TEXT")]
    pub skip: Vec<String>,
    /// Writes the results as XML in the format of `JUnit`.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Writes the results as YAML, with the versions and what is known about the program.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Prints only what did not pass, and the summary.
    #[arg(long, short)]
    pub quiet: bool,
    /// Lists the cases with their rules, or the rules with their cases for documentation, and asks nothing.
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    pub list: Option<ListFormat>,
}

/// How the cases are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// A line for each case.
    Text,
    /// A table of the sentences of SPEC.md.
    Markdown,
}

impl Selection {
    /// Whether the case of this name runs.
    pub fn has(&self, name: &str) -> bool {
        let named = |texts: &[String]| texts.iter().any(|text| name.contains(text.as_str()));
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }

    /// The list that is wanted instead of a run, of these cases; `markdown` makes the table.
    pub fn listed(&self, cases: &[CaseInfo], markdown: impl Fn(&[CaseInfo]) -> String) -> Option<String> {
        Some(match self.list? {
            ListFormat::Text => list(cases),
            ListFormat::Markdown => markdown(cases),
        })
    }

    /// Writes the files of `--report` and `--junit`, as far as they are wanted.
    ///
    /// # Errors
    ///
    /// The path of a file that cannot be written, and why.
    pub fn write(
        &self,
        report: impl Fn() -> String,
        junit: impl Fn() -> String,
    ) -> Result<(), (PathBuf, io::Error)> {
        let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
            Some(path) => fs::write(path, text()).map_err(|error| (path.clone(), error)),
            None => Ok(()),
        };
        write(&self.report, &report)?;
        write(&self.junit, &junit)
    }
}

/// Standard output may be closed, as by `head`; the exit status still says how the cases ended.
pub fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}
