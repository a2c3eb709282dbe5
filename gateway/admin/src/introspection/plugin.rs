//! What backends show of their state. Koordinator calls backends plugins.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use extender_gateway_backend::{Backend, RpcError, introspection::NotShown};
use extender_gateway_core::FailureKind;
use extender_gateway_decide::Decider;
use extender_gateway_door::HeldBody;
use extender_policy_api::limits::{QUERY_BYTES, QUERY_ENTRIES};
use percent_encoding::percent_decode_str;
use tonic::Code;

use super::{super::AdminState, BASE, STARTING, error, no_such_path};

/// The paths that connected backends declare.
pub(super) fn paths(decider: &Decider) -> Vec<String> {
    let shown = |backend: &Backend| {
        let name = backend.settings.name.clone();
        let session = backend.leading_session().ok();
        let paths = session.map(|session| session.info.introspection.paths.clone()).unwrap_or_default();
        paths.into_iter().map(move |path| format!("{BASE}/plugins/{name}{path}"))
    };
    let mut paths: Vec<String> = decider.backends().flat_map(shown).collect();
    paths.sort_unstable();
    paths
}

type Parameters = Vec<(String, String)>;

/// What a backend shows at this path.
pub(super) async fn show(
    State(admin): State<Arc<AdminState>>,
    uri: Uri,
    query: Result<Query<Parameters>, QueryRejection>,
) -> Response {
    let query = match query {
        Ok(Query(query)) if query.len() <= QUERY_ENTRIES && bytes(&query) <= QUERY_BYTES => query,
        Ok(_) => {
            let text = format!("the query has more than {QUERY_ENTRIES} parameters or {QUERY_BYTES} bytes");
            return error(StatusCode::BAD_REQUEST, &text);
        }
        Err(wrong) => return error(StatusCode::BAD_REQUEST, &wrong.body_text()),
    };
    let path = format!("{BASE}{}", uri.path());
    let Some(segments) = segments(uri.path()) else {
        return error(StatusCode::BAD_REQUEST, "the path is not UTF-8");
    };
    let Some(served) = admin.gateway_status.served() else {
        return error(StatusCode::SERVICE_UNAVAILABLE, STARTING);
    };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let Some((name, segments)) = segments.split_first() else {
        return error(StatusCode::NOT_FOUND, &no_such_path(&path));
    };
    let Some(backend) = served.decider.backends().find(|backend| backend.settings.name.as_str() == *name)
    else {
        let text = format!("no backend {name:?} is called; extender-gateway status lists them");
        return error(StatusCode::NOT_FOUND, &text);
    };
    // Of a key that is repeated the last value counts.
    match backend.introspect(segments, query.into_iter().collect::<BTreeMap<_, _>>()).await {
        Ok((json, permit)) => {
            let response = ([(header::CONTENT_TYPE, "application/json")], json).into_response();
            // Its memory is in use until the response is sent.
            response.map(|body| Body::new(HeldBody::new(body, permit)))
        }
        Err(NotShown::NoPath) => error(StatusCode::NOT_FOUND, &no_such_path(&path)),
        Err(NotShown::Failed(failure)) => error(status_of(&failure), &format!("backend {name}: {failure}")),
    }
}

fn bytes(query: &Parameters) -> usize {
    query.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// The decoded segments after `/plugins/`; `None` if they are not UTF-8. Not those that the router has decoded:
/// they may contain a slash.
fn segments(path: &str) -> Option<Vec<String>> {
    let below = path.strip_prefix("/plugins/")?;
    let decoded = |segment: &str| Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned());
    below.split('/').map(decoded).collect()
}

/// The status for a failure, as introspection.proto says.
fn status_of(failure: &RpcError) -> StatusCode {
    match (failure.status, failure.failure.kind) {
        (Some(Code::InvalidArgument), _) => StatusCode::BAD_REQUEST,
        (Some(Code::NotFound), _) => StatusCode::NOT_FOUND,
        (Some(Code::Unimplemented), _) => StatusCode::NOT_IMPLEMENTED,
        (Some(Code::Unavailable), _) | (None, FailureKind::Unreachable | FailureKind::Overloaded) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        (_, FailureKind::Late) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    }
}
