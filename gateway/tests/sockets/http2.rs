//! The HTTP/2 server: calls that share a connection are independent.

use crate::support::{
    ClosedPort, apiserver,
    backend::{Act, Scripted},
    by_name, ended,
    secured::{HTTP_2, Secured, accepted, connect_h2, post},
    until,
};
use bytes::Bytes;
use h2::{
    Reason, SendStream,
    client::{ResponseFuture, SendRequest},
};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::oneshot,
    time::{Duration, timeout},
};

/// Begins a call and sends nothing of its body yet.
async fn begin(requests: &SendRequest<Bytes>, path: &str) -> (ResponseFuture, SendStream<Bytes>) {
    requests.clone().ready().await.unwrap().send_request(post(path), false).unwrap()
}

/// The status and body of an answer.
async fn answer(response: ResponseFuture) -> (u16, Vec<u8>) {
    let (head, mut body) = response.await.unwrap().into_parts();
    let mut whole = Vec::new();
    while let Some(chunk) = body.data().await {
        whole.extend_from_slice(&chunk.unwrap());
    }
    assert_eq!(head.headers["content-length"].to_str().unwrap(), whole.len().to_string());
    (head.status.as_u16(), whole)
}

pub(crate) async fn call(requests: &SendRequest<Bytes>, path: &str, body: String) -> (u16, Value) {
    let (response, mut stream) = begin(requests, path).await;
    stream.send_data(body.into(), true).unwrap();
    let (status, body) = answer(response).await;
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test]
async fn http_2_is_spoken_with_those_who_offer_it() {
    let secured = Secured::start("").await;
    let both = secured.client(None, &["h2", "http/1.1"]);
    let requests = connect_h2(secured.gateway.address, &both).await;
    let large = " ".repeat((1 << 20) + 1);
    for (path, body, status, said) in [
        ("/filter", by_name(&["a", "b"]), 200, accepted()),
        ("/prioritize", by_name(&["a"]), 200, json!([{"Host": "a", "Score": 0}])),
        ("/nothing", String::new(), 404, Value::Null),
        ("/prioritize", large, 413, Value::Null),
    ] {
        assert_eq!(call(&requests, path, body).await, (status, said), "{path}");
    }
}

#[tokio::test]
async fn a_reset_stream_takes_the_questions_with_it() {
    let secured = Secured::start_before("", Scripted::always(Act::Hang).await).await;
    let client = secured.client(None, HTTP_2);
    let requests = connect_h2(secured.gateway.address, &client).await;
    let mut requests = requests.ready().await.unwrap();
    let (response, mut stream) = requests.send_request(post("/filter"), false).unwrap();
    stream.send_data(by_name(&["a"]).into(), true).unwrap();
    until("it is not asked", || !secured.backend.asked("Filter").is_empty()).await;
    stream.send_reset(Reason::CANCEL);
    secured.backend.canceled().await;
    drop(response);
    requests.ready().await.expect("the connection lives on");
}

#[tokio::test]
async fn a_panic_ends_one_call_and_not_the_connection() {
    let closed_port = ClosedPort::new();
    let kubeconfig = apiserver::kubeconfig(closed_port.address);
    let backend = Scripted::refusing(&["a"], "no", 0).await;
    let binds = format!("cluster: {{kubeconfig: {}}}\nbinder: BuiltIn\n", kubeconfig.path().display());
    // No configuration allows this: a bind without a deadline.
    let secured =
        Secured::start_changed(&binds, backend, |config| config.timeouts.bind = Duration::MAX).await;
    let requests = connect_h2(secured.gateway.address, &secured.client(None, HTTP_2)).await;
    let (under_way, mut stream) = begin(&requests, "/filter").await;
    let to_a = json!({"PodName": "web-0", "PodNamespace": "shop", "PodUID": "u-1", "Node": "a"}).to_string();
    let error = "extender-gateway: internal error; see the gateway's log";
    assert_eq!(call(&requests, "/bind", to_a).await, (200, json!({"Error": error})));
    assert_eq!(call(&requests, "/filter", by_name(&["a", "b"])).await, (200, accepted()));
    stream.send_data(by_name(&["a", "b"]).into(), true).unwrap();
    assert_eq!(answer(under_way).await.0, 200, "a call that was under way meanwhile");
    assert!(secured.gateway.metrics.text().contains("extender_gateway_panics_total 1"));
}

/// Waits until the gateway announces that it accepts no more calls on a connection.
async fn goaway(requests: &SendRequest<Bytes>) -> h2::Error {
    let refused = async {
        loop {
            if let Err(error) = requests.clone().ready().await {
                return error;
            }
            tokio::task::yield_now().await;
        }
    };
    ended("no GOAWAY", refused).await
}

#[tokio::test]
async fn a_call_that_has_begun_is_finished_and_no_other_begins() {
    let (stop, stopped) = oneshot::channel::<()>();
    let backend = Scripted::refusing(&["a"], "no", 0).await;
    let secured = Secured::start_until("", backend, async { stopped.await.unwrap() }).await;
    let requests = connect_h2(secured.gateway.address, &secured.client(None, HTTP_2)).await;
    let (response, mut stream) = begin(&requests, "/filter").await;
    assert_eq!(call(&requests, "/filter", by_name(&["a", "b"])).await, (200, accepted()));
    stop.send(()).unwrap();
    let error = goaway(&requests).await;
    assert!(error.is_go_away() && error.is_remote(), "{error:?}");
    assert_eq!(error.reason(), Some(Reason::NO_ERROR));
    TcpStream::connect(secured.gateway.address).await.unwrap_err();
    assert!(!secured.gateway.served.is_finished(), "a call is under way");
    stream.send_data(by_name(&["a", "b"]).into(), true).unwrap();
    let (status, body) = answer(response).await;
    assert_eq!((status, serde_json::from_slice(&body).ok()), (200, Some(accepted())));
    timeout(Duration::from_secs(30), secured.gateway.served).await.unwrap().unwrap();
}
