//! A verb that has pods counted is sent the counts, and a pod counts from the moment at which it is bound.

use std::{
    collections::BTreeSet,
    iter,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::plugin::Socket;
use crate::support::{
    Gateway,
    apiserver::{Apiserver, Turn},
    backend::{Act, Scripted, configured, filtered, info, rows},
    binding::{bound, refused},
    ended,
    function::about,
    reading, until,
};
use bytes::Bytes;
use extender_gateway_door::v1alpha1::{
    Assumed, BindRequest, BindResponse, Change, TellRequest, TellResponse, change::Change as Kind,
};
use extender_policy_api::v1beta1::{
    self as api, BindOutcome, DomainCount, FilterRequest, MapReads, NodePart, NodeReads, PodCount,
    PodCountBy, PodCountReads, PodCounts, PodPart, PodReads, Reads, Resources, TopologyCountReads,
    TopologyCounts, Verb, VerbInfo,
};
use futures_util::future::join_all;
use prost::Message;
use serde_json::{Value, json};

const NODES: [(&str, Option<&str>); 4] =
    [("a", Some("z1")), ("b", Some("z1")), ("c", Some("z2")), ("d", None)];

/// Counts pods by owner and by a label: on nodes, by zone, and in the cluster.
fn reads() -> Reads {
    let zone = MapReads { keys: vec!["zone".to_owned()], ..MapReads::default() };
    let topology = |by: PodCountBy, label: &str, topology_key: &str, requests| TopologyCountReads {
        by: by.into(),
        label: label.to_owned(),
        topology_key: topology_key.to_owned(),
        requests,
    };
    let on_nodes = |by: PodCountBy, label: &str, requests| PodCountReads {
        by: by.into(),
        label: label.to_owned(),
        requests,
    };
    Reads {
        pod: Some(PodReads {
            parts: vec![PodPart::Owner.into()],
            topology_counts: vec![
                topology(PodCountBy::Owner, "", "", false),
                topology(PodCountBy::Owner, "", "zone", true),
                topology(PodCountBy::Label, "app", "zone", false),
            ],
            ..PodReads::default()
        }),
        node: Some(NodeReads {
            parts: vec![NodePart::Name.into()],
            labels: Some(zone),
            pod_counts: vec![
                on_nodes(PodCountBy::Owner, "", true),
                on_nodes(PodCountBy::Label, "app", false),
            ],
            ..NodeReads::default()
        }),
    }
}

/// Rejects the nodes of a zone in which there are this many pods of the owner.
async fn at_most(pods: u32) -> Scripted {
    at_most_unless(pods, Arc::default(), Act::Hang).await
}

/// The same, which does something else while the flag is set.
async fn at_most_unless(pods: u32, disturbed: Arc<AtomicBool>, instead: Act) -> Scripted {
    let mut info = info(reading::facts());
    info.verbs.truncate(1);
    info.verbs[0].reads = Some(reads());
    let answer = move |verb: &str, message: Bytes| {
        if disturbed.load(Ordering::Relaxed) {
            return instead.clone();
        }
        if verb == "GetInfo" {
            return Act::Message(info.encode_to_vec());
        }
        let request = FilterRequest::decode(message.clone()).unwrap();
        let domains = &request.pod.unwrap().topology_counts[1].domains;
        let is_full = |zone: &str| domains.iter().any(|domain| domain.value == zone && domain.pods >= pods);
        let rows = rows(&message);
        let full = rows.iter().filter(|row| {
            row.facts
                .as_ref()
                .unwrap()
                .labels
                .as_ref()
                .unwrap()
                .values
                .first()
                .is_some_and(|zone| is_full(zone))
        });
        let full: Vec<_> = full.map(|row| row.name.as_str()).collect();
        Act::Message(filtered(&message, &full, "zone is full").encode_to_vec())
    };
    Scripted::start_bare(answer, None).await
}

/// A gateway that binds, watches nodes and pods, and asks this backend.
async fn start(apiserver: &Apiserver, backend: &Scripted) -> Gateway {
    start_with(apiserver, backend, "filter: {timeout: 60s}").await
}

async fn start_with(apiserver: &Apiserver, backend: &Scripted, settings: &str) -> Gateway {
    start_beside(apiserver, &configured("zones", backend, settings)).await
}

/// The same with these backends.
async fn start_beside(apiserver: &Apiserver, backends: &str) -> Gateway {
    start_as("", apiserver, backends).await
}

/// The same with these further fields of `extender`.
async fn start_as(extender: &str, apiserver: &Apiserver, backends: &str) -> Gateway {
    let sources = apiserver.configuration("BuiltIn").replace("source: Request", "source: Watch");
    let sources = sources.replace("timeouts: {", "timeouts: {decision: 60s, ");
    let rest = format!("{sources}pods: {{source: Watch}}\nbackends:\n{backends}");
    let gateway = Gateway::start_as(extender, &rest, std::future::pending()).await;
    for (name, zone) in NODES {
        let labels = zone.map_or(json!({}), |zone| json!({"zone": zone}));
        gateway
            .table
            .apply(json!({"metadata": {"name": name, "labels": labels}}).to_string().as_bytes())
            .unwrap();
    }
    pass_on(&gateway);
    gateway
}

/// What the background thread does after a change.
fn pass_on(gateway: &Gateway) {
    let pods = gateway.pods.as_ref().unwrap();
    pods.follow_views(iter::once(&*gateway.table));
    pods.pass_on(iter::once(&*gateway.table));
}

fn pod(name: &str, owner: &str, node: Option<&str>) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": format!("u-{name}"), "labels": {"app": "web"},
            "ownerReferences": [{"uid": owner, "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
    })
}

