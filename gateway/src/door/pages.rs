//! Serves the pages of the metrics and the admin address, under the same limits as the door.

use std::{io, net::TcpListener as Bound, sync::Arc, time::Duration};

use axum::Router;
use http::Request;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::TcpListener,
    time::{error::Elapsed, timeout},
};

use super::{
    accept::{Accept, Accepted, IDLE, LARGEST_HEAD},
    held::HeldBody,
    limit::Address,
    write_timeout::patient,
};
use crate::observe::Metrics;

/// How long a request may take until its response begins, including its body.
const REQUEST: Duration = Duration::from_secs(30);

/// Serves these routes indefinitely; returns the error that ended it. Probes, scrapers and curl need only HTTP/1.1.
pub(crate) async fn pages(
    listener: Bound,
    address: Address,
    (routes, metrics): (Router, Arc<Metrics>),
) -> io::Error {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return error,
    };
    let accept = Accept::new(listener, address, metrics);
    accept.until(std::future::pending(), |accepted| connection(accepted, routes.clone())).await;
    io::Error::other("it accepts no more")
}

async fn connection(accepted: Accepted, routes: Router) {
    let Accepted { stream, caller, slot } = accepted;
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |request: Request<Incoming>| {
        let under_way = slot.request();
        let awaited = under_way.awaits_body();
        let answer = routes.call(request.map(|body| HeldBody::new(body, awaited)));
        async move {
            let answer = timeout(REQUEST, answer).await?.unwrap_or_else(|never| match never {});
            Ok::<_, Elapsed>(answer.map(|body| HeldBody::new(body, under_way)))
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_header_size(LARGEST_HEAD as usize)
        .serve_connection(TokioIo::new(patient(stream)), service);
    if let Err(error) = served.await {
        tracing::debug!(%caller, "connection closed by an error: {error}");
    }
}
