//! Callers of the service at the gateway's address: who calls it can have pods counted.

use super::*;
use crate::{
    http2,
    support::{
        certificates::Authority,
        secured::{HTTP_1, HTTP_2, Secured, accepted, connect, connect_h2},
    },
};

const OPTIONAL: &str = ", clientCAFile: CALLERS, clientCertificate: Optional";

fn request() -> PlaceRequest {
    PlaceRequest { pod: pod(), nodes: Some(nodes("1", &["a", "b"], b"")), ..PlaceRequest::default() }
}

#[tokio::test]
async fn a_client_certificate_opens_the_service_and_nothing_else_changes() {
    for fields in [", clientCAFile: CALLERS", OPTIONAL] {
        let secured = Secured::start(fields).await;
        let known = secured.callers.issue("scheduler", &[]);
        let requests = connect_h2(secured.gateway.address, &secured.client(Some(&known), HTTP_2)).await;
        let socket = Socket(requests.clone());
        let answer: PlaceResponse = socket.answer("Place", &request()).await;
        let Some(Outcome::Placement(placement)) = answer.outcome else { panic!("{answer:?}") };
        assert_eq!(placement.rejections, [rejection("only: no", false, &[0])]);
        assert_eq!(http2::call(&requests, "/filter", by_name(&["a", "b"])).await, (200, accepted()));
        assert_eq!(secured.filter(&secured.client(Some(&known), HTTP_1)).await, Ok(accepted()));
        let other = Authority::new("others").issue("scheduler", &[]);
        secured.filter(&secured.client(Some(&other), HTTP_2)).await.unwrap_err();
        let page = socket.call_with(("origin", "https://evil.test"), "Tell", framed(b"")).await;
        assert_eq!(page.unwrap_err().0, "7");
    }
}

#[tokio::test]
async fn without_a_certificate_the_service_says_what_is_missing() {
    let text = "with a client certificate, and at extender.socket; set extender.tls.clientCAFile";
    for fields in ["", OPTIONAL] {
        let secured = Secured::start(fields).await;
        let requests = connect_h2(secured.gateway.address, &secured.client(None, HTTP_2)).await;
        let large = [request().encode_to_vec(), vec![0; 2 << 20]].concat();
        for method in ["Place", "Hold", "Tell", "Permit"] {
            let (code, message) = Socket(requests.clone()).call(method, framed(&large)).await.unwrap_err();
            assert!(code == "7" && message.contains(text), "{method}: {code} {message}");
        }
        assert!(secured.backend.asked("Filter").is_empty());
    }
    let path = format!("{SERVICE}Place");
    let secured = Secured::start(OPTIONAL).await;
    let known = secured.client(Some(&secured.callers.issue("scheduler", &[])), HTTP_1);
    let mut over_http_1 = connect(secured.gateway.address, &known).await.unwrap();
    let only = backend("only", &secured.backend, "filter: {}");
    let plain = Gateway::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{only}")).await;
    for answer in [over_http_1.post(&path, b"").await, plain.post(&path, "").await] {
        let said = answer.header("x-extender-gateway-error").unwrap();
        assert!(answer.status == 403 && said.contains(text), "{answer:?}");
    }
}