/// The watch of pods brings this.
fn watched(gateway: &Gateway, pod: &Value) {
    gateway.pods.as_ref().unwrap().apply(pod.to_string().as_bytes()).unwrap();
}

/// The nodes that are left for the pod.
async fn left(gateway: &Gateway, pod: &Value) -> Value {
    let names = NODES.map(|(name, _)| name);
    let mut answer = gateway.post("/filter", about(pod, &names)).await.json();
    assert_eq!(answer["Error"], "", "{answer}");
    answer["NodeNames"].take()
}

fn binding(pod: &Value, node: &str) -> String {
    let metadata = &pod["metadata"];
    let (name, uid) = (&metadata["name"], &metadata["uid"]);
    json!({"PodName": name, "PodNamespace": "shop", "PodUID": uid, "Node": node}).to_string()
}

fn latest(backend: &Scripted) -> FilterRequest {
    FilterRequest::decode(backend.messages("Filter").pop().unwrap()).unwrap()
}

/// A new pod that the apiserver knows, too.
fn created(apiserver: &Apiserver, gateway: &Gateway, name: &str) -> Value {
    let pod = pod(name, "o1", None);
    apiserver.set(name, format!("u-{name}").leak(), None);
    watched(gateway, &pod);
    pod
}

#[tokio::test]
async fn a_request_has_the_counts_that_are_declared() {
    let (apiserver, backend) = (Apiserver::start().await, at_most(9).await);
    let gateway = start(&apiserver, &backend).await;
    for (name, owner, node) in
        [("p1", "o1", "a"), ("p2", "o1", "b"), ("p3", "o1", "c"), ("p4", "o2", "c"), ("p5", "o1", "d")]
    {
        watched(&gateway, &pod(name, owner, Some(node)));
    }
    let mut terminating = pod("p6", "o1", Some("b"));
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    watched(&gateway, &terminating);
    pass_on(&gateway);
    assert_eq!(left(&gateway, &pod("new", "o1", None)).await, json!(["a", "b", "c", "d"]));

    let request = latest(&backend);
    let domain = |value: &str, pods, terminating, milli_cpu: Option<i64>| DomainCount {
        value: value.to_owned(),
        pods,
        terminating,
        requested: milli_cpu.map(|milli_cpu| Resources { milli_cpu, ..Resources::default() }),
    };
    let counts = |domains: Vec<DomainCount>| TopologyCounts { domains, omitted_pods: 0 };
    let expected = [
        counts(vec![domain("", 5, 1, None)]),
        counts(vec![domain("z1", 3, 1, Some(300)), domain("z2", 1, 0, Some(100))]),
        counts(vec![domain("z1", 3, 1, None), domain("z2", 2, 0, None)]),
    ];
    assert_eq!(request.pod.unwrap().topology_counts, expected);
    let rows = rows(&backend.messages("Filter").pop().unwrap());
    let count = |namespace: &str, value: &str, pods, terminating, milli_cpu: Option<i64>| PodCount {
        namespace: namespace.to_owned(),
        value: value.to_owned(),
        pods,
        terminating,
        requested: milli_cpu.map(|milli_cpu| Resources { milli_cpu, ..Resources::default() }),
    };
    let on_b = [
        PodCounts { counts: vec![count("", "o1", 2, 1, Some(200))], omitted_pods: 0 },
        PodCounts { counts: vec![count("shop", "web", 2, 1, None)], omitted_pods: 0 },
    ];
    assert_eq!(rows[1].pod_counts, on_b);

    // A pod without an owner is like no other, and a node that changes its zone takes its pods with it.
    let mut alone = pod("alone", "o1", None);
    alone["metadata"]["ownerReferences"] = json!([]);
    let c_in_z1 = json!({"metadata": {"name": "c", "labels": {"zone": "z1"}}}).to_string();
    gateway.table.apply(c_in_z1.as_bytes()).unwrap();
    left(&gateway, &alone).await;
    let expected = [counts(vec![]), counts(vec![]), counts(vec![domain("z1", 5, 1, None)])];
    assert_eq!(latest(&backend).pod.unwrap().topology_counts, expected);
}

