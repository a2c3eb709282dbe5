//! The objects of a simulation with all that backends can declare, for the unit tests of policies.

use std::{iter, sync::Arc};

use extender_gateway_cluster::{pods::PodTable, table::NodeTable};
use extender_gateway_contract::{
    api::ApiVersion,
    pod::{PodView, pod_message},
    row::{RowFields, RowView, decoded},
};
use extender_gateway_object::{
    pod,
    view::{NodeFactsView, PodFactsView},
};
use extender_policy_api::v1beta1::{FilterRequest, NodeRows, Nodes, nodes::Form};
use prost::Message;

use super::{ClusterFiles, FileProblem, SimulatedPod};

/// An encoded `FilterRequest` about a pod and all nodes, with every part, label and annotation, and without `call` and counts
/// of pods. Usage and nominated pods are in it if there is a file of pods.
///
/// # Errors
/// A file is invalid.
pub fn recorded(files: &ClusterFiles, pod: &SimulatedPod) -> Result<Vec<u8>, FileProblem> {
    let (nodes, pods) = (NodeTable::new(), PodTable::new());
    let knows_pods = files.pods.is_some();
    let fields = RowFields {
        facts: Arc::new(NodeFactsView::complete()),
        images: true,
        usage: knows_pods,
        nominated: knows_pods,
        ..RowFields::default()
    };
    // First, so that the table keeps JSON.
    let column = nodes.register(RowView::FactsAndRaw(fields));
    let names = files.read_nodes(&nodes)?.names;
    files.read_pods(&pods, &[&pod.uid])?;
    pods.pass_on(iter::once(&nodes));
    let found = nodes.look_up(names.iter().map(String::as_str), column.id(), &mut None);
    let rows: Vec<_> = found.rows.iter().map(|row| decoded(row.bytes)).collect();
    let view = PodView {
        facts: Arc::new(PodFactsView::complete()),
        identity: true,
        raw: true,
        api: ApiVersion::NEWEST,
        topology: Arc::default(),
    };
    let parsed = pod::offered(&pod.json).expect("it was parsed when it was read");
    let request = FilterRequest {
        pod: Some(pod_message(&parsed, &view, &pod.json)),
        nodes: Some(Nodes {
            count: u32::try_from(rows.len()).expect("a file has fewer nodes"),
            form: Some(Form::Rows(NodeRows { rows })),
        }),
        ..FilterRequest::default()
    };
    Ok(request.encode_to_vec())
}
