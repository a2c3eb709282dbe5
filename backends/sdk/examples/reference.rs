//! The policy that exists in each language for which there is an SDK: it uses every verb and hook, and all of them give the same
//! answers, which is tested on random requests.

use std::process::ExitCode;

use extender_policy_sdk::{
    Args, ArgsError, Backend, Bind, BindAsk, BindFailed, BoxFuture, Candidate, ChangedPart, Eviction, Hook,
    Info, IntrospectAsk, IntrospectError, Node, NodeChange, NodeKey, NodePart, NodeUsage, Nodes,
    Normalization, Pod, PodChange, PodKey, PodPart, PodsBy, PodsKey, Policy, Reads, Resources, Scale, Taint,
    Toleration, Unanswered, Verb, Verdict, run, serde_json,
};

/// In the gateway's configuration: `args: {zone: eu-west-1a, most: 3}`.
#[derive(serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// The zone that is closed.
    zone: String,
    /// How many pods of one owner a node may have.
    #[serde(default = "three")]
    most: u32,
}

fn three() -> u32 {
    3
}

struct Reference {
    settings: Settings,
    reads: Reads,
    zone: NodeKey,
    app: PodKey,
    owner: PodsKey,
}

impl Reference {
    fn new(args: &Args) -> Result<Self, ArgsError> {
        let settings: Settings = args.parse()?;
        if !(1..=1_000).contains(&settings.most) {
            let most = settings.most;
            return Err(ArgsError::new(format!("args.most: {most} is not a whole number from 1 to 1000")));
        }
        let mut reads = Reads::new();
        let (zone, app) = (reads.node_label("zone"), reads.pod_label("app"));
        for part in [NodePart::Name, NodePart::Taints, NodePart::Allocatable] {
            reads.node(part);
        }
        reads.pod(PodPart::Requests);
        reads.pod(PodPart::Tolerations);
        let owner = reads.pods_by(PodsBy::Owner);
        Ok(Self { settings, reads, zone, app, owner })
    }
}

impl Policy for Reference {
    fn info(&self) -> Info {
        let verb = Verb::per_node().pure().reads(&self.reads);
        let scale = Scale::between(-1_000..=1_000_000).normalize(Normalization::MinMax);
        let mut priority = Reads::new();
        priority.pod(PodPart::Priority);
        Info::new("reference", "1")
            .revision("reference-1")
            .filters(verb.clone())
            .scores(verb, scale)
            .preempts(Verb::per_node().reads(&priority))
            .binds()
            .before_filter(before_filter())
            .before_filter_nodes(before_filter_nodes())
            .before_score(before_score())
            .shows("/args", "the args, with their defaults")
    }

    fn filter(&self, pod: &Pod<'_>, node: &Node<'_>) -> Verdict {
        if node.get(&self.zone) == Some(&self.settings.zone) {
            return Verdict::reject("zone is closed").by_rule("zone").unresolvable();
        }
        if node.taints().iter().any(|taint| keeps_away(taint, pod.tolerations())) {
            return Verdict::reject("taint is not tolerated").by_rule("taints").unresolvable();
        }
        if pod.requests().milli_cpu > allocatable(node) {
            return Verdict::reject("not enough CPU").by_rule("cpu");
        }
        let alike = node.pods_like(&self.owner, pod);
        if alike.is_some_and(|pods| pods.at_most() >= self.settings.most) {
            return Verdict::reject("too many pods of one owner").by_rule("owner").unresolvable();
        }
        Verdict::Accept
    }

    fn score(&self, pod: &Pod<'_>, node: &Node<'_>) -> i32 {
        let taints = i64::try_from(node.taints().len()).unwrap_or(i64::MAX / 50);
        let app = pod.get(&self.app);
        let home = if app.is_some() && app == node.get(&self.zone) { 10 } else { 0 };
        let score = allocatable(node).clamp(0, 2_000_000_000) / 100 - 50 * taints + home;
        i32::try_from(score.clamp(-1_000, 1_000_000)).unwrap_or_default()
    }

    fn preempt(&self, pod: &Pod<'_>, candidate: &Candidate<'_>) -> Eviction {
        let priority = pod.priority();
        Eviction::of(candidate, |victim| victim.pod().is_some_and(|victim| victim.priority() < priority))
    }

