//! What a backend shows people of its internal state: the paths in its handshake, and requests for them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_contract::protobuf::{decoded, malformed};
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_policy_api::limits::{JSON_BYTES, PATH_TEXT_BYTES};
pub use extender_policy_api::v1beta1::introspection_service_server::SERVICE_NAME;
use extender_policy_api::v1beta1::{IntrospectRequest, IntrospectResponse, IntrospectionPath};
use serde::de::IgnoredAny;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};

use super::{
    Backend,
    containment::contained,
    grpc::{self, Limits, RpcError},
    session::Session,
};

/// How long a backend may take, including the wait for other requests. The command waits for 5 seconds.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The most requests to a backend at a time, until their answers are sent. They share the connection of calls.
pub(super) const MOST_REQUESTS: usize = 4;
/// The most that its message adds to the JSON.
const ENVELOPE: usize = 64;

/// What a backend shows.
#[derive(Debug, Default)]
pub struct Introspection {
    /// The paths that can be used, as declared, such as `/quotas/:namespace`.
    pub paths: Vec<String>,
    /// The others, each with the reason.
    pub left_out: Vec<String>,
}

impl Introspection {
    /// That of a handshake that lists these services.
    pub(super) fn read(declared: Vec<IntrospectionPath>, services: &[String]) -> Self {
        let mut read = Self::default();
        let is_served = services.iter().any(|service| service == SERVICE_NAME);
        for IntrospectionPath { path, description } in declared {
            let unusable = if is_served { read.unusable(&path, &description) } else { Some(NOT_SERVED) };
            match unusable {
                Some(why) => read.left_out.push(format!("{path:?} {why}")),
                None => read.paths.push(path),
            }
        }
        read
    }

    /// Why this path cannot be used beside those before it.
    fn unusable(&self, path: &str, description: &str) -> Option<&'static str> {
        if path.len() > PATH_TEXT_BYTES || description.len() > PATH_TEXT_BYTES {
            return Some("or its description is longer than 256 bytes");
        }
        let mut names = Vec::new();
        for segment in path.strip_prefix('/').unwrap_or_default().split('/') {
            match segment.strip_prefix(':') {
                Some(name) if !is_name(name) => return Some("has a parameter without a valid name"),
                Some(name) if names.contains(&name) => return Some("has two parameters of one name"),
                Some(name) => names.push(name),
                None if !is_literal(segment) => return Some("has an empty or invalid segment"),
                None => {}
            }
        }
        let has_same = self.paths.iter().any(|known| shape(known).eq(shape(path)));
        has_same.then_some("is there already, perhaps with other names of parameters")
    }

    /// The path for these segments of a request, with the values of its parameters. Of several, the one whose first
    /// differing segment is not a parameter.
    fn find(&self, segments: &[&str]) -> Option<(&str, BTreeMap<String, String>)> {
        let fitting = self.paths.iter().filter_map(|path| Some((path.as_str(), parameters(path, segments)?)));
        fitting.max_by(|(a, _), (b, _)| shape(a).cmp(shape(b)))
    }
}

const NOT_SERVED: &str = "is declared without the introspection service in `services`";

