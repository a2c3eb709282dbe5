//! The beginning of a connection with TLS, bounded in time.

use std::{io, time::Duration};

use rustls::{CertificateError, Error};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, sink},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::server::TlsStream;

use super::Tls;
use crate::door::patience::{Patient, patient};

/// How long a handshake may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a caller without TLS may take to read the answer.
const REFUSAL: Duration = Duration::from_secs(1);

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
    #[error("{}", said(.0))]
    Failed(io::Error),
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
            refuse(stream).await;
            Err(HandshakeError::WithoutTls)
        }
        Ok(_) => tls.acceptor().accept(patient(stream)).await.map_err(HandshakeError::Failed),
    }
}

/// Answers in plain HTTP, as far as it goes: the caller is gone either way.
async fn refuse(mut stream: TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\
        x-extender-gateway-error: extender-gateway: this address speaks TLS\r\n\r\n";
    let answered = async {
        stream.write_all(ANSWER).await?;
        stream.shutdown().await?;
        // Closed with bytes unread, the connection would be reset and the answer be lost.
        copy(&mut stream.take(1 << 20), &mut sink()).await
    };
    let _ = timeout(REFUSAL, answered).await;
}

/// The text of the cause, without the frames that it came in.
fn said(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(Error::InvalidCertificate(CertificateError::Other(other))) => other.to_string(),
        Some(Error::AlertReceived(alert)) => format!("the caller does not accept the gateway: {alert:?}"),
        Some(error) => error.to_string(),
        None => error.to_string(),
    }
}
