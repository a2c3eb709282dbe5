//! Reads answers in full, as kube-scheduler would, and counts their nodes.

use extender_harness::request::Verb;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Failure;

/// Mirrors `ExtenderFilterResult`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FilterResult<'a> {
    #[serde(borrow)]
    node_names: Option<Vec<&'a str>>,
    #[serde(borrow)]
    nodes: Option<NodeList<'a>>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct NodeList<'a> {
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// Mirrors `HostPriority`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HostPriority<'a> {
    #[serde(rename = "Host")]
    _host: &'a str,
    #[serde(rename = "Score")]
    _score: i64,
}

/// How many nodes an answer keeps or scores.
pub(super) fn nodes_in(verb: Verb, answer: &[u8]) -> Result<usize, Failure> {
    match verb {
        Verb::Prioritize => Ok(serde_json::from_slice::<Vec<HostPriority>>(answer)?.len()),
        Verb::Filter => kept(serde_json::from_slice(answer)?),
    }
}

fn kept(result: FilterResult<'_>) -> Result<usize, Failure> {
    if let Some(error) = result.error.filter(|error| !error.is_empty()) {
        return Err(error.into());
    }
    let objects = result.nodes.and_then(|nodes| nodes.items).map(|items| items.len());
    Ok(result.node_names.map(|names| names.len()).or(objects).unwrap_or(0))
}
