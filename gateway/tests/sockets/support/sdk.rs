//! A backend made with the Rust SDK, and a gateway whose calls to it are recorded.

use std::{
    net::SocketAddr,
    ptr::fn_addr_eq,
    sync::{Arc, Mutex},
    time::Duration,
};

use extender_gateway_backend::remote_table::TableSource;
use extender_policy_sdk::{
    Bound, Info, Node, NodePart, Options, Pod, Policy, Reads, Scale, ServeError, Verb, Verdict,
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use super::{
    Gateway,
    function::{about, labelled, sibling},
    relay::{Relay, Said},
};

/// Refuses the nodes that have a label `refused`, with the label as the reason, those whose JSON contains
/// `unusable`, and those on which more than half a CPU is requested.
pub(crate) struct Labelled {
    info: fn() -> Info,
    /// What it declares from now on.
    next: Arc<Mutex<fn() -> Info>>,
}

impl Labelled {
    pub(crate) fn new(info: fn() -> Info) -> Self {
        Self { info, next: Arc::new(Mutex::new(info)) }
    }

    fn declares(&self, info: fn() -> Info) -> bool {
        fn_addr_eq(self.info, info)
    }
}

impl Policy for Labelled {
    fn info(&self) -> Info {
        (self.info)()
    }

    fn current(&self) -> Option<Box<dyn Policy>> {
        let next = *self.next.lock().unwrap();
        (!self.declares(next)).then(|| Box::new(Self { info: next, next: Arc::clone(&self.next) }) as _)
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        let used = self.declares(usage).then(|| node.usage()).flatten();
        let requested = used.and_then(|usage| usage.requested.as_ref());
        let json = self.declares(raw).then(|| node.raw_json()).flatten();
        let is_unusable = |json: &[u8]| json.windows(8).any(|word| word == b"unusable");
        if requested.is_some_and(|requested| requested.milli_cpu > 500) {
            return Verdict::reject("full");
        }
        if json.is_some_and(is_unusable) {
            return Verdict::reject("unusable");
        }
        node.label("refused").map_or(Verdict::Accept, |text| Verdict::reject(text.to_owned()))
    }

    fn score(&self, _: &Pod<'_>, _: &Node<'_>) -> i32 {
        0
    }
}

/// Filters by facts, without a cache.
pub(crate) fn facts() -> Info {
    Info::new("labelled", "1").filters(Verb::per_node().reads(&Reads::everything()))
}

/// The same with annotations.
pub(crate) fn annotated() -> Info {
    let mut reads = Reads::everything();
    reads.node_annotations("example.com/");
    Info::new("labelled", "1").revision("annotated").filters(Verb::per_node().reads(&reads))
}

/// The same without tables.
pub(crate) fn annotated_inline() -> Info {
    annotated().revision("inline").without_node_table()
}

/// The same by one label, with more declared than it reads, in no order.
pub(crate) fn declared() -> Info {
    let mut reads = Reads::new();
    for prefix in ["z/", "b/", "z/y/"] {
        reads.node_labels(prefix);
    }
    reads.node_label("zone");
    reads.node_label("refused");
    reads.node(NodePart::Unschedulable).node(NodePart::Taints);
    Info::new("labelled", "1").filters(Verb::per_node().reads(&reads))
}

/// The same by facts and JSON.
pub(crate) fn raw() -> Info {
    with_part(NodePart::RawJson)
}

/// The same by facts and usage.
pub(crate) fn usage() -> Info {
    with_part(NodePart::Usage)
}

fn with_part(part: NodePart) -> Info {
    let mut reads = Reads::everything();
    reads.node(part);
    Info::new("labelled", "1").filters(Verb::per_node().reads(&reads))
}

/// Filters by facts, after all earlier backends.
pub(crate) fn in_turn() -> Info {
    Info::new("labelled", "1").filters(Verb::whole_set().reads(&Reads::everything()))
}

/// Filters and scores by facts, both pure.
pub(crate) fn pure() -> Info {
    let verb = Verb::per_node().pure().reads(&Reads::everything());
    Info::new("labelled", "1").filters(verb.clone()).scores(verb, Scale::unbounded())
}

/// A backend that runs until it is stopped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    declares: Arc<Mutex<fn() -> Info>>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    pub(crate) async fn start(info: fn() -> Info) -> Self {
        let options = Options { drain: Duration::ZERO, ..Options::default() };
        let policy = Labelled::new(info);
        let declares = Arc::clone(&policy.next);
        let bound = Bound::new(policy, options).await.unwrap();
        let address = bound.address();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(bound.until(async { drop(stopped.await) }));
        Self { address, declares, stop, served }
    }

    /// Declares this from the next handshake on.
    pub(crate) fn declare(&self, info: fn() -> Info) {
        *self.declares.lock().unwrap() = info;
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.served.await.unwrap().unwrap();
    }
}

