//! The requests of the pods on a node reach the backends that need them: the program with an apiserver.

use std::{convert::Infallible, fs, net::SocketAddr, time::Duration};

use crate::support::{
    TEST_TIMEOUT,
    apiserver::kubeconfig,
    function::{about, sibling},
    http::Client,
    program::{OWN, Program},
    relay::Relay,
    sdk::{Running, Seen, usage},
};
use axum::{Router, body::Body, http::Uri, response::Response};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::{sync::broadcast, time::timeout};

fn pod(name: &str, node: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "2"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

/// An apiserver with the nodes a, b and c and a pod on a, and the pod events that it sends.
async fn cluster(events: broadcast::Sender<String>) -> SocketAddr {
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
        let (events, _keep) = broadcast::channel(16);
        let kubeconfig = kubeconfig(cluster(events.clone()).await);
        let backend = Running::start(usage).await;
        let relay = Relay::to(backend.address).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let text = format!(
            "{OWN}cluster: {{kubeconfig: {}}}\nnodes: {{source: Watch}}\npods: {{source: Watch}}\n\
             timeouts: {{decision: 30s}}\nreasons: {{prefix: None}}\n\
             backends:\n- {{name: only, url: 'http://{}', filter: {{timeout: 30s}}}}\n",
            kubeconfig.path().display(),
            relay.address
        );
        fs::write(&file, text).unwrap();
        let program = Program::start(&file).await;
        let mut client = Client::connect(program.extender).await;
        assert_eq!(refused(&mut client).await, json!({"a": "full"}), "pods that were there before");
        for (kind, changed, expected) in [
            ("ADDED", pod("p", "b", "400m"), json!({"a": "full"})),
            ("ADDED", pod("q", "b", "200m"), json!({"a": "full", "b": "full"})),
            ("DELETED", pod("listed", "a", "600m"), json!({"b": "full"})),
            ("MODIFIED", pod("q", "b", "50m"), json!({})),
        ] {
            // The watch of pods may have to be opened first.
            while events.receiver_count() < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // In the order in which an apiserver writes it.
            events.send(format!(r#"{{"type":"{kind}","object":{changed}}}"#)).unwrap();
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
