//! What operators see of the Reservations of a node, in `explain --node` and at the gateway's admin address.

use extender_policy_sdk::{IntrospectAsk, IntrospectError, serde_json::Value};
use jiff::Timestamp;
use serde_json::json;

use super::{
    amounts::list,
    object::Reservation,
    room::held,
    store::{Known, Store},
};

/// The path, and what it is for.
pub(super) const PATH: (&str, &str) =
    ("/nodes/:node", "the Reservations of a node, what they hold against other pods, and their owners");

/// The most Reservations, and the most owners of one, that are told by name.
const NAMED: usize = 100;

/// The state of a node.
pub(super) fn introspect(
    store: &Store,
    ask: &IntrospectAsk<'_>,
    now: Timestamp,
) -> Result<Value, IntrospectError> {
    let known = store.read();
    if !known.is_listed() {
        return Err(IntrospectError::NotReady("the Reservations are not listed yet".to_owned()));
    }
    Ok(node(&known, ask.parameter("node"), now))
}

fn node(known: &Known, name: &str, now: Timestamp) -> Value {
    let all = known.on(name);
    let reservations: Vec<_> = all.clone().take(NAMED).map(|reservation| shown(reservation, now)).collect();
    json!({
        "node": name,
        "count": all.clone().count(),
        "held": list(&held(all, None, now).resources),
        "reservations": reservations,
    })
}

fn shown(reservation: &Reservation, now: Timestamp) -> Value {
    let room = &reservation.room;
    let owners = room.claims().iter().take(NAMED);
    let owners: Vec<_> = owners
        .map(|claim| json!({"namespace": claim.namespace, "name": claim.name, "bound": claim.bound}))
        .collect();
    json!({
        "name": reservation.name,
        "phase": reservation.status.phase,
        "open": reservation.is_open(now),
        "allocatable": list(room.allocatable()),
        "left": list(room.left()),
        "held": list(reservation.held(now)),
        "ownerCount": room.claims().len(),
        "owners": owners,
    })
}

#[cfg(test)]
mod tests {
    use extender_policy_sdk::testing;
    use serde_json::json;

    use crate::{
        apiserver::Apiserver,
        tests::{Seconds, replica},
    };

    #[tokio::test]
    async fn a_node_shows_its_reservations() {
        let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
        let owner = json!({
            "namespace": "shop", "name": "web-1", "uid": "u", "requests": {"cpu": "200m"},
            "allocatedAt": "2026-01-01T00:00:00Z", "bound": true,
        });
        let status = json!({
            "phase": "Available", "nodeName": "a", "allocatable": {"cpu": "500m"}, "owners": [owner],
        });
        apiserver.create_reservation("one", &json!({"allocateOnce": false, "ttl": "1m"}), &status);
        let shown = |node: &str| {
            testing::introspect(replica(&apiserver, &seconds).0, "/nodes/:node", &[("node", node)], &[])
                .unwrap()
        };
        let left = json!({"cpu": "300m"});
        let mut one = json!({
            "name": "one", "phase": "Available", "open": true, "allocatable": {"cpu": "500m"}, "left": left, "held": left,
            "ownerCount": 1, "owners": [{"namespace": "shop", "name": "web-1", "bound": true}],
        });
        assert_eq!(shown("a"), json!({"node": "a", "count": 1, "held": left, "reservations": [one]}));
        assert_eq!(shown("b"), json!({"node": "b", "count": 0, "held": {}, "reservations": []}));
        seconds.set(61);
        (one["open"], one["held"]) = (false.into(), json!({}));
        assert_eq!(shown("a"), json!({"node": "a", "count": 1, "held": {}, "reservations": [one]}));
    }
}
