//! Creates Bindings.

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use kube::{
    Client, Resource,
    api::{ObjectMeta, PostParams},
    core::Request,
};

use crate::{
    bounded,
    request::{RequestError, StatusObject, read},
};

/// The largest answer to a Binding in bytes. A `Status` has some hundred.
const LARGEST_ANSWER: usize = 1 << 20;

/// Creates the Binding of a pod to this node. `metadata` has the pod's namespace, name and UID. Mirrors
/// `DefaultBinder.Bind` of kube-scheduler.
///
/// # Errors
/// The answer is neither a successful `Status` nor the Binding. The pod may be bound nevertheless.
pub async fn bind(client: &Client, metadata: ObjectMeta, node: &str) -> Result<(), RequestError> {
    let pods = Request::new(Pod::url_path(&(), Some(metadata.namespace.as_deref().unwrap_or_default())));
    let target = ObjectReference {
        kind: Some("Node".to_owned()),
        name: Some(node.to_owned()),
        ..ObjectReference::default()
    };
    let binding = Binding { metadata, target };
    let json = serde_json::to_vec(&binding).expect("texts can be written to memory");
    let name = binding.metadata.name.as_deref().unwrap_or_default();
    let request = pods.create_subresource("binding", name, &PostParams::default(), json);
    confirmed(&read(client, request, LARGEST_ANSWER).await?)
}

fn confirmed(answer: &[u8]) -> Result<(), RequestError> {
    let StatusObject { kind, status, message } = serde_json::from_slice(answer).unwrap_or_default();
    match (&*kind, &*status) {
        ("Status", "Success") | ("Binding", _) => Ok(()),
        ("Status", _) => {
            Err(RequestError::Failed(format!("the Binding is not confirmed: {}", bounded(&message))))
        }
        _ => Err(RequestError::Failed("the answer to the Binding is not a Status".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// The result of creating a Binding for this answer of the apiserver.
    async fn bind_with(status: u16, body: &'static str) -> Result<(), RequestError> {
        let service = tower::service_fn(move |request: Request<Body>| async move {
            assert_eq!(request.uri().path(), "/api/v1/namespaces/shop/pods/web-0/binding");
            let json = request.into_body().collect_bytes().await.unwrap();
            let expected = serde_json::json!({
                "apiVersion": "v1", "kind": "Binding",
                "metadata": {"namespace": "shop", "name": "web-0", "uid": "u-1"},
                "target": {"kind": "Node", "name": "a"},
            });
            assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).unwrap(), expected);
            let response = Response::builder().status(status).body(Body::from(body.as_bytes().to_vec()));
            Ok::<_, std::io::Error>(response.expect("a response"))
        });
        let metadata = ObjectMeta {
            namespace: Some("shop".into()),
            name: Some("web-0".into()),
            uid: Some("u-1".into()),
            ..ObjectMeta::default()
        };
        bind(&Client::new(service, "default"), metadata, "a").await
    }

    const SUCCESS: &str = r#"{"kind":"Status","status":"Success","code":201}"#;
    const FAILURE: &str = r#"{"kind":"Status","status":"Failure","message":"no","code":404}"#;

    #[tokio::test]
    async fn only_a_confirmation_is_success() {
        for (status, body) in [(201, SUCCESS), (200, SUCCESS), (201, r#"{"kind":"Binding","metadata":{}}"#)] {
            assert_eq!(bind_with(status, body).await, Ok(()), "{status} {body}");
        }
        for (status, body, text) in [
            (200, "<html>sign in</html>", "the answer to the Binding is not a Status"),
            (200, "", "the answer to the Binding is not a Status"),
            (200, FAILURE, "the Binding is not confirmed: no"),
        ] {
            assert_eq!(
                bind_with(status, body).await,
                Err(RequestError::Failed(text.into())),
                "{status} {body}"
            );
        }
        for (code, body, message) in [
            (202, SUCCESS, "HTTP status 202 Accepted: "),
            (204, "", "HTTP status 204 No Content"),
            (302, "<html>\n", "HTTP status 302 Found: <html>"),
            (304, "", "HTTP status 304 Not Modified"),
            (307, "", "HTTP status 307 Temporary Redirect"),
            // The code is that of HTTP, whatever the body contains.
            (503, FAILURE, "no"),
        ] {
            let refused = bind_with(code, body).await.expect_err("it is refused");
            assert_eq!(refused.code(), Some(code));
            assert!(refused.to_string().starts_with(message), "{refused}");
        }
    }
}
