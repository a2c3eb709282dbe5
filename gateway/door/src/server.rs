//! Serves calls, with a shutdown that loses none.
//!
//! A caller that has sent a request on an idle connection while that closes does not send it again: the call fails.
//! So the shutdown has two steps. For a while every HTTP/1.1 response asks the caller to close the connection and
//! reconnect, which leads to another replica once the gateway is no longer ready; then idle connections are closed.
//! In HTTP/2 the second step is enough, since it tells which calls were accepted.

use std::{
    hash::RandomState,
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt as _,
    future::{OptionFuture, join},
};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::watch,
    time::sleep,
};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::{
    Door,
    accept::{Accept, Accepted, Listening},
    connection::Host,
    limit::Address,
    tls::{Acceptor, Tls, follow},
};

/// How long new calls are accepted after a stop signal, until callers have switched to another replica.
const ACCEPTED_AFTER_STOP: Duration = Duration::from_secs(3);
/// How long connections that never sent a call may take then. HTTP/2 connections that were negotiated and have not
/// started do not learn that they should end.
const SILENT: Duration = Duration::from_secs(1);

/// An address for calls.
#[derive(Debug)]
pub struct Entrance {
    /// The listening socket.
    pub listener: TcpListener,
    /// The TLS settings; `None` without TLS.
    pub tls: Option<Arc<Tls>>,
    /// The socket for kube-scheduler's plugin, which speaks HTTP/2 without TLS.
    pub socket: Option<UnixListener>,
}

impl From<TcpListener> for Entrance {
    /// Without TLS.
    fn from(listener: TcpListener) -> Self {
        Self { listener, tls: None, socket: None }
    }
}

/// Serves until 3 seconds after `stop` ends, then finishes the calls in progress, for as long as the configuration's
/// longest budget allows them to take, and at most `timeouts.shutdown`.
pub async fn serve(entrance: impl Into<Entrance>, door: Arc<Door>, stop: impl Future<Output = ()>) {
    let Entrance { listener, tls, socket } = entrance.into();
    let acceptor = tls.clone().map(|tls| Acceptor::start(tls, Arc::clone(&door.observer.metrics)));
    // A task of its own, which is polled between those of connections.
    let turns = Arc::clone(&door);
    let turns = AbortOnDropHandle::new(tokio::spawn(async move { turns.turns.begin_calls().await }));
    let host = |acceptor| {
        let (door, draining) = (Arc::clone(&door), AtomicBool::new(false));
        Arc::new(Host { door, acceptor, draining, certificates: RandomState::new() })
    };
    let stop = stop.shared();
    let at_address = serve_until(Listening::Tcp(listener), host(acceptor), stop.clone());
    let at_socket = socket.map(|socket| serve_until(Listening::Unix(socket), host(None), stop));
    tokio::select! {
        ((), _) = join(at_address, OptionFuture::from(at_socket)) => {}
        () = follow(tls) => {}
        // Without it calls would wait forever.
        ended = turns => match ended {
            Ok(never) => match never {},
            Err(ended) => resume_unwind(ended.into_panic()),
        },
    }
}

async fn serve_until(listener: Listening, host: Arc<Host>, stop: impl Future<Output = ()>) {
    let (ends, ending) = watch::channel(());
    let accept = Accept::new(listener, Address::Extender, Arc::clone(&host.door.observer.metrics));
    let serve = |accepted: Accepted| {
        let span = tracing::debug_span!("connection", peer = %accepted.caller);
        Arc::clone(&host).serve(accepted, ending.clone()).instrument(span)
    };
    accept.until(stop, serve).await;
    host.draining.store(true, Ordering::Relaxed);
    accept.until(sleep(ACCEPTED_AFTER_STOP), serve).await;
    let limit = accept.close();
    let silent = async {
        sleep(SILENT).await;
        limit.close_silent(Duration::ZERO);
        std::future::pending::<()>().await;
    };
    // The latest configuration that could have begun a call.
    let drain = host.door.served.load().config.timeouts.drain();
    drop(ending);
    ends.send_replace(());
    tokio::select! {
        () = ends.closed() => {}
        () = silent => {}
        () = sleep(drain) => tracing::warn!("calls still in progress after {drain:?} are canceled"),
    }
}
