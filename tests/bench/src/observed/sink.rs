//! The collector of the observed gateways: counts spans, and stores nothing.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
    trace_service_server::{TraceService, TraceServiceServer},
};
use tokio::{net::TcpListener, runtime::Builder};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::contender::Failure;

/// A collector of OTLP over gRPC, on its own thread for as long as this process runs.
#[derive(Debug)]
pub(super) struct Sink {
    /// Its address.
    pub address: SocketAddr,
    spans: Arc<AtomicUsize>,
}

impl Sink {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub(super) fn start() -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let (address, spans) = (listener.local_addr()?, Arc::default());
        let counter = Counter(Arc::clone(&spans));
        let serving = Server::builder()
            .add_service(TraceServiceServer::new(counter))
            .serve_with_incoming(TcpListenerStream::new(listener));
        thread::spawn(move || runtime.block_on(serving));
        Ok(Self { address, spans })
    }

    /// How many spans have arrived.
    pub(super) fn spans(&self) -> usize {
        self.spans.load(Ordering::Relaxed)
    }
}

#[derive(Clone)]
struct Counter(Arc<AtomicUsize>);

#[tonic::async_trait]
impl TraceService for Counter {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.get_ref().resource_spans.iter();
        let spans = resources.flat_map(|resource| &resource.scope_spans).map(|scope| scope.spans.len()).sum();
        self.0.fetch_add(spans, Ordering::Relaxed);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