/// The segments of a path, `None` for parameters.
fn shape(path: &str) -> impl Iterator<Item = Option<&str>> {
    path.split('/').skip(1).map(|segment| (!segment.starts_with(':')).then_some(segment))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_literal(segment: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    // Clients of HTTP rewrite dots.
    !matches!(segment, "" | "." | "..") && segment.bytes().all(is_allowed)
}

/// The values of the path's parameters in these segments; `None` if it does not match.
fn parameters(path: &str, segments: &[&str]) -> Option<BTreeMap<String, String>> {
    let declared: Vec<&str> = path.split('/').skip(1).collect();
    if declared.len() != segments.len() {
        return None;
    }
    let mut values = BTreeMap::new();
    for (declared, given) in declared.into_iter().zip(segments) {
        match declared.strip_prefix(':') {
            Some(name) if !given.is_empty() => _ = values.insert(name.to_owned(), (*given).to_owned()),
            None if declared == *given => {}
            _ => return None,
        }
    }
    Some(values)
}

/// Why there is nothing to show.
#[derive(Debug)]
pub enum NotShown {
    /// The backend declares no such path.
    NoPath,
    /// It failed.
    Failed(RpcError),
}

impl From<BackendFailure> for NotShown {
    fn from(failure: BackendFailure) -> Self {
        Self::Failed(failure.into())
    }
}

impl Backend {
    /// What the backend shows at this path, given by its segments: JSON, and the permit for its memory.
    ///
    /// # Errors
    /// [`NotShown`].
    pub async fn introspect(
        &self,
        segments: &[&str],
        query: BTreeMap<String, String>,
    ) -> Result<(Bytes, OwnedSemaphorePermit), NotShown> {
        let session = self.leading_session()?;
        let (path, parameters) = session.info.introspection.find(segments).ok_or(NotShown::NoPath)?;
        let request = IntrospectRequest {
            backend: self.settings.name.to_string(),
            args: self.settings.args.clone().unwrap_or_default(),
            path: path.to_owned(),
            parameters,
            query,
        };
        let asked = self.ask_introspection(&session, &request);
        contained(&self.metrics, asked).await.map_err(NotShown::Failed)
    }

    async fn ask_introspection(
        &self,
        session: &Session,
        request: &IntrospectRequest,
    ) -> Result<(Bytes, OwnedSemaphorePermit), RpcError> {
        let until = Instant::now() + TIMEOUT;
        let permit = timeout_at(until, Arc::clone(&self.introspections).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            let detail = format!("not asked: {MOST_REQUESTS} such requests to it are unanswered");
            return Err(BackendFailure::new(FailureKind::Overloaded, detail).into());
        };
        let connection = &*session.connection;
        let limits = Limits { timeout: until.duration_since(Instant::now()), answer: JSON_BYTES + ENVELOPE };
        let (requests, path) = (&connection.requests, &connection.paths.introspect);
        let answer = grpc::ask(requests, path, request, limits).await?;
        let IntrospectResponse { json } = decoded(answer)?;
        Ok((checked(json)?, permit))
    }
}

/// JSON, if it is.
fn checked(json: Bytes) -> Result<Bytes, BackendFailure> {
    let text = str::from_utf8(&json).map_err(|_| malformed("the answer is not UTF-8"))?;
    // Its message has the place.
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| malformed(format!("the answer is not JSON: {error}")))?;
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(paths: &[&str]) -> Introspection {
        let path =
            |path: &&str| IntrospectionPath { path: (*path).to_owned(), ..IntrospectionPath::default() };
        Introspection::read(paths.iter().map(path).collect(), &[SERVICE_NAME.to_owned()])
    }

    fn found(introspection: &Introspection, path: &str) -> Option<String> {
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let (path, parameters) = introspection.find(&segments)?;
        let parameters: Vec<_> =
            parameters.into_iter().map(|(name, value)| format!(" {name}={value}")).collect();
        Some(path.to_owned() + &parameters.concat())
    }

    #[test]
    fn the_most_literal_path_counts() {
        let shows =
            declared(&["/quotas", "/quotas/:ns", "/quotas/all", "/:kind/:name/pods", "/nodes/:name/:of"]);
        assert_eq!(shows.left_out, Vec::<String>::new());
        for (path, expected) in [
            ("/quotas", Some("/quotas")),
            ("/quotas/shop", Some("/quotas/:ns ns=shop")),
            ("/quotas/all", Some("/quotas/all")),
            ("/nodes/a/pods", Some("/nodes/:name/:of name=a of=pods")),
            ("/gangs/a/pods", Some("/:kind/:name/pods kind=gangs name=a")),
            ("/gangs/a/nodes", None),
            ("/quotas/", None),
            ("/quotas/a/b/c", None),
            ("/", None),
        ] {
            assert_eq!(found(&shows, path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn paths_that_break_the_rules_are_left_out() {
        let long = format!("/{}", "x".repeat(256));
        for path in [
            "", "/", "quotas", "/a//b", "/a/", "/a b", "/ä", "/:", "/:1a", "/:a-b", "/:a/:a", "/a?b", "/%41",
            "/./a", "/a/..", &long,
        ] {
            let shows = declared(&[path, "/ok/:name"]);
            assert_eq!((shows.paths.len(), shows.left_out.len()), (1, 1), "{path}");
        }
        let twice = declared(&["/a/:b", "/a/:c", "/a/b"]);
        assert_eq!(twice.left_out, [r#""/a/:c" is there already, perhaps with other names of parameters"#]);
        let not_served = Introspection::read(
            vec![IntrospectionPath { path: "/a".to_owned(), ..IntrospectionPath::default() }],
            &[],
        );
        assert_eq!(
            not_served.left_out,
            [r#""/a" is declared without the introspection service in `services`"#]
        );
    }

    #[test]
    fn what_is_no_json_is_a_failure() {
        assert!(checked(Bytes::from_static(br#" {"a": ["b", 1e3, null]} "#)).is_ok());
        for bad in [&b""[..], b"{", b"{} {}", b"\"\xff\"", b"NaN", &[b'['; 1000]] {
            assert_eq!(checked(Bytes::copy_from_slice(bad)).unwrap_err().kind, FailureKind::Malformed);
        }
    }
}
