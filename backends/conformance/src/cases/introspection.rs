//! What the backend shows of its internal state, and what it says about controllers.

use std::collections::BTreeMap;

use bytes::Bytes;
use extender_policy_api::limits::{
    CONTROLLER_NAME_BYTES, CONTROLLER_NAMES, IDENTITY_BYTES, LEASE_BYTES, PATH_TEXT_BYTES, PATHS,
};
use extender_policy_api::v1beta1::{self as api, introspection_service_server::SERVICE_NAME};
use http::uri::PathAndQuery;
use prost::Message as _;
use serde::de::IgnoredAny;
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus;

use crate::{
    answer::{at_most, few},
    case::{self, Case, Stop, failed, skipped},
    client::{Extras, decoded, shown},
    suite::{Suite, refused},
};

const CONTROLLERS: &str = "extender.policy.v1beta1.Controllers";
/// A value of parameters, which names nothing.
const UNKNOWN: &str = "conformance-unknown";

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "introspection.service" Must ["53.1"] "a backend with paths lists the service" => service;
        "introspection.paths" Must ["53.2"] "paths have the form of info.proto and differ" => paths;
        "introspection.answers" Must ["54.1"] "each path is answered by JSON or as specified" => answers;
        "introspection.unknown-path" Must ["54.2"] "an unknown path is NOT_FOUND" => unknown_path;
        "introspection.missing-parameter" Must ["54.2"] "a request without a parameter of the path is INVALID_ARGUMENT" => missing_parameter;
        "introspection.wrong-args" Must ["54.3"] "a request with wrong args is refused" => wrong_args;
        "controllers.limits" Should ["55.1"] "controllers are within the limits" => limits;
        "controllers.health" Should ["55.2"] "the health of the controllers is SERVING in the leader alone" => health;
    }
}

/// The declared paths; a case about them is skipped if there are none.
fn declared(suite: &Suite) -> Result<&[api::IntrospectionPath], Stop> {
    match &suite.declared.info.introspection[..] {
        [] => skipped("introspection is not declared"),
        paths => Ok(paths),
    }
}

async fn service(suite: &Suite) -> Result<(), Stop> {
    declared(suite)?;
    if suite.declared.info.services.iter().any(|service| service == SERVICE_NAME) {
        return Ok(());
    }
    failed(format!("`introspection` has paths, but `services` does not list {SERVICE_NAME}"))
}

async fn paths(suite: &Suite) -> Result<(), Stop> {
    let paths = declared(suite)?;
    few("introspection", paths.len(), PATHS)?;
    let mut shapes = BTreeMap::new();
    for api::IntrospectionPath { path, description } in paths {
        at_most("a path", path, PATH_TEXT_BYTES)?;
        at_most("the description of a path", description, PATH_TEXT_BYTES)?;
        if description.contains(char::is_control) {
            return failed(format!("the description of the path {path:?} is not one line"));
        }
        let Some(shape) = shape(path) else {
            return failed(format!("the path {path:?} has another form than /literal/:parameter"));
        };
        if let Some(other) = shapes.insert(shape, path) {
            return failed(format!("the paths {other:?} and {path:?} differ in names of parameters alone"));
        }
    }
    Ok(())
}

/// A path without the names of its parameters; `None` if it breaks the rules.
fn shape(path: &str) -> Option<Vec<&str>> {
    let is_literal = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    let is_name = |name: &str| {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let mut names = Vec::new();
    let segment = |segment| match str::strip_prefix(segment, ":") {
        Some(name) if is_name(name) && !names.contains(&name) => {
            names.push(name);
            Some(":")
        }
        None if is_literal(segment) => Some(segment),
        _ => None,
    };
    path.strip_prefix('/')?.split('/').map(segment).collect()
}

/// A request for a path whose parameters have this value.
fn request(suite: &Suite, path: &str, value: &str) -> api::IntrospectRequest {
    let parameters = path.split('/').filter_map(|segment| segment.strip_prefix(':'));
    api::IntrospectRequest {
        backend: suite.target.info_request().backend,
        args: suite.args.clone(),
        path: path.to_owned(),
        parameters: parameters.map(|name| (name.to_owned(), value.to_owned())).collect(),
        query: BTreeMap::new(),
    }
}

async fn introspect(suite: &Suite, request: &api::IntrospectRequest) -> Result<Result<Bytes, Status>, Stop> {
    let path = PathAndQuery::from_static("/extender.policy.v1beta1.IntrospectionService/Introspect");
    let answered = suite.client.unary_at(path, request.encode_to_vec().into(), Extras::default()).await?;
    let answered = answered.inspect_err(|status| suite.saw("Introspect", status));
    let response = decoded::<api::IntrospectResponse>("Introspect", answered)?;
    Ok(response.map(|response| response.json))
}

async fn answers(suite: &Suite) -> Result<(), Stop> {
    for api::IntrospectionPath { path, .. } in declared(suite)? {
        match introspect(suite, &request(suite, path, UNKNOWN)).await? {
            Ok(json) => check_json(path, &json)?,
            Err(status) => match status.code() {
                // A path without parameters may need a query.
                Code::NotFound | Code::InvalidArgument | Code::Unavailable => {}
                _ => return failed(format!("{path}: {}", shown(&status))),
            },
        }
    }
    Ok(())
}

fn check_json(path: &str, json: &[u8]) -> Result<(), Stop> {
    let Ok(text) = str::from_utf8(json) else { return failed(format!("{path}: the answer is not UTF-8")) };
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(_) => Ok(()),
        Err(error) => failed(format!("{path}: the answer is not JSON: {error}")),
    }
}

