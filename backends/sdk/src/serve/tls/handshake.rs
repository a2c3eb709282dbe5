//! The TLS handshake of a connection, limited in time, and why it failed, with the remedy.

use std::{io, sync::PoisonError, time::Duration};

use rustls::{AlertDescription as Alert, CertificateError, Error, PeerIncompatible};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::Tls;

/// How long a handshake may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The connection after the handshake; `None` if it failed, which is logged.
pub(in crate::serve) async fn handshake(tls: &Tls, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    let acceptor = TlsAcceptor::from(tls.current.load_full());
    let failure = match timeout(TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => failure(&error)?,
        Err(_) => format!("the client did not complete it within {TIMEOUT:?}"),
    };
    // Nothing that can panic runs under the lock.
    if tls.failed.lock().unwrap_or_else(PoisonError::into_inner).may_log() {
        tracing::warn!("a TLS handshake failed: {failure}");
    }
    None
}

/// Why a handshake failed; `None` for a client that sends nothing, such as a probe of a load balancer.
fn failure(error: &io::Error) -> Option<String> {
    let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        let gone = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset].contains(&error.kind());
        return (!gone).then(|| error.to_string());
    };
    let remedy = remedy(inner).map(|remedy| format!("; {remedy}")).unwrap_or_default();
    Some(format!("{inner}{remedy}"))
}

fn remedy(error: &Error) -> Option<&'static str> {
    match error {
        Error::InvalidMessage(_) => {
            Some("the client does not speak TLS: use an https URL and tls.caFile in the gateway's entry")
        }
        Error::NoCertificatesPresented => {
            Some("the gateway's entry of this backend needs tls.certFile and tls.keyFile")
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            Some("the client's certificate is not signed by a CA in --tls-client-ca: use one that is")
        }
        Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => Some("renew the client's certificate, and check the clocks of both machines"),
        Error::InvalidCertificate(CertificateError::InvalidPurpose) => {
            Some("the extended key usage of the client's certificate must contain clientAuth")
        }
        Error::AlertReceived(Alert::UnknownCA) => {
            Some("the client does not know the CA of --tls-cert: set tls.caFile in the gateway's entry")
        }
        Error::AlertReceived(Alert::CertificateExpired) => {
            Some("renew --tls-cert, and check the clocks of both machines")
        }
        Error::AlertReceived(Alert::BadCertificate | Alert::CertificateUnknown) => Some(
            "the client rejects --tls-cert: it needs the name in the URL of the gateway's entry, or tls.serverName \
             there",
        ),
        Error::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon) => None,
        Error::PeerIncompatible(_) => Some("the client needs TLS 1.2 or 1.3"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_to_do() {
        let said = |error| failure(&io::Error::new(io::ErrorKind::InvalidData, error)).unwrap();
        for (error, part) in [
            (Error::NoCertificatesPresented, "needs tls.certFile and tls.keyFile"),
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), "CA in --tls-client-ca"),
            (Error::AlertReceived(Alert::UnknownCA), "set tls.caFile in the gateway's entry"),
            (Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType), "use an https URL"),
        ] {
            let said = said(error);
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(failure(&io::ErrorKind::UnexpectedEof.into()), None);
    }
}
