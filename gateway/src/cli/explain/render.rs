//! Renders the evidence as text: first sentences, then a table of calls, then one of nodes.
//!
//! Pure: the same evidence gives the same text.

mod calls;
mod headline;
mod node;
mod rejected;
mod scores;

use std::fmt;

use super::{case::Evidence, notes, pod::PodState};
use crate::cli::text::{clean, counted};

/// Evidence and its notes, displayed for people.
#[derive(Debug)]
pub(super) struct Rendered<'a> {
    pub(super) case: &'a Evidence,
    pub(super) notes: &'a [String],
    pub(super) top: Top,
}

/// The maximum number of rows in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Top(usize);

impl Top {
    /// A maximum; 0 shows all rows.
    pub(super) fn new(rows: usize) -> Self {
        Self(if rows == 0 { usize::MAX } else { rows })
    }

    fn rows(self) -> usize {
        self.0
    }
}

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, notes, top } = self;
        for line in headline::lines(case) {
            writeln!(out, "{}", clean(&line).trim_end())?;
        }
        for note in *notes {
            writeln!(out, "- {}", clean(note).trim_end())?;
        }
        let Some(attempt) = case.latest() else { return Ok(()) };
        calls::write(attempt, out)?;
        if let Some(name) = &case.node {
            return node::write(case, name, *top, out);
        }
        scores::write(attempt, case.place(), *top, out)?;
        rejected::write(attempt, *top, out)
    }
}

/// Writes the number of hidden rows.
fn rest(out: &mut fmt::Formatter<'_>, hidden: usize, what: &str) -> fmt::Result {
    if hidden == 0 {
        return Ok(());
    }
    let hidden = counted(hidden as u64, &format!("more {what}"));
    writeln!(out, "{hidden}; --top 0 shows all")
}

/// Why there is no data, and a remedy.
pub(super) fn unknown(case: &Evidence) -> String {
    let Evidence { namespace, name, .. } = case;
    let (first, remedy) = match &case.pod {
        PodState::Gone { near, elsewhere } => {
            let first =
                format!("pod {name} not found in namespace {namespace}, and no gateway has decisions for it");
            (first, look(name, near, elsewhere))
        }
        _ => (
            format!("no gateway has decisions for pod {name} in namespace {namespace}"),
            "check the namespace (-n)".to_owned(),
        ),
    };
    let lines = notes::of(case).into_iter().map(|note| format!("\n- {}", clean(&note)));
    format!("{first}; {remedy}{}", lines.collect::<String>())
}

fn look(name: &str, near: &[String], elsewhere: &[String]) -> String {
    match (elsewhere, near) {
        ([], []) => "`kubectl get pods --all-namespaces` lists all pods".to_owned(),
        ([], near) => format!("similar names there: {}", near.join(", ")),
        ([namespace], _) => format!("namespace {namespace} has one: set -n {namespace}"),
        (namespaces, _) => {
            format!("{name} is in the namespaces {}: choose one with -n", namespaces.join(", "))
        }
    }
}
