//! The TLS handshake of a connection, limited in time, and why it failed, with the remedy.

use std::{convert::Infallible, fmt, io, sync::Arc, thread, time::Duration};

use futures_util::{
    FutureExt,
    future::{self, BoxFuture},
};
use rustls::{
    AlertDescription as Alert, CertificateError, Error, InvalidMessage, OtherError, PeerIncompatible,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink},
    net::TcpStream,
    runtime::{self, Handle},
    sync::oneshot,
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::task::AbortOnDropHandle;

use super::{NotAllowed, Tls};
use crate::{limit::Address, write_timeout::WriteTimeout};

/// How long a handshake may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a caller may take to read the reason, and how many more bytes it may send.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const MOST_UNREAD: u64 = 1 << 20;
/// webpki's name for a certificate of version 1 or 2. Its errors arrive without their type.
const OLD_VERSION: &str = "UnsupportedCertVersion";
/// The response to HTTP without TLS.
const TLS_REQUIRED: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\
    x-extender-gateway-error: extender-gateway: this address requires TLS\r\n\r\n";

/// The cause of a failed handshake. Each is logged separately, so that one kind of caller does not suppress others
/// in the log. [`TlsCause::remedy`] explains them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum TlsCause {
    /// The caller disconnected without sending anything, like probes of load balancers.
    Gone,
    WithoutTls,
    NotTls,
    Late,
    Version,
    NoCertificate,
    UnknownAuthority,
    Name,
    Time,
    Purpose,
    OldCertificate,
    Certificate,
    /// The caller reports that the gateway's certificate has expired.
    OwnExpired,
    /// The caller does not know the CA of the gateway's certificate.
    OwnAuthority,
    /// The caller rejected the gateway's certificate, for a reason that it does not tell: Go's alert is the same for all.
    NotTrusted,
    Other,
}

/// Why a handshake failed.
#[derive(Debug)]
pub(super) struct TlsRefusal {
    pub cause: TlsCause,
    found: String,
    address: Address,
}

/// A connection whose handshake failed.
pub(super) struct FailedHandshake {
    pub refusal: TlsRefusal,
    /// Sends the reason to the caller and closes, in bounded time; must be awaited.
    pub close: BoxFuture<'static, ()>,
}

impl FailedHandshake {
    fn new(address: Address, cause: TlsCause, found: impl Into<String>) -> Self {
        let refusal = TlsRefusal { cause, found: found.into(), address };
        Self { refusal, close: future::ready(()).boxed() }
    }
}

/// A connection before its handshake.
pub(super) type Transport = WriteTimeout<TcpStream>;

/// The thread of handshakes. One takes half a millisecond of computing before the caller has shown anything; on the thread
/// that serves calls, a flood of them would delay calls.
#[derive(Debug)]
pub(super) struct Handshakes {
    runtime: Handle,
    /// Dropped with it: the thread ends.
    _end: oneshot::Sender<Infallible>,
}

impl Handshakes {
    /// Starts the thread.
    ///
    /// # Panics
    /// The system has no thread left, which only happens to a process that is just starting.
    pub(super) fn start() -> Self {
        let runtime = runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.expect("a runtime without I/O needs nothing of the system");
        let (handle, (end, ended)) = (runtime.handle().clone(), oneshot::channel());
        let thread = thread::Builder::new().name("tls-handshakes".to_owned());
        let started = thread.spawn(move || drop(runtime.block_on(ended)));
        started.expect("a process that starts has a thread left");
        Self { runtime: handle, _end: end }
    }

    /// The handshake of a connection.
    pub(super) async fn run(
        &self,
        tls: Arc<Tls>,
        stream: Transport,
    ) -> Result<TlsStream<Transport>, FailedHandshake> {
        let address = tls.address;
        let handshake = self.runtime.spawn(async move { handshake(&tls, stream).await });
        let handshake = AbortOnDropHandle::new(handshake);
        // A panic is one of the libraries, and this connection's own.
        let interrupted = || FailedHandshake::new(address, TlsCause::Other, "it was interrupted");
        handshake.await.unwrap_or_else(|_| Err(interrupted()))
    }
}