/// A gateway in front of a relay.
pub(crate) struct Seen {
    pub(crate) gateway: Gateway,
    pub(crate) relay: Relay,
}

impl Seen {
    pub(crate) async fn start(source: &str, relay: Relay) -> Self {
        Self::start_behind("", source, relay).await
    }

    /// A gateway with these backends before the observed one.
    pub(crate) async fn start_behind(others: &str, source: &str, relay: Relay) -> Self {
        let only = format!("- {{name: only, url: 'http://{}', filter: {{timeout: 60s}}}}\n", relay.address);
        let rest = format!(
            "{source}\ntimeouts: {{decision: 60s}}\nreasons: {{prefix: None, repeated: AsGiven}}\nbackends:\n{others}{only}"
        );
        Self { gateway: Gateway::start(&rest).await, relay }
    }

    /// A gateway that knows these nodes, which are refused if a text is given.
    pub(crate) async fn watching(relay: Relay, nodes: &[(&str, &str)]) -> Self {
        let seen = Self::start("nodes: {source: Watch}", relay).await;
        for (name, refused) in nodes {
            seen.apply(name, refused);
        }
        seen
    }

    pub(crate) fn apply(&self, name: &str, refused: &str) {
        self.gateway.table.apply(node(name, refused).as_bytes()).unwrap();
    }

    /// Why each node is refused.
    pub(crate) async fn filter(&self, names: &[&str]) -> Value {
        self.refused(about(&sibling(1), names)).await
    }

    pub(crate) async fn refused(&self, body: String) -> Value {
        let mut answer = self.gateway.post("/filter", body).await.json();
        assert_eq!(answer["Error"], "", "{answer}");
        answer["FailedAndUnresolvableNodes"].take()
    }

    /// How the latest call named its nodes.
    pub(crate) fn said(&self) -> Said {
        self.relay.said("Filter").pop().unwrap()
    }

    /// Repeats a call until it names all its nodes by ids; returns how it named them.
    pub(crate) async fn until_held(&self, body: &str) -> Said {
        let held = async {
            loop {
                self.gateway.post("/filter", body).await;
                let said = self.relay.said("Filter").pop();
                if let Some(said) = said.filter(|said| !said.table.is_empty() && said.rows.is_empty()) {
                    return said;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(Duration::from_mins(1), held).await.expect("the backend holds the nodes some time")
    }

    /// Waits until the backend has acknowledged a later state of the nodes from calls; returns its version.
    pub(crate) async fn until_applied(&self, after: u64) -> u64 {
        let applied = async {
            loop {
                let applied = self.applied();
                if applied > after {
                    return applied;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_mins(1), applied).await.expect("the backend acknowledges what it is sent")
    }

    /// The version of the nodes from calls that the backend named `only` has acknowledged; 0 for none.
    pub(crate) fn applied(&self) -> u64 {
        let served = self.gateway.door.served.load();
        let (_, link) =
            served.decider.sessions().find(|(settings, _)| settings.name.as_str() == "only").unwrap();
        let link = link.unwrap();
        let view = &link.info.about_nodes(extender_gateway_core::PolicyVerb::Filter).unwrap().nodes;
        link.tables.latest(TableSource::Calls, view).map_or(0, |holding| holding.applied)
    }

    pub(crate) fn misses(&self) -> u64 {
        let line = r#"extender_gateway_backend_table_misses_total{backend="only"} "#;
        let text = self.gateway.metrics.text();
        text.lines().find_map(|known| known.strip_prefix(line)).map_or(0, |count| count.parse().unwrap())
    }
}

/// A node that is refused with this text, if there is one.
pub(crate) fn node(name: &str, refused: &str) -> String {
    let labels = if refused.is_empty() { json!({}) } else { json!({"refused": refused}) };
    labelled(name, &labels)
}
