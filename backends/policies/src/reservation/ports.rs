//! Host ports: those that reservations keep, and those that pods ask for.

use serde_json::Value;

/// Why a pod may not have a port.
pub(super) const PORT_KEPT: &str = "a reservation keeps a host port of the pod";

/// A port of the node's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    port: u64,
    protocol: String,
    /// Empty: all addresses.
    ip: String,
}

impl HostPort {
    /// Whether two pods cannot both have their port on a node. Mirrors `HostPortInfo.CheckConflict` of kube-scheduler.
    fn collides(&self, other: &Self) -> bool {
        let is_same = (self.port, &self.protocol) == (other.port, &other.protocol);
        is_same && (self.ip.is_empty() || other.ip.is_empty() || self.ip == other.ip)
    }
}

/// Whether one of these ports collides with one of the others.
pub(super) fn collide(ports: &[HostPort], others: &[HostPort]) -> bool {
    ports.iter().any(|port| others.iter().any(|other| port.collides(other)))
}

/// The ports of a pod, from its JSON. One that cannot be read has none.
pub(super) fn of_pod(json: &[u8]) -> Vec<HostPort> {
    let pod: Value = serde_json::from_slice(json).unwrap_or_default();
    of_template(&pod["spec"])
}

/// The ports of a pod's spec: those of containers, and of the init containers that go on running.
pub(super) fn of_template(spec: &Value) -> Vec<HostPort> {
    let all = |field: &str| spec[field].as_array().into_iter().flatten();
    let sidecars = all("initContainers").filter(|container| container["restartPolicy"] == "Always");
    let ports =
        all("containers").chain(sidecars).filter_map(|container| container["ports"].as_array()).flatten();
    let own = if spec["hostNetwork"] == true { "containerPort" } else { "hostPort" };
    let number =
        |port: &Value| port["hostPort"].as_u64().or_else(|| port[own].as_u64()).filter(|port| *port > 0);
    ports
        .filter_map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
            let ip = port["hostIP"].as_str().unwrap_or_default();
            let ip = if ip == "0.0.0.0" { "" } else { ip }.to_owned();
            Some(HostPort { port: number(port)?, protocol, ip })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_collide_as_in_kube_scheduler() {
        let pod =
            |port: Value| of_pod(json!({"spec": {"containers": [{"ports": [port]}]}}).to_string().as_bytes());
        let web = pod(json!({"hostPort": 80}));
        for (port, expected) in [
            (json!({"hostPort": 80, "protocol": "TCP", "hostIP": "0.0.0.0"}), true),
            (json!({"hostPort": 80, "hostIP": "10.0.0.1"}), true),
            (json!({"hostPort": 80, "protocol": "UDP"}), false),
            (json!({"hostPort": 81}), false),
            (json!({"containerPort": 80}), false),
            (json!({"hostPort": 0}), false),
            (json!("80"), false),
        ] {
            assert_eq!(collide(&web, &pod(port.clone())), expected, "{port}");
        }
        let one = pod(json!({"hostPort": 80, "hostIP": "10.0.0.1"}));
        let other = pod(json!({"hostPort": 80, "hostIP": "10.0.0.2"}));
        assert!(collide(&one, &one) && !collide(&one, &other));
        assert!(
            of_pod(b"{").is_empty()
                && of_pod(b"[]").is_empty()
                && of_pod(b"{\"spec\":{\"containers\":{}}}").is_empty()
        );
    }

    #[test]
    fn containers_that_go_on_running_and_the_network_of_the_host_count() {
        let port = json!([{"containerPort": 7}]);
        let spec = |network: bool| {
            json!({
                "hostNetwork": network, "containers": [{"ports": port}],
                "initContainers": [
                    {"ports": [{"hostPort": 8}]}, {"restartPolicy": "Always", "ports": [{"hostPort": 9}]},
                ],
            })
        };
        let numbers =
            |network| of_template(&spec(network)).into_iter().map(|port| port.port).collect::<Vec<_>>();
        assert_eq!((numbers(false), numbers(true)), (vec![9], vec![7, 9]));
    }
}
