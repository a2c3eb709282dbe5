//! `--expect`: reads expected decisions from a YAML file, and compares them with those that were made.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use extender_config::{ConfigErrors, Content, Cursor, Fields, Mistakes, Remedy, Value, echo, parse};
use extender_gateway_api::NodePart;
use extender_gateway_core::Verb;

use super::outcome::SimulatedCase;

const FILE: Fields = Fields::new("a mapping with expect", &["expect"]);
const ENTRIES: &str = "a list with at least one entry such as {pod: pod.yaml, feasible: [node-b]}";
const ENTRY: Fields = Fields::new(
    "a mapping such as {pod: pod.yaml, feasible: [node-b]}",
    &["pod", "feasible", "rejected", "first", "scores", "error"],
);
const FEASIBLE: &str = "a list of the nodes that are not rejected, [] for none";
const REJECTED: &str = "a mapping from nodes to a part of the reason such as {node-a: being drained}";
const SCORES: &str = "a mapping from nodes to their totals such as {node-b: 30}";
const TOTAL: &str = "a whole number";

/// What is expected of the decision about a pod.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Expectation {
    /// Exactly the nodes that are not rejected.
    feasible: Option<BTreeSet<String>>,
    /// Nodes that are rejected, each with a part of `BACKEND: REASON (rule RULE)`.
    rejected: BTreeMap<String, String>,
    /// The only node with the highest total.
    first: Option<String>,
    /// Totals of nodes.
    scores: BTreeMap<String, i64>,
    /// A part of the error in place of a decision.
    error: Option<String>,
}

/// Reads a file of expectations, each with the file of its pod: its own, or this one.
///
/// # Errors
/// All mistakes.
pub(super) fn read(file: &Path, pod: Option<&Path>) -> Result<Vec<(PathBuf, Expectation)>, ConfigErrors> {
    let content = Content::read(file)?;
    let text = content.text().map_err(ConfigErrors::one);
    text.and_then(|text| of_text(text, file, pod)).map_err(|errors| errors.in_file(file))
}

fn of_text(text: &str, file: &Path, pod: Option<&Path>) -> Result<Vec<(PathBuf, Expectation)>, ConfigErrors> {
    let document = parse(text).map_err(ConfigErrors::one)?;
    let mistakes = Mistakes::in_folder(file.parent().unwrap_or(Path::new("")));
    let read = entries(Cursor::root(&document, &mistakes), pod);
    mistakes.settle(read)
}

/// `None` here and below: a mistake has been recorded.
fn entries(document: Cursor<'_>, pod: Option<&Path>) -> Option<Vec<(PathBuf, Expectation)>> {
    let list = document.section(&FILE)?.required("expect", ENTRIES)?;
    if list.items_if_list().is_some_and(|items| items.is_empty()) {
        list.mistake("is an empty list", ENTRIES);
        return None;
    }
    list.list(ENTRIES, |item| entry(&item, pod))
}

fn entry(item: &Cursor<'_>, pod: Option<&Path>) -> Option<(PathBuf, Expectation)> {
    let fields = item.clone().section(&ENTRY)?;
    // All fields are read before one is used, so that one pass finds all mistakes.
    let file = match (fields.optional("pod"), pod) {
        (Some(field), _) => field.file(),
        (None, Some(pod)) => Some(pod.to_owned()),
        (None, None) => {
            fields.mistake_of(
                "pod",
                "is missing",
                Remedy::Do("name the file of the pod here, or with --pod"),
            );
            None
        }
    };
    let feasible = fields.or("feasible", None, |field| {
        let names = field.list(FEASIBLE, |name| name.text("the name of a node").map(str::to_owned))?;
        Some(Some(names.into_iter().collect()))
    });
    let rejected = fields.or("rejected", BTreeMap::new(), |field| {
        of_nodes(field, REJECTED, |part| part.text("a part of the reason").map(str::to_owned))
    });
    let first =
        fields.or("first", None, |field| field.text("the name of a node").map(|name| Some(name.to_owned())));
    let scores = fields.or("scores", BTreeMap::new(), |field| of_nodes(field, SCORES, total));
    let error =
        fields.or("error", None, |field| field.text("a part of the error").map(|part| Some(part.to_owned())));
    let expectation = Expectation {
        feasible: feasible?,
        rejected: rejected?,
        first: first?,
        scores: scores?,
        error: error?,
    };
    if expectation == Expectation::default() {
        item.mistake("expects nothing", Remedy::Do("add feasible, rejected, first, scores or error"));
    }
    let decides = Expectation { error: None, ..expectation.clone() } != Expectation::default();
    if expectation.error.is_some() && decides {
        let remedy = Remedy::Do("remove it, or the other expectations: with an error there is no decision");
        fields.mistake_of("error", "cannot be combined with others", remedy);
    }
    Some((file?, expectation))
}

