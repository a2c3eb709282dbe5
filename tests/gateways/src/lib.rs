//! Checks that a gateway keeps the rules of `proto/SPEC.md`: the program `gateway-conformance`.
//!
//! A [`Launcher`] starts gateways between scripted backends and what kube-scheduler sends; [`cases`] are what they are judged by.
//! The suite speaks HTTP, gRPC and protobuf alone: it shares no code with the gateway, so that it does not share its mistakes.

mod answers;
mod apiserver;
mod backend;
mod case;
mod cases;
mod fault;
mod launcher;
mod scene;
mod stage;
mod wire;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use conformance_report::{CaseInfo, Finding, Outcome, Selection, counts, printable, results};
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::{task::JoinSet, time::timeout};

pub use self::{backend::Act, fault::Fault, launcher::Launcher};
use self::{
    case::{Case, Check, Group, Stop},
    stage::Stage,
};

/// So many groups run at once: most of the time they wait.
const AT_ONCE: usize = 6;

/// A case that takes longer has failed.
const CASE_WITHIN: Duration = Duration::from_mins(1);

/// All cases in the order in which they are reported.
pub fn all() -> Vec<CaseInfo> {
    cases::groups().into_iter().flat_map(|group| group.cases).map(|case| case.info).collect()
}

/// The sentences that the cases check, with their cases, as a table of Markdown.
pub fn markdown(cases: &[CaseInfo]) -> String {
    let mut rules: Vec<_> = cases.iter().flat_map(|case| case.rules).copied().collect();
    let number = |rule: &&str| rule.split([':', '.']).next().and_then(|number| number.parse::<u32>().ok());
    rules.sort_by_key(|rule| (number(rule).unwrap_or(u32::MAX), *rule));
    rules.dedup();
    conformance_report::markdown(&rules, cases)
}

/// Runs the selected cases, and reports each as it ends.
pub async fn run(
    launcher: &Launcher,
    selection: &Selection,
    fault: &Fault,
    mut ended: impl FnMut(&Finding),
) -> Vec<Finding> {
    let is_selected = |case: &Case| selection.has(&case.info.name);
    let groups = cases::groups().into_iter().filter_map(|mut group| {
        group.cases.retain(is_selected);
        (!group.cases.is_empty()).then_some(group)
    });
    let is_broken = Arc::new(AtomicBool::new(false));
    let runs = groups.map(|group| run_group(group, launcher, fault, Arc::clone(&is_broken)));
    let (mut findings, mut stopping) = (Vec::new(), JoinSet::new());
    let mut running = stream::iter(runs).buffered(AT_ONCE);
    while let Some((found, stage)) = running.next().await {
        // A gateway may take seconds to stop: others run meanwhile.
        stage.map(|stage| stopping.spawn(async move { stage.stop().await }));
        found.iter().for_each(&mut ended);
        findings.extend(found);
    }
    stopping.join_all().await;
    findings
}

/// A gateway that does not start is one failure: of the first case that needed one.
async fn run_group(
    group: Group,
    launcher: &Launcher,
    fault: &Fault,
    is_broken: Arc<AtomicBool>,
) -> (Vec<Finding>, Option<Stage>) {
    let mut findings = Vec::new();
    let started = Stage::start(&group, launcher, fault).await;
    match &started {
        Ok(stage) => {
            for case in &group.cases {
                stage.reset();
                let begun = Instant::now();
                let checked = timeout(CASE_WITHIN, (case.run)(stage.clone())).await;
                let late = || Err(Stop::Failed(format!("not within {} s", CASE_WITHIN.as_secs())));
                findings.push(finding(case, checked.unwrap_or_else(|_| late()), begun.elapsed()));
            }
        }
        Err(error) => {
            for case in &group.cases {
                let is_first = !is_broken.swap(true, Ordering::Relaxed);
                let stop =
                    if is_first { Stop::Failed(error.clone()) } else { Stop::Skipped("no gateway".into()) };
                findings.push(finding(case, Err(stop), Duration::ZERO));
            }
        }
    }
    (findings, started.ok())
}

fn finding(case: &Case, checked: Check, took: Duration) -> Finding {
    let outcome = match checked {
        Ok(()) => Outcome::Passed,
        Err(Stop::Failed(text)) => Outcome::Failed(printable(&text)),
        Err(Stop::Skipped(text)) => Outcome::Skipped(printable(&text)),
    };
    Finding { case: case.info.clone(), outcome, took, sentence: None }
}

/// How many cases ended how.
pub fn summary(findings: &[Finding]) -> String {
    let [passed, failed, _, skipped] = counts(findings);
    format!("\n{passed} passed, {failed} failed, {skipped} skipped\n")
}

/// The results as YAML.
pub fn yaml(findings: &[Finding]) -> String {
    let (summary, results) = results(findings);
    let report = json!({
        "suite": env!("CARGO_PKG_VERSION"), "api": scene::PACKAGE, "summary": summary, "results": results,
    });
    // What is JSON can be said in YAML.
    serde_saphyr::to_string(&report).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_rule_is_a_sentence_of_the_contract_and_names_are_unique() {
        let cases = all();
        let unknown: Vec<_> = cases
            .iter()
            .filter(|case| {
                case.rules.is_empty()
                    || case.rules.iter().any(|rule| conformance_report::sentence(rule).is_none())
            })
            .map(|case| (&case.name, case.rules))
            .collect();
        assert!(unknown.is_empty(), "{unknown:#?}");
        let names: BTreeSet<_> = cases.iter().map(CaseInfo::name).collect();
        assert_eq!(names.len(), cases.len());
        assert!(names.len() >= 60, "{}", names.len());
    }

    #[test]
    fn the_table_of_the_documentation_is_fresh() {
        let page = include_str!("../../../docs/gateway-conformance.md");
        let table = markdown(&all());
        assert!(
            page.ends_with(&table),
            "replace the table of docs/gateway-conformance.md by `gateway-conformance --list=markdown`"
        );
    }
}
