//! A gateway and a policy.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use extender_bench::usage::{Memory, Usage};
use extender_harness::{
    gateway::{Backend, Configuration, Gateway, NodeSource, Observability},
    node::{Images, Node, nodes},
    pod::ReplicaSet,
    policy::Policy,
    request::{names_part, pod_part, write_node_list},
};

use crate::{
    Failure,
    caller::NUMBER,
    slow::{self, Pace},
};

/// The budget of a call that always is enough.
pub(crate) const LONG: Duration = Duration::from_secs(5);
/// The nodes of the cluster.
pub(crate) const NODES: usize = 5_000;
/// The nodes of a call: as many as kube-scheduler offers in a cluster of 5,000, 10 percent.
pub(crate) const OFFERED: usize = 500;

/// The gateway has nothing to do if it works for less than a twentieth of this time.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long it may work off what an attack has sent.
const SETTLED_WITHIN: Duration = Duration::from_mins(1);

const RULES: &str = "\
rules:
- require: [{key: topology.acme.io/rack, notIn: [rack-2]}]
  reason: rack is being drained
- pods: {labels: [{key: build, exists: true}]}
  require: [{key: topology.acme.io/rack, notIn: [rack-3]}]
  reason: rack is kept free of builds
- prefer: [{key: topology.kubernetes.io/zone, equals: eu-west-1a}]
  score: 3
";

/// Ends when it is dropped.
pub(crate) struct Stage {
    pub(crate) gateway: Gateway,
    _policy: Running,
    _folder: tempfile::TempDir,
    /// An honest call of filter.
    pub(crate) body: Vec<u8>,
    /// One of a pod with the label `build`, whose value [`NUMBER`] another caller replaces.
    pub(crate) all_different: Vec<u8>,
}

/// The policy, until it is dropped.
#[expect(dead_code, reason = "kept for its end")]
enum Running {
    Rules(Policy),
    Slow(slow::Served),
}

impl Running {
    /// A slow policy of this pace, or one that decides by rules.
    fn start(pace: Option<Pace>, rules: &Path) -> Result<(Self, Backend), Failure> {
        if let Some(pace) = pace {
            let served = slow::serve(pace)?;
            let backend = Backend { name: "slow".to_owned(), address: served.address, weight: 1 };
            return Ok((Self::Slow(served), backend));
        }
        fs::write(rules, RULES)?;
        let policy = Policy::start("racks", rules)?;
        let backend = Backend::of(&policy, 1);
        Ok((Self::Rules(policy), backend))
    }
}

impl Stage {
    /// A gateway whose calls have this budget and this number of nodes, and a policy of this pace or a fast one.
    pub(crate) fn set(budget: Duration, offered: usize, pace: Option<Pace>) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str| folder.path().join(name);
        let known = nodes(0..NODES, Images::Few);
        write_node_list(&file("nodes.json"), known.iter().map(|node| node.json.as_str()))?;
        let (policy, backend) = Running::start(pace, &file("rules.yaml"))?;
        let configuration = Configuration {
            address: "127.0.0.1:0".parse()?,
            nodes: NodeSource::File(file("nodes.json")),
            backends: vec![backend],
            timeout: budget,
            observability: Observability::AsItComes,
        };
        let gateway = Gateway::start(&configuration, &file("gateway.yaml"))?;
        let honest = body(ReplicaSet::new("shop", "web", &[("app", "web")], 1), known.iter().take(offered));
        let all_different = ReplicaSet::new("shop", "web", &[("app", "web"), ("build", NUMBER)], 1);
        let all_different = body(all_different, known.iter().take(offered));
        Ok(Self { gateway, _policy: policy, _folder: folder, body: honest, all_different })
    }

    /// Waits until the gateway has hardly anything to do.
    pub(crate) fn settle(&self) -> Result<(), Failure> {
        let processor = || Usage::of(&[self.gateway.process.id()]).map(|usage| usage.processor);
        let begun = Instant::now();
        while begun.elapsed() < SETTLED_WITHIN {
            let before = processor()?;
            thread::sleep(INTERVAL);
            // A thread that has ended is not in the sum any more.
            let used = processor()?.checked_sub(before).map(Duration::from_micros);
            if used.is_some_and(|used| used < INTERVAL / 20) {
                return Ok(());
            }
        }
        Err(format!("the gateway is still busy after {} s", SETTLED_WITHIN.as_secs()).into())
    }

    /// The gateway's memory now, in bytes.
    pub(crate) fn resident(&self) -> Result<u64, Failure> {
        Ok(Memory::of(self.gateway.process.id())?.resident)
    }

    /// The most that it had.
    pub(crate) fn peak(&self) -> Result<u64, Failure> {
        Ok(Memory::of(self.gateway.process.id())?.peak)
    }
}

/// The body of a call about a pod and these nodes.
fn body<'a>(mut pods: ReplicaSet, offered: impl Iterator<Item = &'a Node>) -> Vec<u8> {
    [pod_part(&pods.pod()), names_part(offered)].concat()
}

/// A limit of open files that leaves room for the connections of the attacks.
pub(crate) fn open_files() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(1024)
}
