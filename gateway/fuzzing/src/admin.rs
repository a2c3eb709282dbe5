//! Requests to the admin address: a line `METHOD PATH`, lines `NAME: VALUE`, a blank line and a body.

use std::{cell::LazyCell, collections::BTreeSet, sync::Arc};

use axum::{Router, body::Body};
use extender_gateway_admin::{
    AdminState, routes,
    status::{GatewayStatus, StatusSources},
};
use extender_gateway_observe::{Health, Metrics, Observer};
use extender_gateway_settings::NodeSource;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header::HOST};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

/// The longest response, in bytes: the page.
const LONGEST_RESPONSE: usize = 4 << 20;
/// All statuses of this address.
const STATUSES: [u16; 9] = [200, 400, 403, 404, 405, 413, 415, 422, 503];

thread_local! {
    static ADMIN: LazyCell<(Runtime, Router)> = const { LazyCell::new(starting) };
}

/// The admin address of a gateway that is starting.
fn starting() -> (Runtime, Router) {
    let status = GatewayStatus::new(StatusSources {
        gateway: "test".into(),
        file: "gateway.yaml".to_owned(),
        source: NodeSource::NamesOnly,
        table: None,
        pods: Arc::default(),
        health: Arc::new(Health::default()),
        exempt: BTreeSet::new(),
        certificates: Arc::default(),
    });
    let observer = Arc::new(Observer::new(Arc::new(Metrics::new()), 1 << 20));
    let hosts = BTreeSet::from(["gateway.example.com".to_owned()]);
    let routes = routes(Arc::new(AdminState::new(observer, Arc::new(status), hosts)), |routes| routes);
    (Builder::new_current_thread().enable_time().build().unwrap(), routes)
}

/// A request is served, or refused with a status and a sentence; one of a web page is always refused.
pub fn request(bytes: &[u8]) {
    let Some(request) = read(bytes) else { return };
    let (is_head, is_of_a_page) = (request.method() == Method::HEAD, is_of_a_page(&request));
    let (status, body) = ADMIN.with(|admin| {
        let (runtime, routes) = &**admin;
        runtime.block_on(async {
            let Ok(response) = routes.clone().oneshot(request).await;
            let (head, body) = response.into_parts();
            (head.status, body.collect().await.unwrap().to_bytes())
        })
    });
    assert!(STATUSES.contains(&status.as_u16()), "{status}");
    assert!(body.len() <= LONGEST_RESPONSE, "{} bytes", body.len());
    assert!(!is_of_a_page || status == StatusCode::FORBIDDEN, "{status}");
    if status != StatusCode::OK && !is_head {
        let refusal: Value =
            serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{status}: {error}"));
        assert!(refusal["error"].as_str().is_some_and(|text| !text.is_empty()), "{refusal}");
        assert_eq!(refusal.as_object().map(serde_json::Map::len), Some(1), "{refusal}");
    }
}

fn read(bytes: &[u8]) -> Option<Request<Body>> {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = end.map_or((bytes, &b""[..]), |end| (&bytes[..end], &bytes[end + 2..]));
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let method = Method::from_bytes(&first[..space]).ok()?;
    let uri = Uri::try_from(&first[space + 1..]).ok()?;
    let mut request = Request::new(Body::from(body.to_vec()));
    (*request.method_mut(), *request.uri_mut()) = (method, uri);
    for line in lines.take(64) {
        let at = line.windows(2).position(|pair| pair == b": ")?;
        let name = HeaderName::from_bytes(&line[..at]).ok()?;
        request.headers_mut().append(name, HeaderValue::from_bytes(&line[at + 2..]).ok()?);
    }
    Some(request)
}

/// Whether a page of the web causes this request, by its origin or by the name with which it reached the port.
fn is_of_a_page(request: &Request<Body>) -> bool {
    let headers = request.headers();
    let is_public = |host: &HeaderValue| {
        let host = host.as_bytes().to_ascii_lowercase();
        host.ends_with(b".evil.example") || host == b"evil.example"
    };
    headers.contains_key("origin") || headers.get_all(HOST).iter().any(is_public)
}
