//! What is said of a pod that nobody knows.

use super::{case::Evidence, notes, pod::PodState};
use crate::cli::text::clean;

/// Why nothing is known, and where to look.
pub(super) fn text(case: &Evidence) -> String {
    let Evidence { namespace, name, .. } = case;
    let (first, remedy) = match &case.pod {
        PodState::Gone { near, elsewhere } => {
            let first = format!(
                "there is no pod {name} in namespace {namespace}, and no gateway knows a call about one"
            );
            (first, look(name, near, elsewhere))
        }
        _ => (
            format!("no gateway knows a call about a pod {name} in namespace {namespace}"),
            "is it the right namespace (-n)?".to_owned(),
        ),
    };
    let lines = notes::of(case).into_iter().map(|note| format!("\n- {}", clean(&note)));
    format!("{first}; {remedy}{}", lines.collect::<String>())
}

fn look(name: &str, near: &[String], elsewhere: &[String]) -> String {
    match (elsewhere, near) {
        ([], []) => "`kubectl get pods --all-namespaces` shows which there are".to_owned(),
        ([], near) => format!("near names there are {}", near.join(", ")),
        ([namespace], _) => format!("namespace {namespace} has one: say -n {namespace}"),
        (namespaces, _) => {
            format!("{name} is in the namespaces {}: say which with -n", namespaces.join(", "))
        }
    }
}
