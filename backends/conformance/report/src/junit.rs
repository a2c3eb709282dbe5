//! The results as `JUnit` XML, which CI systems show.

use std::fmt::Write as _;

use crate::{Finding, Outcome, place, sentence};

/// The test suite of this name with a test case for each case. Warnings are failures only if they count as such.
pub fn junit(suite: &str, findings: &[Finding], strict: bool) -> String {
    let failures = findings.iter().filter(|finding| finding.outcome.fails(strict)).count();
    let skipped = findings.iter().filter(|finding| matches!(finding.outcome, Outcome::Skipped(_))).count();
    let time: f64 = findings.iter().map(|finding| finding.took.as_secs_f64()).sum();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let tests = findings.len();
    // Writing to a string does not fail.
    let _ = writeln!(
        xml,
        "<testsuite name=\"{suite}\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\" \
         time=\"{time:.3}\">"
    );
    for finding in findings {
        xml.push_str(&test_case(finding, finding.outcome.fails(strict)));
    }
    xml.push_str("</testsuite>\n");
    xml
}

fn test_case(finding: &Finding, fails: bool) -> String {
    let Finding { case, outcome, took, .. } = finding;
    let (class, name) = case.name().split_once('.').unwrap_or(("", case.name()));
    let head =
        format!("  <testcase classname=\"{class}\" name=\"{name}\" time=\"{:.3}\"", took.as_secs_f64());
    let rules = || {
        let sentences = finding
            .rules()
            .iter()
            .map(|rule| format!("{}: {}\n", place(rule), escaped(&sentence(rule).unwrap_or_default())));
        sentences.collect::<String>()
    };
    match outcome {
        Outcome::Passed => format!("{head}/>\n"),
        Outcome::Skipped(reason) => {
            format!("{head}><skipped message=\"{}\"/></testcase>\n", escaped(reason))
        }
        Outcome::Failed(why) | Outcome::Warned(why) if fails => {
            format!("{head}><failure message=\"{}\">{}</failure></testcase>\n", escaped(why), rules())
        }
        Outcome::Failed(why) | Outcome::Warned(why) => {
            format!("{head}><system-out>warning: {}\n{}</system-out></testcase>\n", escaped(why), rules())
        }
    }
}

/// XML has no way to write most control characters.
fn escaped(text: &str) -> String {
    let escape = |char: char| match char {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\n' => "&#10;".to_owned(),
        '\u{fffe}' | '\u{ffff}' => " ".to_owned(),
        char if char.is_control() => " ".to_owned(),
        char => char.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{CaseInfo, Level};

    #[test]
    fn each_outcome_has_its_element_and_texts_are_escaped() {
        let outcomes = [
            Outcome::Passed,
            Outcome::Failed("<\"a\" & b>\u{1}".to_owned()),
            Outcome::Warned("careful".to_owned()),
            Outcome::Skipped("not declared".to_owned()),
        ];
        let case = CaseInfo { name: "a.b".to_owned(), title: "", rules: &["10.1"], level: Level::Must };
        let findings = outcomes.map(|outcome| {
            let case = case.clone();
            Finding { case, outcome, took: Duration::from_millis(1), sentence: None }
        });
        let xml = junit("suite", &findings, false);
        assert!(xml.contains("tests=\"4\" failures=\"1\" skipped=\"1\" time=\"0.004\""), "{xml}");
        assert!(xml.contains("<failure message=\"&lt;&quot;a&quot; &amp; b&gt; \">SPEC.md 10.1: "), "{xml}");
        assert!(xml.contains("<skipped message=\"not declared\"/>"), "{xml}");
        assert!(junit("suite", &findings, true).contains("failures=\"2\""));
    }
}
