//! The program: two replicas with an apiserver on a socket, called as the gateway calls them.

#[path = "../../../reservation/src/apiserver.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod apiserver;
mod replica;

use std::{io::Write as _, net::SocketAddr, time::Duration};

use axum::{
    Router,
    body::Bytes,
    http::{Method, StatusCode, Uri},
};
use extender_policy_api::v1beta1 as api;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use self::{
    apiserver::Apiserver,
    replica::{Replica, pod},
};
use crate::ends;

/// Serves this apiserver on a socket; returns a kubeconfig for it.
async fn serve(apiserver: &Apiserver) -> NamedTempFile {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let apiserver = apiserver.clone();
    let answer = async move |method: Method, uri: Uri, body: Bytes| {
        let (code, answer) =
            apiserver.answer(method.as_str(), uri.path(), uri.query().unwrap_or_default(), &body);
        (StatusCode::from_u16(code).unwrap(), answer)
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    kubeconfig(address)
}

fn kubeconfig(address: SocketAddr) -> NamedTempFile {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "users": [{"name": "c", "user": {}}],
    });
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(config.to_string().as_bytes()).unwrap();
    file
}

/// Waits until there is an answer; a hang is a failure.
async fn eventually<T>(what: &str, answer: impl AsyncFn() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(answer) = answer().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), found).await.map_err(|_| format!("no {what}")).unwrap()
}

#[tokio::test]
async fn a_reservation_is_scheduled_taken_once_and_confirmed() {
    let apiserver = Apiserver::default();
    let kubeconfig = serve(&apiserver).await;
    let [first, second] =
        [Replica::start(kubeconfig.path(), "first"), Replica::start(kubeconfig.path(), "second")];
    let (first, second) = (first.await, second.await);
    apiserver.create_node("a");
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "500m"}}});
    let template = json!({"metadata": {"namespace": "shop"}, "spec": {"containers": [container]}});
    apiserver.create_reservation("one", &json!({"template": template}), &json!({}));

    let is_open = |pod: &Value| pod["spec"].get("schedulingGates").is_none();
    let placeholder =
        eventually("placeholder", async || apiserver.pods().into_values().find(|pod| is_open(pod))).await;
    let declined = first.bind(&pod(&placeholder, 500)).await.unwrap();
    assert_eq!(declined.outcome(), api::BindOutcome::Declined, "{declined:?}");
    assert!(apiserver.pods().is_empty());
    assert_eq!(apiserver.reservation("one")["status"]["phase"], "Available");

    for name in ["x", "y"] {
        apiserver.create_pod(name);
    }
    let [x, y] = ["shop/x", "shop/y"].map(|name| pod(&apiserver.pods()[name], 500));
    let other_pod = pod(&json!({"metadata": {"namespace": "mall", "name": "s", "uid": "s"}}), 500);
    for replica in [&first, &second] {
        eventually("hook", async || (replica.held(&other_pod).await == 500).then_some(())).await;
        assert_eq!(replica.held(&x).await, 0);
    }

    let (one, other) = tokio::join!(first.bind(&x), second.bind(&y));
    let bound = |result: &Result<api::BindResponse, tonic::Status>| {
        result.as_ref().is_ok_and(|response| response.outcome() == api::BindOutcome::Bound)
    };
    assert_eq!([bound(&one), bound(&other)].iter().filter(|bound| **bound).count(), 1, "{one:?} {other:?}");
    let has_node = |pod: &Value| pod["spec"]["nodeName"] == "a";
    assert_eq!(apiserver.pods().values().filter(|pod| has_node(pod)).count(), 1);
    let owner = || apiserver.reservation("one")["status"]["owners"][0].clone();
    eventually("confirmation", async || (owner()["bound"] == true).then_some(())).await;
    assert_eq!(apiserver.reservation("one")["status"]["phase"], "Succeeded");
    for replica in [&first, &second] {
        eventually("end", async || (replica.held(&other_pod).await == 0).then_some(())).await;
    }
    // The apiserver runs on this thread: the leader releases its Lease.
    for replica in [first, second] {
        tokio::task::spawn_blocking(|| replica.stop()).await.unwrap();
    }
}

#[tokio::test]
async fn owners_of_two_replicas_share_exactly_what_is_reserved() {
    const OWNERS: usize = 20;
    let apiserver = Apiserver::default();
    let kubeconfig = serve(&apiserver).await;
    apiserver.create_node("a");
    let status = json!({"phase": "Available", "nodeName": "a", "allocatable": {"cpu": "1"}});
    apiserver.create_reservation("one", &json!({"allocateOnce": false}), &status);
    let pods: Vec<_> = (0..OWNERS).map(|number| format!("p{number}")).collect();
    for name in &pods {
        apiserver.create_pod(name);
    }
    let replicas =
        [Replica::start(kubeconfig.path(), "first").await, Replica::start(kubeconfig.path(), "second").await];
    let pods: Vec<_> = pods.iter().map(|name| pod(&apiserver.pods()[&format!("shop/{name}")], 100)).collect();
    for replica in &replicas {
        eventually("hook", async || (replica.held(&pods[0]).await == 0).then_some(())).await;
    }
    let binds = pods.iter().zip(replicas.iter().cycle()).map(|(pod, replica)| replica.binding(pod.clone()));
    let binds: Vec<_> = binds.map(tokio::spawn).collect();
    let mut bound = 0;
    for bind in binds {
        let result = bind.await.unwrap();
        bound += usize::from(result.is_ok_and(|response| response.outcome() == api::BindOutcome::Bound));
    }
    let has_node = |pod: &Value| pod["spec"]["nodeName"] == "a";
    assert_eq!((bound, apiserver.pods().values().filter(|pod| has_node(pod)).count()), (10, 10));
    let status = apiserver.reservation("one")["status"].clone();
    assert_eq!(
        (&status["allocated"], status["owners"].as_array().unwrap().len()),
        (&json!({"cpu": "1"}), 10)
    );
    for replica in replicas {
        tokio::task::spawn_blocking(|| replica.stop()).await.unwrap();
    }
}

#[test]
fn exit_codes_tell_what_to_set_right() {
    let kubeconfig = kubeconfig("192.0.2.1:1".parse().unwrap());
    let path = kubeconfig.path().to_str().unwrap();
    for (arguments, expected) in [
        (&["--lease-namespace", "A"][..], "the lease has the namespace \"A\""),
        (&["--lease-namespace", "a", "--identity", ""], "the identity has 0 bytes"),
    ] {
        ends(&[&["reservation", "--kubeconfig", path], arguments].concat(), 1, expected);
    }
}