    fn bind<'a>(&'a self, ask: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        Box::pin(async move {
            match (ask.namespace(), ask.node()) {
                ("system", _) => Ok(Bind::Declined("namespace system is bound elsewhere".to_owned())),
                (_, "broken") => Err(BindFailed("node broken refuses pods".to_owned()).into()),
                _ => Ok(Bind::Bound),
            }
        })
    }

    fn before_filter(&self, pod: &Pod<'_>) -> PodChange {
        let zone = &self.settings.zone;
        match pod.get(&self.app) {
            None => PodChange::none(),
            Some(app) if app == zone => PodChange::none().remove_label("app").reason("the zone is no app"),
            Some(_) => PodChange::none()
                .add_requests(Resources { milli_cpu: 500, ..Resources::default() })
                .set_node_selector("zone", zone)
                .add_toleration(Toleration {
                    key: "app".to_owned(),
                    operator: "Exists".to_owned(),
                    ..Toleration::default()
                })
                .reason("apps need more"),
        }
    }

    fn before_filter_node(&self, pod: &Pod<'_>, node: &Node<'_>) -> NodeChange {
        match node.get(&self.zone) {
            None => {
                NodeChange::none().add_taint("zone", "", "PreferNoSchedule").remove_taint("zoneless", "", "")
            }
            Some(zone) if pod.get(&self.app) == Some(zone) => {
                let others = [("example.com/slots".to_owned(), 1)].into();
                NodeChange::none()
                    .add_allocatable(Resources { milli_cpu: 1_000, others, ..Resources::default() })
                    .reason("reserved for the app")
            }
            Some(_) => NodeChange::none(),
        }
    }

    fn before_score(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> (PodChange, Vec<NodeChange>) {
        let zone = &self.settings.zone;
        let pod = match pod.get(&self.app) {
            Some(_) => PodChange::none().set_label("app", zone),
            None => PodChange::none(),
        };
        let (closed, zoneless) = (closed(), NodeChange::none().remove_label("zone"));
        let change = |node: Node<'_>| match node.get(&self.zone) {
            None => zoneless.clone(),
            Some(own) if own == zone => closed.clone(),
            Some(_) => NodeChange::none(),
        };
        (pod, nodes.iter().map(change).collect())
    }

    fn introspect(&self, _: &IntrospectAsk<'_>) -> Result<serde_json::Value, IntrospectError> {
        serde_json::to_value(&self.settings).map_err(|error| IntrospectError::Failed(error.to_string()))
    }
}

/// What the hooks read: the pod's app and, if they are about nodes, the zone of each.
fn hook_reads() -> Reads {
    let mut reads = Reads::new();
    reads.pod_label("app");
    reads
}

fn before_filter() -> Hook {
    let changes = [
        ChangedPart::PodLabels,
        ChangedPart::PodNodeSelector,
        ChangedPart::PodTolerations,
        ChangedPart::PodRequests,
    ];
    Hook::changes(changes).pure().reads(&hook_reads())
}

fn before_filter_nodes() -> Hook {
    let mut reads = hook_reads();
    reads.node_label("zone");
    Hook::changes([ChangedPart::NodeAllocatable, ChangedPart::NodeTaints]).pure().reads(&reads)
}

fn before_score() -> Hook {
    let mut reads = hook_reads();
    reads.node_label("zone");
    Hook::changes([ChangedPart::PodLabels, ChangedPart::NodeLabels, ChangedPart::NodeUsage]).reads(&reads)
}

/// Of the nodes in the closed zone, before they are scored.
fn closed() -> NodeChange {
    let requested = Resources { milli_cpu: -100, pods: -1, ..Resources::default() };
    NodeChange::none()
        .set_label("zone", "closed")
        .add_usage(NodeUsage { requested: Some(requested), nonzero: None })
        .reason("closed")
}

/// `allocatable.milli_cpu`; 0 while it is not reported.
fn allocatable(node: &Node<'_>) -> i64 {
    node.allocatable().map_or(0, |resources| resources.milli_cpu)
}

/// Whether a taint keeps a pod with these tolerations from the node.
fn keeps_away(taint: &Taint, tolerations: &[Toleration]) -> bool {
    let effective = matches!(&*taint.effect, "NoSchedule" | "NoExecute");
    effective && !tolerations.iter().any(|toleration| tolerates(toleration, taint))
}