async fn unknown_path(suite: &Suite) -> Result<(), Stop> {
    declared(suite)?;
    let path = format!("/{UNKNOWN}/a/b/c/d/e/f");
    refused(
        introspect(suite, &request(suite, &path, "")).await?,
        &[Code::NotFound],
        "a path that is not declared",
    )
}

async fn missing_parameter(suite: &Suite) -> Result<(), Stop> {
    let with_parameter = declared(suite)?.iter().filter(|declared| declared.path.contains(':'));
    let mut any = false;
    for api::IntrospectionPath { path, .. } in with_parameter {
        any = true;
        let without = api::IntrospectRequest { parameters: BTreeMap::new(), ..request(suite, path, UNKNOWN) };
        let what = format!("{path} without parameters");
        refused(introspect(suite, &without).await?, &[Code::InvalidArgument], &what)?;
    }
    if any { Ok(()) } else { skipped("no path has a parameter") }
}

async fn wrong_args(suite: &Suite) -> Result<(), Stop> {
    for api::IntrospectionPath { path, .. } in declared(suite)? {
        let wrong = api::IntrospectRequest { args: "[]".into(), ..request(suite, path, UNKNOWN) };
        refused(
            introspect(suite, &wrong).await?,
            &[Code::InvalidArgument],
            &format!("{path} with args `[]`"),
        )?;
    }
    Ok(())
}

/// What is said about controllers now; a case about them is skipped if there is nothing.
async fn controllers(suite: &Suite) -> Result<api::Controllers, Stop> {
    suite.handshake().await?.controllers.map_or_else(|| skipped("no controllers are reported"), Ok)
}

async fn limits(suite: &Suite) -> Result<(), Stop> {
    let api::Controllers { names, lease, identity, leader } = controllers(suite).await?;
    if names.is_empty() || names.len() > CONTROLLER_NAMES {
        return failed(format!(
            "`controllers` has {} names; 1 to {CONTROLLER_NAMES} are allowed",
            names.len()
        ));
    }
    for (field, text, most) in
        names.iter().map(|name| ("a name of `controllers`", name, CONTROLLER_NAME_BYTES)).chain([
            ("`controllers.lease`", &lease, LEASE_BYTES),
            ("`controllers.identity`", &identity, IDENTITY_BYTES),
        ])
    {
        at_most(field, text, most)?;
        if text.is_empty() {
            return failed(format!("{field} is empty"));
        }
    }
    Ok(at_most("`controllers.leader`", &leader, IDENTITY_BYTES)?)
}

/// Asked until nothing has changed in between, a few times.
async fn health(suite: &Suite) -> Result<(), Stop> {
    const ATTEMPTS: usize = 5;
    let mut found = String::new();
    for _ in 0..ATTEMPTS {
        let before = controllers(suite).await?;
        let status = super::service::check(suite, CONTROLLERS).await?;
        let leads = before.leader == before.identity;
        let expected = if leads { ServingStatus::Serving } else { ServingStatus::NotServing };
        found = match status {
            Ok(status) if status == expected => return Ok(()),
            Ok(status) => format!("{}; expected {}", status.as_str_name(), expected.as_str_name()),
            Err(status) => shown(&status),
        };
        if before == controllers(suite).await? {
            break;
        }
    }
    failed(format!("Health of {CONTROLLERS:?} is {found}"))
}
