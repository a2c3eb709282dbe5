//! `NodeTableService`: one message in, one acknowledgement out, until the stream ends. Routed by hand, because
//! the generated service decodes the rows.

use std::future::{Ready, ready};

use extender_policy_api::v1beta1::{SyncNodesResponse, node_table_service_server::SERVICE_NAME};
use futures_util::stream::try_unfold;
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    codegen::{BoxStream, http},
    server::{Grpc, StreamingService},
};

use super::{Tables, filling::Filling};
use crate::{
    MAX_MESSAGE_BYTES,
    codec::{AdmitAll, RequestCodec},
    request::SyncNodesRequest,
    service::{Answered, method, named, refused},
};

/// Fills tables.
#[derive(Clone, Debug)]
pub(crate) struct TableService {
    tables: Tables,
}

impl TableService {
    pub(crate) fn new(tables: Tables) -> Self {
        Self { tables }
    }

    fn sync_nodes(&self, http: http::Request<Body>) -> Answered {
        let limit = Some(MAX_MESSAGE_BYTES);
        let mut grpc = Grpc::new(RequestCodec::new(AdmitAll)).apply_max_message_size_config(limit, limit);
        let sync_nodes = SyncNodes { tables: self.tables.clone() };
        Box::pin(async move { Ok(grpc.streaming(sync_nodes, http).await) })
    }
}

named!(TableService, SERVICE_NAME, |this, http| {
    match method(http.uri().path()) {
        "SyncNodes" => this.sync_nodes(http),
        _ => refused(Status::unimplemented("this service has no such method")),
    }
});

struct SyncNodes {
    tables: Tables,
}

impl StreamingService<SyncNodesRequest> for SyncNodes {
    type Response = SyncNodesResponse;
    type ResponseStream = BoxStream<SyncNodesResponse>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<SyncNodesRequest>>) -> Self::Future {
        let stream =
            TableStream { tables: self.tables.clone(), messages: request.into_inner(), filling: None };
        ready(Ok(Response::new(Box::pin(try_unfold(stream, TableStream::exchange)))))
    }
}

/// One stream. The table is dropped with it, however the stream ended.
struct TableStream {
    tables: Tables,
    messages: Streaming<SyncNodesRequest>,
    filling: Option<Filling>,
}

impl TableStream {
    /// The next message, applied; `None` at the end of the stream.
    async fn exchange(mut self) -> Result<Option<(SyncNodesResponse, Self)>, Status> {
        let Some(message) = self.message().await? else {
            return Ok(None);
        };
        let mut filling = match self.filling.take() {
            Some(filling) => filling,
            None => Filling::begin(&self.tables, &message)?,
        };
        let applied = filling.apply(message).await?;
        Ok(Some((SyncNodesResponse { applied }, Self { filling: Some(filling), ..self })))
    }

    async fn message(&mut self) -> Result<Option<SyncNodesRequest>, Status> {
        tokio::select! {
            message = self.messages.message() => message,
            () = self.tables.stopping().clone().begun() => Err(Status::unavailable("this backend is shutting down")),
        }
    }
}
