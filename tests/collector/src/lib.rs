//! A collector of spans for tests: OTLP over gRPC or HTTP on a real socket, on a port from the kernel. It stores
//! what it receives, and tests wait for as much as they expect.

mod received;
mod services;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::TraceServiceServer;
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;

pub use self::received::{Attributes, ReceivedSpan};
use self::{received::Received, services::Services};

/// The longest wait.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// A collector; it stops when it is dropped.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    received: watch::Receiver<Received>,
    serving: JoinHandle<()>,
}

impl Collector {
    /// Over gRPC, on a free port.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub fn grpc() -> io::Result<Self> {
        Self::grpc_on(Self::socket()?)
    }

    /// A socket with an address of its own, on which nothing listens yet.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub fn socket() -> io::Result<TcpSocket> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(socket)
    }

    /// Over gRPC, on a socket from [`Self::socket`].
    ///
    /// # Errors
    ///
    /// The socket cannot be listened on.
    pub fn grpc_on(socket: TcpSocket) -> io::Result<Self> {
        let (listener, services, received) = Self::listening(socket)?;
        let address = listener.local_addr()?;
        let router = Server::builder().add_service(TraceServiceServer::new(services));
        let serving = router.serve_with_incoming(TcpListenerStream::new(listener));
        Ok(Self { address, received, serving: tokio::spawn(async { drop(serving.await) }) })
    }

    /// Over HTTP, on a free port.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub fn http() -> io::Result<Self> {
        let (listener, services, received) = Self::listening(Self::socket()?)?;
        let address = listener.local_addr()?;
        let serving = axum::serve(listener, services::router(services));
        Ok(Self { address, received, serving: tokio::spawn(async { drop(serving.await) }) })
    }

    fn listening(socket: TcpSocket) -> io::Result<(TcpListener, Services, watch::Receiver<Received>)> {
        let (into, received) = watch::channel(Received::default());
        Ok((socket.listen(1024)?, Services::new(into), received))
    }

    /// The endpoint for an exporter.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All spans so far, once there are this many.
    ///
    /// # Panics
    ///
    /// They do not arrive within a minute.
    pub async fn spans(&self, at_least: usize) -> Vec<ReceivedSpan> {
        self.once(|received| (received.spans.len() >= at_least).then(|| received.spans.clone())).await
    }

    /// How many spans arrived so far.
    pub fn count(&self) -> usize {
        self.received.borrow().spans.len()
    }

    async fn once<T>(&self, find: impl Fn(&Received) -> Option<T>) -> T {
        let mut received = self.received.clone();
        let found = async {
            loop {
                if let Some(found) = find(&received.borrow_and_update()) {
                    return found;
                }
                received.changed().await.expect("the collector lives as long as this");
            }
        };
        timeout(TEST_TIMEOUT, found).await.expect("what is expected comes within a minute")
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
