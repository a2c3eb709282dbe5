//! Why TLS with a caller did not come about, in words that say what to set right.

use std::{fmt, io};

use rustls::{
    AlertDescription as Alert, CertificateError, Error, InvalidMessage, OtherError, PeerIncompatible,
};

use super::clients::NotAllowed;

/// What webpki calls a certificate of version 1 or 2. Its errors come without their type.
const OLD_VERSION: &str = "UnsupportedCertVersion";

/// In which way. Each is said by itself, so that one kind of caller keeps no other out of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::door) enum TlsCause {
    /// The caller went without a word.
    Gone,
    /// HTTP without TLS.
    WithoutTls,
    /// Something else without TLS.
    NotTls,
    /// It took too long.
    Late,
    /// TLS that is older than 1.2, or no cipher in common.
    Version,
    /// No certificate.
    NoCertificate,
    /// A certificate of another authority.
    UnknownAuthority,
    /// A certificate without an allowed name.
    Name,
    /// A certificate that is not valid any more, or not yet.
    Time,
    /// A certificate that is not for clients.
    Purpose,
    /// A certificate of version 1 or 2.
    OldCertificate,
    /// A certificate with something else wrong.
    Certificate,
    /// The caller does not accept the gateway's certificate.
    NotTrusted,
    /// Anything else.
    Other,
}

/// A handshake that failed.
#[derive(Debug)]
pub(in crate::door) struct TlsRefusal {
    pub(super) cause: TlsCause,
    /// What was found, as rustls or the check of names says it.
    found: String,
}

impl From<&io::Error> for TlsRefusal {
    fn from(error: &io::Error) -> Self {
        let (cause, found) = match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(Error::InvalidCertificate(CertificateError::Other(other))) => cause_of_other(other),
            Some(Error::AlertReceived(alert)) => cause_of_alert(*alert),
            Some(error) => (cause(error), error.to_string()),
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                (TlsCause::Other, "the caller ended the connection".to_owned())
            }
            None => (TlsCause::Other, error.to_string()),
        };
        Self { cause, found }
    }
}

impl fmt::Display for TlsRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause.remedy() {
            Some((wrong, right)) => write!(out, "{wrong} ({}); {right}", self.found),
            None => out.write_str(&self.found),
        }
    }
}

impl TlsCause {
    /// What is wrong and what would be right; `None` where what was found has to speak for itself.
    fn remedy(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::NotTls => ("the caller does not speak TLS", "an https URL in its configuration"),
            Self::Version => {
                ("the caller's TLS is too old", "TLS 1.2 or 1.3, with one of their usual ciphers")
            }
            Self::NoCertificate => (
                "the caller shows no certificate",
                "certFile and keyFile in the tlsConfig of kube-scheduler's extender, or \
                 extender.tls.clientCertificate: Optional",
            ),
            Self::UnknownAuthority => (
                "the caller's certificate is of no authority in extender.tls.clientCAFile",
                "a certificate that one of them has signed, or its authority added to that file",
            ),
            Self::Name => (
                "the caller's certificate has no name of extender.tls.allowedNames",
                "another certificate, or its name in allowedNames",
            ),
            Self::Time => (
                "the caller's certificate is not valid now",
                "a new certificate, if both machines' clocks are right",
            ),
            Self::Purpose => {
                ("the caller's certificate is not for clients", "one whose extended key usage has clientAuth")
            }
            Self::OldCertificate => (
                "the caller's certificate is not of version 3",
                "one with extensions, which openssl x509 makes with -extfile",
            ),
            Self::Certificate => ("the caller's certificate cannot be accepted", "another certificate"),
            Self::NotTrusted => (
                "the caller does not accept the gateway's certificate",
                "the authority of extender.tls.certFile as caFile in the tlsConfig of kube-scheduler's extender, \
                 and the name of its urlPrefix in the certificate",
            ),
            Self::Gone | Self::WithoutTls | Self::Late | Self::Other => return None,
        })
    }
}

fn cause(error: &Error) -> TlsCause {
    match error {
        Error::NoCertificatesPresented => TlsCause::NoCertificate,
        Error::InvalidCertificate(error) => cause_of_certificate(error),
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

fn cause_of_certificate(error: &CertificateError) -> TlsCause {
    match error {
        CertificateError::UnknownIssuer => TlsCause::UnknownAuthority,
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => TlsCause::Time,
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            TlsCause::Purpose
        }
        _ => TlsCause::Certificate,
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

/// What the caller says of the gateway.
fn cause_of_alert(alert: Alert) -> (TlsCause, String) {
    match alert {
        Alert::UnknownCA
        | Alert::BadCertificate
        | Alert::CertificateUnknown
        | Alert::CertificateExpired
        | Alert::CertificateRevoked
        | Alert::UnsupportedCertificate => (TlsCause::NotTrusted, format!("{alert:?}")),
        Alert::ProtocolVersion => (TlsCause::Version, format!("{alert:?}")),
        _ => (TlsCause::Other, format!("the caller does not accept the gateway: {alert:?}")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Said(&'static str);

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
            (CertificateError::Expired.into(), TlsCause::Time, "a new certificate"),
            (CertificateError::InvalidPurpose.into(), TlsCause::Purpose, "has clientAuth"),
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
            (other(Said(OLD_VERSION)), TlsCause::OldCertificate, "-extfile"),
            (other(Said("what else")), TlsCause::Certificate, "accepted (what else); another"),
            (PeerIncompatible::Tls12NotOffered.into(), TlsCause::Version, "TLS 1.2 or 1.3"),
            (InvalidMessage::InvalidContentType.into(), TlsCause::NotTls, "an https URL"),
            (
                Error::AlertReceived(Alert::UnknownCA),
                TlsCause::NotTrusted,
                "certificate (UnknownCA); the authority of",
            ),
            (Error::AlertReceived(Alert::ProtocolVersion), TlsCause::Version, "(ProtocolVersion)"),
            (Error::AlertReceived(Alert::DecodeError), TlsCause::Other, "accept the gateway: DecodeError"),
            (Error::DecryptError, TlsCause::Other, "cannot decrypt peer's message"),
        ];
        for (error, cause, text) in cases {
            let refusal = TlsRefusal::from(&io::Error::new(io::ErrorKind::InvalidData, error));
            assert_eq!(refusal.cause, cause, "{refusal}");
            assert!(refusal.to_string().contains(text), "{refusal}");
        }
    }

    #[test]
    fn what_the_system_says_is_said() {
        let ended = TlsRefusal::from(&io::Error::new(io::ErrorKind::UnexpectedEof, "tls handshake eof"));
        assert_eq!(ended.to_string(), "the caller ended the connection");
        let reset = TlsRefusal::from(&io::Error::from(io::ErrorKind::ConnectionReset));
        assert_eq!(reset.to_string(), "connection reset");
    }
}
