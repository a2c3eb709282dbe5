//! The requests of the pods on a node, and of those that are nominated to it, reach the backends that need them: the
//! program with an apiserver.

use std::{convert::Infallible, fs, net::SocketAddr, time::Duration};

use crate::{
    hooks::agrees,
    support::{
        TEST_TIMEOUT,
        apiserver::kubeconfig,
        backend::{Scripted, info, rows},
        function::{about, sibling},
        http::Client,
        program::{OWN, Program},
        reading,
        relay::Relay,
        sdk::{Running, Seen, usage},
    },
};
use axum::{Router, body::Body, http::Uri, response::Response};
use bytes::Bytes;
use extender_policy_api::v1beta1::{NodePart, NodeRow, NodeUsage};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};
use tokio::{sync::broadcast, time::timeout};

fn pod(name: &str, node: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "2"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

/// A gateway that watches a cluster with the nodes a, b and c, and a pod on a.
struct Cluster {
    program: Program,
    events: broadcast::Sender<String>,
    _keep: (broadcast::Receiver<String>, NamedTempFile, TempDir),
}

impl Cluster {
    /// With this backend for filter.
    async fn start(backend: SocketAddr) -> Self {
        let (events, receiver) = broadcast::channel(16);
        let kubeconfig = kubeconfig(apiserver(events.clone()).await);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let text = format!(
            "{OWN}cluster: {{kubeconfig: {}}}\nnodes: {{source: Watch}}\npods: {{source: Watch}}\n\
             timeouts: {{decision: 30s}}\nreasons: {{prefix: None}}\n\
             backends:\n- {{name: only, url: 'http://{backend}', filter: {{timeout: 30s}}}}\n",
            kubeconfig.path().display(),
        );
        fs::write(&file, text).unwrap();
        Self { program: Program::start(&file).await, events, _keep: (receiver, kubeconfig, folder) }
    }

    /// Sends an event of a pod.
    async fn send(&self, kind: &str, pod: &Value) {
        // The watch of pods may have to be opened first.
        while self.events.receiver_count() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // In the order in which an apiserver writes it.
        self.events.send(format!(r#"{{"type":"{kind}","object":{pod}}}"#)).unwrap();
    }
}

/// An apiserver with the nodes a, b and c and a pod on a, and the pod events that it sends.
async fn apiserver(events: broadcast::Sender<String>) -> SocketAddr {
    let answer = async move |uri: Uri| {
        let is_watch = uri.query().unwrap_or_default().contains("watch=true");
        let items = match uri.path() {
            "/api/v1/nodes" => {
                ["a", "b", "c"].iter().map(|name| json!({"metadata": {"name": name}})).collect()
            }
            _ if is_watch => {
                let events = stream::unfold(events.subscribe(), |mut events| async {
                    let event = events.recv().await.ok()? + "\n";
                    Some((Ok::<_, Infallible>(Bytes::from(event)), events))
                });
                return Response::new(Body::from_stream(events));
            }
            _ => vec![pod("listed", "a", "600m")],
        };
        if is_watch {
            let silence = stream::pending::<Result<Bytes, Infallible>>();
            return Response::new(Body::from_stream(silence.boxed()));
        }
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
        Response::new(Body::from(list.to_string()))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    address
}

/// Why each node is refused.
async fn refused(client: &mut Client) -> Value {
    let body = about(&sibling(1), &["a", "b", "c"]);
    let mut answer = client.post("/filter", body.as_bytes()).await.json();
    assert_eq!(answer["Error"], "", "{answer}");
    answer["FailedAndUnresolvableNodes"].take()
}

#[tokio::test]
async fn rows_say_what_the_pods_on_a_node_have_requested() {
    let test = async {
        let backend = Running::start(usage).await;
        let relay = Relay::to(backend.address).await;
        let cluster = Cluster::start(relay.address).await;
        let mut client = Client::connect(cluster.program.extender).await;
        assert_eq!(refused(&mut client).await, json!({"a": "full"}), "pods that were there before");
        for (kind, changed, expected) in [
            ("ADDED", pod("p", "b", "400m"), json!({"a": "full"})),
            ("ADDED", pod("q", "b", "200m"), json!({"a": "full", "b": "full"})),
            ("DELETED", pod("listed", "a", "600m"), json!({"b": "full"})),
            ("MODIFIED", pod("q", "b", "50m"), json!({})),
        ] {
            cluster.send(kind, &changed).await;
            while refused(&mut client).await != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        // The latest change is still held by id for some time.
        loop {
            refused(&mut client).await;
            let said = relay.said("Filter").pop().unwrap();
            if !said.table.is_empty() && said.rows.is_empty() {
                break;
            }
        }
        assert_eq!(refused(&mut client).await, json!({}));
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

fn nominated(name: &str, nominated: &str, node: &str) -> Value {
    let mut pod = pod(name, node, "400m");
    pod["status"] = json!({"phase": "Pending", "nominatedNodeName": nominated});
    pod
}

/// The requested and the nominated milli-CPU of a row, which a row without either does not have.
fn cpus(row: NodeRow) -> (i64, i64) {
    let cpu = |usage: Option<NodeUsage>| usage.unwrap().requested.map_or(0, |requested| requested.milli_cpu);
    (cpu(row.usage), cpu(row.nominated))
}

#[tokio::test]
async fn a_nominated_pod_is_on_its_node_or_waits_for_it_in_every_row() {
    let test = async {
        let reads =
            reading::with_part(reading::with_part(reading::facts(), NodePart::Usage), NodePart::Nominated);
        let backend = Scripted::start(info(reads), |verb, message| agrees(verb, &message)).await;
        let cluster = Cluster::start(backend.address).await;
        let mut client = Client::connect(cluster.program.extender).await;
        let told = |message: &Bytes| rows(message).into_iter().map(cpus).collect::<Vec<_>>();
        let mut before = vec![(600, 0), (0, 0), (0, 0)];
        for (kind, pod, after) in [
            ("ADDED", nominated("p", "c", ""), [(600, 0), (0, 0), (0, 400)]),
            ("MODIFIED", nominated("p", "b", ""), [(600, 0), (0, 400), (0, 0)]),
            ("ADDED", nominated("q", "b", ""), [(600, 0), (0, 800), (0, 0)]),
            // It keeps its nomination in the status, and may get another node.
            ("MODIFIED", nominated("p", "b", "b"), [(600, 0), (400, 400), (0, 0)]),
            ("MODIFIED", nominated("q", "b", "c"), [(600, 0), (400, 0), (400, 0)]),
            ("DELETED", nominated("p", "b", "b"), [(600, 0), (0, 0), (400, 0)]),
            ("ADDED", nominated("r", "a", ""), [(600, 400), (0, 0), (400, 0)]),
            ("MODIFIED", nominated("r", "", ""), [(600, 0), (0, 0), (400, 0)]),
            ("MODIFIED", nominated("r", "c", ""), [(600, 0), (0, 0), (400, 400)]),
            ("DELETED", nominated("r", "c", ""), [(600, 0), (0, 0), (400, 0)]),
        ] {
            cluster.send(kind, &pod).await;
            // Each answer is of the state before or of the one after, never of another.
            loop {
                refused(&mut client).await;
                let messages = backend.messages("Filter");
                let now = told(messages.last().unwrap());
                assert!(now == before || now == after, "{kind} {pod}: {now:?}");
                if now == after {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            before = after.to_vec();
        }
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn without_a_watch_of_pods_the_verb_is_refused_with_a_sentence() {
    let backend = Running::start(usage).await;
    let source = "nodes: {source: Watch}\npods: {source: None}";
    let seen = Seen::start(source, Relay::to(backend.address).await).await;
    let error = seen.gateway.post("/filter", about(&sibling(1), &["a"])).await.error();
    assert_eq!(
        error,
        "extender-gateway: backend only failed filter: needs usage, but pods are not watched; set pods.source: Watch"
    );
}
