//! Accepts connections and speaks HTTP/1.1 on them.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};

use super::Door;

/// How long a connection may go without a complete request head. More than the 90 seconds for which
/// kube-scheduler keeps idle connections: a connection that closes while a request is on its way fails that
/// request.
const IDLE: Duration = Duration::from_mins(2);
/// The pause after a failed accept, which is most often a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// How long calls that are under way may take when the gateway stops.
const DRAIN: Duration = Duration::from_secs(10);

/// Serves until `stop` ends, then finishes the calls that are under way.
pub async fn serve(listener: TcpListener, door: Arc<Door>, stop: impl Future<Output = ()>) {
    let connections = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, caller)) => {
                    let connection = connections.watcher();
                    serve_connection((stream, caller), Arc::clone(&door), connection);
                }
                Err(error) => not_accepted(&error).await,
            },
            () = &mut stop => break,
        }
    }
    drop(listener);
    tokio::select! {
        () = connections.shutdown() => {}
        () = sleep(DRAIN) => tracing::warn!("calls are still under way after {DRAIN:?}; they are cut off"),
    }
}

async fn not_accepted(error: &io::Error) {
    tracing::warn!("a connection could not be accepted: {error}");
    sleep(PAUSE).await;
}

fn serve_connection((stream, caller): (TcpStream, SocketAddr), door: Arc<Door>, connection: Watcher) {
    // Without it a small answer waits for the acknowledgement of an earlier one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY could not be set: {error}");
    }
    let service = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(door.call(request, caller).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), service);
    let served = connection.watch(served);
    tokio::spawn(async move {
        if let Err(error) = served.await {
            tracing::debug!("a connection ended early: {error}");
        }
    });
}
