//! Serves the pages of the metrics and the admin address.

use std::{io, net, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use extender_gateway_observe::Metrics;
use http::{HeaderValue, Request, Response, header};
use hyper::{
    body::{Body, Incoming},
    service::{Service, service_fn},
};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    time::{Instant, error::Elapsed, timeout},
};
use tokio_util::either::Either;

use super::{
    accept::{Accept, Accepted, Listening},
    answer::HeldBody,
    connection::{LARGEST_AGE, http1},
    limit::{Address, ConnectionSlot},
    tls::{Acceptor, Tls, certificate_name, follow},
    write_timeout::WriteTimeout,
};

/// How long a request for a page may take until its response begins, including its body.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// What the metrics or the admin address serves.
#[derive(Debug)]
pub struct Pages {
    /// Accepts its connections.
    pub listener: net::TcpListener,
    /// Which of the two it is.
    pub address: Address,
    /// `None`: plain HTTP.
    pub tls: Option<Arc<Tls>>,
    /// They find a [`PageCaller`] in the extensions of each request.
    pub routes: Router,
}

/// The caller of a page.
#[derive(Debug, Clone)]
pub struct PageCaller {
    /// Its address and port.
    pub address: SocketAddr,
    /// The name in the client certificate of its connection, which then has been verified.
    pub certificate: Option<Arc<str>>,
}

impl Pages {
    /// Serves indefinitely; returns the error that ended it. Probes, scrapers and curl need only HTTP/1.1.
    pub async fn serve(self, metrics: Arc<Metrics>) -> io::Error {
        let Self { listener, address, tls, routes } = self;
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return error,
        };
        let acceptor = tls.clone().map(|tls| Acceptor::start(tls, Arc::clone(&metrics)));
        let host = Arc::new(PageHost { address, routes, acceptor });
        let accept = Accept::new(Listening::Tcp(listener), address, metrics);
        tokio::select! {
            () = accept.until(std::future::pending(), |accepted| Arc::clone(&host).serve(accepted)) => {}
            () = follow(tls) => {}
        }
        io::Error::other("it accepts no more")
    }
}

/// The data shared by the connections of an address.
struct PageHost {
    address: Address,
    routes: Router,
    acceptor: Option<Acceptor>,
}

impl PageHost {
    /// Serves a connection to its end.
    async fn serve(self: Arc<Self>, accepted: Accepted) {
        let Accepted { stream, caller, slot } = accepted;
        // They have IP addresses.
        let Either::Left(stream) = stream else { return };
        let stream = WriteTimeout::new(stream, self.address.answer_timeout());
        let plain = PageCaller { address: caller, certificate: None };
        let Some(acceptor) = &self.acceptor else { return self.answer(stream, plain, slot).await };
        if let Some(stream) = acceptor.accept(stream, caller).await {
            let chain = stream.get_ref().1.peer_certificates();
            let certificate =
                chain.and_then(|chain| chain.first()).map(|first| certificate_name(first).into());
            self.answer(stream, PageCaller { certificate, ..plain }, slot).await;
        }
    }

    async fn answer<S>(&self, stream: S, caller: PageCaller, slot: ConnectionSlot)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let routes = TowerToHyperService::new(self.routes.clone());
        // So that a certificate authority that was removed counts.
        let old_at = caller.certificate.is_some().then(|| Instant::now() + LARGEST_AGE);
        let address = caller.address;
        let service = service_fn(move |mut request: Request<Incoming>| {
            let in_progress = slot.request();
            let awaited = in_progress.awaits_body();
            request.extensions_mut().insert(caller.clone());
            let answer = routes.call(request.map(|body| HeldBody::new(body, awaited)));
            async move {
                let answer = timeout(PAGE_TIMEOUT, answer).await?.unwrap_or_else(|never| match never {});
                let answer = last_after(old_at, answer);
                Ok::<_, Elapsed>(answer.map(|body| HeldBody::new(body, in_progress.answers())))
            }
        });
        let served = http1().serve_connection(TokioIo::new(stream), service);
        if let Err(error) = served.await {
            tracing::debug!(caller = %address, "connection closed by an error: {error}");
        }
    }
}

/// The response, which asks the caller to connect again if the connection is old.
fn last_after<B: Body>(old_at: Option<Instant>, mut response: Response<B>) -> Response<B> {
    if old_at.is_some_and(|old_at| Instant::now() >= old_at) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body as Empty;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_certificate_ends_when_it_is_old() {
        let asks =
            |old_at| last_after(old_at, Response::new(Empty::empty())).headers().contains_key("connection");
        let old_at = Some(Instant::now() + LARGEST_AGE);
        assert!(!asks(old_at));
        advance(LARGEST_AGE).await;
        assert!(asks(old_at) && !asks(None));
    }
}
