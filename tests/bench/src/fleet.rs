//! A large cluster with many policies: the time of filter calls that offer all nodes, and the gateway's memory.

use std::path::Path;

use extender_harness::{
    gateway::{Gateway, NodeSource, Observability},
    node::{Images, Node, nodes},
    policy::Policy,
    request::{Verb, write_node_list},
};
use serde::Serialize;

use crate::{
    case::{Case, Form, Offers},
    contender::{Extender, Failure, Keeps},
    measure::{Entrant, Series, measure},
    pods::Pods,
    stage::{self, Role, Stage},
    statistics::percentile,
    usage::Memory,
};

const NODES: usize = 15_000;
const POLICIES: usize = 32;

/// The name that selects this measurement.
pub const LABEL: &str = "fleet";

/// The calls of a round; each takes milliseconds.
const CALLS: usize = 20;

/// A gateway with [`POLICIES`] policies that know all nodes.
#[derive(Debug)]
struct Fleet {
    role: Role,
    /// They run as long as this exists.
    _policies: Vec<Policy>,
    gateway: Gateway,
}

/// The results.
#[derive(Debug, Clone, Serialize)]
pub struct FleetReport {
    /// The number of nodes, all of which are offered.
    pub nodes: usize,
    /// The number of policies.
    pub policies: usize,
    /// One for each declaration of the policies.
    pub columns: Vec<FleetColumn>,
}

/// The results with policies of one declaration.
#[derive(Debug, Clone, Serialize)]
pub struct FleetColumn {
    /// For example "pure, warm".
    pub name: &'static str,
    /// Median of all calls, in microseconds.
    pub p50: f64,
    /// 99th percentile of all calls, in microseconds.
    pub p99: f64,
    /// Of the gateway after the calls, in bytes.
    pub memory: Memory,
}

impl Fleet {
    fn start(role: Role, folder: &Path, nodes: &Path) -> Result<Self, Failure> {
        let policies =
            (0..POLICIES).map(|number| stage::policy(role, number)).collect::<Result<Vec<_>, _>>()?;
        let file = folder.join(format!("fleet-{role:?}.yaml"));
        let nodes = NodeSource::File(nodes.to_owned());
        let gateway = stage::gateway(&policies, nodes, Observability::AsItComes, &file)?;
        Ok(Self { role, _policies: policies, gateway })
    }

    fn column(&self, series: &Series) -> Result<FleetColumn, Failure> {
        let (p50, p99) = (percentile(&series.latencies, 50), percentile(&series.latencies, 99));
        let memory = Memory::of(self.gateway.process.id())?;
        Ok(FleetColumn { name: self.role.label(), p50, p99, memory })
    }
}

impl FleetReport {
    /// Measures pure policies, whose answers are cached after the first calls, and policies that are called each time.
    pub fn measure(rounds: usize) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let cluster: Vec<Node> = nodes(0..NODES, Images::Few);
        let file = folder.path().join("nodes.json");
        write_node_list(&file, cluster.iter().map(|node| node.json.as_str()))?;
        let case = Case { verb: Verb::Filter, form: Form::Names, nodes: NODES, calls: CALLS };
        let offers = Offers::new(&case, &cluster, Stage::refused);
        let pods = Pods::of_deployments();
        let mut columns = Vec::new();
        for role in [Role::Warm, Role::Node] {
            let fleet = Fleet::start(role, folder.path(), &file)?;
            let mut extender = Extender::open(fleet.gateway.extender, Keeps::Survivors)?;
            let entrant = Entrant { contender: &mut extender, pods: &pods, processes: vec![] };
            let series = measure(&case, &offers, rounds, &mut [entrant])?;
            columns.push(fleet.column(&series[0])?);
        }
        Ok(Self { nodes: NODES, policies: POLICIES, columns })
    }
}
