//! The TLS handshake of a connection, limited in time.

use std::time::Duration;

use futures_util::{
    FutureExt,
    future::{self, BoxFuture},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::server::TlsStream;

use super::{
    Tls,
    refusal::{TlsCause, TlsRefusal},
};
use crate::door::write_timeout::{Patient, patient};

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a caller may take to read the reason, and how many more bytes it may send.
const FAREWELL: Duration = Duration::from_secs(1);
const MOST_UNREAD: u64 = 1 << 20;

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::door) enum HandshakeError {
    /// The caller disconnected without sending anything, like probes of load balancers.
    #[error("the caller disconnected")]
    Gone,
    /// The caller uses HTTP without TLS.
    #[error(
        "the caller speaks HTTP without TLS; set enableHTTPS and an https urlPrefix in its configuration"
    )]
    WithoutTls,
    /// It took too long.
    #[error("it did not complete within {PATIENCE:?}")]
    Late,
    /// The TLS handshake failed, including invalid certificates.
    #[error("{0}")]
    Failed(TlsRefusal),
}

impl HandshakeError {
    /// The key of log lines.
    pub(in crate::door) fn cause(&self) -> TlsCause {
        match self {
            Self::Gone => TlsCause::Gone,
            Self::WithoutTls => TlsCause::WithoutTls,
            Self::Late => TlsCause::Late,
            Self::Failed(refusal) => refusal.cause,
        }
    }
}

/// A failed connection.
pub(in crate::door) struct FailedHandshake {
    pub(in crate::door) error: HandshakeError,
    /// Sends the reason to the caller, in bounded time; must be awaited.
    pub(in crate::door) farewell: BoxFuture<'static, ()>,
}

impl From<HandshakeError> for FailedHandshake {
    fn from(error: HandshakeError) -> Self {
        Self { error, farewell: future::ready(()).boxed() }
    }
}

/// Performs the TLS handshake on a connection.
pub(in crate::door) async fn handshake(
    tls: &Tls,
    stream: TcpStream,
) -> Result<TlsStream<Patient>, FailedHandshake> {
    timeout(PATIENCE, begin(tls, stream)).await.unwrap_or(Err(HandshakeError::Late.into()))
}

async fn begin(tls: &Tls, stream: TcpStream) -> Result<TlsStream<Patient>, FailedHandshake> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(0) | Err(_) => Err(HandshakeError::Gone.into()),
        // Methods are uppercase letters, and no TLS record begins with one.
        Ok(_) if first[0].is_ascii_uppercase() => Err(FailedHandshake {
            error: HandshakeError::WithoutTls,
            farewell: farewell(stream, PLAIN).boxed(),
        }),
        Ok(_) => tls.acceptor().accept(patient(stream)).into_fallible().await.map_err(|(error, stream)| {
            // The alert is already being sent.
            let error = HandshakeError::Failed(TlsRefusal::from(&error));
            FailedHandshake { error, farewell: farewell(stream, b"").boxed() }
        }),
    }
}

/// The response to HTTP without TLS.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\
    x-extender-gateway-error: extender-gateway: this address requires TLS\r\n\r\n";

/// Sends a last message and waits briefly until it is read: closing with unread bytes would reset the connection,
/// and the caller would log that instead of the reason.
async fn farewell(mut stream: impl AsyncRead + AsyncWrite + Unpin, word: &'static [u8]) {
    let said = async {
        stream.write_all(word).await?;
        stream.shutdown().await?;
        copy(&mut stream.take(MOST_UNREAD), &mut sink()).await
    };
    let _ = timeout(FAREWELL, said).await;
}
