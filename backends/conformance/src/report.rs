//! What people read.

use std::fmt::Write as _;

use crate::{Case, Finding, Level, Outcome, Suite, client::printable, spec};

/// The width of a case's name in a list.
const NAME: usize = 36;

/// The backend, and how many cases it is asked.
pub fn title(suite: &Suite, cases: usize) -> String {
    let info = &suite.declared.info;
    let verbs: Vec<_> = suite
        .declared
        .verbs()
        .map(|terms| {
            let marks = [
                (terms.is_pure(), "pure"),
                (terms.is_per_node() && !terms.is_pure(), "per node"),
                (terms.info.side_effects, "side effects"),
                (terms.reads().is_some(), "reads"),
            ];
            let marks: Vec<_> = marks.into_iter().filter(|(holds, _)| *holds).map(|(_, mark)| mark).collect();
            let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
            format!("{}{marks}", terms.verb.name())
        })
        .collect();
    let table = if suite.declared.holds_tables() { ", holds tables" } else { "" };
    let (name, version) = (printable(&info.name), printable(&info.version));
    format!("{name} {version} at {}: {}{table}\n{cases} cases\n\n", suite.target.url, verbs.join(", "))
}

/// One case: a line, and for one that did not pass why, with the sentences behind it.
pub fn progress(finding: &Finding, quiet: bool) -> String {
    let Finding { case, outcome, .. } = finding;
    let name = case.name();
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match outcome {
        Outcome::Passed | Outcome::Skipped(_) if quiet => Ok(()),
        Outcome::Passed => writeln!(text, "ok    {name}"),
        Outcome::Skipped(reason) => writeln!(text, "skip  {name:NAME$} {reason}"),
        Outcome::Failed(why) => writeln!(text, "FAIL  {name}\n{}", because(case, why)),
        Outcome::Warned(why) => writeln!(text, "warn  {name}\n{}", because(case, why)),
    };
    text
}

fn because(case: &Case, why: &str) -> String {
    let mut text = format!("        {why}\n");
    for number in case.rules() {
        let sentence = spec::sentence(number).unwrap_or_default();
        // As above.
        let _ = writeln!(text, "        SPEC.md {number}: {sentence}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// How many cases ended how.
pub fn summary(suite: &Suite, findings: &[Finding]) -> String {
    let count = |of: fn(&Outcome) -> bool| findings.iter().filter(|finding| of(&finding.outcome)).count();
    let passed = count(|outcome| *outcome == Outcome::Passed);
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let warned = count(|outcome| matches!(outcome, Outcome::Warned(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let mut text = format!("\n{passed} passed, {failed} failed, {warned} warnings, {skipped} skipped\n");
    for uniform in suite.uniform() {
        // As above.
        let _ = writeln!(
            text,
            "note: {uniform}; --value TEXT names values of labels that the policy tells apart"
        );
    }
    text
}

/// The names of the cases with their rules.
pub fn list(cases: &[Case]) -> String {
    let line = |case: &Case| {
        let level = match case.level() {
            Level::Must => "MUST  ",
            Level::Should => "SHOULD",
        };
        format!("{:NAME$} {level} {:12} {}\n", case.name(), case.rules().join(", "), case.title())
    };
    cases.iter().map(line).collect()
}

/// The sentences of SPEC.md with the cases that check them, as a table of Markdown.
pub fn markdown(cases: &[Case]) -> String {
    let mut text = String::from("| sentence | what it says | cases |\n|---|---|---|\n");
    for number in spec::numbers() {
        let checks = |case: &&Case| case.rules().contains(&number);
        let names: Vec<_> = cases.iter().filter(checks).map(|case| format!("`{}`", case.name())).collect();
        let sentence = spec::sentence(number).unwrap_or_default().replace('|', "\\|");
        // As above.
        let _ = writeln!(text, "| {number} | {sentence} | {} |", names.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    #[test]
    fn the_list_names_level_rules_and_title() {
        let cases = cases::all();
        let list = list(&cases);
        assert_eq!(list.lines().count(), cases.len());
        let evaluated = format!("{:NAME$} MUST   11.1", "filter.evaluated");
        assert!(list.contains(&evaluated), "{list}");
    }

    #[test]
    fn the_table_of_the_documentation_is_fresh() {
        let page = include_str!("../../../docs/conformance.md");
        let table = markdown(&cases::all());
        assert!(
            page.ends_with(&table),
            "replace the table of docs/conformance.md by `policy-conformance --list=markdown`"
        );
    }
}
