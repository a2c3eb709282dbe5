//! Serves the addresses: calls with a shutdown that loses none, and the pages of metrics and admin.
//!
//! A caller that has sent a request on an idle connection while that closes does not send it again: the call fails.
//! So the shutdown has two steps. For a while every HTTP/1.1 response asks the caller to close the connection and
//! reconnect, which leads to another replica once the gateway is no longer ready; then idle connections are closed.
//! In HTTP/2 the second step is enough, since it tells which calls were accepted.

use std::{
    hash::RandomState,
    io, net,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use http::Request;
use hyper::{
    body::Incoming,
    service::{Service, service_fn},
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    net::TcpListener,
    sync::watch,
    time::{error::Elapsed, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    Door,
    accept::{Accept, Accepted},
    answer::HeldBody,
    connection::{Host, http1},
    limit::Address,
    tls::{Handshakes, Tls},
    write_timeout::WriteTimeout,
};
use crate::observe::{Metrics, RateLimitedLog};

/// How long new calls are accepted after a stop signal, until callers have switched to another replica.
const ACCEPTED_AFTER_STOP: Duration = Duration::from_secs(3);
/// How long connections that never sent a call may take then. HTTP/2 connections that were negotiated and have not
/// started do not learn that they should end.
const SILENT: Duration = Duration::from_secs(1);
/// How long a request for a page may take until its response begins, including its body.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

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

/// Serves until 3 seconds after `stop` ends, then finishes the calls in progress, for as long as the configuration's
/// longest budget allows them to take, and at most `timeouts.shutdown`.
pub async fn serve(entrance: impl Into<Entrance>, door: Arc<Door>, stop: impl Future<Output = ()>) {
    let Entrance { listener, tls } = entrance.into();
    let host = Host {
        door,
        tls: tls.clone().map(|tls| (tls, Handshakes::start())),
        draining: AtomicBool::new(false),
        refused: RateLimitedLog::default(),
        certificates: RandomState::new(),
    };
    // A task of its own, which is polled between those of connections.
    let door = Arc::clone(&host.door);
    let _turns = AbortOnDropHandle::new(tokio::spawn(async move { door.turns.begin_calls().await }));
    tokio::select! {
        () = serve_until(listener, Arc::new(host), stop) => {}
        () = follow(tls) => {}
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
    let (ends, ending) = watch::channel(());
    let accept = Accept::new(listener, Address::Extender, Arc::clone(&host.door.observer.metrics));
    let serve = |accepted| Arc::clone(&host).serve(accepted, ending.clone());
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

/// Serves these routes indefinitely; returns the error that ended it. Probes, scrapers and curl need only HTTP/1.1.
pub(crate) async fn pages(
    listener: net::TcpListener,
    address: Address,
    (routes, metrics): (Router, Arc<Metrics>),
) -> io::Error {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return error,
    };
    let accept = Accept::new(listener, address, metrics);
    accept.until(std::future::pending(), |accepted| serve_pages(accepted, address, routes.clone())).await;
    io::Error::other("it accepts no more")
}

async fn serve_pages(accepted: Accepted, address: Address, routes: Router) {
    let Accepted { stream, caller, slot } = accepted;
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |request: Request<Incoming>| {
        let in_progress = slot.request();
        let awaited = in_progress.awaits_body();
        let answer = routes.call(request.map(|body| HeldBody::new(body, awaited)));
        async move {
            let answer = timeout(PAGE_TIMEOUT, answer).await?.unwrap_or_else(|never| match never {});
            Ok::<_, Elapsed>(answer.map(|body| HeldBody::new(body, in_progress.answers())))
        }
    });
    let stream = WriteTimeout::new(stream, address.answer_timeout());
    let served = http1().serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%caller, "connection closed by an error: {error}");
    }
}