#[tokio::test]
async fn a_pod_counts_from_its_binding_on_and_the_next_is_asked_about_again() {
    let (apiserver, backend) = (Apiserver::start().await, at_most(1).await);
    let gateway = start(&apiserver, &backend).await;
    let [first, second] = ["first", "second"].map(|name| created(&apiserver, &gateway, name));
    // kube-scheduler filters for the second pod before the first is bound.
    for pod in [&first, &second] {
        assert_eq!(left(&gateway, pod).await, json!(["a", "b", "c", "d"]));
    }
    bound(&gateway.post("/bind", binding(&first, "a")).await);
    let full = "extender-gateway: cannot bind: zones: zone is full; kube-scheduler tries again";
    refused(&gateway.post("/bind", binding(&second, "b")).await, full);
    assert_eq!(apiserver.log(), ["POST first"]);
    assert_eq!(latest(&backend).nodes.unwrap().count, 1);
    assert_eq!(left(&gateway, &second).await, json!(["c", "d"]));
    // An event from before the Binding, and a list, do not undo it.
    watched(&gateway, &first);
    assert_eq!(left(&gateway, &second).await, json!(["c", "d"]));
    let mut list = gateway.pods.as_ref().unwrap().relist();
    for pod in [&first, &second] {
        list.add(pod.to_string().as_bytes()).unwrap();
    }
    gateway.pods.as_ref().unwrap().replace(list);
    assert_eq!(left(&gateway, &second).await, json!(["c", "d"]));
    // The watch has the Binding, and then the end of the pod.
    watched(&gateway, &pod("first", "o1", Some("a")));
    assert_eq!(left(&gateway, &second).await, json!(["c", "d"]));
    gateway.pods.as_ref().unwrap().remove("u-first");
    assert_eq!(left(&gateway, &second).await, json!(["a", "b", "c", "d"]));
    bound(&gateway.post("/bind", binding(&second, "b")).await);
}

#[tokio::test]
async fn a_pod_that_a_plugin_has_placed_takes_no_room_from_itself() {
    let (apiserver, backend) = (Apiserver::start().await, alone().await);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.sock");
    let alone = configured("alone", &backend, "filter: {timeout: 60s}");
    let gateway = start_as(&format!(", socket: {}", path.display()), &apiserver, &alone).await;
    let plugin = Socket::open(&path).await;
    let [first, second] = ["first", "second"].map(|name| created(&apiserver, &gateway, name));
    let placed = Assumed { pod: first.to_string().into(), node: "a".into() };
    let told = TellRequest { changes: vec![Change { change: Some(Kind::Assumed(placed)) }] };
    // It counts for others, and is bound at once, and again.
    for _ in 0..2 {
        let _: TellResponse = plugin.answer("Tell", &told).await;
        assert_eq!(left(&gateway, &second).await, json!(["b", "c", "d"]));
        let _: BindResponse = plugin.answer("Bind", &BindRequest { args: binding(&first, "a").into() }).await;
    }
    assert_eq!(apiserver.log(), ["POST first", "POST first", "GET first"]);
    let full = "extender-gateway: cannot bind: alone: node is taken; kube-scheduler tries again";
    refused(&gateway.post("/bind", binding(&second, "a")).await, full);
}

#[tokio::test]
async fn a_pod_that_could_not_be_bound_does_not_count() {
    let (apiserver, backend) = (Apiserver::start().await, at_most(1).await);
    let gateway = start(&apiserver, &backend).await;
    let [first, second] = ["first", "second"].map(|name| created(&apiserver, &gateway, name));
    apiserver.binds(&[Turn::Status(422)]);
    let error = gateway.post("/bind", binding(&first, "a")).await.error();
    assert!(error.starts_with("extender-gateway: cannot bind: the apiserver rejected"), "{error}");
    assert_eq!(left(&gateway, &second).await, json!(["a", "b", "c", "d"]));
    bound(&gateway.post("/bind", binding(&second, "a")).await);
    assert_eq!(left(&gateway, &first).await, json!(["c", "d"]));
}

