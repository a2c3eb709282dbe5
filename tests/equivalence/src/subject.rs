//! The subject: the running gateway and its answers.

mod answer;
mod backend;
mod client;
mod configuration;
mod gate;
mod gateway;
mod objects;
mod script;
mod world;

use std::{
    collections::{BTreeMap, btree_map::Entry},
    net::SocketAddr,
    sync::Arc,
};

use extender_reference::model::{Node, Pod};
use tempfile::TempDir;
use tokio::task::JoinSet;

pub use self::answer::{Filtered, Preempted, Prioritized};
pub use self::objects::placed_uid;
pub use self::script::{About, Outcome, Question, Verb};
use self::{
    backend::Servers,
    gate::Gate,
    gateway::Gateway,
    script::Script,
    world::{Cluster, Shock},
};
use crate::{
    case::{Calls, Case, Change, Feed, Placing, Pods, Round, Source, Tables, World},
    compare::{Expected, Wanted},
};

/// Gateways, one for each source of nodes with and without pods, and the servers of their backends. Started when
/// first needed, and reconfigured for each case.
pub struct Subject {
    folder: TempDir,
    servers: Servers,
    gateways: BTreeMap<(Source, Pods), Gateway>,
    cases: u64,
}

/// The results of a case.
#[derive(Debug)]
pub struct Observed {
    /// The number of its pods in their UIDs.
    pub number: u64,
    /// The results of each of its pods.
    pub placed: Vec<Placed>,
    /// The results of the pods of concurrent callers. Their requests are not distinguished.
    pub crowded: Vec<Placed>,
    /// The reply to preempt, for the first pod.
    pub preempted: Preempted,
    /// Errors that a backend found in a request.
    pub complaints: Vec<String>,
}

/// The results of a pod.
#[derive(Debug)]
pub struct Placed {
    /// The reply to filter; `None` if there was no such call.
    pub filtered: Option<Filtered>,
    /// The reply to prioritize.
    pub prioritized: Prioritized,
    /// For each backend its requests, in order.
    pub questions: Vec<Vec<Question>>,
    /// For each backend the requests before, about a pod whose only purpose is that answers name their revision.
    pub probed: Vec<Vec<Question>>,
    /// How many nodes needed no request, because the answer was cached.
    pub remembered: u64,
    /// How many calls named nodes that a backend did not hold.
    pub missed: u64,
}

/// One case, while it runs.
struct Play<'p> {
    case: &'p Case,
    number: u64,
    gateway: &'p mut Gateway,
    scripts: &'p [Arc<Script>],
    addresses: &'p [SocketAddr],
    shock: &'p Shock,
    gate: &'p Gate,
    folder: &'p TempDir,
}

impl Subject {
    /// Only the backends' servers run at first.
    pub async fn start() -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        Self { folder, servers: Servers::start().await, gateways: BTreeMap::new(), cases: 0 }
    }

    /// Configures a gateway for the case, and calls it for one pod after the other: to filter the offered nodes, to
    /// prioritize those that the reference leaves, and to preempt for the first pod.
    pub async fn ask(&mut self, case: &Case, expected: &Expected) -> Observed {
        self.cases += 1;
        let number = self.cases;
        let shock = Arc::new(Shock::default());
        let gate = Arc::new(Gate::default());
        let script = |at| Arc::new(Script::new(number, (case, at), (&shock, &gate)));
        let scripts: Vec<_> = (0..case.backends.len()).map(script).collect();
        let addresses = self.servers.play(&scripts);
        let args = configuration::args((number, 0));
        let text = configuration::text(case, (&args, &addresses), self.folder.path());
        let gateway = match self.gateways.entry((case.source, case.pods)) {
            Entry::Vacant(vacant) => vacant.insert(Gateway::start(&text, &case.world()).await),
            Entry::Occupied(running) => {
                let gateway = running.into_mut();
                gateway.cluster.list(&case.world());
                gateway.cluster.replace_pods(&case.world());
                gateway.connect_again().await;
                gateway.configure(&text).await;
                gateway
            }
        };
        let (scripts, addresses, folder) = (&scripts, &addresses, &self.folder);
        Play { case, number, gateway, scripts, addresses, shock: &shock, gate: &gate, folder }
            .out(expected)
            .await
    }
}

