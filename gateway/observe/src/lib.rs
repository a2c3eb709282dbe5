//! Observability: logs, metrics, traces, the decision log, health. Calls pass their records to the [`Observer`];
//! everything else is created from them after the response.

pub mod debug;
mod decisions;
pub mod health;
pub mod log;
pub mod metrics;
mod observer;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
pub mod traces;
pub mod waiting;

use std::time::SystemTime;

use jiff::Timestamp;

pub use decisions::{DecisionLog, Query, ShownNodes};
pub use health::Health;
pub use metrics::Metrics;
pub use observer::Observer;
pub use traces::Tracer;
pub use waiting::WaitingPods;

use extender_gateway_api::NodeForm;
use extender_gateway_record::RequestedNodes;
use extender_gateway_wire::Offer;

/// How kube-scheduler sent the nodes; `None` for verbs other than filter and prioritize.
fn node_form(nodes: &RequestedNodes) -> Option<NodeForm> {
    let RequestedNodes::Offered(request) = nodes else { return None };
    Some(match request.offer {
        Offer::Names => NodeForm::Names,
        Offer::Objects(_) => NodeForm::Objects,
    })
}

/// A time of the admin address's responses.
fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH)
}
