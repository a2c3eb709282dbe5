//! Backends that keep the rules.

use std::{future::ready, net::SocketAddr, time::Duration};

use extender_policy_sdk::{
    Args, Backend, Bind, BindAsk, Bound, BoxFuture, Candidate, ChangedPart, ControllersFailed,
    ControllersReport, Eviction, Hook, Info, IntrospectAsk, IntrospectError, NO_OPINION, Node, NodeChange,
    NodePart, Nodes, Normalization, NotReady, Options, Outcome, Pod, PodChange, PodPart, PodsBy, Policy,
    Reads, RunControllers, Scale, Unanswered, Verb, Verdict,
};

/// Which verbs a backend declares, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// All verbs and hooks, with args, and outcomes; all that can be are pure. They read some labels and parts.
    Reading,
    /// Filter, score and preempt with side effects, about all nodes. They read everything and all that is beside it.
    Effects,
    /// Filter alone, which reads everything.
    Filters,
    /// Score alone, which reads nothing.
    Scores,
    /// Hooks alone, not pure and about all nodes, which read everything.
    Hooks,
}

impl Subject {
    pub(super) const ALL: [Self; 5] =
        [Self::Reading, Self::Effects, Self::Filters, Self::Scores, Self::Hooks];

    pub(super) fn args(self) -> Option<&'static str> {
        (self == Self::Reading).then_some(r#"{"zone": "a"}"#)
    }

    /// Serves until the test ends.
    pub(crate) async fn serve(self) -> SocketAddr {
        let backend = match self {
            Self::Reading => Backend::configured(Args::parse::<Reading>).with_controllers(Following),
            Self::Effects => Effects.into(),
            Self::Filters => Filters.into(),
            Self::Scores => Scores.into(),
            Self::Hooks => Hooks.into(),
        };
        let bound = Bound::new(backend, Options::default()).await.unwrap();
        let address = bound.address();
        tokio::spawn(bound.until(std::future::pending()));
        address
    }
}

/// Controllers that another replica runs.
struct Following;

impl RunControllers for Following {
    fn report(&self) -> Result<ControllersReport, ControllersFailed> {
        ControllersReport::new(["zones"], "shop/reading", "reading-0")
    }

    fn run<'a>(
        &'a self,
        _: &'a ControllersReport,
        stop: BoxFuture<'static, ()>,
    ) -> BoxFuture<'a, Result<(), ControllersFailed>> {
        Box::pin(async {
            stop.await;
            Ok(())
        })
    }
}

/// The pods of the zone in the args go elsewhere.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    zone: String,
}

impl Policy for Reading {
    fn info(&self) -> Info {
        let mut reads = Reads::new();
        reads.node_label("zone");
        reads.pod_label("app");
        reads.pod_label("zone");
        reads.node(NodePart::Taints).node(NodePart::Allocatable).node(NodePart::Name).pod(PodPart::Priority);
        reads.pods_by(PodsBy::Owner);
        let mut placed = reads.clone();
        placed.pods_by_topology(PodsBy::Owner, "zone");
        let pure = || Verb::per_node().pure().reads(&placed);
        Info::new("reading", "1")
            .filters(pure())
            .scores(pure(), Scale::between(-10..=1_000).normalize(Normalization::MinMax))
            .preempts(Verb::per_node().reads(&reads))
            .binds_reading(&reads_namespace())
            .before_filter(Hook::changes([ChangedPart::PodLabels]).pure().reads(&reads_app()))
            .before_filter_nodes(Hook::changes([ChangedPart::NodeLabels]).pure().reads(&reads))
            .before_score(Hook::changes([ChangedPart::NodeLabels]).pure().reads(&reads))
            .shows("/zone", "the zone that is closed")
            .shows("/zones/:zone", "whether a zone is closed")
            .observes_outcomes()
    }

    fn introspect(&self, ask: &IntrospectAsk<'_>) -> Result<serde_json::Value, IntrospectError> {
        if ask.path() == "/zone" || ask.parameter("zone") == self.zone {
            return Ok(serde_json::json!({ "closed": self.zone }));
        }
        Err(IntrospectError::NotFound(format!("zone {} is not known", ask.parameter("zone"))))
    }

    /// Nothing is reserved for a pod.
    fn observe(&self, _: &Outcome<'_>) -> Result<(), NotReady> {
        Ok(())
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        if node.label("zone") == Some(&self.zone) {
            Verdict::reject("zone is closed").by_rule("zone").retry_after(Duration::from_mins(1))
        } else {
            Verdict::Accept
        }
    }

