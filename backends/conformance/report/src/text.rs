//! What people read.

use std::fmt::Write as _;

use crate::{CaseInfo, Finding, Level, Outcome, place, sentence};

/// The width of a case's name in a list.
const NAME: usize = 36;

/// Longer texts of a program are cut off, in characters.
const LONGEST_TEXT: usize = 600;

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
    for rule in finding.rules() {
        // As above.
        let _ = writeln!(text, "        {}: {}", place(rule), sentence(rule).unwrap_or_default());
    }
    text.truncate(text.trim_end().len());
    text
}

/// The names of the cases with their rules.
pub fn list(cases: &[CaseInfo]) -> String {
    let line = |case: &CaseInfo| {
        let level = match case.level {
            Level::Must => "MUST  ",
            Level::Should => "SHOULD",
        };
        let places: Vec<_> =
            case.rules.iter().map(|rule| rule.split_once(": ").map_or(*rule, |(place, _)| place)).collect();
        format!("{:NAME$} {level} {:12} {}\n", case.name(), places.join(", "), case.title)
    };
    cases.iter().map(line).collect()
}

/// These rules with the cases that check them, as a table of Markdown.
pub fn markdown(rules: &[&str], cases: &[CaseInfo]) -> String {
    let mut text = String::from("| sentence | what it says | cases |\n|---|---|---|\n");
    for rule in rules {
        let checks = |case: &&CaseInfo| case.rules.contains(rule);
        let names: Vec<_> = cases.iter().filter(checks).map(|case| format!("`{}`", case.name())).collect();
        let sentence = sentence(rule).unwrap_or_default().replace('|', "\\|");
        let place = place(rule);
        let place = place.trim_start_matches("SPEC.md ");
        // As above.
        let _ = writeln!(text, "| {place} | {sentence} | {} |", names.join(" "));
    }
    text
}

/// What a program sends, without what would change a terminal or the order of the text, and not endlessly.
pub fn printable(text: &str) -> String {
    let is_harmless = |char: &char| {
        let changes_order =
            matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        !char.is_control() && !changes_order && !matches!(char, '\u{2028}' | '\u{2029}')
    };
    let mut chars = text.chars();
    let shown: String =
        chars.by_ref().take(LONGEST_TEXT).map(|char| if is_harmless(&char) { char } else { ' ' }).collect();
    if chars.next().is_some() { format!("{shown}…") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_program_changes_no_terminal_and_ends() {
        assert_eq!(printable("a\u{1b}[31mb\nc\u{202e}d"), "a [31mb c d");
        assert!(printable(&"x".repeat(10_000)).ends_with("x…"));
    }

    #[test]
    fn the_list_names_level_places_and_title() {
        let case = CaseInfo {
            name: "a.b".to_owned(),
            title: "it holds",
            rules: &["11.1", "63: Scores are"],
            level: Level::Must,
        };
        assert_eq!(list(&[case]), format!("{:NAME$} MUST   {:12} it holds\n", "a.b", "11.1, 63"));
    }
}