async fn handshake(tls: &Tls, stream: Transport) -> Result<TlsStream<Transport>, FailedHandshake> {
    let late = || format!("it did not complete within {TIMEOUT:?}");
    let accepted = timeout(TIMEOUT, accept(tls, stream)).await;
    accepted.unwrap_or_else(|_| Err(FailedHandshake::new(tls.address, TlsCause::Late, late())))
}

async fn accept(tls: &Tls, stream: Transport) -> Result<TlsStream<Transport>, FailedHandshake> {
    let mut first = [0];
    if matches!(stream.get_ref().peek(&mut first).await, Ok(0) | Err(_)) {
        return Err(FailedHandshake::new(tls.address, TlsCause::Gone, "the caller disconnected"));
    }
    // Methods are uppercase letters, and no TLS record begins with one.
    if first[0].is_ascii_uppercase() {
        let found = format!("the caller speaks HTTP without TLS; {}", remedies_at(tls.address).without_tls);
        let close = close(stream, TLS_REQUIRED).boxed();
        return Err(FailedHandshake {
            close,
            ..FailedHandshake::new(tls.address, TlsCause::WithoutTls, found)
        });
    }
    let acceptor = TlsAcceptor::from(tls.current.load_full());
    acceptor.accept(stream).into_fallible().await.map_err(|(error, stream)| {
        // The alert is already being sent.
        let refusal = TlsRefusal::new(tls.address, &error);
        FailedHandshake { refusal, close: close(stream, b"").boxed() }
    })
}

/// Sends a last message and waits briefly until it is read: closing with unread bytes would reset the connection,
/// and the caller would log that instead of the reason.
async fn close(mut stream: impl AsyncRead + AsyncWrite + Unpin, message: &'static [u8]) {
    let sent = async {
        stream.write_all(message).await?;
        stream.shutdown().await?;
        copy(&mut stream.take(MOST_UNREAD), &mut sink()).await
    };
    let _ = timeout(CLOSE_TIMEOUT, sent).await;
}

impl TlsRefusal {
    fn new(address: Address, error: &io::Error) -> Self {
        let (cause, found) = match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(Error::InvalidCertificate(CertificateError::Other(other))) => cause_of_other(other),
            Some(Error::AlertReceived(alert)) => cause_of_alert(*alert),
            Some(error) => (cause(error), error.to_string()),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                (TlsCause::Other, "the caller ended the connection".to_owned())
            }
            None => (TlsCause::Other, error.to_string()),
        };
        Self { cause, found, address }
    }
}

impl fmt::Display for TlsRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause.remedy(self.address) {
            Some((wrong, remedy)) => write!(out, "{wrong} ({}); {remedy}", self.found),
            None => out.write_str(&self.found),
        }
    }
}

impl TlsCause {
    /// The metric label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::WithoutTls => "without_tls",
            Self::NotTls => "not_tls",
            Self::Late => "late",
            Self::Version => "version",
            Self::NoCertificate => "no_certificate",
            Self::UnknownAuthority => "unknown_authority",
            Self::Name => "name",
            Self::Time => "expired",
            Self::Purpose => "purpose",
            Self::OldCertificate => "old_certificate",
            Self::Certificate => "certificate",
            Self::OwnExpired => "own_certificate_expired",
            Self::OwnAuthority => "own_authority_unknown",
            Self::NotTrusted => "own_certificate_rejected",
            Self::Other => "other",
        }
    }

    /// What is wrong, and the remedy; `None` if the error needs no explanation.
    fn remedy(self, address: Address) -> Option<(String, String)> {
        let (field, Remedies { certificate, authority, host, .. }) = (address.field(), remedies_at(address));
        let (wrong, remedy) = match self {
            Self::NotTls => ("the caller does not speak TLS".to_owned(), "use an https URL".to_owned()),
            Self::Version => (
                "the caller supports no TLS version or cipher of the gateway".to_owned(),
                "it needs TLS 1.2 or 1.3".to_owned(),
            ),
            Self::NoCertificate => {
                ("the caller sent no client certificate".to_owned(), certificate.to_owned())
            }
            Self::UnknownAuthority => (
                format!("the caller's certificate is not signed by a CA in {field}.clientCAFile"),
                "use one that is, or add its CA to that file".to_owned(),
            ),
            Self::Name => (
                format!("the caller's certificate contains none of {field}.allowedNames"),
                "use another certificate, or add its name".to_owned(),
            ),
            Self::Time => (
                "the caller's certificate has expired or is not valid yet".to_owned(),
                "renew it, and check both machines' clocks".to_owned(),
            ),
            Self::Purpose => (
                "the caller's certificate does not allow client authentication".to_owned(),
                "its extended key usage must contain clientAuth".to_owned(),
            ),
            Self::OldCertificate => (
                "the caller's certificate is not X.509 version 3".to_owned(),
                "create one with extensions (openssl x509 -extfile)".to_owned(),
            ),
            Self::Certificate => {
                ("the caller's certificate is invalid".to_owned(), "use another certificate".to_owned())
            }
            Self::OwnExpired => (
                "the gateway's certificate has expired, according to the caller".to_owned(),
                format!("renew {field}.certFile, and check both machines' clocks"),
            ),
            Self::OwnAuthority => (
                "the caller does not know the CA of the gateway's certificate".to_owned(),
                format!("{authority} must contain the CA that signed {field}.certFile"),
            ),
            Self::NotTrusted => (
                "the caller rejected the gateway's certificate".to_owned(),
                format!(
                    "check {authority}, that the certificate contains {host}, and that it has not expired"
                ),
            ),
            Self::Gone | Self::WithoutTls | Self::Late | Self::Other => return None,
        };
        Some((wrong, remedy))
    }
}

