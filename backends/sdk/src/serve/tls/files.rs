//! The contents of the TLS files, and what is wrong with them.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use extender_files::read_regular_file;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};

use super::{TlsError, TlsFiles};

/// The largest file, in bytes. All public authorities together take about 200 KiB.
const LARGEST: u64 = 4 << 20;

const READABLE: &str = "expected a PEM file that this process can read";
const CERTIFICATE: &str = "expected a PEM block -----BEGIN CERTIFICATE-----";
const KEY: &str = "expected a PEM block -----BEGIN PRIVATE KEY-----, without a passphrase";
const AUTHORITY: &str = "expected CA certificates (X.509 version 3)";
const PAIR: &str = "expected the key of its first certificate";
const USABLE: &str = "expected an X.509 version 3 certificate (openssl x509 -extfile)";

/// The protocol of gRPC.
const HTTP_2: &[u8] = b"h2";

/// All files, as they were read at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsContents {
    chain: File,
    key: File,
    authorities: Option<File>,
}

/// The content of a file.
#[derive(Clone, PartialEq, Eq)]
struct File {
    /// The command line's option that names it.
    option: &'static str,
    path: PathBuf,
    content: Vec<u8>,
}

impl TlsContents {
    /// Blocks while the files are read.
    pub(super) fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let TlsFiles { cert, key, client_ca } = files;
        let authorities = client_ca.as_deref().map(|path| File::read("--tls-client-ca", path));
        Ok(Self {
            chain: File::read("--tls-cert", cert)?,
            key: File::read("--tls-key", key)?,
            authorities: authorities.transpose()?,
        })
    }

    /// A server with them.
    pub(super) fn server(&self) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let versions = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("the provider has cipher suites for TLS 1.2 and 1.3");
        let builder = match &self.authorities {
            Some(file) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(file.authorities()?), provider);
                let verifier = verifier
                    .build()
                    .expect("there is an authority, and no revocation list that could be wrong");
                versions.with_client_cert_verifier(verifier)
            }
            None => versions.with_no_client_auth(),
        };
        let identity = builder.with_single_cert(self.chain.certificates()?, self.key.key()?);
        let mut server = identity.map_err(|error| self.unusable(error))?;
        server.alpn_protocols = vec![HTTP_2.to_vec()];
        // A resumed session would skip the check of the client's certificate; the gateway resumes none.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(server)
    }

    fn unusable(&self, error: rustls::Error) -> TlsError {
        match error {
            rustls::Error::InvalidCertificate(error) => {
                self.chain.invalid(format!("is invalid: {error:?}"), USABLE)
            }
            error => self.key.invalid(format!("does not match {}: {error}", self.chain.path.display()), PAIR),
        }
    }
}

impl File {
    fn read(option: &'static str, path: &Path) -> Result<Self, TlsError> {
        let file = |content| Self { option, path: path.to_owned(), content };
        match read_regular_file(path, LARGEST + 1) {
            Ok(content) if content.len() as u64 > LARGEST => {
                Err(file(Vec::new()).invalid("is larger than 4 MiB", READABLE))
            }
            Ok(content) => Ok(file(content)),
            Err(error) => Err(file(Vec::new()).invalid(format!("cannot be read: {error}"), READABLE)),
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.content).collect();
        match certificates {
            Ok(none) if none.is_empty() => Err(self.invalid("has no certificate", CERTIFICATE)),
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(self.invalid(format!("is not PEM: {error}"), CERTIFICATE)),
        }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        PrivateKeyDer::from_pem_slice(&self.content).map_err(|error| match error {
            pem::Error::NoItemsFound => self.invalid("has no key", KEY),
            error => self.invalid(format!("is not PEM: {error}"), KEY),
        })
    }

    fn authorities(&self) -> Result<RootCertStore, TlsError> {
        let mut store = RootCertStore::empty();
        for certificate in self.certificates()? {
            let invalid = |error| self.invalid(format!("not a CA certificate: {error}"), AUTHORITY);
            store.add(certificate).map_err(invalid)?;
        }
        Ok(store)
    }

    fn invalid(&self, problem: impl fmt::Display, remedy: &'static str) -> TlsError {
        TlsError(format!("{} {}: {problem}; {remedy}", self.option, self.path.display()))
    }
}

impl fmt::Debug for File {
    /// Omits the content, which may be a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("option", &self.option).field("path", &self.path).finish_non_exhaustive()
    }
}
