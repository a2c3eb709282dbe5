//! Binds as kube-scheduler requests them, through the real HTTP server, against scripted backends and a scripted
//! apiserver: which backends are called, with which data, and where the pod is in the end.

use std::{
    path::Path,
    sync::{Arc, Mutex, OnceLock},
};

use crate::support::{
    Gateway,
    apiserver::{Apiserver, Turn},
    backend::{Act, Scripted, configured as backend},
    binding::{TO_A, binder, binding_to, bound, built_in, info, refused, says, with},
    until,
};
use extender_gateway_cluster::pods::PodTable;
use extender_gateway_observe::{Metrics, Observer};
use extender_gateway_pace::cadences::Cadences;
use extender_gateway_serve::assembly::Assembly;
use extender_gateway_settings::Config;
use extender_policy_api::v1beta1::{BindOutcome, BindRequest, BindResponse};
use prost::Message;
use serde_json::json;
use tokio::sync::Semaphore;

#[tokio::test]
async fn the_built_in_binder_binds_and_a_repeated_bind_succeeds() {
    let apiserver = Apiserver::start().await;
    let gateway = built_in(&apiserver).await;
    bound(&gateway.post("/bind", TO_A).await);
    assert_eq!(apiserver.node(), Some("a"));
    assert_eq!(apiserver.log(), ["POST web-0"]);
    let expected = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1"},
        "target": {"kind": "Node", "name": "a"},
    });
    assert_eq!(apiserver.bindings(), [expected]);
    bound(&gateway.post("/any/prefix/bind/", TO_A.to_lowercase()).await);
    assert_eq!(apiserver.log(), ["POST web-0", "POST web-0", "GET web-0"]);
}

#[tokio::test]
async fn a_backend_binds_and_is_told_everything() {
    let apiserver = Apiserver::start().await;
    let binding = binding_to(&apiserver, "a", says(BindOutcome::Bound)).await;
    let gateway = with(&apiserver, &binding, "{}").await;
    bound(&gateway.post("/bind", TO_A).await);
    assert_eq!(apiserver.log(), ["GET web-0", "GET web-0"]);
    let [message] = &binding.messages("Bind")[..] else { panic!("asked once") };
    let BindRequest { call, namespace, name, uid, node, pod } = BindRequest::decode(message.clone()).unwrap();
    assert_eq!([&*namespace, &*name, &*uid, &*node], ["shop", "web-0", "u-1", "a"]);
    let call = call.unwrap();
    assert_eq!((call.purpose, &*call.gateway, &*call.backend), (1, "test", "only"));
    let pod = pod.unwrap();
    assert_eq!(pod.identity.unwrap().uid, "u-1");
    assert_eq!(pod.facts.unwrap().labels.unwrap().entries["app"], "web");
    // Again: the pod is bound already, and no backend is called.
    bound(&gateway.post("/bind", TO_A).await);
    assert_eq!(binding.messages("Bind").len(), 1);
}

#[tokio::test]
async fn binders_are_asked_in_order_until_one_binds() {
    let order: Arc<Mutex<Vec<&str>>> = Arc::default();
    let declining = async |name: &'static str| {
        let order = Arc::clone(&order);
        Scripted::start(info(), move |_, _| {
            order.lock().unwrap().push(name);
            says(BindOutcome::Declined)
        })
        .await
    };
    let (first, other, shadow, named) =
        tokio::join!(declining("first"), declining("other"), declining("shadow"), declining("named"));
    let apiserver = Apiserver::start().await;
    let backends = backend("first", &first, "bind: {}")
        + &backend("other", &other, "bind: {}, match: {namespaces: [else]}")
        + &backend("shadow", &shadow, "bind: {}, mode: Shadow")
        + &backend("named", &named, "bind: {}");
    for (binder, asked) in [("named", ["named", "first"]), ("BuiltIn", ["first", "named"])] {
        apiserver.set("web-0", "u-1", None);
        let gateway =
            Gateway::start(&format!("{}backends:\n{backends}", apiserver.configuration(binder))).await;
        bound(&gateway.post("/bind", TO_A).await);
        assert_eq!(std::mem::take(&mut *order.lock().unwrap()), asked, "{binder}");
        assert_eq!(apiserver.node(), Some("a"));
    }
}

#[tokio::test]
async fn about_exempt_pods_nobody_is_asked_and_the_gateway_binds() {
    let apiserver = Apiserver::start().await;
    let binding = binder(says(BindOutcome::Bound)).await;
    let exempt = format!("{}exempt: {{namespaces: [shop]}}\n", apiserver.configuration("only"));
    let gateway =
        Gateway::start(&format!("{exempt}backends:\n{}", backend("only", &binding, "bind: {}"))).await;
    bound(&gateway.post("/bind", TO_A).await);
    assert!(binding.messages("Bind").is_empty());
    assert_eq!(apiserver.log(), ["POST web-0"]);
}

