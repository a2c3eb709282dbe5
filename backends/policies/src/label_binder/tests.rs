//! Binds against a scripted apiserver behind the real client.

use std::sync::{Arc, Mutex};

use extender_policy_sdk::{
    Backend,
    testing::{self, NoAnswer, TestPod},
};
use http::{Method, Request, Response};
use kube::client::Body;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::arbitrary;

/// How the apiserver handles the Binding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    /// The Binding is created, and the answer is an error.
    Lost,
    Refused,
    /// No Binding is created, and the answer is an error as after one.
    Failed,
}

/// An apiserver that knows pod `shop/pod` with UID `uid` and node `a`.
struct Apiserver {
    fate: Fate,
    node: Mutex<Option<String>>,
    bindings: Mutex<Vec<Value>>,
}

impl Apiserver {
    fn new(fate: Fate) -> Arc<Self> {
        Arc::new(Self { fate, node: Mutex::default(), bindings: Mutex::default() })
    }

    fn client(self: &Arc<Self>) -> Client {
        let apiserver = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let apiserver = Arc::clone(&apiserver);
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                Ok::<_, std::io::Error>(apiserver.answer(&head.method, head.uri.path(), &body))
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, method: &Method, path: &str, body: &[u8]) -> Response<Body> {
        let (code, answer) = match (method.as_str(), path) {
            ("GET", "/api/v1/nodes/a") => (200, node()),
            ("GET", "/api/v1/namespaces/shop/pods/pod") => (200, self.pod()),
            ("POST", "/api/v1/namespaces/shop/pods/pod/binding") => {
                self.bind(&serde_json::from_slice(body).unwrap())
            }
            _ => (404, failure(404, "not found")),
        };
        // Node and pod have what Go reads and passes on.
        let (open, close) = ("[".repeat(200), "]".repeat(200));
        let strange =
            [b"\"managedFields\":[{\"f:\xff\":".as_slice(), open.as_bytes(), close.as_bytes(), b"}]"];
        let answer = answer.to_string();
        let body = match answer.split_once(r#""managedFields":[]"#) {
            Some((before, after)) => [before.as_bytes(), &strange.concat(), after.as_bytes()].concat(),
            None => answer.into_bytes(),
        };
        Response::builder().status(code).body(Body::from(body)).unwrap()
    }

    fn pod(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "uid": "uid", "managedFields": []},
               "spec": {"containers": [], "nodeName": *self.node.lock().unwrap()}})
    }

    fn bind(&self, binding: &Value) -> (u16, Value) {
        self.bindings.lock().unwrap().push(binding.clone());
        let mut node = self.node.lock().unwrap();
        if node.is_some() || self.fate == Fate::Refused {
            return (409, failure(409, "it is not possible"));
        }
        if self.fate == Fate::Failed {
            return (500, failure(500, "etcd is away"));
        }
        *node = Some(binding["target"]["name"].as_str().unwrap().to_owned());
        match self.fate {
            Fate::Lost => (500, failure(500, "lost")),
            _ => (201, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})),
        }
    }
}

fn node() -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
           "metadata": {"name": "a", "managedFields": [], "labels": {"topology.kubernetes.io/zone": "z1", "other": "o"}}})
}

fn failure(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message,
           "reason": "Conflict"})
}

fn policy(apiserver: &Arc<Apiserver>) -> LabelBinder {
    let args = Args::new(br#"{"labels":["topology.kubernetes.io/zone"],"prefix":"node.acme.io"}"#).unwrap();
    LabelBinder::new("label-binder", apiserver.client(), &args).unwrap()
}

async fn bind(apiserver: &Arc<Apiserver>, node: &str) -> Result<Bind, NoAnswer> {
    testing::bind(Backend::from(policy(apiserver)), &TestPod::new("shop"), node).await
}

#[tokio::test]
async fn the_binding_carries_the_labels_and_a_repetition_is_bound_again() {
    let apiserver = Apiserver::new(Fate::Done);
    assert_eq!(bind(&apiserver, "a").await, Ok(Bind::Bound));
    let expected = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": "shop", "name": "pod", "uid": "uid", "annotations": {"node.acme.io/zone": "z1"}},
        "target": {"kind": "Node", "name": "a"},
    });
    assert_eq!(*apiserver.bindings.lock().unwrap(), [expected]);
    assert_eq!(bind(&apiserver, "a").await, Ok(Bind::Bound));
    assert_eq!(bind(&Apiserver::new(Fate::Lost), "a").await, Ok(Bind::Bound));
}

#[tokio::test]
async fn what_is_certainly_not_bound_is_told_apart_from_what_is_not_known() {
    let elsewhere = Apiserver::new(Fate::Done);
    *elsewhere.node.lock().unwrap() = Some("b".to_owned());
    for (apiserver, node, text) in [
        (elsewhere, "a", "cannot create the Binding: it is not possible"),
        (Apiserver::new(Fate::Refused), "a", "cannot create the Binding: it is not possible"),
        (Apiserver::new(Fate::Done), "gone", "cannot read node gone: not found"),
    ] {
        assert_eq!(bind(&apiserver, node).await, Ok(Bind::NotBound(text.to_owned())));
    }
    let unknown = bind(&Apiserver::new(Fate::Failed), "a").await.unwrap_err().to_string();
    assert_eq!(unknown, "cannot create the Binding: etcd is away");
}

proptest! {
    #[test]
    fn nothing_of_the_pod_changes_the_binding(pod in arbitrary::pod_in("shop")) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let [plain, declared, everything] = [(); 3].map(|()| Apiserver::new(Fate::Done));
        let bound = runtime.block_on(async {
            [
                bind(&plain, "a").await,
                testing::bind(policy(&declared), &pod, "a").await,
                testing::bind(testing::everything(policy(&everything)), &pod, "a").await,
            ]
        });
        prop_assert_eq!(bound, [(); 3].map(|()| Ok(Bind::Bound)));
        let [plain, declared, everything] = [plain, declared, everything].map(|of| of.bindings.lock().unwrap().clone());
        prop_assert_eq!(&plain, &declared);
        prop_assert_eq!(plain, everything);
    }
}
