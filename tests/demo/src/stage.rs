//! The servers of the demo: three policies and the gateway, each its own process.

use std::{net::SocketAddr, path::Path, time::Duration};

use extender_harness::{
    gateway::{Backend, Configuration, Gateway, NodeSource, Observability},
    policy::Policy,
    request::write_node_list,
};

use crate::{Failure, calls, panel::Panel, question::KnownNodes};

/// The policies' rules.
pub(crate) const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/rules");

/// The policies in the gateway's order: their names, which are those of their files, and weights.
const POLICIES: [(&str, u32); 3] = [("rack-drain", 1), ("tenant-quota", 1), ("zone-preference", 2)];

/// Less than the `httpTimeout` that `--serve` prints. A call takes a thousandth of it, but a machine that has just
/// compiled everything may be busy.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Everything that runs. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    /// The policies, with their weights.
    pub(crate) policies: Vec<(Policy, u32)>,
    /// The gateway.
    pub(crate) gateway: Gateway,
    /// The nodes of the gateway's file.
    pub(crate) nodes: KnownNodes,
    /// Holds the gateway's configuration and file of nodes.
    _folder: tempfile::TempDir,
}

impl Stage {
    /// Starts everything; the gateway listens on this address.
    pub(crate) fn set(address: SocketAddr) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let nodes = calls::known_nodes()?;
        let file = folder.path().join("nodes.json");
        write_node_list(&file, nodes.values().map(String::as_str))?;
        let policies = POLICIES.iter().map(|&(name, weight)| {
            let rules = Path::new(RULES).join(format!("{name}.yaml"));
            Ok((Policy::start(name, &rules)?, weight))
        });
        let policies = policies.collect::<Result<Vec<_>, Failure>>()?;
        let backends = policies.iter().map(|(policy, weight)| Backend::of(policy, *weight)).collect();
        let nodes_file = NodeSource::File(file);
        let observability = Observability::AsItComes;
        let configuration =
            Configuration { address, nodes: nodes_file, backends, timeout: TIMEOUT, observability };
        let gateway = Gateway::start(&configuration, &folder.path().join("gateway.yaml"))?;
        Ok(Self { policies, gateway, nodes, _folder: folder })
    }

    /// The policies to be asked directly.
    pub(crate) fn panel(&self) -> Result<Panel, Failure> {
        Panel::of(&self.policies)
    }
}
