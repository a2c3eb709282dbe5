//! The subject: the running gateway, and what it answers.

mod answer;
mod backend;
mod client;
mod configuration;
mod gateway;
mod objects;
mod script;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use extender_reference::model::Node;
use tempfile::TempDir;

pub use self::answer::{Filtered, Preempted, Prioritized};
pub use self::script::{Question, Verb};
use self::{backend::Servers, gateway::Gateway, script::Script};
use crate::case::{Case, Pods, Source};

/// Gateways, one for each source of nodes with and without pods, and the servers of their backends. Started when first needed, and
/// configured anew for each case.
pub struct Subject {
    folder: TempDir,
    servers: Servers,
    gateways: BTreeMap<(Source, Pods), Gateway>,
    cases: u64,
}

/// What came of a case.
#[derive(Debug)]
pub struct Observed {
    /// The reply to filter.
    pub filtered: Filtered,
    /// The reply to prioritize.
    pub prioritized: Prioritized,
    /// The reply to preempt.
    pub preempted: Preempted,
    /// For each backend, what it was asked, in order.
    pub questions: Vec<Vec<Question>>,
    /// What a backend found wrong with a question.
    pub complaints: Vec<String>,
}

impl Subject {
    /// Nothing runs yet but the backends' servers.
    pub async fn start() -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        std::fs::write(folder.path().join("nodes.json"), objects::all_nodes()).expect("it can be written to");
        Self { folder, servers: Servers::start().await, gateways: BTreeMap::new(), cases: 0 }
    }

    /// Configures a gateway for the case, and asks it to filter what is offered, to prioritize `ranked`
    /// and who may be evicted.
    pub async fn ask(&mut self, case: &Case, ranked: &[Node]) -> Observed {
        self.cases += 1;
        let number = self.cases;
        let scripts: Vec<_> =
            (0..case.backends.len()).map(|at| Arc::new(Script::new(number, case, at))).collect();
        let addresses = self.servers.play(&scripts);
        let text = configuration::text(case, (number, &addresses), self.folder.path());
        let gateway = match self.gateways.entry((case.source, case.pods)) {
            Entry::Vacant(vacant) => vacant.insert(Gateway::start(&text).await),
            Entry::Occupied(running) => {
                let gateway = running.into_mut();
                gateway.configure(&text).await;
                gateway
            }
        };
        let filtered = gateway.post("/filter", objects::call(case, (number, &case.offered))).await;
        let prioritized = gateway.post("/prioritize", objects::call(case, (number, ranked))).await;
        let preempted = gateway.post("/preempt", objects::preempt_call(case, number)).await;
        Observed {
            filtered: answer::filtered(&filtered, case.source),
            prioritized: answer::prioritized(&prioritized),
            preempted: answer::preempted(&preempted),
            questions: scripts.iter().map(|script| script.questions()).collect(),
            complaints: scripts.iter().flat_map(|script| script.complaints()).collect(),
        }
    }
}