#[tokio::test]
async fn a_bind_does_not_wait_for_another() {
    let apiserver = Apiserver::start().await;
    apiserver.set("web-1", "u-2", None);
    let gateway = Arc::new(built_in(&apiserver).await);
    apiserver.binds(&[Turn::Hang]);
    let hanging = tokio::spawn({
        let gateway = Arc::clone(&gateway);
        async move { gateway.post("/bind", TO_A).await }
    });
    apiserver.asked_to_bind().await;
    let second = r#"{"PodName":"web-1","PodNamespace":"shop","PodUID":"u-2","Node":"a"}"#;
    bound(&gateway.post("/bind", second).await);
    assert!(!hanging.is_finished());
}

/// kube-scheduler binds all pods that it has placed at the same time, and a binder may need seconds for each.
#[tokio::test]
async fn a_binder_gets_as_many_binds_at_a_time_as_there_are() {
    const MANY: usize = 300;
    let (apiserver, gate) = (Apiserver::start().await, Arc::new(Semaphore::new(0)));
    let bound_then = BindResponse { outcome: BindOutcome::Bound as i32, ..BindResponse::default() };
    let slow = binder(Act::After(Arc::clone(&gate), bound_then.encode_to_vec())).await;
    let gateway = with(&apiserver, &slow, "{timeout: 50s}").await;
    let binds = futures_util::future::join_all((0..MANY).map(|_| gateway.post("/bind", TO_A)));
    let all_in_progress = async {
        until("all binds", || slow.messages("Bind").len() == MANY).await;
        apiserver.set("web-0", "u-1", Some("a"));
        gate.add_permits(MANY);
    };
    let (answers, ()) = tokio::join!(binds, all_in_progress);
    answers.iter().for_each(bound);
}

/// A gateway that watches pods and has a binder for those with label `app: web`.
async fn watching(apiserver: &Apiserver, binder: &Scripted) -> Gateway {
    let rest = format!("{}pods: {{source: Watch}}\n", apiserver.configuration("only"));
    let interest = "match: {podSelector: {matchLabels: {app: web}}}, bind: {failurePolicy: Next}";
    Gateway::start(&format!("{rest}backends:\n{}", backend("only", binder, interest))).await
}

/// `web-0` as the watch brings it.
fn watched(uid: &str, app: &str, node: Option<&str>) -> String {
    let labels = json!({"app": app, "from": "watch"});
    let metadata = json!({"name": "web-0", "namespace": "shop", "uid": uid, "labels": labels});
    json!({"metadata": metadata, "spec": {"nodeName": node}}).to_string()
}

#[tokio::test]
async fn a_pod_that_is_watched_is_not_read_before_somebody_is_asked() {
    let apiserver = Apiserver::start().await;
    let declining = binder(says(BindOutcome::Declined)).await;
    let gateway = watching(&apiserver, &declining).await;
    let pods = gateway.pods.as_ref().unwrap();
    pods.apply(watched("u-1", "web", None).as_bytes()).unwrap();
    bound(&gateway.post("/bind", TO_A).await);
    let [message] = &declining.messages("Bind")[..] else { panic!("asked once") };
    let pod = BindRequest::decode(message.clone()).unwrap().pod.unwrap();
    assert_eq!(pod.facts.unwrap().labels.unwrap().entries["from"], "watch");
    // Interest is decided on the watched pod, too.
    apiserver.set("web-0", "u-1", None);
    pods.apply(watched("u-1", "other", None).as_bytes()).unwrap();
    bound(&gateway.post("/bind", TO_A).await);
    assert_eq!(declining.messages("Bind").len(), 1);
    assert_eq!(apiserver.log(), ["POST web-0", "POST web-0"]);
}

#[tokio::test]
async fn a_binder_is_not_believed_because_the_pod_is_watched() {
    let apiserver = Apiserver::start().await;
    let binding = binding_to(&apiserver, "a", says(BindOutcome::Bound)).await;
    let gateway = watching(&apiserver, &binding).await;
    gateway.pods.as_ref().unwrap().apply(watched("u-1", "web", None).as_bytes()).unwrap();
    bound(&gateway.post("/bind", TO_A).await);
    assert_eq!(apiserver.log(), ["GET web-0"], "the Binding is looked for");
    // The watch is behind: the backend is called once more, and binds again, as it must.
    bound(&gateway.post("/bind", TO_A).await);
    assert_eq!(apiserver.log(), ["GET web-0"; 2]);
    // The pod is gone, and the watch does not know it yet.
    apiserver.delete("web-0");
    let lying = binder(says(BindOutcome::Bound)).await;
    let gateway = watching(&apiserver, &lying).await;
    gateway.pods.as_ref().unwrap().apply(watched("u-1", "web", None).as_bytes()).unwrap();
    refused(&gateway.post("/bind", TO_A).await, "extender-gateway: cannot bind: the pod no longer exists");
}

