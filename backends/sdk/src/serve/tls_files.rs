//! The names of the files for TLS, and what is wrong with them.

use std::path::PathBuf;

/// The files for TLS, all PEM. They are read again when they change: new connections then use them. A changed file
/// that cannot be used changes nothing but the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, the policy's own certificate first.
    pub cert: PathBuf,
    /// The private key of that certificate: PKCS #8, PKCS #1 or SEC 1, without a passphrase.
    pub key: PathBuf,
    /// The CAs of client certificates. If set, a client without a certificate of one of them is rejected.
    pub client_ca: Option<PathBuf>,
}

/// Which TLS file cannot be used, why, and what is expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(pub(super) String);