/// What callers of an address have to set.
struct Remedies {
    /// So that they speak TLS.
    without_tls: &'static str,
    /// So that they send a certificate.
    certificate: &'static str,
    /// Where they have the CA of the gateway's certificate.
    authority: &'static str,
    /// What the gateway's certificate must contain.
    host: &'static str,
}

fn remedies_at(address: Address) -> Remedies {
    match address {
        Address::Extender => Remedies {
            without_tls: "set enableHTTPS and an https urlPrefix in its configuration",
            certificate: "set certFile and keyFile in the tlsConfig of kube-scheduler's extender, or \
                          extender.tls.clientCertificate: Optional",
            authority: "caFile in the tlsConfig of kube-scheduler's extender, or in the tls of its plugin",
            host: "the host of urlPrefix, or of the plugin's address",
        },
        Address::Metrics => Remedies {
            without_tls: "set scheme https in the scraper's configuration, and scheme HTTPS for probes",
            certificate: "set cert_file and key_file in the scraper's tls_config",
            authority: "ca_file in the scraper's tls_config",
            host: "the host or the server_name of the scraper's configuration",
        },
        Address::Admin => Remedies {
            without_tls: "use an https URL, and --tls-ca",
            certificate: "set --tls-cert and --tls-key",
            authority: "the file of --tls-ca",
            host: "the host of the URL or the name of --tls-server-name",
        },
    }
}

fn cause(error: &Error) -> TlsCause {
    match error {
        Error::NoCertificatesPresented => TlsCause::NoCertificate,
        Error::InvalidCertificate(error) => match error {
            CertificateError::UnknownIssuer => TlsCause::UnknownAuthority,
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => TlsCause::Time,
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                TlsCause::Purpose
            }
            _ => TlsCause::Certificate,
        },
        Error::PeerIncompatible(
            PeerIncompatible::SignatureAlgorithmsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::ExtendedMasterSecretExtensionRequired
            | PeerIncompatible::NoCipherSuitesInCommon
            | PeerIncompatible::NoKxGroupsInCommon
            | PeerIncompatible::NoSignatureSchemesInCommon,
        ) => TlsCause::Version,
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => TlsCause::NotTls,
        _ => TlsCause::Other,
    }
}

fn cause_of_other(error: &OtherError) -> (TlsCause, String) {
    let found = error.to_string();
    let cause = if error.0.is::<NotAllowed>() {
        TlsCause::Name
    } else if found == OLD_VERSION {
        TlsCause::OldCertificate
    } else {
        TlsCause::Certificate
    };
    (cause, found)
}

