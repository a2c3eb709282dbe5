//! TLS as the operator configured it: which files, and who may call.

use std::path::PathBuf;

/// A certificate chain and its key, both PEM. The files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyPair {
    /// The chain, the own certificate first.
    pub cert_file: PathBuf,
    /// The key, PKCS #8, PKCS #1 or SEC 1.
    pub key_file: PathBuf,
}

/// How the extender's address speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// What the gateway shows.
    pub identity: KeyPair,
    /// What callers have to show. `None`: nothing.
    pub clients: Option<ClientCertificates>,
}

/// Which client certificates the extender's address accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// PEM certificates of the authorities that sign them.
    pub ca_file: PathBuf,
    /// Whether a caller without one is served. Default Required.
    pub presence: ClientCertificate,
    /// The names of which a certificate must have one, as its common name or a DNS name; empty for every
    /// certificate of the authorities.
    pub allowed_names: Vec<String>,
}

/// Whether a caller must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Yes.
    Required,
    /// No; one that is shown must be right.
    Optional,
}

/// How a backend with an `https` URL is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackendTls {
    /// PEM certificates of the authorities that may sign the backend's.
    pub ca_file: PathBuf,
    /// What the gateway shows. `None`: nothing.
    pub identity: Option<KeyPair>,
    /// The name that the backend's certificate must have. `None`: the URL's host.
    pub server_name: Option<String>,
}
