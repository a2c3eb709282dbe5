//! The gRPC health service of an address (`grpc.health.v1.Health`), asked beside the handshake while the backend has
//! several addresses. One that reports `NOT_SERVING` is left out while others serve: a backend that is being
//! stopped says so before it closes its connections.

use std::time::Duration;

use extender_gateway_contract::protobuf::decoded;
use extender_gateway_core::FailureKind;
use prost::Message;
use tonic::Code;

use super::{
    grpc::{self, Limits, RpcError},
    info::POLICY_SERVICE,
    session::Connection,
};

/// The largest answer, in bytes: it is a single number.
const LARGEST_ANSWER: usize = 1024;
/// `HealthCheckResponse.ServingStatus`.
const NOT_SERVING: i32 = 2;

#[derive(Clone, PartialEq, Eq, Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// The health checks of a connection.
#[derive(Debug, Default)]
pub(super) struct HealthChecks {
    /// It does not serve the health service, and is not asked any more.
    is_over: bool,
}

impl HealthChecks {
    /// Asks about the whole server and the policy service. A service that it does not know counts as serving.
    pub(super) async fn refresh(&mut self, connection: &Connection, timeout: Duration) {
        if self.is_over {
            return;
        }
        let mut serves = true;
        for service in [String::new(), connection.api.service(POLICY_SERVICE)] {
            match check(connection, service, timeout).await {
                Ok(status) => serves &= status != NOT_SERVING,
                Err(RpcError { status: Some(Code::NotFound), .. }) => {}
                // A late or reset check says nothing, and the next one may. The handshake says whether the connection
                // works.
                Err(error) => {
                    self.is_over = error.is_unimplemented() || error.failure.kind == FailureKind::Malformed;
                    return;
                }
            }
        }
        connection.endpoint.set_serving(serves);
    }
}

async fn check(connection: &Connection, service: String, timeout: Duration) -> Result<i32, RpcError> {
    let request = HealthCheckRequest { service };
    let limits = Limits { timeout, answer: LARGEST_ANSWER };
    let (requests, path) = (&connection.requests, &connection.paths.health);
    let answer = grpc::ask(requests, path, &request, limits).await?;
    let HealthCheckResponse { status } = decoded(answer)?;
    Ok(status)
}
