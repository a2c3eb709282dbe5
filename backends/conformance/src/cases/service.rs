//! The server: health, reflection, methods that do not exist.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::uri::PathAndQuery;
use prost::Message as _;
use tokio::io::AsyncReadExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, ServerReflectionResponse, server_reflection_request::MessageRequest,
    server_reflection_response::MessageResponse,
};

use crate::{
    case::{self, Case, Stop, failed, skipped},
    client::{Extras, code_name, shown},
    declared::{VERBS, Verb},
    suite::{Silent, Suite, refused},
};

const SERVICE: &str = "extender.policy.v1beta1.PolicyService";

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "service.health" Should ["2.2"] "grpc.health.v1.Health reports SERVING" => |suite|
            serving(suite, "").await;
        "service.health-of-service" Should ["2.2"] "grpc.health.v1.Health reports SERVING for PolicyService" => |suite|
            serving(suite, SERVICE).await;
        "service.health-unknown" Should ["2.2"] "grpc.health.v1.Health reports NOT_FOUND for an unknown service" => health_unknown;
        "service.reflection" Should ["2.2"] "server reflection lists PolicyService" => reflection;
        "service.unknown-method" Must ["50.1"] "an unknown method is UNIMPLEMENTED" => |suite|
            unimplemented(suite, "/extender.policy.v1beta1.PolicyService/Conformance").await;
        "service.unknown-service" Must ["50.1"] "an unknown service is UNIMPLEMENTED" => |suite|
            unimplemented(suite, "/conformance.Unknown/Method").await;
        "service.compressed" Should ["51.2"] "a compressed message is UNIMPLEMENTED" => compressed;
        "service.silent" Should ["51.3"] "a connection on which nothing comes is closed" => silent;
        "service.connections" Must ["3.1"] "50 connections at once are served" => connections;
        for VERBS: "undeclared" Must ["50.1"] "UNIMPLEMENTED if it is not listed" => undeclared;
    }
}

/// The health of a service.
pub(super) async fn check(
    suite: &Suite,
    service: &str,
) -> Result<Result<ServingStatus, tonic::Status>, Stop> {
    let request = HealthCheckRequest { service: service.to_owned() };
    let mut health = HealthClient::new(suite.client.channel());
    let answered = tokio::time::timeout(suite.client.patience(), health.check(request));
    let answered = answered.await.map_err(|_| Stop::Failed("Health: no response in time".to_owned()))?;
    Ok(answered.map(|response| response.into_inner().status()))
}

async fn serving(suite: &Suite, service: &str) -> Result<(), Stop> {
    match check(suite, service).await? {
        Ok(ServingStatus::Serving) => Ok(()),
        Ok(status) => failed(format!("Health of {service:?} is {}", status.as_str_name())),
        Err(status) => failed(format!("Health of {service:?}: {}", shown(&status))),
    }
}

async fn health_unknown(suite: &Suite) -> Result<(), Stop> {
    match check(suite, "conformance.Unknown").await? {
        Err(status) if status.code() == Code::NotFound => Ok(()),
        Err(status) => {
            failed(format!("Health of an unknown service: {}; expected NOT_FOUND", shown(&status)))
        }
        Ok(status) => failed(format!("Health of an unknown service is {}", status.as_str_name())),
    }
}

/// Libraries have the first version of the service, or the one before, which differs in its name alone.
async fn reflection(suite: &Suite) -> Result<(), Stop> {
    let mut last = None;
    for version in ["v1", "v1alpha"] {
        let listed = tokio::time::timeout(suite.client.patience(), listed(suite, version)).await;
        match listed.map_err(|_| Stop::Failed("reflection: no response in time".to_owned()))? {
            Ok(services) if services.iter().any(|service| service == SERVICE) => return Ok(()),
            Ok(services) => return failed(format!("reflection does not list {SERVICE}, but {services:?}")),
            Err(status) => last = Some(status),
        }
    }
    failed(format!("reflection: {}", last.as_ref().map(shown).unwrap_or_default()))
}

async fn listed(suite: &Suite, version: &str) -> Result<Vec<String>, tonic::Status> {
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
    let path = path.parse().map_err(|_| tonic::Status::internal("invalid path"))?;
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    drop(sender.send(request.encode_to_vec().into()).await);
    let mut responses = suite.client.stream(path, ReceiverStream::new(receiver)).await?;
    let response = responses.message().await?.unwrap_or_default();
    let response = ServerReflectionResponse::decode(response)
        .map_err(|error| tonic::Status::internal(error.to_string()))?;
    Ok(match response.message_response {
        Some(MessageResponse::ListServicesResponse(services)) => {
            services.service.into_iter().map(|service| service.name).collect()
        }
        _ => Vec::new(),
    })
}

async fn unimplemented(suite: &Suite, path: &'static str) -> Result<(), Stop> {
    let path = PathAndQuery::from_static(path);
    let shown_path = path.to_string();
    match suite.client.unary_at(path, Bytes::new(), Extras::default()).await? {
        Err(status) if status.code() == Code::Unimplemented => Ok(()),
        Err(status) => failed(format!("{shown_path}: {}; expected UNIMPLEMENTED", shown(&status))),
        Ok(_) => failed(format!("{shown_path}: {}; expected UNIMPLEMENTED", code_name(Code::Ok))),
    }
}

async fn compressed(suite: &Suite) -> Result<(), Stop> {
    match suite.client.compressed(SERVICE, "GetInfo", &suite.target.info_request().encode_to_vec()).await? {
        Some(Code::Unimplemented) => Ok(()),
        Some(code) => {
            failed(format!("GetInfo compressed with gzip: {}; expected UNIMPLEMENTED", code_name(code)))
        }
        None => failed("GetInfo compressed with gzip: no status; expected UNIMPLEMENTED"),
    }
}

/// How long a silent connection may stay open.
const SILENCE: Duration = Duration::from_secs(20);

async fn silent(suite: &Suite) -> Result<(), Stop> {
    let Silent { connection, since } = &mut *suite.silent.lock().await;
    let connection = connection.as_mut().map_err(|error| Stop::Failed(error.to_string()))?;
    let closed = async { while connection.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {} };
    let open =
        |_| Stop::Failed(format!("a connection on which nothing came was still open after {SILENCE:?}"));
    tokio::time::timeout_at(*since + SILENCE, closed).await.map_err(open)?;
    suite.still_serves("a silent connection").await
}

async fn connections(suite: &Suite) -> Result<(), Stop> {
    let clients = try_join_all((0..50).map(|_| suite.connect())).await?;
    try_join_all(clients.iter().map(|client| suite.handshake_on(client))).await.map(drop)
}

async fn undeclared(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    if suite.declared.verb(verb).is_some() {
        return skipped(format!("{} is declared", verb.name()));
    }
    let answered = suite.send(verb, super::malformed::minimal(suite, verb)).await?;
    let Err(status) = answered else {
        return failed(format!("{}, which is not listed: OK; expected UNIMPLEMENTED", verb.title()));
    };
    // The text is the library's if the method is missing altogether.
    let code = status.code();
    refused::<()>(Err(tonic::Status::new(code, "text")), &[Code::Unimplemented], verb.title())
}
