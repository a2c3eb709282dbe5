//! The gateway's facts of one object, as JSON.

use extender_gateway_object::{pod, quantity::Quantity, view::PodFactsView};
use extender_policy_api::v1beta1::{NonZero, Resources};
use serde_json::{Value, json};

/// Thousandths and whole units.
pub(crate) fn quantity(text: &str) -> Value {
    match Quantity::parse(text) {
        Ok(quantity) => json!({"milli": quantity.milli_value(), "value": quantity.value()}),
        Err(error) => json!({"error": error.to_string()}),
    }
}

/// The amounts among the pod's facts, and its share of the node that it is on.
pub(crate) fn pod(json: &[u8]) -> Value {
    let pod = match pod::parse(json) {
        Ok(pod) => pod,
        Err(error) => return json!({"error": error.to_string()}),
    };
    let facts = pod.facts(&PodFactsView::default());
    let share = pod.share();
    json!({
        "requests": facts.requests.as_ref().map(resources),
        "nonzeroRequests": facts.nonzero_requests.as_ref().map(nonzero),
        "share": {"requested": resources(&share.requested), "nonzero": nonzero(&share.nonzero)},
        "ended": pod.has_ended(),
    })
}

fn resources(resources: &Resources) -> Value {
    let Resources { milli_cpu, memory, ephemeral_storage, pods, others } = resources;
    json!({
        "milliCPU": milli_cpu, "memory": memory, "ephemeralStorage": ephemeral_storage, "pods": pods,
        "others": others,
    })
}

fn nonzero(nonzero: &NonZero) -> Value {
    let NonZero { milli_cpu, memory } = nonzero;
    json!({"milliCPU": milli_cpu, "memory": memory})
}
