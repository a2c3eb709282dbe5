//! The processes of the benchmark: the floor, and for each [`Role`] three policies with a gateway for each
//! form of nodes.

use std::{net::SocketAddr, path::Path, process::Command, time::Duration};

use clap::ValueEnum;
use extender_harness::{
    binaries::Program,
    gateway::{Backend, Configuration, Gateway, GatewayError, NodeSource, Observability},
    node::{Images, Node, nodes},
    policy::Policy,
    process::Process,
    request::write_node_list,
};

use crate::{
    case::Form,
    contender::Failure,
    policy::{Declaration, ReadsDeclared},
};

/// How many nodes the gateway knows in names mode: kube-scheduler offers a part of them.
const KNOWN_NODES: usize = 5_000;

/// Their file.
const NODES_FILE: &str = "nodes.json";

/// The number of nodes from which full objects are taken. Each has 14 kB.
const FULL_NODES: usize = 5_000;

/// Long enough that slowness is measured, not cut off.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The labels that the three policies refuse; the third refuses no node.
const REFUSED: [&str; 3] =
    ["topology.acme.io/rack=rack-2", "acme.io/tenant=tenant-2", "topology.kubernetes.io/zone=nowhere"];

/// What they prefer.
const PREFERRED: [&str; 3] = [
    "topology.kubernetes.io/zone=eu-west-1a:3",
    "topology.acme.io/rack=rack-1:5",
    "acme.io/tenant=tenant-0:2",
];

/// What the gateway has cached about a call, and what its policies declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Pure policies, and no cached answers about the pod.
    Cold,
    /// Pure policies, with cached answers about siblings of the pod.
    Warm,
    /// Policies that are called about each node, every time.
    Node,
    /// Policies that are called in turn.
    Set,
}

/// A gateway with three policies, in both forms of nodes.
#[derive(Debug)]
pub struct Ensemble {
    /// Its role.
    pub role: Role,
    policies: [Policy; 3],
    by_names: Gateway,
    by_objects: Gateway,
}

/// Everything that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct Stage {
    /// One for each role, in the order of the report.
    pub ensembles: [Ensemble; 4],
    echo: Process,
    echo_address: SocketAddr,
    known_nodes: Vec<Node>,
    full_nodes: Vec<Node>,
    /// The gateways' configuration and nodes.
    folder: tempfile::TempDir,
}

impl Role {
    /// All, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Cold, Self::Warm, Self::Node, Self::Set];

    /// Its name in the report.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cold => "pure, cold",
            Self::Warm => "pure, warm",
            Self::Node => "per node",
            Self::Set => "whole set",
        }
    }

    fn declaration(self) -> Declaration {
        match self {
            Self::Cold | Self::Warm => Declaration::Pure,
            Self::Node => Declaration::Node,
            Self::Set => Declaration::Set,
        }
    }

    /// What the policies declare that they read. Cached answers of those that read nothing of pods serve all pods.
    fn reads(self) -> ReadsDeclared {
        if self == Self::Cold { ReadsDeclared::All } else { ReadsDeclared::Labels }
    }
}

impl Stage {
    /// Starts everything.
    pub fn set() -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let known_nodes = nodes(0..KNOWN_NODES, Images::Few);
        let file = folder.path().join(NODES_FILE);
        write_node_list(&file, known_nodes.iter().map(|node| node.json.as_str()))?;
        let start = |role| Ensemble::start(role, folder.path(), &file);
        let ensembles = [start(Role::Cold)?, start(Role::Warm)?, start(Role::Node)?, start(Role::Set)?];
        let (echo, [echo_address]) =
            Process::start("echo-extender", Command::new(Program::EchoExtender.path()?), ["listening on "])?;
        let full_nodes = nodes(0..FULL_NODES, Images::Usual);
        Ok(Self { ensembles, echo, echo_address, known_nodes, full_nodes, folder })
    }

    /// Whether the policies refuse the node, computed without them.
    pub fn refused(node: &Node) -> bool {
        node.rack == "rack-2" || node.tenant == "tenant-2"
    }

    /// The nodes that kube-scheduler would know.
    pub fn cluster(&self, form: Form) -> &[Node] {
        match form {
            Form::Names => &self.known_nodes,
            Form::Objects => &self.full_nodes,
        }
    }

    /// The folder of the gateways' files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The source of nodes for gateways in names mode.
    pub(crate) fn nodes(&self) -> NodeSource {
        NodeSource::File(self.folder.path().join(NODES_FILE))
    }

    /// The address of the floor.
    pub fn echo(&self) -> SocketAddr {
        self.echo_address
    }

    /// The floor's process.
    pub fn echo_process(&self) -> u32 {
        self.echo.id()
    }
}

impl Ensemble {
    fn start(role: Role, folder: &Path, nodes: &Path) -> Result<Self, Failure> {
        let policies = policies(role)?;
        let gateway = |nodes, form: &str| {
            let file = folder.join(format!("{role:?}-{form}.yaml"));
            gateway(&policies, nodes, Observability::AsItComes, &file)
        };
        let by_names = gateway(NodeSource::File(nodes.to_owned()), "names")?;
        let by_objects = gateway(NodeSource::Request, "objects")?;
        Ok(Self { role, policies, by_names, by_objects })
    }

    /// The gateway for this form of nodes.
    pub fn gateway(&self, form: Form) -> &Gateway {
        match form {
            Form::Names => &self.by_names,
            Form::Objects => &self.by_objects,
        }
    }

    /// The addresses of the policies.
    pub fn policies(&self) -> [SocketAddr; 3] {
        self.policies.each_ref().map(|policy| policy.address)
    }

    /// The policies' processes.
    pub fn policy_processes(&self) -> Vec<u32> {
        self.policies.iter().map(|policy| policy.process.id()).collect()
    }
}

/// The three policies of a role.
pub(crate) fn policies(role: Role) -> Result<[Policy; 3], Failure> {
    Ok([policy(role, 0)?, policy(role, 1)?, policy(role, 2)?])
}

/// A gateway with these policies, whose configuration is in this file.
pub(crate) fn gateway(
    policies: &[Policy],
    nodes: NodeSource,
    observability: Observability,
    file: &Path,
) -> Result<Gateway, GatewayError> {
    let backends = policies.iter().map(|policy| Backend::of(policy, 1)).collect();
    let address = ([127, 0, 0, 1], 0).into();
    Gateway::start(&Configuration { address, nodes, backends, timeout: TIMEOUT, observability }, file)
}

/// A policy of a role. Those whose numbers differ by a multiple of three make the same decisions.
pub(crate) fn policy(role: Role, number: usize) -> Result<Policy, Failure> {
    let declared = role.declaration().to_possible_value().ok_or("a declaration without a name")?;
    let reads = role.reads().to_possible_value().ok_or("reads without a name")?;
    let name = format!("policy-{number}");
    let mut command = Command::new(Program::BenchPolicy.path()?);
    command.args(["--name", &name, "--declare", declared.get_name(), "--address", "127.0.0.1:0"]);
    let kind = number % REFUSED.len();
    command.args(["--refuse", REFUSED[kind], "--prefer", PREFERRED[kind], "--reads", reads.get_name()]);
    let (process, [address]) = Process::start(&name, command, ["listening on "])?;
    Ok(Policy { process, address })
}