    fn score(&self, _: &Pod<'_>, node: &Node<'_>) -> i32 {
        if node.taints().len() > 1 {
            return NO_OPINION;
        }
        let cores = node.allocatable().map_or(0, |allocatable| allocatable.milli_cpu / 1_000);
        let score = i32::try_from(cores).unwrap_or(1_000).min(1_000)
            - i32::try_from(node.taints().len()).unwrap_or(10);
        if node.label("zone") == Some(&self.zone) { score / 2 } else { score }
    }

    fn preempt(&self, _: &Pod<'_>, candidate: &Candidate<'_>) -> Eviction {
        if candidate.node().label("zone") == Some(&self.zone) {
            return Eviction::Spare;
        }
        let known = (0..)
            .zip(candidate.victims())
            .filter(|(_, victim)| victim.pod().is_some_and(|pod| pod.priority() < 0));
        match known.map(|(at, _)| at).collect::<Vec<u32>>() {
            victims if victims.is_empty() => Eviction::Spare,
            victims => Eviction::Only(victims),
        }
    }

    fn before_filter(&self, pod: &Pod<'_>) -> PodChange {
        match pod.label("app") {
            Some(app) if app != self.zone => PodChange::none().remove_label("app"),
            _ => PodChange::none(),
        }
    }

    fn before_filter_node(&self, _: &Pod<'_>, node: &Node<'_>) -> NodeChange {
        match node.label("zone") {
            Some(zone) if zone == self.zone => NodeChange::none().set_label("zone", "closed"),
            _ => NodeChange::none(),
        }
    }

    fn before_score(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> (PodChange, Vec<NodeChange>) {
        (PodChange::none(), nodes.iter().map(|node| self.before_filter_node(pod, &node)).collect())
    }

    fn bind<'a>(&'a self, ask: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        Box::pin(ready(Ok(match (ask.namespace(), ask.uid()) {
            ("shop", "uid") => Bind::Bound,
            _ => Bind::Declined("only shop is bound here".to_owned()),
        })))
    }
}

/// What the hook about the pod alone reads.
fn reads_app() -> Reads {
    let mut reads = Reads::new();
    reads.pod_label("app");
    reads
}

/// What bind reads, to be told about another pod.
fn reads_namespace() -> Reads {
    let mut reads = Reads::new();
    reads.pod(PodPart::Namespace);
    reads
}

struct Effects;

impl Policy for Effects {
    fn info(&self) -> Info {
        let mut reads = Reads::everything();
        reads.node(NodePart::Usage).node(NodePart::RawJson);
        reads.pod(PodPart::Identity).pod(PodPart::RawJson);
        reads.node_annotations("zo");
        reads.pod_annotation("zone");
        let verb = || Verb::whole_set().side_effects().reads(&reads);
        Info::new("effects", "1")
            .filters(verb())
            .scores(verb(), Scale::unbounded().normalize(Normalization::MinMax))
            .preempts(verb())
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        if node.label("zone") == Some("a") { Verdict::reject("zone is full") } else { Verdict::Accept }
    }

    fn score(&self, _: &Pod<'_>, _: &Node<'_>) -> i32 {
        0
    }

    fn preempt(&self, _: &Pod<'_>, _: &Candidate<'_>) -> Eviction {
        Eviction::All
    }
}

struct Filters;

impl Policy for Filters {
    fn info(&self) -> Info {
        Info::new("filters", "1").filters(Verb::per_node().pure().reads(&Reads::everything()))
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        if node.label("zone") == Some("a") { Verdict::reject("zone is closed") } else { Verdict::Accept }
    }
}

struct Scores;

impl Policy for Scores {
    fn info(&self) -> Info {
        Info::new("scores", "1")
            .scores(Verb::per_node().pure(), Scale::unbounded().normalize(Normalization::MinMax))
    }

    fn score(&self, _: &Pod<'_>, _: &Node<'_>) -> i32 {
        0
    }
}

struct Hooks;

impl Policy for Hooks {
    fn info(&self) -> Info {
        let everything = Reads::everything();
        let both = Hook::changes([ChangedPart::PodLabels, ChangedPart::NodeLabels]);
        Info::new("hooks", "1")
            .before_filter(Hook::changes([ChangedPart::PodLabels]).reads(&everything))
            .before_filter_nodes(Hook::changes([ChangedPart::NodeLabels]).whole_set().reads(&everything))
            .before_score(both.whole_set().reads(&everything))
    }

    fn before_filter(&self, _: &Pod<'_>) -> PodChange {
        PodChange::none().set_label("app", "web")
    }

    fn before_filter_node(&self, _: &Pod<'_>, node: &Node<'_>) -> NodeChange {
        match node.label("zone") {
            Some("a") => NodeChange::none().remove_label("zone"),
            _ => NodeChange::none(),
        }
    }

    fn before_score(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> (PodChange, Vec<NodeChange>) {
        let changes = nodes.iter().map(|node| self.before_filter_node(pod, &node)).collect();
        (self.before_filter(pod), changes)
    }
}
