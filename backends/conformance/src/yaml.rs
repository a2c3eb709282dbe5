//! The results as YAML: what a project publishes of its backend.

use std::collections::BTreeMap;

use conformance_report::{Finding, printable, results};
use serde_json::{Value, json};

use crate::{Suite, Timing, options::API_VERSION, report};

/// The versions, what the backend declares, how each case ended, and how long calls took.
pub fn yaml(suite: &Suite, findings: &[Finding]) -> String {
    let info = &suite.declared.info;
    let verbs: BTreeMap<_, _> =
        suite.declared.verbs().map(|terms| (terms.verb.name(), report::marks(terms))).collect();
    let (summary, results) = results(findings);
    let published = json!({
        "suite": env!("CARGO_PKG_VERSION"),
        "api": API_VERSION,
        "backend": {
            "name": printable(&info.name),
            "version": printable(&info.version),
            "verbs": verbs,
            "services": info.services.iter().map(|service| printable(service)).collect::<Vec<_>>(),
        },
        "summary": summary,
        "results": results,
        "times": suite.timings().iter().map(time).collect::<Vec<_>>(),
    });
    // What is JSON can be said in YAML.
    serde_saphyr::to_string(&published).unwrap_or_default()
}

/// Without times if the request is larger than the backend reads.
fn time(timing: &Timing) -> Value {
    let milliseconds = |share| timing.quantile(share).map(|time| (time.as_secs_f64() * 1e5).round() / 100.0);
    let [p50, p99] = [0.5, 0.99].map(milliseconds);
    let (method, nodes) = (timing.method, timing.nodes);
    json!({"method": method, "nodes": nodes, "calls": timing.times.len(), "p50Ms": p50, "p99Ms": p99})
}
