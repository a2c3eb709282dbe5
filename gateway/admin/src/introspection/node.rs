//! A node as backends are told about it.

use std::sync::{Arc, LazyLock};

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use extender_gateway_api::API_VERSION;
use extender_gateway_backend::{
    Backend,
    info::{ApiVersion, Info, NodesView},
};
use extender_gateway_cluster::table::{NodeTable, ViewId};
use extender_gateway_core::reason::one_line;
use extender_gateway_decide::Decider;
use extender_policy_api::v1beta1::{FILE_DESCRIPTOR_SET, NodeRows};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde::Serialize;
use serde_json::Value;

use super::{super::AdminState, STARTING, error};

/// The longest name of a node, in bytes. Of a longer one, errors have the beginning.
const LONGEST_NAME: usize = 253;

static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET).expect("the .proto files were compiled with the program")
});

pub(super) async fn show(
    State(admin): State<Arc<AdminState>>,
    name: Result<Path<String>, PathRejection>,
) -> Response {
    let Ok(Path(name)) = name else {
        return error(StatusCode::BAD_REQUEST, "the name of the node is not UTF-8");
    };
    let Some(served) = admin.gateway_status.served() else {
        return error(StatusCode::SERVICE_UNAVAILABLE, STARTING);
    };
    match NodeInfo::of(&name, &served.decider, admin.gateway_status.gateway()) {
        Some(found) => Json(found).into_response(),
        None => error(
            StatusCode::NOT_FOUND,
            &format!(
                "cannot find node {}: neither the source of nodes nor a call has named it",
                one_line(&name, LONGEST_NAME)
            ),
        ),
    }
}

/// A node as the gateway knows it. Messages of the policy API are in protobuf's JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeInfo {
    api_version: &'static str,
    kind: &'static str,
    gateway: String,
    name: String,
    /// Where it is from: the source of nodes, or calls of kube-scheduler.
    source: &'static str,
    /// The version of the latest change of any node.
    table_version: u64,
    /// `NodeFacts`, with all annotations. Absent: only the name is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<Value>,
    /// `NodeUsage`. Absent: pods are not watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
    /// What each connected backend is told about it.
    backends: Vec<ToldNode>,
}

/// What the verbs of a backend are told about a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ToldNode {
    backend: String,
    verbs: Vec<&'static str>,
    /// What they read of nodes.
    reads: String,
    /// Absent: the row is sent with each call, or something in it is not known yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<Row>,
}

/// A row of the node table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// The table's version when it changed.
    version: u64,
    /// The id by which calls name it.
    id: u32,
    /// Its size in a request.
    bytes: usize,
    /// The size of the node's JSON in it, which is left out here. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_json_bytes: Option<usize>,
    /// `NodeRow`.
    content: Value,
}

impl NodeInfo {
    /// The node of this name; `None` if it is not known.
    fn of(name: &str, decider: &Decider, gateway: &str) -> Option<Self> {
        let tables = decider.tables();
        let of_source: ColumnOf = |view| Some(view.column.as_ref()?.id());
        let of_calls: ColumnOf = |view| Some(view.offered.id());
        let from_source = tables.table.as_deref().map(|table| (table, tables.source.word(), of_source));
        let mut sources = from_source.into_iter().chain([(&*tables.offered, "Calls", of_calls)]);
        let (table, source, column, (facts, usage)) =
            sources.find_map(|(table, source, column)| Some((table, source, column, table.known(name)?)))?;
        // Not in the expression below: its lock would be held to the end.
        let table_version = table.read().version();
        Some(Self {
            api_version: API_VERSION,
            kind: "NodeInfo",
            gateway: gateway.to_owned(),
            name: name.to_owned(),
            source,
            table_version,
            facts: facts.map(|facts| in_json(&facts, "NodeFacts")),
            usage: usage.map(|usage| in_json(&usage, "NodeUsage")),
            backends: decider.backends().flat_map(|backend| told(backend, name, table, column)).collect(),
        })
    }
}

/// The column of a view in the table that has the node.
type ColumnOf = fn(&NodesView) -> Option<ViewId>;

/// What a backend is told, once for the verbs with the same view; nothing while it is not connected.
fn told(backend: &Backend, name: &str, table: &NodeTable, column: ColumnOf) -> Vec<ToldNode> {
    let Ok(session) = backend.any_session() else { return Vec::new() };
    let row = |view: &NodesView| {
        let (version, id, encoded) = {
            let read = table.read();
            let row = read.row(name, column(view)?)?;
            (row.version, row.id?.number.get(), row.bytes.clone())
        };
        let bytes = encoded.len();
        let mut content = NodeRows::decode(encoded).ok()?.rows.pop()?;
        let raw_json_bytes = Some(std::mem::take(&mut content.raw_json).len()).filter(|len| *len > 0);
        Some(Row { version, id, bytes, raw_json_bytes, content: in_json(&content, "NodeRow") })
    };
    let told = |(verbs, view): (Vec<&'static str>, &NodesView)| ToldNode {
        backend: backend.settings.name.to_string(),
        verbs,
        reads: view.rows.words(),
        row: row(view),
    };
    views(&session.info).into_iter().map(told).collect()
}

/// The views of nodes, each with the verbs that have it.
fn views(info: &Info) -> Vec<(Vec<&'static str>, &NodesView)> {
    let mut views: Vec<(Vec<&'static str>, &NodesView)> = Vec::new();
    for (verb, view) in info.node_views() {
        match views.iter_mut().find(|(_, known)| *known == view) {
            Some((verbs, _)) => verbs.push(verb.name()),
            None => views.push((vec![verb.name()], view)),
        }
    }
    views
}

/// A message of the policy API in protobuf's JSON.
fn in_json(message: &impl Message, name: &str) -> Value {
    let descriptor = DESCRIPTORS.get_message_by_name(&format!("{}.{name}", ApiVersion::NEWEST.package()));
    let mut dynamic = DynamicMessage::new(descriptor.expect("the message is in the .proto files"));
    dynamic.transcode_from(message).expect("it is the same message");
    serde_json::to_value(&dynamic).expect("it has no type without JSON")
}