/// A binder that does this.
async fn binder(act: Act) -> Scripted {
    let mut info = info(reading::pods());
    info.verbs = vec![VerbInfo { verb: Verb::Bind.into(), ..info.verbs[0].clone() }];
    let answer = move |verb: &str, _: Bytes| match verb {
        "GetInfo" => Act::Message(info.encode_to_vec()),
        _ => act.clone(),
    };
    Scripted::start_bare(answer, None).await
}

#[tokio::test]
async fn a_pod_counts_as_long_as_a_backend_may_have_bound_it() {
    let (all, some) = (json!(["a", "b", "c", "d"]), json!(["c", "d"]));
    let not_bound =
        api::BindResponse { outcome: BindOutcome::NotBound.into(), message: "no room".to_owned() };
    for (act, expected) in [
        (None, &all),
        (Some(Act::Status(14, "no room")), &some),
        (Some(Act::Status(13, "a bug")), &some),
        // It was refused as a request.
        (Some(Act::Status(9, "other reads")), &all),
        (Some(Act::Message(not_bound.encode_to_vec())), &all),
    ] {
        let (apiserver, limit) = (Apiserver::start().await, at_most(1).await);
        let is_reached = act.is_some();
        let binder = binder(act.unwrap_or(Act::Hang)).await;
        let address = if is_reached { binder.address.to_string() } else { "127.0.0.1:1".to_owned() };
        let binds = format!("- {{name: binds, url: 'http://{address}', bind: {{}}}}\n");
        let backends = configured("zones", &limit, "filter: {timeout: 60s}") + &binds;
        let gateway = start_beside(&apiserver, &backends).await;
        let [first, second] = ["first", "second"].map(|name| created(&apiserver, &gateway, name));
        let error = gateway.post("/bind", binding(&first, "a")).await.error();
        assert!(error.starts_with("extender-gateway: backend binds failed bind: "), "{error}");
        assert_eq!(left(&gateway, &second).await, *expected, "{error}");
    }
}

/// A pure filter that rejects nodes on which there is a pod of any owner.
async fn alone() -> Scripted {
    let mut info = info(reading::facts());
    info.verbs.truncate(1);
    info.verbs[0].reads = Some(Reads { pod: None, ..reads() });
    info.verbs[0].set_effects(api::Effects::Pure);
    let answer = move |verb: &str, message: Bytes| {
        if verb == "GetInfo" {
            return Act::Message(info.encode_to_vec());
        }
        let rows = rows(&message);
        let taken = rows.iter().filter(|row| !row.pod_counts[0].counts.is_empty());
        let taken: Vec<_> = taken.map(|row| row.name.as_str()).collect();
        Act::Message(filtered(&message, &taken, "node is taken").encode_to_vec())
    };
    Scripted::start_bare(answer, None).await
}

#[tokio::test]
async fn a_pod_never_counts_against_itself() {
    let (apiserver, alone, binder) =
        (Apiserver::start().await, alone().await, binder(Act::Status(13, "a bug")).await);
    let binds = configured("binds", &binder, "bind: {}");
    let gateway =
        start_beside(&apiserver, &(configured("alone", &alone, "filter: {timeout: 60s}") + &binds)).await;
    let [first, second] = ["first", "second"].map(|name| created(&apiserver, &gateway, name));
    let (all, others) = (json!(["a", "b", "c", "d"]), json!(["b", "c", "d"]));
    // Whether answers are remembered or not, and in either order.
    for _ in 0..2 {
        for node in ["a", "a", "b", "a"] {
            let error = gateway.post("/bind", binding(&first, node)).await.error();
            assert!(error.starts_with("extender-gateway: backend binds failed bind: "), "{error}");
        }
        for _ in 0..2 {
            assert_eq!(left(&gateway, &second).await, others);
            assert_eq!(left(&gateway, &first).await, all);
        }
    }
    assert!(apiserver.log().iter().all(|request| request == "GET first"), "{:?}", apiserver.log());
}

