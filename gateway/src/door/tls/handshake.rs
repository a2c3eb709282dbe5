//! The beginning of a connection with TLS, bounded in time.

use std::time::Duration;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::server::TlsStream;

use super::{
    Tls,
    refusal::{Cause, Refusal},
};
use crate::door::patience::{Patient, patient};

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
    Failed(Refusal),
}

impl HandshakeError {
    /// What lines of the log are counted by.
    pub(in crate::door) fn cause(&self) -> Cause {
        match self {
            Self::Gone => Cause::Gone,
            Self::WithoutTls => Cause::WithoutTls,
            Self::Late => Cause::Late,
            Self::Failed(refusal) => refusal.cause,
        }
    }
}

/// Makes a connection with TLS of one without.
pub(in crate::door) async fn handshake(
    tls: &Tls,
    stream: TcpStream,
) -> Result<TlsStream<Patient>, HandshakeError> {
    timeout(PATIENCE, begin(tls, stream)).await.unwrap_or(Err(HandshakeError::Late))
}

async fn begin(tls: &Tls, stream: TcpStream) -> Result<TlsStream<Patient>, HandshakeError> {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(0) | Err(_) => Err(HandshakeError::Gone),
        // Methods are written in capitals, and no record of TLS begins like that.
        Ok(_) if first[0].is_ascii_uppercase() => {
            tokio::spawn(farewell(stream, PLAIN));
            Err(HandshakeError::WithoutTls)
        }
        Ok(_) => tls.acceptor().accept(patient(stream)).into_fallible().await.map_err(|(error, stream)| {
            // The alert is under way already.
            tokio::spawn(farewell(stream, b""));
            HandshakeError::Failed(Refusal::from(&error))
        }),
    }
}

/// The answer to HTTP without TLS.
const PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\
    x-extender-gateway-error: extender-gateway: this address speaks TLS\r\n\r\n";

/// Says a last word and waits, not for long, until it is read: closed with bytes unread, the connection would
/// be reset, and the caller's log would have that instead of the reason.
async fn farewell(mut stream: impl AsyncRead + AsyncWrite + Unpin, word: &[u8]) {
    let said = async {
        stream.write_all(word).await?;
        stream.shutdown().await?;
        copy(&mut stream.take(MOST_UNREAD), &mut sink()).await
    };
    let _ = timeout(FAREWELL, said).await;
}
