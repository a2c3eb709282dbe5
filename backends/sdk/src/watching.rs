//! `WatchService`: a message when `GetInfo` would answer something else than before, or the policy became ready or ceased to be. They
//! are compared here, so that a gateway need not ask each second.

use std::{
    future::{Ready, ready},
    sync::Arc,
    time::Duration,
};

use extender_policy_api::v1beta1::{self as api, watch_service_server::SERVICE_NAME};
use futures_util::stream::try_unfold;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxStream, http},
    server::{Grpc, ServerStreamingService},
};

use crate::{
    Backend,
    answer::{self, Watched},
    backend::NamedArgs,
    codec::{AdmitAll, RequestCodec},
    deadline::{Arrival, timely},
    digest::Digest,
    service::{Answered, method, named, refused},
    stopping::Stopping,
};

/// How often the answers are compared.
const INTERVAL: Duration = Duration::from_millis(200);

/// The largest request in bytes: args of 1 MiB, and the name.
const MAX_REQUEST_BYTES: usize = 2 << 20;

/// The most streams: enough for the gateways of 32 args with eight replicas.
const MAX_STREAMS: usize = 256;

/// Says when a backend has changed.
#[derive(Clone, Debug)]
pub(crate) struct WatchService {
    backend: Backend,
    stopping: Stopping,
    streams: Arc<Semaphore>,
}

impl WatchService {
    /// Its streams end with the stop.
    pub(crate) fn new(backend: Backend, stopping: Stopping) -> Self {
        Self { backend, stopping, streams: Arc::new(Semaphore::new(MAX_STREAMS)) }
    }

    fn watch(&self, http: http::Request<Body>) -> Answered {
        let service = self.clone();
        Box::pin(async move {
            let arrival = Arrival::default();
            let mut grpc = Grpc::new(RequestCodec::new(AdmitAll))
                .apply_max_message_size_config(Some(MAX_REQUEST_BYTES), None);
            let watching = Watching { service, arrival: &arrival };
            Ok(timely(grpc.server_streaming(watching, http), &arrival).await)
        })
    }

    fn begin(&self, request: &api::WatchRequest) -> Result<WatchStream, Status> {
        let many = |_| Status::resource_exhausted(format!("{MAX_STREAMS} streams are open; end one of them"));
        let place = Arc::clone(&self.streams).try_acquire_owned().map_err(many)?;
        let args = NamedArgs::whole(&request.args)?;
        // What GetInfo refuses is refused alike.
        answer::watched(&self.backend, args)?;
        let Self { backend, stopping, .. } = self.clone();
        Ok(WatchStream { backend, stopping, args: args.digest, last: None, _place: place })
    }
}

named!(WatchService, SERVICE_NAME, |this, http| {
    match method(http.uri().path()) {
        "Watch" => this.watch(http),
        _ => refused(Status::unimplemented("this service has no such method")),
    }
});

struct Watching<'a> {
    service: WatchService,
    arrival: &'a Arrival,
}

impl ServerStreamingService<api::WatchRequest> for Watching<'_> {
    type Response = api::WatchResponse;
    type ResponseStream = BoxStream<api::WatchResponse>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<api::WatchRequest>) -> Self::Future {
        self.arrival.complete();
        let begun = self.service.begin(request.get_ref());
        ready(begun.map(|stream| {
            Response::new(Box::pin(try_unfold(stream, WatchStream::next)) as Self::ResponseStream)
        }))
    }
}

/// One stream. It keeps the digest of its args alone: a policy that is no longer held here is not built again for a comparison.
struct WatchStream {
    backend: Backend,
    stopping: Stopping,
    args: Digest,
    last: Option<Watched>,
    _place: OwnedSemaphorePermit,
}

impl WatchStream {
    /// The next message, when there is one; `None` when the server stops. An error ends the stream, and the gateway begins another
    /// one.
    async fn next(mut self) -> Result<Option<(api::WatchResponse, Self)>, Status> {
        loop {
            let now = answer::watched(&self.backend, NamedArgs::by(self.args))?;
            if self.last.as_ref() != Some(&now) {
                self.last = Some(now);
                return Ok(Some((api::WatchResponse {}, self)));
            }
            tokio::select! {
                () = self.stopping.clone().begun() => return Ok(None),
                () = sleep(INTERVAL) => {}
            }
        }
    }
}