#[tokio::test]
async fn of_pods_that_are_bound_at_once_no_more_than_allowed_get_through() {
    let (apiserver, backend) = (Apiserver::start().await, at_most(3).await);
    let gateway = Arc::new(start(&apiserver, &backend).await);
    let pods: Vec<_> = (0..20).map(|at| created(&apiserver, &gateway, &format!("p{at}"))).collect();
    let answers = join_all(pods.iter().zip(["a", "b"].iter().cycle()).map(|(pod, node)| {
        let (gateway, body) = (Arc::clone(&gateway), binding(pod, node));
        async move { gateway.post("/bind", body).await.error() }
    }));
    let errors = answers.await;
    let outcomes: BTreeSet<_> = errors.iter().map(String::as_str).collect();
    let full = "extender-gateway: cannot bind: zones: zone is full; kube-scheduler tries again";
    assert_eq!(outcomes, BTreeSet::from(["", full]));
    assert_eq!(errors.iter().filter(|error| error.is_empty()).count(), 3);
    assert_eq!(apiserver.bindings().len(), 3);
}

#[tokio::test]
async fn while_a_backend_fails_its_policy_decides_about_the_binding() {
    for (policy, expected) in
        [("Fail", "extender-gateway: backend zones failed filter: UNAVAILABLE: away"), ("Ignore", "")]
    {
        let (apiserver, disturbed) = (Apiserver::start().await, Arc::new(AtomicBool::new(false)));
        let backend = at_most_unless(1, Arc::clone(&disturbed), Act::Status(14, "away")).await;
        let settings = format!("filter: {{timeout: 60s, failurePolicy: {policy}}}");
        let gateway = start_with(&apiserver, &backend, &settings).await;
        let first = created(&apiserver, &gateway, "first");
        assert_eq!(left(&gateway, &first).await, json!(["a", "b", "c", "d"]));
        disturbed.store(true, Ordering::Relaxed);
        assert_eq!(gateway.post("/bind", binding(&first, "a")).await.error(), expected, "{policy}");
    }
}

#[tokio::test]
async fn a_pod_that_no_limit_concerns_does_not_wait_for_others() {
    let (apiserver, disturbed) = (Apiserver::start().await, Arc::new(AtomicBool::new(false)));
    let backend = at_most_unless(1, Arc::clone(&disturbed), Act::Hang).await;
    let settings = "filter: {timeout: 60s}, match: {podSelector: {matchLabels: {limited: 'yes'}}}";
    let gateway = Arc::new(start_with(&apiserver, &backend, settings).await);
    let mut limited = created(&apiserver, &gateway, "limited");
    limited["metadata"]["labels"]["limited"] = "yes".into();
    watched(&gateway, &limited);
    let free = created(&apiserver, &gateway, "free");
    disturbed.store(true, Ordering::Relaxed);
    let asked = backend.messages("Filter").len();
    let waiting = tokio::spawn({
        let (gateway, body) = (Arc::clone(&gateway), binding(&limited, "a"));
        async move { gateway.post("/bind", body).await.error() }
    });
    until("the backend is asked about the limited pod", || backend.messages("Filter").len() > asked).await;
    bound(&gateway.post("/bind", binding(&free, "a")).await);
    assert!(!waiting.is_finished());
}

#[tokio::test]
async fn while_a_backend_is_disconnected_no_pod_is_bound_without_its_answer() {
    let (apiserver, disturbed) = (Apiserver::start().await, Arc::new(AtomicBool::new(false)));
    let backend = at_most_unless(1, Arc::clone(&disturbed), Act::Drop).await;
    let gateway = start(&apiserver, &backend).await;
    let pod = created(&apiserver, &gateway, "first");
    assert_eq!(left(&gateway, &pod).await, json!(["a", "b", "c", "d"]));
    disturbed.store(true, Ordering::Relaxed);
    let names = NODES.map(|(name, _)| name);
    let is_disconnected = async {
        let mut asked = None;
        // Until a call no longer reaches the backend.
        while asked != Some(backend.messages("Filter").len()) {
            asked = Some(backend.messages("Filter").len());
            gateway.post("/filter", about(&pod, &names)).await.error();
        }
    };
    ended("the backend is disconnected", is_disconnected).await;
    // The views of the last session are gone, and an event of a pod comes.
    watched(&gateway, &self::pod("other", "o2", Some("c")));
    pass_on(&gateway);
    let error = gateway.post("/bind", binding(&pod, "a")).await.error();
    assert!(error.starts_with("extender-gateway: backend zones failed filter: "), "{error}");
    assert!(apiserver.log().is_empty(), "{:?}", apiserver.log());
}
