//! What people read.

use std::fmt::Write as _;

use crate::{
    Case, Finding, Level, Outcome, Suite, Timing,
    cases::BINDING,
    client::printable,
    declared::{Terms, Verb},
    spec,
    trail::counted,
};

/// The width of a case's name in a list.
const NAME: usize = 36;

/// The backend, and how many cases it is asked.
pub fn title(suite: &Suite, cases: usize) -> String {
    let info = &suite.declared.info;
    let verbs: Vec<_> = suite
        .declared
        .verbs()
        .map(|terms| {
            let marks = marks(terms);
            let marks = if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) };
            format!("{}{marks}", terms.verb.name())
        })
        .collect();
    let table = if suite.declared.holds_tables() { ", holds tables" } else { "" };
    let (name, version) = (printable(&info.name), printable(&info.version));
    format!("{name} {version} at {}: {}{table}\n{cases} cases\n\n", suite.target.url, verbs.join(", "))
}

/// What a verb declares.
pub(crate) fn marks(terms: Terms<'_>) -> Vec<&'static str> {
    let marks = [
        (terms.is_pure(), "pure"),
        (terms.is_per_node() && !terms.is_pure(), "per node"),
        (terms.changes_outside(), "side effects"),
        (terms.pod_reads().everything || terms.node_reads().everything, "reads everything"),
    ];
    marks.into_iter().filter(|(holds, _)| *holds).map(|(_, mark)| mark).collect()
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
        Outcome::Failed(why) => writeln!(text, "FAIL  {name}\n{}", because(finding, why)),
        Outcome::Warned(why) => writeln!(text, "warn  {name}\n{}", because(finding, why)),
    };
    text
}

fn because(finding: &Finding, why: &str) -> String {
    let mut text = format!("        {why}\n");
    for number in finding.rules() {
        let sentence = spec::sentence(number).unwrap_or_default();
        // As above.
        let _ = writeln!(text, "        SPEC.md {number}: {sentence}");
    }
    text.truncate(text.trim_end().len());
    text
}

/// How many cases passed, failed, were a warning, and were skipped.
pub(crate) fn counts(findings: &[Finding]) -> [usize; 4] {
    let count = |of: fn(&Outcome) -> bool| findings.iter().filter(|finding| of(&finding.outcome)).count();
    [
        count(|outcome| *outcome == Outcome::Passed),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        count(|outcome| matches!(outcome, Outcome::Warned(_))),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
    ]
}

/// How long calls took, how many cases ended how, and what the reader could overlook. `over` is why the run ended early.
pub fn summary(suite: &Suite, findings: &[Finding], over: Option<&str>) -> String {
    let [passed, failed, warnings, skipped] = counts(findings);
    let mut text = times(&suite.timings());
    // As above.
    let _ = writeln!(text, "\n{passed} passed, {failed} failed, {warnings} warnings, {skipped} skipped");
    if let Some(over) = over {
        let _ = writeln!(text, "note: {over}: the cases since then were not run, and count as skipped");
    }
    if let Some(names) = not_bound(suite, findings) {
        let remedy = "--bind NAMESPACE/NAME/UID/NODE names a pod that may be";
        let _ = writeln!(text, "note: nothing was bound, and not checked: {names}; {remedy}");
    }
    for uniform in suite.uniform() {
        // As above.
        let _ = writeln!(
            text,
            "note: {uniform}; --value [KEY=]VALUE names values of labels that the policy tells apart"
        );
    }
    text
}

/// The cases that were skipped because no pod may be bound.
fn not_bound(suite: &Suite, findings: &[Finding]) -> Option<String> {
    if suite.bindable.is_some() || suite.declared.verb(Verb::Bind).is_none() {
        return None;
    }
    let names = findings.iter().map(|finding| finding.case.name());
    let names: Vec<_> = names.filter(|name| BINDING.contains(name)).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// A table of the times of calls; empty without any.
fn times(timings: &[Timing]) -> String {
    let lines = timings.iter().map(|timing| {
        let nodes = timing.nodes.map_or_else(String::new, |nodes| format!(", {}", counted(nodes)));
        let [p50, p99] = [0.5, 0.99].map(|share| match timing.quantile(share) {
            Some(time) => format!("{:.2}", time.as_secs_f64() * 1_000.0),
            None => "too large".to_owned(),
        });
        format!("{:24} {:>6} {p50:>10} {p99:>10}\n", format!("{}{nodes}", timing.method), timing.times.len())
    });
    let head = format!("\n{:24} {:>6} {:>10} {:>10}\n", "time of a call, in ms", "calls", "p50", "p99");
    if timings.is_empty() { String::new() } else { lines.fold(head, |text, line| text + &line) }
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
