//! Cases, and how they end.

use std::time::Duration;

use serde_json::{Value, json};

/// How strict a rule is, in the sense of RFC 2119.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A program that breaks it does not conform.
    Must,
    /// A program that breaks it conforms, and its author should know.
    Should,
}

/// A case, without what it asks.
#[derive(Clone, Debug)]
pub struct CaseInfo {
    /// Such as `filter.evaluated`.
    pub name: String,
    /// What holds if the case passes.
    pub title: &'static str,
    /// The sentences that it checks, as [`sentence`](crate::sentence) finds them.
    pub rules: &'static [&'static str],
    /// How strict these are.
    pub level: Level,
}

impl CaseInfo {
    /// Such as `filter.evaluated`.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The rule is kept.
    Passed,
    /// A [`Level::Must`] is broken.
    Failed(String),
    /// A [`Level::Should`] is broken.
    Warned(String),
    /// The case does not apply.
    Skipped(String),
}

impl Outcome {
    /// Whether a program with this result does not conform; strictly, that is also one that breaks a rule of SHOULD.
    pub fn fails(&self, strict: bool) -> bool {
        matches!(self, Self::Failed(_)) || strict && matches!(self, Self::Warned(_))
    }
}

/// How a case ended.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The case.
    pub case: CaseInfo,
    /// Its end.
    pub outcome: Outcome,
    /// The time that it took.
    pub took: Duration,
    /// The sentence that is broken, if it is not one of the case's.
    pub sentence: Option<&'static str>,
}

impl Finding {
    /// The sentences that the case checks, or the one that is broken.
    pub fn rules(&self) -> &[&'static str] {
        self.sentence.as_ref().map_or(self.case.rules, std::slice::from_ref)
    }
}

/// How many cases passed, failed, were a warning, and were skipped.
pub fn counts(findings: &[Finding]) -> [usize; 4] {
    let count = |of: fn(&Outcome) -> bool| findings.iter().filter(|finding| of(&finding.outcome)).count();
    [
        count(|outcome| *outcome == Outcome::Passed),
        count(|outcome| matches!(outcome, Outcome::Failed(_))),
        count(|outcome| matches!(outcome, Outcome::Warned(_))),
        count(|outcome| matches!(outcome, Outcome::Skipped(_))),
    ]
}

/// `summary` and `results` of a report.
pub fn results(findings: &[Finding]) -> (Value, Vec<Value>) {
    let [passed, failed, warnings, skipped] = counts(findings);
    let summary = json!({"passed": passed, "failed": failed, "warnings": warnings, "skipped": skipped});
    (summary, findings.iter().map(result).collect())
}

fn result(finding: &Finding) -> Value {
    let (outcome, why) = match &finding.outcome {
        Outcome::Passed => ("passed", None),
        Outcome::Failed(why) => ("failed", Some(why)),
        Outcome::Warned(why) => ("warning", Some(why)),
        Outcome::Skipped(why) => ("skipped", Some(why)),
    };
    json!({"case": finding.case.name(), "rules": finding.rules(), "outcome": outcome, "why": why})
}
