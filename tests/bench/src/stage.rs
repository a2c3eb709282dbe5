//! The processes of the benchmark: three policies, a gateway for each form of nodes, and the floor.

use std::{net::SocketAddr, path::Path, process::Command, time::Duration};

use extender_harness::{
    binaries::Program,
    gateway::{Backend, Configuration, Gateway, NodeSource},
    node::{Images, Node, nodes},
    policy::Policy,
    process::Process,
    request::write_node_list,
};

use crate::{case::Form, contender::Failure};

/// How many nodes the gateway knows in names mode: kube-scheduler offers a part of them.
const KNOWN_NODES: usize = 5_000;

/// How many nodes full objects are taken from. Each has 14 kB.
const FULL_NODES: usize = 1_000;

/// Long enough that slowness is measured, not cut off.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The rules of the demo: racks being drained, tenants over quota, zones preferred.
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../demo/rules");

/// Everything that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct Stage {
    policies: [Policy; 3],
    by_names: Gateway,
    by_objects: Gateway,
    echo: Process,
    echo_address: SocketAddr,
    known_nodes: Vec<Node>,
    full_nodes: Vec<Node>,
    /// The gateways' configuration and nodes.
    _folder: tempfile::TempDir,
}

/// The processes that matter for one form of nodes.
#[derive(Debug)]
pub struct Roles<'a> {
    /// Where the gateway listens.
    pub gateway: SocketAddr,
    /// The gateway's process.
    pub gateway_process: u32,
    /// The nodes that kube-scheduler would know.
    pub cluster: &'a [Node],
}

impl Stage {
    /// Starts everything.
    pub fn set() -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let known_nodes = nodes(0..KNOWN_NODES, Images::Few);
        let file = folder.path().join("nodes.json");
        write_node_list(&file, known_nodes.iter().map(|node| node.json.as_str()))?;
        let policy = |name: &str| Policy::start(name, &Path::new(RULES).join(format!("{name}.yaml")));
        let policies = [policy("rack-drain")?, policy("tenant-quota")?, policy("zone-preference")?];
        let gateway = |nodes, file: &str| {
            let backends = policies.iter().map(|policy| Backend::of(policy, 1)).collect();
            let address = ([127, 0, 0, 1], 0).into();
            let configuration = Configuration { address, nodes, backends, timeout: TIMEOUT };
            Gateway::start(&configuration, &folder.path().join(file))
        };
        let (by_names, by_objects) =
            (gateway(NodeSource::File(file), "names.yaml")?, gateway(NodeSource::Request, "objects.yaml")?);
        let (echo, [echo_address]) =
            Process::start("echo-extender", Command::new(Program::EchoExtender.path()?), ["listening on "])?;
        let full_nodes = nodes(0..FULL_NODES, Images::Usual);
        Ok(Self {
            policies,
            by_names,
            by_objects,
            echo,
            echo_address,
            known_nodes,
            full_nodes,
            _folder: folder,
        })
    }

    /// Whether the policies' rules refuse the node for the benchmark's pods, told apart from the policies.
    pub fn refused(node: &Node) -> bool {
        node.rack == "rack-2" || node.tenant == "tenant-2"
    }

    /// Who plays for this form of nodes.
    pub fn roles(&self, form: Form) -> Roles<'_> {
        let (gateway, cluster) = match form {
            Form::Names => (&self.by_names, &self.known_nodes),
            Form::Objects => (&self.by_objects, &self.full_nodes),
        };
        Roles { gateway: gateway.extender, gateway_process: gateway.process.id(), cluster }
    }

    /// Where the policies listen.
    pub fn policies(&self) -> [SocketAddr; 3] {
        self.policies.each_ref().map(|policy| policy.address)
    }

    /// The policies' processes.
    pub fn policy_processes(&self) -> Vec<u32> {
        self.policies.iter().map(|policy| policy.process.id()).collect()
    }

    /// Where the floor listens.
    pub fn echo(&self) -> SocketAddr {
        self.echo_address
    }

    /// The floor's process.
    pub fn echo_process(&self) -> u32 {
        self.echo.id()
    }
}
