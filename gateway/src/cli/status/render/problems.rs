//! What is wrong, and what is to be done.

use std::fmt;

use crate::{
    api::{Problem, Severity},
    cli::{status::report::Report, text::clean},
};

/// Writes all problems, the worst first, and in what replicas differ.
pub(super) fn write(report: &Report, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let problems = report.problems();
    for away in &report.away {
        writeln!(out, "ERROR    {} does not answer: {}", clean(&away.gateway), clean(&away.why))?;
    }
    for (problem, gateways) in &problems {
        one(problem, &gateways.join(", "), out)?;
    }
    for difference in &report.differences {
        writeln!(out, "DIFFERS  {}", clean(difference))?;
    }
    if problems.is_empty() && report.away.is_empty() && report.differences.is_empty() {
        writeln!(out, "No problem.")?;
    }
    Ok(())
}

fn one(problem: &Problem, gateways: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Problem { severity, about, what, remedy } = problem;
    let severity = match severity {
        Severity::Error => "ERROR  ",
        Severity::Warning => "WARNING",
    };
    writeln!(out, "{severity}  {}: {}: {}", clean(gateways), clean(about), clean(what))?;
    writeln!(out, "         {}", clean(remedy))
}