/// The cause that the caller reports.
fn cause_of_alert(alert: Alert) -> (TlsCause, String) {
    match alert {
        Alert::CertificateExpired => (TlsCause::OwnExpired, format!("{alert:?}")),
        Alert::UnknownCA => (TlsCause::OwnAuthority, format!("{alert:?}")),
        Alert::BadCertificate
        | Alert::CertificateUnknown
        | Alert::CertificateRevoked
        | Alert::UnsupportedCertificate => (TlsCause::NotTrusted, format!("{alert:?}")),
        Alert::ProtocolVersion | Alert::HandshakeFailure | Alert::InsufficientSecurity => {
            (TlsCause::Version, format!("{alert:?}"))
        }
        _ => (TlsCause::Other, format!("the caller rejected the gateway: {alert:?}")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct TestError(&'static str);

    fn other(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        CertificateError::Other(OtherError(Arc::new(error))).into()
    }

    #[test]
    fn every_refusal_has_its_cause_and_its_remedy() {
        let cases = [
            (Error::NoCertificatesPresented, TlsCause::NoCertificate, "clientCertificate: Optional"),
            (
                CertificateError::UnknownIssuer.into(),
                TlsCause::UnknownAuthority,
                "extender.tls.clientCAFile (invalid",
            ),
            (CertificateError::Expired.into(), TlsCause::Time, "renew it"),
            (CertificateError::InvalidPurpose.into(), TlsCause::Purpose, "must contain clientAuth"),
            (
                CertificateError::BadSignature.into(),
                TlsCause::Certificate,
                "(invalid peer certificate: BadSignature)",
            ),
            (
                other(NotAllowed(vec!["a".into(), "b".into()])),
                TlsCause::Name,
                "allowedNames (it has the names [a, b]); ",
            ),
            (other(TestError(OLD_VERSION)), TlsCause::OldCertificate, "-extfile"),
            (other(TestError("what else")), TlsCause::Certificate, "invalid (what else); use another"),
            (PeerIncompatible::Tls12NotOffered.into(), TlsCause::Version, "TLS 1.2 or 1.3"),
            (InvalidMessage::InvalidContentType.into(), TlsCause::NotTls, "an https URL"),
            (
                Error::AlertReceived(Alert::UnknownCA),
                TlsCause::OwnAuthority,
                "certificate (UnknownCA); caFile in",
            ),
            (
                Error::AlertReceived(Alert::CertificateExpired),
                TlsCause::OwnExpired,
                "(CertificateExpired); renew extender.tls.certFile",
            ),
            (
                Error::AlertReceived(Alert::BadCertificate),
                TlsCause::NotTrusted,
                "certificate (BadCertificate); check caFile in",
            ),
            (Error::AlertReceived(Alert::HandshakeFailure), TlsCause::Version, "(HandshakeFailure)"),
            (Error::AlertReceived(Alert::ProtocolVersion), TlsCause::Version, "(ProtocolVersion)"),
            (Error::AlertReceived(Alert::DecodeError), TlsCause::Other, "rejected the gateway: DecodeError"),
            (Error::DecryptError, TlsCause::Other, "cannot decrypt peer's message"),
        ];
        for (error, cause, text) in cases {
            let error = io::Error::new(io::ErrorKind::InvalidData, error);
            let refusal = TlsRefusal::new(Address::Extender, &error);
            assert_eq!(refusal.cause, cause, "{refusal}");
            assert!(refusal.to_string().contains(text), "{refusal}");
        }
    }

    #[test]
    fn the_remedy_is_one_of_the_address() {
        for (address, text) in [
            (
                Address::Metrics,
                "; ca_file in the scraper's tls_config must contain the CA that signed metrics.tls.certFile",
            ),
            (Address::Admin, "; the file of --tls-ca must contain the CA that signed admin.tls.certFile"),
        ] {
            let error = io::Error::new(io::ErrorKind::InvalidData, Error::AlertReceived(Alert::UnknownCA));
            let told = TlsRefusal::new(address, &error).to_string();
            assert!(told.ends_with(text), "{told}");
        }
    }

    #[test]
    fn errors_of_the_system_are_kept() {
        let refusal = |error| TlsRefusal::new(Address::Extender, &error);
        let ended = refusal(io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof"));
        assert_eq!(ended.to_string(), "the caller ended the connection");
        let reset = refusal(io::Error::from(io::ErrorKind::ConnectionReset));
        assert_eq!(reset.to_string(), "connection reset");
    }
}
