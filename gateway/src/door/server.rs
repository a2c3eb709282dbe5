//! Accepts connections, and shuts down.
//!
//! A caller that has sent a request on an idle connection while that closes does not send it again: the call fails.
//! So the shutdown has two steps. For a while every HTTP/1.1 response asks the caller to close the connection and
//! reconnect, which leads to another replica once the gateway is no longer ready; then idle connections are closed.
//! In HTTP/2 the second step is enough, since it tells which calls were accepted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper_util::server::graceful::GracefulShutdown;
use tokio::{net::TcpListener, time::sleep};

use super::{Door, accept::Accept, connection::Host, limit::Address, tls::Tls};
use crate::observe::SeldomEach;

/// How long new calls are accepted after a stop signal, until callers have switched to another replica.
const LEAVE: Duration = Duration::from_secs(3);
/// How long connections that never sent a call may take then. HTTP/2 connections that were negotiated and have not
/// started do not learn that they should end.
const SILENT: Duration = Duration::from_secs(1);
/// How long calls in progress may take during the shutdown.
const DRAIN: Duration = Duration::from_secs(10);

/// An address for calls.
#[derive(Debug)]
pub struct Entrance {
    /// The listening socket.
    pub listener: TcpListener,
    /// The TLS settings; `None` without TLS.
    pub tls: Option<Arc<Tls>>,
}

impl From<TcpListener> for Entrance {
    /// Without TLS.
    fn from(listener: TcpListener) -> Self {
        Self { listener, tls: None }
    }
}

/// Serves until 3 seconds after `stop` ends, then finishes the calls in progress, in at most 10 seconds.
pub async fn serve(entrance: impl Into<Entrance>, door: Arc<Door>, stop: impl Future<Output = ()>) {
    let Entrance { listener, tls } = entrance.into();
    let followed = tls.clone();
    let host = Host { door, tls, leaving: AtomicBool::new(false), refused: SeldomEach::default() };
    tokio::select! {
        () = serve_until(listener, Arc::new(host), stop) => {}
        () = follow(followed) => {}
    }
}

/// Reloads the certificates when their files change.
async fn follow(tls: Option<Arc<Tls>>) {
    match tls {
        Some(tls) => match tls.follow().await {},
        None => std::future::pending().await,
    }
}

async fn serve_until(listener: TcpListener, host: Arc<Host>, stop: impl Future<Output = ()>) {
    let connections = GracefulShutdown::new();
    let accept = Accept::new(listener, Address::Extender, Arc::clone(&host.door.observer.metrics));
    let serve = |accepted| Arc::clone(&host).serve(accepted, connections.watcher());
    accept.until(stop, serve).await;
    host.leaving.store(true, Ordering::Relaxed);
    accept.until(sleep(LEAVE), serve).await;
    let limit = accept.close();
    let silent = async {
        sleep(SILENT).await;
        limit.close_silent(Duration::ZERO);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = connections.shutdown() => {}
        () = silent => {}
        () = sleep(DRAIN) => tracing::warn!("calls still in progress after {DRAIN:?} are canceled"),
    }
}