fn of_nodes<T>(
    field: &Cursor<'_>,
    right: &str,
    mut read: impl FnMut(&Cursor<'_>) -> Option<T>,
) -> Option<BTreeMap<String, T>> {
    let pairs = field.pairs(right)?;
    let read: Vec<_> = pairs.iter().map(|(name, value)| Some(((*name).to_owned(), read(value)?))).collect();
    read.into_iter().collect()
}

fn total(field: &Cursor<'_>) -> Option<i64> {
    let Value::Integer(number) = field.value() else {
        field.wrong_kind(TOTAL);
        return None;
    };
    field.accepted(i64::try_from(*number).map_err(|_| format!("{number} is out of range")), TOTAL)
}

impl Expectation {
    /// How a decision differs from this, in sentences.
    pub(super) fn differences(&self, case: &SimulatedCase) -> Vec<String> {
        match (&self.error, case.error()) {
            (Some(part), Some(error)) if error.contains(part.as_str()) => Vec::new(),
            (Some(part), Some(error)) => {
                vec![format!("the error is {error}; expected one with {}", echo(part))]
            }
            (Some(part), None) => vec![format!("there is a decision; expected an error with {}", echo(part))],
            (None, Some(error)) => vec![format!("no decision: {error}")],
            (None, None) => {
                let mut found = self.feasibility(case);
                found.extend(self.rejections(case));
                found.extend(self.order(case));
                found.extend(self.totals(case));
                found
            }
        }
    }

    fn feasibility(&self, case: &SimulatedCase) -> Vec<String> {
        let Some(expected) = &self.feasible else { return Vec::new() };
        let feasible = BTreeSet::from_iter(case.feasible());
        let missing = expected
            .difference(&feasible)
            .map(|node| format!("{node} {}; expected feasible", state(case, node)));
        let surplus =
            feasible.difference(expected).map(|node| format!("{node} is feasible; expected rejected"));
        missing.chain(surplus).collect()
    }

    fn rejections(&self, case: &SimulatedCase) -> Vec<String> {
        let differing = self.rejected.iter().filter(|(node, part)| {
            let rejected = case.rejected().find(|rejected| rejected.name == **node);
            !rejected.is_some_and(|rejected| reason(rejected).contains(part.as_str()))
        });
        differing
            .map(|(node, part)| {
                format!("{node} {}; expected rejected with {}", state(case, node), echo(part))
            })
            .collect()
    }

    fn order(&self, case: &SimulatedCase) -> Option<String> {
        let expected = self.first.as_deref()?;
        match case.best()[..] {
            [best] if best == expected => None,
            [] => Some(format!("no node has a total; expected {expected} to have the highest")),
            [best] => {
                let other = has_total(case, expected);
                Some(format!("{best} is first, and {expected} {other}; expected {expected} first"))
            }
            ref best => {
                Some(format!("{} share the highest total; expected {expected} alone", best.join(", ")))
            }
        }
    }

    fn totals(&self, case: &SimulatedCase) -> Vec<String> {
        let differing = self.scores.iter().filter(|(node, expected)| case.total(node) != Some(**expected));
        differing
            .map(|(node, expected)| format!("{node} {}; expected {expected}", has_total(case, node)))
            .collect()
    }
}

/// The total of a node, as the predicate of a sentence.
fn has_total(case: &SimulatedCase, node: &str) -> String {
    case.total(node).map_or_else(|| "has no total".to_owned(), |total| format!("has the total {total}"))
}

/// What was decided about a node, as the predicate of a sentence.
fn state(case: &SimulatedCase, name: &str) -> String {
    let all = case.call(Verb::Filter).into_iter().flat_map(|call| &call.nodes);
    match all.into_iter().find(|node| node.name == name) {
        None => "is not in the file of nodes".to_owned(),
        Some(node) if node.rejected_by.is_none() => "is feasible".to_owned(),
        Some(node) => format!("is rejected by {}", reason(node)),
    }
}

/// `BACKEND: REASON (rule RULE)` of a rejected node.
pub(super) fn reason(node: &NodePart) -> String {
    let by = node.rejected_by.as_deref().unwrap_or_default();
    let rule = node.backends.get(by).and_then(|verdict| verdict.rule.as_deref());
    let rule = rule.map(|rule| format!(" (rule {rule})")).unwrap_or_default();
    format!("{by}: {}{rule}", node.reason.as_deref().unwrap_or_default())
}
