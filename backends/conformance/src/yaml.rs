//! The results as YAML: what a project publishes of its backend.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Finding, Outcome, Suite, Timing, client::printable, options::API_VERSION, report};

/// The versions, what the backend declares, how each case ended, and how long calls took.
pub fn yaml(suite: &Suite, findings: &[Finding]) -> String {
    let info = &suite.declared.info;
    let verbs: BTreeMap<_, _> =
        suite.declared.verbs().map(|terms| (terms.verb.name(), report::marks(terms))).collect();
    let [passed, failed, warnings, skipped] = report::counts(findings);
    let published = json!({
        "suite": env!("CARGO_PKG_VERSION"),
        "api": API_VERSION,
        "backend": {
            "name": printable(&info.name),
            "version": printable(&info.version),
            "verbs": verbs,
            "services": info.services.iter().map(|service| printable(service)).collect::<Vec<_>>(),
        },
        "summary": {"passed": passed, "failed": failed, "warnings": warnings, "skipped": skipped},
        "results": findings.iter().map(result).collect::<Vec<_>>(),
        "times": suite.timings().iter().map(time).collect::<Vec<_>>(),
    });
    // What is JSON can be said in YAML.
    serde_saphyr::to_string(&published).unwrap_or_default()
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

/// Without times if the request is larger than the backend reads.
fn time(timing: &Timing) -> Value {
    let milliseconds = |share| timing.quantile(share).map(|time| (time.as_secs_f64() * 1e5).round() / 100.0);
    let [p50, p99] = [0.5, 0.99].map(milliseconds);
    let (method, nodes) = (timing.method, timing.nodes);
    json!({"method": method, "nodes": nodes, "calls": timing.times.len(), "p50Ms": p50, "p99Ms": p99})
}
