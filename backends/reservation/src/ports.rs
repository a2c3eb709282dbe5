//! Host ports: those that reservations keep, and those that pods ask for.

use serde::Deserialize;
use serde_json::Value;

/// Why a pod may not have a port.
pub(super) const PORT_KEPT: &str = "a reservation keeps a host port of the pod";

/// Why a pod is rejected that may ask for any port.
pub(super) const UNREADABLE: &str = "the host ports of the pod cannot be read";

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

/// The fields of a pod that are read. All others may have any JSON that Go reads.
#[derive(Deserialize)]
struct PodWithPorts {
    spec: Option<SpecWithPorts>,
}

/// Mirrors `corev1.PodSpec`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", rename = "Spec")]
struct SpecWithPorts {
    containers: Option<Vec<ContainerWithPorts>>,
    init_containers: Option<Vec<ContainerWithPorts>>,
    host_network: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", rename = "Container")]
struct ContainerWithPorts {
    restart_policy: Option<String>,
    ports: Option<Vec<PortEntry>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PortEntry {
    host_port: Option<i64>,
    container_port: Option<i64>,
    protocol: Option<String>,
    #[serde(rename = "hostIP")]
    host_ip: Option<String>,
}

/// The ports of a pod, from its JSON.
///
/// # Errors
/// It cannot be read: it may ask for any port.
pub(super) fn of_pod(json: &[u8]) -> Result<Vec<HostPort>, serde_json::Error> {
    let PodWithPorts { spec } = serde_json::from_slice(json)?;
    Ok(spec.unwrap_or_default().ports())
}

/// The ports of a template's spec.
///
/// # Errors
/// It is not the spec of a pod.
pub(super) fn of_template(spec: &Value) -> Result<Vec<HostPort>, serde_json::Error> {
    Ok(Option::<SpecWithPorts>::deserialize(spec)?.unwrap_or_default().ports())
}

impl SpecWithPorts {
    /// Those of containers, and of the init containers that go on running.
    fn ports(self) -> Vec<HostPort> {
        let own = self.host_network == Some(true);
        let sidecars = self.init_containers.into_iter().flatten();
        let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
        let containers = self.containers.into_iter().flatten().chain(sidecars);
        let ports = containers.filter_map(|container| container.ports).flatten();
        ports.filter_map(|port| port.of_host(own)).collect()
    }
}

impl PortEntry {
    fn of_host(self, network_of_host: bool) -> Option<HostPort> {
        let own = self.container_port.filter(|_| network_of_host);
        let port =
            self.host_port.or(own).and_then(|port| u64::try_from(port).ok()).filter(|port| *port > 0)?;
        let protocol = self.protocol.unwrap_or_else(|| "TCP".to_owned());
        let ip = self.host_ip.filter(|ip| ip != "0.0.0.0").unwrap_or_default();
        Some(HostPort { port, protocol, ip })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_collide_as_in_kube_scheduler() {
        let pod = |port: Value| {
            of_pod(json!({"spec": {"containers": [{"ports": [port]}]}}).to_string().as_bytes()).unwrap()
        };
        let web = pod(json!({"hostPort": 80}));
        for (port, expected) in [
            (json!({"hostPort": 80, "protocol": "TCP", "hostIP": "0.0.0.0"}), true),
            (json!({"hostPort": 80, "hostIP": "10.0.0.1"}), true),
            (json!({"hostPort": 80, "protocol": "UDP"}), false),
            (json!({"hostPort": 81}), false),
            (json!({"containerPort": 80}), false),
            (json!({"hostPort": 0}), false),
        ] {
            assert_eq!(collide(&web, &pod(port.clone())), expected, "{port}");
        }
        let one = pod(json!({"hostPort": 80, "hostIP": "10.0.0.1"}));
        let other = pod(json!({"hostPort": 80, "hostIP": "10.0.0.2"}));
        assert!(collide(&one, &one) && !collide(&one, &other));
        for wrong in [&b"{"[..], b"7", b"{\"spec\":{\"containers\":{}}}", b"{\"spec\":{\"containers\":[7]}}"]
        {
            assert!(of_pod(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_not_read_of_a_pod_may_be_anything() {
        let fields = ["[".repeat(500), "]".repeat(500)].concat();
        let others = [
            b"{\"metadata\":{\"managedFields\":[{\"fieldsV1\":{\"f:\xff\":1e999,\"f:a\":",
            fields.as_bytes(),
            b"}}]},\"spec\":{\"initContainers\":null,\"containers\":[{\"ports\":[{\"hostPort\":80}]}]}}",
        ];
        assert_eq!(of_pod(&others.concat()).unwrap().len(), 1);
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
        let numbers = |network| {
            of_template(&spec(network)).unwrap().into_iter().map(|port| port.port).collect::<Vec<_>>()
        };
        assert_eq!((numbers(false), numbers(true)), (vec![9], vec![7, 9]));
    }
}
