//! Accepts the connections of an address, and reports those whose handshakes fail.

use std::{net::SocketAddr, sync::Arc};

use extender_gateway_observe::Metrics;
use extender_gateway_pace::rate_limited_log::RateLimitedLog;
use tokio_rustls::server::TlsStream;

use super::{
    Tls,
    handshake::{Handshakes, TlsCause, TlsRefusal, Transport},
};

/// TLS of an address, with a thread for its handshakes.
#[derive(Debug)]
pub(crate) struct Acceptor {
    tls: Arc<Tls>,
    handshakes: Handshakes,
    metrics: Arc<Metrics>,
    /// Limits log lines about failed handshakes, by cause.
    refused: RateLimitedLog<TlsCause>,
}

impl Acceptor {
    /// Starts the thread.
    pub(crate) fn start(tls: Arc<Tls>, metrics: Arc<Metrics>) -> Self {
        Self { tls, handshakes: Handshakes::start(), metrics, refused: RateLimitedLog::default() }
    }

    /// The connection after its handshake; `None` after a failed one, whose caller was told why.
    pub(crate) async fn accept(&self, stream: Transport, caller: SocketAddr) -> Option<TlsStream<Transport>> {
        match self.handshakes.run(Arc::clone(&self.tls), stream).await {
            Ok(stream) => Some(stream),
            Err(failed) => {
                self.metrics.process().tls_handshake_failures.add([failed.refusal.cause.label()], 1);
                self.log(&failed.refusal, caller);
                failed.close.await;
                None
            }
        }
    }

    fn log(&self, refusal: &TlsRefusal, caller: SocketAddr) {
        if refusal.cause == TlsCause::Gone {
            tracing::debug!(%caller, "TLS handshake failed: {refusal}");
        } else if let Some(similar) = self.refused.permit_of(refusal.cause) {
            let address = self.tls.address.as_str();
            tracing::warn!(address, %caller, similar, "TLS handshake failed: {refusal}");
        }
    }
}