/// As `Toleration.ToleratesTaint` of Kubernetes.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let Toleration { key, operator, value, effect, .. } = toleration;
    if !effect.is_empty() && *effect != taint.effect {
        return false;
    }
    if !key.is_empty() && *key != taint.key {
        return false;
    }
    match &**operator {
        "" | "Equal" => *value == taint.value,
        "Exists" => true,
        _ => false,
    }
}

fn main() -> ExitCode {
    run(Backend::configured(Reference::new))
}

#[cfg(test)]
mod tests {
    use extender_policy_sdk::testing::{self, PodFacts, TestCandidate, TestNode, TestPod};

    use super::*;

    fn reference() -> Backend {
        testing::with_args(Backend::configured(Reference::new), r#"{"zone": "z1"}"#).unwrap()
    }

    fn cpu(milli_cpu: i64) -> Resources {
        Resources { milli_cpu, ..Resources::default() }
    }

    fn node(name: &str, milli_cpu: i64) -> TestNode {
        TestNode::new(name).allocatable(cpu(milli_cpu))
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let [key, operator, value, effect] = [key, operator, value, effect].map(str::to_owned);
        Toleration { key, operator, value, effect, toleration_seconds: None }
    }

    #[test]
    fn the_args_are_shown() {
        let shown = testing::introspect(reference(), "/args", &[], &[]).unwrap();
        assert_eq!(shown, serde_json::json!({"zone": "z1", "most": 3}));
    }

    #[test]
    fn the_first_rule_that_holds_rejects() {
        let pod = TestPod::new("shop").owner("o").requests(cpu(500));
        let tainted = |name: &str| node(name, 0).taint("key", "value", "NoSchedule").running(&pod, 3);
        let nodes = [
            tainted("closed").label("zone", "z1"),
            tainted("tainted"),
            node("small", 499).running(&pod, 3),
            node("full", 500).running(&pod, 3),
            node("fits", 500).running(&pod, 2).taint("key", "value", "PreferNoSchedule").label("zone", "z2"),
        ];
        let refused = testing::filter(reference(), &pod, &nodes).unwrap();
        let expected = [
            ("closed", "zone is closed"),
            ("tainted", "taint is not tolerated"),
            ("small", "not enough CPU"),
            ("full", "too many pods of one owner"),
        ];
        assert_eq!(refused, expected.map(|(node, reason)| (node.to_owned(), reason.to_owned())));
        let unowned = TestPod::new("shop").requests(cpu(500));
        assert_eq!(testing::filter(reference(), &unowned, &nodes[3..]).unwrap(), []);
    }

    #[test]
    fn taints_are_tolerated_as_in_kubernetes() {
        let taint = |effect: &str| Taint { key: "k".into(), value: "v".into(), effect: effect.into() };
        for (key, operator, value, effect, tolerated) in [
            ("", "Exists", "", "", true),
            ("k", "Exists", "other", "", true),
            ("k", "Exists", "", "NoExecute", false),
            ("k", "", "v", "NoSchedule", true),
            ("k", "Equal", "v", "", true),
            ("k", "Equal", "w", "", false),
            ("j", "Exists", "", "", false),
            ("k", "Gt", "v", "", false),
        ] {
            let toleration = [toleration(key, operator, value, effect)];
            assert_eq!(!keeps_away(&taint("NoSchedule"), &toleration), tolerated, "{toleration:?}");
        }
        assert!(!keeps_away(&taint("PreferNoSchedule"), &[]));
        assert!(keeps_away(&taint("NoExecute"), &[]));
    }

    #[test]
    fn scores_are_cpu_less_taints_and_a_bonus_at_home() {
        let pod = TestPod::new("shop").label("app", "z2");
        let nodes = [
            node("home", 1_234).label("zone", "z2"),
            node("away", 1_299).taint("k", "", "NoSchedule").label("zone", "z3"),
            node("huge", i64::MAX),
            node("negative", -500).label("zone", "z2"),
            (0..30).fold(TestNode::new("tainted"), |node, _| node.taint("k", "", "NoExecute")),
        ];
        let scores = testing::score(reference(), &pod, &nodes).unwrap();
        assert_eq!(scores, [12 + 10, 12 - 50, 1_000_000, 10, -1_000]);
        let scores = testing::score(reference(), &TestPod::new("shop"), &[TestNode::new("bare")]).unwrap();
        assert_eq!(scores, [0], "no label and no app are not equal");
    }

    #[test]
    fn only_known_victims_of_lower_priority_are_evicted() {
        let pod = |priority| TestPod::from(PodFacts { priority: Some(priority), ..PodFacts::default() });
        let some = TestCandidate::new(TestNode::new("some"))
            .victim("equal", pod(5))
            .victim("lower", pod(4))
            .unknown_victim("unknown");
        let none = TestCandidate::new(TestNode::new("none")).victim("higher", pod(6));
        let kept = testing::preempt(reference(), &pod(5), &[some, none]).unwrap();
        assert_eq!(kept, [("some".to_owned(), vec!["lower".to_owned()])]);
    }

    #[test]
    fn apps_are_changed_before_filter() {
        let changed = |pod: TestPod| testing::before_filter(reference(), &pod).unwrap();
        assert!(changed(TestPod::new("shop")).is_none());
        let removed = PodChange::none().remove_label("app").reason("the zone is no app");
        assert_eq!(changed(TestPod::new("shop").label("app", "z1")), removed);
        let more = PodChange::none()
            .add_requests(cpu(500))
            .set_node_selector("zone", "z1")
            .add_toleration(toleration("app", "Exists", "", ""))
            .reason("apps need more");
        assert_eq!(changed(TestPod::new("shop").label("app", "web")), more);
    }

    #[test]
    fn nodes_are_reserved_for_the_app_of_their_zone_before_filter() {
        let nodes = [node("bare", 1), node("z1", 1).label("zone", "z1"), node("z2", 1).label("zone", "z2")];
        let changed = |pod: TestPod| testing::before_filter_nodes(reference(), &pod, &nodes).unwrap();
        let tainted =
            NodeChange::none().add_taint("zone", "", "PreferNoSchedule").remove_taint("zoneless", "", "");
        let others = [("example.com/slots".to_owned(), 1)].into();
        let reserved = NodeChange::none()
            .add_allocatable(Resources { others, ..cpu(1_000) })
            .reason("reserved for the app");
        let bare = ("bare".to_owned(), tainted);
        assert_eq!(changed(TestPod::new("shop")), std::slice::from_ref(&bare));
        assert_eq!(changed(TestPod::new("shop").label("app", "z2")), [bare, ("z2".to_owned(), reserved)]);
    }

    #[test]
    fn the_closed_zone_is_told_before_score() {
        let nodes = [node("z1", 1).label("zone", "z1"), node("bare", 1), node("z2", 1).label("zone", "z2")];
        let (pod, changed) = testing::before_score(reference(), &TestPod::new("shop"), &nodes).unwrap();
        let zoneless = NodeChange::none().remove_label("zone");
        assert_eq!(changed, [("z1".to_owned(), closed()), ("bare".to_owned(), zoneless)]);
        assert!(pod.is_none());
        let app = TestPod::new("shop").label("app", "web");
        let (pod, _) = testing::before_score(reference(), &app, &nodes[2..]).unwrap();
        assert_eq!(pod, PodChange::none().set_label("app", "z1"));
    }

    #[test]
    fn args_are_checked() {
        for (args, part) in [
            ("{}", "missing field `zone`"),
            (r#"{"zone": "a", "most": 0}"#, "args.most: 0 is not a whole number from 1 to 1000"),
            (r#"{"zone": "a", "most": 1001}"#, "args.most"),
            (r#"{"zone": 1}"#, "args.zone"),
            (r#"{"zone": "a", "more": 1}"#, "args.more: unknown field `more`"),
        ] {
            let error = testing::with_args(Backend::configured(Reference::new), args).unwrap_err();
            assert!(error.to_string().contains(part), "{args}: {error}");
        }
    }

    #[tokio::test]
    async fn it_binds_unless_namespace_or_node_says_otherwise() {
        let bind = async |namespace: &str, node: &str| {
            testing::bind(reference(), &TestPod::new(namespace), node)
                .await
                .map_err(|error| error.to_string())
        };
        assert_eq!(bind("shop", "a").await, Ok(Bind::Bound));
        assert_eq!(bind("shop", "broken").await, Err("node broken refuses pods".to_owned()));
        let declined = Bind::Declined("namespace system is bound elsewhere".to_owned());
        assert_eq!(bind("system", "broken").await, Ok(declined));
    }
}