/// A backend that says that it binds, while the watch shows the pod on this node.
async fn binding_as_watched(apiserver: &Apiserver, node: &'static str) -> Gateway {
    let pods = Arc::new(OnceLock::<Arc<PodTable>>::new());
    let shown = Arc::clone(&pods);
    let binding = Scripted::start(info(), move |_, _| {
        shown.get().unwrap().apply(watched("u-1", "web", Some(node)).as_bytes()).unwrap();
        says(BindOutcome::Bound)
    });
    let gateway = watching(apiserver, &binding.await).await;
    let table = gateway.pods.as_ref().unwrap();
    table.apply(watched("u-1", "web", None).as_bytes()).unwrap();
    pods.set(Arc::clone(table)).unwrap();
    gateway
}

#[tokio::test]
async fn a_binding_that_the_watch_shows_is_not_read() {
    let apiserver = Apiserver::start().await;
    bound(&binding_as_watched(&apiserver, "a").await.post("/bind", TO_A).await);
    assert_eq!(apiserver.log(), [""; 0]);
    // On another node: the apiserver decides.
    apiserver.set("web-0", "u-1", Some("b"));
    let answer = binding_as_watched(&apiserver, "b").await.post("/bind", TO_A).await;
    assert!(answer.error().contains("the pod is bound to node b"), "{answer:?}");
    assert_eq!(apiserver.log(), ["GET web-0"]);
}

#[tokio::test]
async fn a_watched_pod_that_is_another_or_bound_is_read() {
    for (uid, node) in [("u-2", None), ("u-1", Some("a")), ("u-1", Some("b"))] {
        let apiserver = Apiserver::start().await;
        let declining = binder(says(BindOutcome::Declined)).await;
        let gateway = watching(&apiserver, &declining).await;
        gateway.pods.as_ref().unwrap().apply(watched(uid, "web", node).as_bytes()).unwrap();
        bound(&gateway.post("/bind", TO_A).await);
        assert_eq!(apiserver.log(), ["GET web-0", "POST web-0"], "{uid} on {node:?}");
        let [message] = &declining.messages("Bind")[..] else { panic!("asked once") };
        let pod = BindRequest::decode(message.clone()).unwrap().pod.unwrap();
        assert!(!pod.facts.unwrap().labels.unwrap().entries.contains_key("from"));
    }
    // The UID of one pod under the name of another.
    let apiserver = Apiserver::start().await;
    apiserver.set("web-1", "u-2", None);
    let declining = binder(says(BindOutcome::Declined)).await;
    let gateway = watching(&apiserver, &declining).await;
    gateway.pods.as_ref().unwrap().apply(watched("u-1", "web", None).as_bytes()).unwrap();
    let other = gateway.post("/bind", TO_A.replace("web-0", "web-1")).await;
    let text =
        "extender-gateway: cannot bind: the pod no longer exists; another pod with UID u-2 has its name";
    refused(&other, text);
    assert!(declining.messages("Bind").is_empty());
}

#[tokio::test]
async fn without_a_binder_the_answer_says_what_to_set() {
    let backend = backend("only", &Scripted::refusing(&[], "", 0).await, "filter: {}");
    let gateway = Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{backend}")).await;
    refused(
        &gateway.post("/bind", TO_A).await,
        "extender-gateway: bind is not configured: set `binder` to BuiltIn or a backend's name, or remove bindVerb from kube-scheduler's \
                 configuration",
    );
    refused(&gateway.post("/bind", "{}").await, "extender-gateway: bad request: the request has no PodName");
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_fails_the_start() {
    let yaml = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
                extender: {address: '127.0.0.1:0'}\nnodes: {source: Request}\ncluster: {kubeconfig: /no/such/file}\nbinder: BuiltIn\n\
                backends: [{name: only, url: 'http://127.0.0.1:1', filter: {}}]\n";
    let config = Config::parse(yaml, Path::new(".")).unwrap();
    let observer = Arc::new(Observer::new(Arc::new(Metrics::new()), 0));
    let mut assembly = Assembly::new(&config, "test".into(), observer, Cadences::default());
    let error = assembly.serve(&config).await.unwrap_err().to_string();
    assert!(error.starts_with("invalid kubeconfig /no/such/file: "), "{error}");
}