impl Play<'_> {
    async fn out(mut self, expected: &Expected) -> Observed {
        let mut placed = Vec::new();
        let mut preempted = None;
        for (placing, expected) in self.case.placings().iter().zip(&expected.placed) {
            let probed = match placing.round {
                Some(round) => self.prepare((round, placing), &placed).await,
                None => self.unasked(),
            };
            let mut now = self.place(placing, &expected.ranked).await;
            if placing.number == 0 {
                let call = objects::preempt_call(self.case, self.number);
                preempted = Some(answer::preempted(&self.gateway.post("/preempt", call).await));
            }
            if let Some(Round { before: Some(Change::RulesAndRows(_)), .. }) = placing.round {
                // Answers that were no longer needed arrive later.
                self.gateway.know(|revision| self.is_latest(revision)).await;
            }
            now.probed = probed;
            now.questions = self.scripts.iter().map(|script| script.take_questions()).collect();
            placed.push(now);
        }
        let crowded = self.crowd(&expected.crowded).await;
        Observed {
            number: self.number,
            placed,
            crowded,
            preempted: preempted.expect("every case has a first pod"),
            complaints: self.scripts.iter().flat_map(|script| script.complaints()).collect(),
        }
    }

    /// All callers call at the same time. Backends read one request after the other, in the order of the case, and
    /// each time they first get the nodes that calls have brought.
    async fn crowd(&mut self, expected: &[Wanted]) -> Vec<Placed> {
        let (remembered, missed) = self.counted();
        self.gate.close();
        let mut callers = JoinSet::new();
        for (placing, wanted) in self.case.crowded().iter().zip(expected) {
            let (whom, world) = ((self.number, placing.number), &placing.filtering);
            let call = |nodes| objects::call(Source::Request, (&placing.pod, whom), (nodes, world));
            let (filter, prioritize) = (call(placing.offered), call(&wanted.ranked));
            let mut client = self.gateway.connect().await;
            callers.spawn(async move {
                let filtered = answer::filtered(&client.post("/filter", filter).await, Source::Request);
                let prioritized = answer::prioritized(&client.post("/prioritize", prioritize).await);
                (whom, filtered, prioritized)
            });
        }
        let mut ended = Vec::new();
        while !callers.is_empty() {
            tokio::select! {
                Some(caller) = callers.join_next() => ended.push(caller.expect("callers do not panic")),
                () = self.gate.arrived() => {
                    self.gateway.brought().await;
                    self.gate.let_one_through();
                }
            }
        }
        self.gate.open();
        ended.sort_by_key(|(whom, ..)| *whom);
        let (remembered, missed) = (self.counted().0 - remembered, self.counted().1 - missed);
        let placed = |(_, filtered, prioritized)| {
            let filtered = Some(filtered);
            Placed { filtered, prioritized, questions: Vec::new(), probed: Vec::new(), remembered, missed }
        };
        ended.into_iter().map(placed).collect()
    }

    /// No requests.
    fn unasked(&self) -> Vec<Vec<Question>> {
        vec![Vec::new(); self.scripts.len()]
    }

    /// The changes before the calls about a pod. Returns the requests that they cause, by backend.
    async fn prepare(
        &mut self,
        (round, placing): (&Round, &Placing<'_>),
        earlier: &[Placed],
    ) -> Vec<Vec<Question>> {
        let mut probed = self.unasked();
        let world = &placing.filtering;
        let cluster: &Cluster = &self.gateway.cluster;
        match round.news.before_by {
            Feed::Watch => cluster.happen(&round.news.before, world),
            Feed::List => cluster.list_pods(world),
        }
        match &round.before {
            None => {}
            Some(Change::Rows(nodes)) => cluster.apply(nodes, world),
            Some(Change::Replaced(nodes)) => cluster.replace(nodes, world),
            Some(Change::Args) => {
                let args = configuration::args((self.number, world.args));
                let text = configuration::text(self.case, (&args, self.addresses), self.folder.path());
                self.gateway.configure(&text).await;
            }
            Some(Change::Rules) => probed = self.edit(placing).await,
            Some(Change::RulesAndRows(nodes)) => {
                self.scripts.iter().for_each(|script| script.edit());
                cluster.apply(nodes, world);
            }
        }
        let are_brought = self.case.source != Source::Request || has_called(earlier);
        if round.tables == Tables::Awaited && are_brought {
            self.gateway.filled(self.case.source).await;
        }
        probed
    }

    /// All backends answer by other rules, and the gateway finds out: at the latest a second later, and sooner if
    /// it calls them about a pod without cached answers.
    async fn edit(&mut self, placing: &Placing<'_>) -> Vec<Vec<Question>> {
        self.scripts.iter().for_each(|script| script.edit());
        let mut pod: Pod = placing.pod.clone();
        pod.labels.insert(objects::PROBE.to_owned(), placing.number.to_string());
        let source = placing.source(self.case.source);
        for path in ["/filter", "/prioritize"] {
            self.call((source, path), (&pod, placing.number), (&[0], &placing.filtering)).await;
        }
        self.gateway.know(|revision| self.is_latest(revision)).await;
        self.scripts.iter().map(|script| script.take_questions()).collect()
    }

    fn is_latest(&self, revision: &str) -> bool {
        self.scripts.iter().any(|script| script.revision() == revision)
    }

    async fn place(&mut self, placing: &Placing<'_>, ranked: &[Node]) -> Placed {
        let (remembered, missed) = self.counted();
        let (whom, source) = ((&placing.pod, placing.number), placing.source(self.case.source));
        let filters = placing.round.is_none_or(|round| round.calls == Calls::FilterThenPrioritize);
        let mut filtered = None;
        if filters {
            if let Some(round) = placing.round.filter(|round| round.changes_during()) {
                self.shock.prepare(&self.gateway.cluster, round, &placing.scoring);
            }
            let answer = self.call((source, "/filter"), whom, (placing.offered, &placing.filtering)).await;
            filtered = Some(answer::filtered(&answer, source));
            self.shock.strike();
        }
        if let Some(round) = placing.round {
            self.gateway.cluster.apply(&round.between, &placing.scoring);
            self.gateway.cluster.happen(&round.news.between, &placing.scoring);
        }
        let answer = self.call((source, "/prioritize"), whom, (ranked, &placing.scoring)).await;
        let prioritized = answer::prioritized(&answer);
        let (remembered, missed) = (self.counted().0 - remembered, self.counted().1 - missed);
        Placed { filtered, prioritized, questions: Vec::new(), probed: Vec::new(), remembered, missed }
    }

    async fn call(
        &mut self,
        (source, path): (Source, &str),
        (pod, number): (&Pod, usize),
        nodes: (&[Node], &World),
    ) -> client::Answer {
        let body = objects::call(source, (pod, (self.number, number)), nodes);
        self.gateway.post(path, body).await
    }

    fn counted(&self) -> (u64, u64) {
        let counted = |what: &str| self.gateway.counted(&format!("extender_gateway_backend_{what}_total"));
        (counted("known_nodes"), counted("table_misses"))
    }
}

/// Whether calls have brought nodes that a backend was called about. Preempt calls bring none.
fn has_called(earlier: &[Placed]) -> bool {
    let mut questions = earlier.iter().flat_map(|placed| placed.questions.iter().flatten());
    questions.any(|question| question.verb != Verb::Preempt)
}
