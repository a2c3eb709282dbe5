//! The services that exporters call.

use std::sync::Arc;

use axum::{Router, body::Bytes, extract::State, routing::post};
use http::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse, trace_service_server::TraceService,
};
use prost::Message;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::received::Received;

#[derive(Clone)]
pub(crate) struct Services {
    into: Arc<watch::Sender<Received>>,
}

impl Services {
    pub(crate) fn new(into: watch::Sender<Received>) -> Self {
        Self { into: Arc::new(into) }
    }

    fn trace(&self, headers: &HeaderMap, request: ExportTraceServiceRequest) {
        self.into.send_modify(|received| received.trace(headers, request));
    }
}

#[tonic::async_trait]
impl TraceService for Services {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.trace(&metadata.into_headers(), request);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// The same over HTTP.
pub(crate) fn router(services: Services) -> Router {
    Router::new().route("/v1/traces", post(traces)).with_state(services)
}

async fn traces(
    State(services): State<Services>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Vec<u8>, StatusCode> {
    services.trace(&headers, read(&headers, body)?);
    Ok(ExportTraceServiceResponse::default().encode_to_vec())
}

fn read<M: Message + Default>(headers: &HeaderMap, body: Bytes) -> Result<M, StatusCode> {
    let protobuf = headers.get("content-type").is_some_and(|kind| kind == "application/x-protobuf");
    if !protobuf {
        return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    M::decode(body).map_err(|_| StatusCode::BAD_REQUEST)
}
