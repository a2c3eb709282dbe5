//! The beginning of a connection with TLS, bounded in time.

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
/// How long a caller may take to read why it is refused, and how many bytes it may still send.
const FAREWELL: Duration = Duration::from_secs(1);
const MOST_UNREAD: u64 = 1 << 20;

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
pub(in crate::door) enum HandshakeError {
    /// The caller went before it had said anything, as probes of load balancers do.
    #[error("the caller went away")]
    Gone,
    /// The caller speaks HTTP without TLS.
    #[error(
        "the caller speaks HTTP without TLS; set enableHTTPS and an https urlPrefix in its configuration"
    )]
    WithoutTls,
    /// It took too long.
    #[error("it was not complete within {PATIENCE:?}")]
    Late,
    /// The caller's TLS and ours do not go together, one of the certificates included.
    #[error("{0}")]
    Failed(TlsRefusal),
}

impl HandshakeError {
    /// What lines of the log are counted by.
    pub(in crate::door) fn cause(&self) -> TlsCause {
        match self {
            Self::Gone => TlsCause::Gone,
            Self::WithoutTls => TlsCause::WithoutTls,
            Self::Late => TlsCause::Late,
            Self::Failed(refusal) => refusal.cause,
        }
    }
}

/// A connection that did not come about.
pub(in crate::door) struct FailedHandshake {
    pub(in crate::door) error: HandshakeError,
    /// Tells the caller, in bounded time; to be awaited.
    pub(in crate::door) farewell: BoxFuture<'static, ()>,
}

impl From<HandshakeError> for FailedHandshake {
    fn from(error: HandshakeError) -> Self {
        Self { error, farewell: future::ready(()).boxed() }
    }
}

/// Makes a connection with TLS of one without.
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
        // Methods are written in capitals, and no record of TLS begins like that.
        Ok(_) if first[0].is_ascii_uppercase() => Err(FailedHandshake {
            error: HandshakeError::WithoutTls,
            farewell: farewell(stream, PLAIN).boxed(),
        }),
        Ok(_) => tls.acceptor().accept(patient(stream)).into_fallible().await.map_err(|(error, stream)| {
            // The alert is under way already.
            let error = HandshakeError::Failed(TlsRefusal::from(&error));
            FailedHandshake { error, farewell: farewell(stream, b"").boxed() }
        }),
    }
}

/// The answer to HTTP without TLS.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\
    x-extender-gateway-error: extender-gateway: this address speaks TLS\r\n\r\n";

/// Says a last word and waits, not for long, until it is read: closed with bytes unread, the connection would
/// be reset, and the caller's log would have that instead of the reason.
async fn farewell(mut stream: impl AsyncRead + AsyncWrite + Unpin, word: &'static [u8]) {
    let said = async {
        stream.write_all(word).await?;
        stream.shutdown().await?;
        copy(&mut stream.take(MOST_UNREAD), &mut sink()).await
    };
    let _ = timeout(FAREWELL, said).await;
}
