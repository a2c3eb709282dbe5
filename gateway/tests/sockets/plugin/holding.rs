//! Answers that a plugin keeps for other pods: which ones, in which state of the gateway, and what is told of them.

use std::{fs, pin::pin, sync::Arc, time::Duration};

use extender_gateway_door::v1alpha1::{HoldRequest, HoldResponse, Keep, Kept, TellRequest, TellResponse};
use extender_policy_api::v1beta1::{
    GetInfoResponse, MapReads, NodeReads, PodCountBy, PodCountReads, PodPart, PodReads, Reads,
    TopologyCountReads, Verb,
};
use futures_util::poll;
use tokio::{select, time::Instant};

use super::*;
use crate::{
    hooks::{agrees, hooks},
    support::{
        admin::Admin,
        eager, ended,
        function::{Function, labelled, pure, sibling},
        program::{OWN, Program},
        until,
    },
};

const BOTH: &str = "filter: {}, score: {}";

/// These parts and labels of pods, and names and racks of nodes.
fn reads(parts: &[PodPart], labels: &[&str]) -> Reads {
    let map = |keys: &[&str]| Some(MapReads { keys: owned(keys), prefixes: Vec::new() });
    Reads {
        pod: Some(PodReads {
            parts: parts.iter().map(|part| (*part).into()).collect(),
            labels: map(labels),
            ..PodReads::default()
        }),
        node: Some(NodeReads {
            parts: vec![NodePart::Name.into()],
            labels: map(&["rack"]),
            ..NodeReads::default()
        }),
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A backend whose answers hold for all pods of the same app.
fn by_app() -> GetInfoResponse {
    pure(reads(&[], &["app"]))
}

/// The same with another declaration of what it reads of pods.
fn of_pods(change: impl FnOnce(&mut PodReads)) -> GetInfoResponse {
    let mut reads = reads(&[], &["app"]);
    change(reads.pod.as_mut().unwrap());
    pure(reads)
}

/// The same with another declaration of what it reads of nodes.
fn of_nodes(change: impl FnOnce(&mut NodeReads)) -> GetInfoResponse {
    let mut reads = reads(&[], &["app"]);
    change(reads.node.as_mut().unwrap());
    pure(reads)
}

/// A gateway that knows the nodes a and b.
async fn start(backends: &str) -> Plugin {
    start_paced(backends, steady()).await
}

async fn start_paced(backends: &str, cadences: Cadences) -> Plugin {
    let plugin = Plugin::start_paced(&watching(backends), cadences).await;
    for name in ["a", "b"] {
        plugin.apply(name, &json!({"rack": "r1"}));
    }
    plugin
}

fn watching(backends: &str) -> String {
    // By default some namespaces are, so that the namespace always counts.
    let exempt = if backends.contains("exempt:") { "" } else { "exempt: {namespaces: []}\n" };
    format!("{exempt}nodes: {{source: Watch}}\npods: {{source: Watch}}\n{backends}")
}

/// A gateway in front of one backend.
async fn before(info: GetInfoResponse, settings: &str) -> (Function, Plugin) {
    let function = Function::start(info).await;
    let plugin = start(&only(&function, settings)).await;
    (function, plugin)
}

fn only(function: &Function, settings: &str) -> String {
    format!("backends:\n{}", backend("only", &function.backend, settings))
}

impl Plugin {
    fn apply(&self, node: &str, labels: &Value) {
        self.gateway.table.apply(labelled(node, labels).as_bytes()).unwrap();
    }

    /// The answer about this pod and the nodes a and b.
    async fn placement(&self, pod: &Value) -> Placement {
        let nodes = Some(nodes("1", &["a", "b"], b""));
        let request = PlaceRequest { pod: pod.to_string().into(), nodes, ..PlaceRequest::default() };
        match self.socket.answer::<PlaceResponse>("Place", &request).await.outcome {
            Some(Outcome::Placement(placement)) => placement,
            other => panic!("{other:?}"),
        }
    }

    /// How long the answer about a pod of app `web` in namespace `shop` holds.
    async fn keep(&self) -> Option<Keep> {
        self.placement(&sibling(1)).await.keep
    }

    async fn tell(&self, changes: Vec<Kind>) {
        let TellResponse {} = self.socket.answer("Tell", &told(changes)).await;
    }

    /// What the gateway's log has of this pod, the newest first.
    async fn decisions(&self, uid: &str) -> Vec<extender_gateway_api::Decision> {
        Admin::of(&self.gateway).await.decisions(&format!("?uid={uid}")).await.items
    }
}

fn told(changes: Vec<Kind>) -> TellRequest {
    TellRequest { changes: changes.into_iter().map(|change| Change { change: Some(change) }).collect() }
}

impl Socket {
    async fn hold(&self, HoldResponse { state, nodes_at }: HoldResponse) -> HoldResponse {
        self.answer("Hold", &HoldRequest { state, nodes_at }).await
    }

    /// The state of now.
    async fn state(&self) -> HoldResponse {
        self.hold(HoldResponse::default()).await
    }

    /// Waits until the gateway is in another state than this one.
    async fn until_other(&self, why: &str, known: HoldResponse) {
        let other = async { while self.hold(known).await.state == known.state {} };
        ended(&format!("{why}: the state stays"), other).await;
    }
}

/// What a plugin compares of a pod: the namespace, these labels, or all that pods of one template share.
fn class(namespace: bool, labels: &[&str]) -> Keep {
    Keep { namespace, labels: owned(labels), ..Keep::default() }
}

fn template() -> Keep {
    Keep { template: true, ..Keep::default() }
}

#[tokio::test]
async fn an_answer_holds_for_the_pods_that_are_equal_in_what_was_read() {
    let many: Vec<String> = (0..65).map(|number| format!("label-{number:02}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let map =
        |keys: &[&str], prefixes: &[&str]| Some(MapReads { keys: owned(keys), prefixes: owned(prefixes) });
    let mut different = by_app();
    different.verbs[1].reads = Some(reads(&[], &["team"]));
    let mut impure_score = by_app();
    impure_score.verbs[1].effects = 0;
    for (read, info, settings, expected) in [
        ("a label", by_app(), BOTH, class(false, &["app"])),
        ("nothing", pure(reads(&[], &[])), BOTH, class(false, &[])),
        ("the namespace", pure(reads(&[PodPart::Namespace], &["app"])), BOTH, class(true, &["app"])),
        ("what either verb reads", different, BOTH, class(false, &["app", "team"])),
        ("what the verb that is called reads", impure_score, "filter: {}", class(false, &["app"])),
        ("as many labels as are named", pure(reads(&[], &many[..64])), BOTH, class(false, &many[..64])),
        ("more labels", pure(reads(&[], &many)), BOTH, template()),
        ("requests", pure(reads(&[PodPart::Requests], &["app"])), BOTH, template()),
        ("an annotation", of_pods(|pod| pod.annotations = map(&["tier"], &[])), BOTH, template()),
        ("labels by prefix", of_pods(|pod| pod.labels = map(&["app"], &["acme.io/"])), BOTH, template()),
        ("everything", pure(reading::facts()), BOTH, template()),
    ] {
        let (_function, plugin) = before(info, settings).await;
        let keep = plugin.keep().await.unwrap_or_else(|| panic!("{read}: it holds for no other pod"));
        assert_ne!(keep.state, 0, "{read}");
        assert_eq!(Keep { state: 0, ..keep }, expected, "{read}");
    }
}

#[tokio::test]
async fn an_answer_holds_for_the_pods_that_the_same_backends_are_asked_about() {
    let (function, other) = (Function::start(by_app()).await, by_letter(&[]).await);
    for (settings, exempt, expected) in [
        ("match: {namespaces: [search]}, ", "", class(true, &["app"])),
        ("match: {excludedNamespaces: [shop]}, ", "", class(true, &["app"])),
        ("match: {podSelector: {matchLabels: {tier: batch}}}, ", "", class(false, &["app", "tier"])),
        ("match: {managedResources: [{name: acme.io/gpu}]}, ", "", template()),
        ("match: {namespaces: [search]}, mode: Shadow, ", "", class(true, &["app"])),
        ("mode: Disabled, ", "", class(false, &["app"])),
        ("mode: Disabled, ", "exempt: {namespaces: [search]}\n", class(true, &["app"])),
        ("", "exempt: {namespaces: [shop]}\n", class(true, &[])),
    ] {
        let other = backend("other", &other, &format!("{settings}filter: {{}}"));
        let plugin = start(&format!("{exempt}{}{other}", only(&function, BOTH))).await;
        let keep = plugin.keep().await.unwrap_or_else(|| panic!("{settings}: it holds for no other pod"));
        assert_eq!(Keep { state: 0, ..keep }, expected, "{settings}{exempt}");
    }
}

#[tokio::test]
async fn an_answer_that_may_be_another_for_the_next_pod_is_not_kept() {
    let impure = |verb: usize| {
        let mut info = by_app();
        info.verbs[verb].effects = 0;
        info
    };
    let outcomes = vec!["extender.policy.v1beta1.OutcomeService".to_owned()];
    let by = PodCountBy::Owner.into();
    let (count, topology) =
        (PodCountReads { by, ..PodCountReads::default() }, TopologyCountReads { by, ..Default::default() });
    let asked_each_time = format!("pureAnswers: AskedEachTime, {BOTH}");
    for (why, info, settings) in [
        ("filter is not pure", impure(0), BOTH),
        ("score is not pure", impure(1), BOTH),
        ("no revision", GetInfoResponse { revision: String::new(), ..by_app() }, BOTH),
        ("answers are not remembered", by_app(), &asked_each_time),
        ("usage", of_nodes(|node| node.parts.push(NodePart::Usage.into())), BOTH),
        ("nominated pods", of_nodes(|node| node.parts.push(NodePart::Nominated.into())), BOTH),
        ("pods on nodes", of_nodes(|node| node.pod_counts.push(count)), BOTH),
        ("pods over a topology", of_pods(|pod| pod.topology_counts.push(topology)), BOTH),
        ("it is told outcomes", GetInfoResponse { services: outcomes, ..by_app() }, BOTH),
        ("a canary", by_app(), "canary: {percent: 90}, filter: {}, score: {}"),
        ("a limit of rejections", by_app(), "maxRejectShare: {share: 0.9}, filter: {}"),
        ("in shadow", by_app(), "mode: Shadow, filter: {}, score: {}"),
    ] {
        let (_function, plugin) = before(info, settings).await;
        assert_eq!(plugin.keep().await, None, "{why}");
    }
    let hooking = Scripted::start(hooks(&[Verb::BeforeFilter]), |verb, message| agrees(verb, &message)).await;
    let function = Function::start(by_app()).await;
    for of_which in ["", "match: {namespaces: [search]}, "] {
        let hook = backend("hooking", &hooking, &format!("{of_which}beforeFilter: {{}}"));
        let plugin = start(&format!("{}{hook}", only(&function, BOTH))).await;
        assert_eq!(plugin.keep().await, None, "a hook {of_which}");
    }
}

#[tokio::test]
async fn an_answer_to_which_a_backend_has_not_contributed_is_not_kept() {
    for settings in ["filter: {failurePolicy: Ignore}", "score: {}"] {
        let (function, plugin) = before(by_app(), settings).await;
        function.state().instead = Some(Act::Status(3, "not now"));
        assert_eq!(plugin.keep().await, None, "{settings}");
        function.state().instead = None;
        assert!(plugin.keep().await.is_some(), "{settings}");
    }
    let (_function, plugin) = before(by_app(), BOTH).await;
    plugin.gateway.table.remove("b");
    assert_eq!(plugin.keep().await, None, "it was not asked about a node that is deleted");
}

/// What such a pod waits for is known from calls.
#[tokio::test]
async fn an_answer_that_leaves_no_node_is_not_kept() {
    let (function, plugin) = before(by_app(), BOTH).await;
    function.state().strict = true;
    assert_eq!(plugin.keep().await, None);
    function.state().strict = false;
    plugin.apply("a", &json!({"refused": "draining"}));
    assert!(plugin.keep().await.is_some(), "a node is left");
}

#[tokio::test]
async fn an_answer_is_not_kept_if_the_state_changes_while_it_is_made() {
    let (function, plugin) = before(by_app(), BOTH).await;
    let table = Arc::clone(&plugin.gateway.table);
    function.state().meanwhile = Some(Box::new(move || {
        table.apply(labelled("b", &json!({"rack": "r2"})).as_bytes()).unwrap();
    }));
    assert_eq!(plugin.keep().await, None);
    let keep = plugin.keep().await.unwrap();
    assert_eq!(keep.state, plugin.socket.state().await.state);
}

#[tokio::test]
async fn a_plugin_that_knows_no_state_is_told_at_once_and_one_that_knows_it_waits() {
    let (_function, plugin) = before(by_app(), BOTH).await;
    let now = plugin.socket.state().await;
    assert_ne!(now.state, 0);
    assert_eq!(now.nodes_at, u64::MAX, "of a source without resource versions");
    let began = Instant::now();
    let mut waiting = pin!(plugin.socket.hold(now));
    assert!(poll!(&mut waiting).is_pending());
    for known in [0, now.state - 1, now.state + 1] {
        let known = HoldResponse { state: known, ..now };
        let told = select! {
            biased;
            _ = &mut waiting => panic!("the one that knows it is told before"),
            told = plugin.socket.hold(known) => told,
        };
        assert_eq!(told, now, "a plugin that knows {}", known.state);
    }
    // It is told in time that the gateway is still there.
    assert_eq!(waiting.await, now);
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
}

/// What changes, how, and whether the state is another one.
type Step<'s> = (&'s str, Box<dyn Fn() + 's>, bool);

#[tokio::test]
async fn a_change_of_what_is_read_ends_the_state_and_another_change_does_not() {
    let (function, plugin) = before(by_app(), BOTH).await;
    let table = &plugin.gateway.table;
    let steps: [Step<'_>; 7] = [
        ("nothing", Box::new(|| ()), false),
        ("a label that is read", Box::new(|| plugin.apply("b", &json!({"rack": "r2"}))), true),
        ("another label", Box::new(|| plugin.apply("b", &json!({"rack": "r2", "disk": "ssd"}))), false),
        ("the same node again", Box::new(|| plugin.apply("b", &json!({"rack": "r2", "disk": "ssd"}))), false),
        ("a node comes", Box::new(|| plugin.apply("c", &json!({}))), true),
        ("a node goes", Box::new(|| assert!(table.remove("c"))), true),
        ("the label is gone", Box::new(|| plugin.apply("b", &json!({}))), true),
    ];
    for (what, change, is_other) in steps {
        let known = plugin.socket.state().await;
        assert_eq!(plugin.keep().await.map(|keep| keep.state), Some(known.state), "{what}");
        if is_other {
            // While the plugin waits.
            let changes = async {
                yield_now().await;
                change();
            };
            tokio::join!(plugin.socket.until_other(what, known), changes);
        } else {
            change();
        }
        let now = plugin.socket.state().await;
        assert_eq!(now.state != known.state, is_other, "{what}");
    }
    assert!(!function.filtered().is_empty());
}

#[tokio::test]
async fn what_a_watch_has_seen_is_told_without_another_state() {
    let (_function, plugin) = before(by_app(), BOTH).await;
    let health = &plugin.gateway.table.source_health;
    health.advanced_to("6");
    let known = plugin.socket.state().await;
    assert_eq!(known.nodes_at, 6);
    plugin.apply("b", &json!({"rack": "r1", "disk": "ssd"}));
    health.advanced_to("7");
    let now = HoldResponse { nodes_at: 7, ..known };
    let mut waiting = pin!(plugin.socket.hold(now));
    assert!(poll!(&mut waiting).is_pending());
    let told = select! {
        biased;
        _ = &mut waiting => panic!("the one that knows it is told before"),
        told = plugin.socket.hold(known) => told,
    };
    assert_eq!(told, now);
}

#[tokio::test]
async fn another_revision_is_another_state() {
    let function = Function::start(by_app()).await;
    let plugin = start_paced(&only(&function, BOTH), eager()).await;
    let known = plugin.socket.state().await;
    let change = async {
        yield_now().await;
        function.state().info.revision = "r2".into();
        function.state().revision = "r2".into();
    };
    tokio::join!(plugin.socket.until_other("the handshake", known), change);
}

#[tokio::test]
async fn an_answer_of_another_revision_is_another_state_before_the_next_handshake() {
    let (function, plugin) = before(by_app(), BOTH).await;
    let known = plugin.keep().await.unwrap().state;
    let _held = function.hold_handshakes();
    function.state().revision = "r2".into();
    // Another class, so that the backend is asked.
    let mut pod = sibling(2);
    pod["metadata"]["labels"]["app"] = json!("db");
    assert_eq!(plugin.placement(&pod).await.keep, None);
    assert_ne!(plugin.socket.state().await.state, known);
    assert_eq!(plugin.keep().await, None, "nothing is kept while it is in doubt");
}

#[tokio::test]
async fn an_override_is_another_state_and_so_is_its_end() {
    let (_function, plugin) = before(by_app(), BOTH).await;
    let admin = Admin::of(&plugin.gateway).await;
    let mut client = crate::support::http::Client::connect(admin.0).await;
    for (action, is_kept) in [("shadow", false), ("disable", true), ("reset", true)] {
        let known = plugin.socket.state().await;
        let mut body = json!({"backend": "only", "action": action});
        if action != "reset" {
            body["for"] = json!("1h");
            body["reason"] = json!("a bad rule");
        }
        let body = body.to_string();
        let json = ("Content-Type", "application/json");
        let change = client.post_with(json, "/debug/overrides", &body);
        let ((), answer) = tokio::join!(plugin.socket.until_other(action, known), change);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(plugin.keep().await.is_some(), is_kept, "{action}");
    }
}

#[tokio::test]
async fn a_backend_that_is_away_is_another_state() {
    let (function, plugin) = before(by_app(), BOTH).await;
    let known = plugin.socket.state().await;
    function.state().instead = Some(Act::Drop);
    let mut pod = sibling(2);
    pod["metadata"]["labels"]["app"] = json!("db");
    let request = PlaceRequest {
        pod: pod.to_string().into(),
        nodes: Some(nodes("1", &["a", "b"], b"")),
        ..PlaceRequest::default()
    };
    let call = plugin.socket.call("Place", framed(&request.encode_to_vec()));
    let ((), answer) = tokio::join!(plugin.socket.until_other("the connection is gone", known), call);
    assert!(answer.is_err(), "{answer:?}");
}

#[tokio::test]
async fn two_gateways_are_in_different_states() {
    let function = Function::start(by_app()).await;
    let (one, other) = (start(&only(&function, BOTH)).await, start(&only(&function, BOTH)).await);
    assert_ne!(one.socket.state().await.state, other.socket.state().await.state);
}

#[tokio::test]
async fn a_reload_is_another_state() {
    let function = Function::start(by_app()).await;
    let folder = tempfile::tempdir().unwrap();
    let (file, path) = (folder.path().join("gateway.yaml"), folder.path().join("plugin.sock"));
    let text = |prefix: &str| {
        let own = OWN.replace("extender: {", &format!("extender: {{socket: {}, ", path.display()));
        let only = only(&function, "filter: {timeout: 60s}");
        format!(
            "{own}timeouts: {{decision: 60s}}\nnodes: {{source: NamesOnly}}\nreasons: {{prefix: {prefix}}}\n{only}"
        )
    };
    fs::write(&file, text("Backend")).unwrap();
    let program = Program::start(&file).await;
    let socket = Socket::open(&path).await;
    let known = socket.state().await;
    // Nothing that backends answer changes, and still what a plugin is told does.
    fs::write(&file, text("None")).unwrap();
    let reload = program.signal("HUP");
    tokio::join!(socket.until_other("the configuration", known), reload);
}

#[tokio::test]
async fn pods_count_that_are_told_of_without_a_call_about_another() {
    let reads = reading::with_part(reading::facts(), NodePart::Usage);
    let policy =
        Scripted::start(info(reads), |_, message| Act::Message(filtered(&message, &[], "").encode_to_vec()))
            .await;
    let plugin = start(&format!("backends:\n{}", backend("only", &policy, "filter: {}"))).await;
    let placed = json!({
        "metadata": {"name": "p", "namespace": "shop", "uid": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]},
    });
    let assumed = Kind::Assumed(Assumed { pod: placed.to_string().into(), node: "b".into() });
    for (step, changes, expected) in [
        ("nothing was placed", vec![], [0, 0]),
        ("a pod was", vec![assumed], [0, 250]),
        ("it is bound, and counts until the watch says otherwise", vec![Kind::Bound("p".into())], [0, 250]),
    ] {
        plugin.tell(changes).await;
        plugin.placement(&sibling(1)).await;
        assert_eq!(requested(&policy), expected, "{step}");
    }
}

/// That a pod `other` has got the answer of this call.
fn kept(call: &str, asked: &str) -> Kind {
    let [call, asked, namespace, name, uid] = [call, asked, "search", "other", "u-other"].map(str::to_owned);
    Kind::Kept(Kept { call, asked, namespace, name, uid })
}

#[tokio::test]
async fn a_pod_that_got_a_kept_answer_is_in_the_log_with_it() {
    let (function, plugin) = before(pure(reading::facts()), BOTH).await;
    plugin.apply("c", &json!({"refused": "draining"}));
    plugin.apply("a", &json!({"score": "3"}));
    let list = Some(nodes("2", &["a", "b", "c"], b""));
    let request = PlaceRequest { pod: sibling(1).to_string().into(), nodes: list, ..PlaceRequest::default() };
    let answer = plugin.socket.answer::<PlaceResponse>("Place", &request).await.outcome;
    let Some(Outcome::Placement(Placement { call, keep: Some(_), .. })) = answer else {
        panic!("it is not kept: {answer:?}")
    };
    let log = &plugin.gateway.observer.decisions;
    // A call is recorded after its response.
    until("the call is not in the log", || log.state().calls == 2).await;
    let calls = plugin.gateway.metrics.text();
    for (call, asked) in [("unknown", "u-1"), (&*call, "u-2"), (&*call, ""), ("", "")] {
        plugin.tell(vec![kept(call, asked)]).await;
        assert_eq!(log.state().calls, 2, "{call} {asked}");
    }
    for _again in 0..2 {
        plugin.tell(vec![kept(&call, "u-1")]).await;
        assert_eq!(log.state().calls, 4);
    }
    let (given, own) = (plugin.decisions("u-other").await, plugin.decisions("u-1").await);
    let of = |decisions: &[extender_gateway_api::Decision], verb: &str| {
        decisions.iter().find(|call| call.verb == verb).unwrap_or_else(|| panic!("no {verb}")).clone()
    };
    assert_eq!((given.len(), &*given[0].verb), (2, "prioritize"), "the newest first");
    for verb in ["filter", "prioritize"] {
        let (given, own) = (of(&given, verb), of(&own, verb));
        assert!(given.kept && !own.kept, "{verb}");
        let pod = (&*given.pod.namespace, &*given.pod.name, given.pod.nominated_node);
        assert_eq!(pod, ("search", "other", None), "{verb}");
        assert_eq!((given.id, given.offered, given.left), (own.id, own.offered, own.left), "{verb}");
        assert_eq!(given.nodes, own.nodes, "{verb}");
    }
    let filter = of(&given, "filter");
    assert_eq!((filter.offered, filter.left), (3, Some(2)));
    assert_eq!(filter.nodes[2].reason.as_deref(), Some("draining"));
    // Nobody has called: not kube-scheduler, and the gateway no backend.
    let counts = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("extender_gateway_calls_total"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(counts(&plugin.gateway.metrics.text()), counts(&calls));
    assert_eq!(function.filtered().len(), 1);
}

#[tokio::test]
async fn too_many_changes_are_refused_and_none_is_applied() {
    let (_function, plugin) = before(by_app(), BOTH).await;
    let Placement { call, .. } = plugin.placement(&sibling(1)).await;
    let log = &plugin.gateway.observer.decisions;
    until("the call is not in the log", || log.state().calls == 2).await;
    let changes = |count: usize| {
        let last = kept(&call, "u-1");
        let forgotten = (1..count).map(|number| Kind::Forgotten(number.to_string()));
        framed(&told(forgotten.chain([last]).collect()).encode_to_vec())
    };
    let (code, message) = plugin.socket.call("Tell", changes(10_001)).await.unwrap_err();
    assert!(code == "3" && message.contains("10001 changes of pods, at most 10000"), "{code} {message}");
    assert_eq!(log.state().calls, 2);
    assert_eq!(plugin.socket.call("Tell", changes(10_000)).await, Ok(Bytes::new()));
    assert_eq!(log.state().calls, 4);
}
