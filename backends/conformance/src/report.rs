//! What people read.

use std::fmt::Write as _;

use conformance_report::{CaseInfo, Finding, counts, numbers, printable};

use crate::{
    Suite, Timing,
    cases::BINDING,
    declared::{Terms, Verb},
    trail::counted,
};

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

/// How long calls took, how many cases ended how, and what the reader could overlook. `over` is why the run ended early.
pub fn summary(suite: &Suite, findings: &[Finding], over: Option<&str>) -> String {
    let [passed, failed, warnings, skipped] = counts(findings);
    let mut text = times(&suite.timings());
    // Writing to a string does not fail.
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

/// The sentences with numbers, with the cases that check them, as a table of Markdown.
pub fn markdown(cases: &[CaseInfo]) -> String {
    conformance_report::markdown(&numbers(), cases)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cases;

    fn all() -> Vec<CaseInfo> {
        cases::all().into_iter().map(|case| case.info).collect()
    }

    #[test]
    fn each_sentence_has_a_case_and_each_case_has_sentences() {
        let (numbers, cases) = (numbers().into_iter().collect::<BTreeSet<_>>(), all());
        let checked: BTreeSet<_> = cases.iter().flat_map(|case| case.rules).copied().collect();
        let unchecked: Vec<_> = numbers.difference(&checked).collect();
        let unknown: Vec<_> = checked.difference(&numbers).collect();
        assert!(
            unchecked.is_empty() && unknown.is_empty(),
            "without a case: {unchecked:?}; unknown: {unknown:?}"
        );
        assert!(cases.iter().all(|case| !case.rules.is_empty()));
    }

    #[test]
    fn the_names_of_cases_are_unique_and_there_are_enough() {
        let cases = all();
        let names: BTreeSet<_> = cases.iter().map(CaseInfo::name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(names.len() >= 120, "{}", names.len());
    }

    #[test]
    fn the_table_of_the_documentation_is_fresh() {
        let page = include_str!("../../../docs/conformance.md");
        let table = markdown(&all());
        assert!(
            page.ends_with(&table),
            "replace the table of docs/conformance.md by `policy-conformance --list=markdown`"
        );
    }
}
