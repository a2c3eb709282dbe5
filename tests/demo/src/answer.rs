//! The gateway's answers, read as kube-scheduler reads them.

use std::{collections::BTreeMap, time::Duration};

use extender_harness::http::Connection;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use crate::{Failure, calls::Call};

/// Mirrors `ExtenderFilterResult`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct FilterResult {
    pub(crate) node_names: Option<Vec<String>>,
    pub(crate) nodes: Option<NodeList>,
    pub(crate) failed_nodes: Option<BTreeMap<String, String>>,
    pub(crate) failed_and_unresolvable_nodes: Option<BTreeMap<String, String>>,
    pub(crate) error: String,
}

/// The nodes that stay, byte for byte.
#[derive(Debug, Deserialize)]
pub(crate) struct NodeList {
    #[serde(default)]
    pub(crate) items: Option<Vec<Box<RawValue>>>,
}

/// Mirrors `HostPriority`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct HostPriority {
    pub(crate) host: String,
    pub(crate) score: i64,
}

/// Makes the call: the answer and how long it took.
pub(crate) fn to<T: DeserializeOwned>(
    call: &Call,
    gateway: &mut Connection,
) -> Result<(T, Duration), Failure> {
    let start = std::time::Instant::now();
    let answer = gateway.post(call.verb.path(), &[&call.body])?;
    let took = start.elapsed();
    if answer.status != 200 {
        let body = String::from_utf8_lossy(answer.body);
        return Err(format!(
            "{}: the gateway answers with status {}: {body}",
            call.verb.path(),
            answer.status
        )
        .into());
    }
    Ok((serde_json::from_slice(answer.body)?, took))
}
