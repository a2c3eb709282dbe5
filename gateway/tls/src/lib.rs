//! Certificates and keys for TLS, of servers and clients, in PEM files. A file is read completely before it is parsed,
//! so that its current content can be compared with the one in use.

mod certificates;
mod client;
mod validity;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use extender_files::read_regular_file;
use jiff::Timestamp;
use rustls::{
    RootCertStore,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    sign::CertifiedKey,
};

pub use self::{
    certificates::{CertificateFile, CertificateRole, Certificates, Unusable, certificate_files, server_tls},
    client::{client_config, handshake_text, tls_error},
    validity::{Validity, ValidityState},
};
use extender_gateway_settings::KeyPair;

/// The largest file, in bytes. All public authorities together take about 200 KiB.
const LARGEST: u64 = 4 << 20;
const READABLE: &str = "expected a PEM file that the gateway can read";
const CERTIFICATE: &str = "expected a PEM block -----BEGIN CERTIFICATE-----";
const KEY: &str = "expected a PEM block -----BEGIN PRIVATE KEY-----, without a passphrase";
const AUTHORITY: &str = "expected CA certificates (X.509 version 3)";
const VALID: &str = "expected a certificate that is valid, as the one in use is";
const PAIR: &str = "expected the key of its first certificate";
const USABLE: &str = "expected an X.509 version 3 certificate (openssl x509 -extfile)";

/// Why a TLS file is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {}: {problem}; {remedy}", path.display())]
pub struct PemError {
    /// The field that names the file.
    pub field: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The problem.
    pub problem: String,
    /// The remedy.
    pub remedy: &'static str,
}

/// The content of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct PemFile {
    field: &'static str,
    path: PathBuf,
    content: Vec<u8>,
}

/// A certificate chain and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFiles {
    chain: PemFile,
    key: PemFile,
}

impl PemFile {
    /// Reads the file that `field` names; blocks meanwhile.
    ///
    /// # Errors
    /// The system's error.
    pub fn read(field: &'static str, path: &Path) -> Result<Self, PemError> {
        let file = |content| Self { field, path: path.to_owned(), content };
        match read_regular_file(path, LARGEST + 1) {
            Ok(content) if content.len() as u64 > LARGEST => {
                Err(file(content).invalid("is larger than 4 MiB", READABLE))
            }
            Ok(content) => Ok(file(content)),
            Err(error) => Err(file(Vec::new()).invalid(format!("cannot be read: {error}"), READABLE)),
        }
    }

    /// The CA certificates in the file, at least one.
    ///
    /// # Errors
    /// The file has none, or one that cannot be parsed.
    pub fn authorities(&self) -> Result<RootCertStore, PemError> {
        let mut store = RootCertStore::empty();
        for certificate in self.certificates()? {
            let invalid = |error| self.invalid(format!("not a CA certificate: {error}"), AUTHORITY);
            store.add(certificate).map_err(invalid)?;
        }
        Ok(store)
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, PemError> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.content).collect();
        match certificates {
            Ok(none) if none.is_empty() => Err(self.invalid("has no certificate", CERTIFICATE)),
            Ok(certificates) => Ok(certificates),
            Err(error) => Err(self.invalid(format!("is not PEM: {error}"), CERTIFICATE)),
        }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, PemError> {
        PrivateKeyDer::from_pem_slice(&self.content).map_err(|error| match error {
            pem::Error::NoItemsFound => self.invalid("has no key", KEY),
            error => self.invalid(format!("is not PEM: {error}"), KEY),
        })
    }

    fn invalid(&self, problem: impl Into<String>, remedy: &'static str) -> PemError {
        PemError { field: self.field, path: self.path.clone(), problem: problem.into(), remedy }
    }
}

impl IdentityFiles {
    /// Reads both files; blocks meanwhile.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn read(pair: &KeyPair) -> Result<Self, PemError> {
        let chain = PemFile::read("certFile", &pair.cert_file)?;
        Ok(Self { chain, key: PemFile::read("keyFile", &pair.key_file)? })
    }

    /// Refuses files with an expired certificate in place of one that is valid, or of which that is not known.
    ///
    /// # Errors
    /// The certificate that has expired.
    pub fn replaces(&self, used: &Self, now: Timestamp) -> Result<(), PemError> {
        let validity = |files: &Self| files.chain.chain_validity().ok().flatten();
        match validity(self).and_then(|new| new.expired_before(validity(used).as_ref(), now)) {
            Some(problem) => Err(self.chain.invalid(problem, VALID)),
            None => Ok(()),
        }
    }

    /// Builds a value from the chain and the key.
    ///
    /// # Errors
    /// One of the files is malformed, or the key does not belong to the certificate.
    pub fn build<T>(
        &self,
        build: impl FnOnce(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) -> Result<T, rustls::Error>,
    ) -> Result<T, PemError> {
        let made = build(self.chain.certificates()?, self.key.key()?);
        made.map_err(|error| match error {
            rustls::Error::InvalidCertificate(error) => {
                self.chain.invalid(format!("is invalid: {error:?}"), USABLE)
            }
            error => self.key.invalid(format!("does not match {}: {error}", self.chain.path.display()), PAIR),
        })
    }

    /// All problems of the two files; blocks while they are read.
    pub fn mistakes(pair: &KeyPair) -> Vec<PemError> {
        let chain = PemFile::read("certFile", &pair.cert_file);
        let chain = chain.and_then(|chain| chain.certificates().map(|_| chain));
        let key = PemFile::read("keyFile", &pair.key_file).and_then(|key| key.key().map(|_| key));
        match (chain, key) {
            (Ok(chain), Ok(key)) => {
                let provider = ring::default_provider();
                let fit = |chain, key| CertifiedKey::from_der(chain, key, &provider);
                Self { chain, key }.build(fit).err().into_iter().collect()
            }
            (chain, key) => chain.err().into_iter().chain(key.err()).collect(),
        }
    }
}

impl fmt::Debug for PemFile {
    /// Omits the content, which may be a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PemFile")
            .field("field", &self.field)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PEM of something else than a certificate.
    const STRANGE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    fn file(content: &str) -> PemFile {
        PemFile { field: "caFile", path: "ca.crt".into(), content: content.into() }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_field() {
        let garbage = "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n";
        for (content, problem) in [
            ("", "has no certificate; expected a PEM block -----BEGIN CERTIFICATE-----"),
            (garbage, "is not PEM: base64 decode error: "),
            (STRANGE, "not a CA certificate: invalid peer certificate: "),
        ] {
            let said = file(content).authorities().unwrap_err().to_string();
            assert!(said.starts_with(&format!("caFile: ca.crt: {problem}")), "{said}");
        }
        let said = PemFile::read("keyFile", Path::new("/nowhere/tls.key")).unwrap_err().to_string();
        let expected = "keyFile: /nowhere/tls.key: cannot be read: No such file or directory (os error 2); expected a PEM file that the gateway can read";
        assert_eq!(said, expected);
    }

    #[test]
    fn an_expired_certificate_replaces_none_whose_validity_cannot_be_read() {
        let mut params = rcgen::CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        let expired = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem();
        let files = |chain: &str| IdentityFiles { chain: file(chain), key: file("") };
        let (expired, strange) = (files(&expired), files(STRANGE));
        assert!(expired.replaces(&strange, Timestamp::now()).is_err());
        assert_eq!(strange.replaces(&strange, Timestamp::now()), Ok(()));
        assert_eq!(expired.replaces(&expired, Timestamp::now()), Ok(()), "it is no worse");
    }

    #[test]
    fn a_key_never_gets_into_a_log() {
        assert!(!format!("{:?}", file("secret")).contains("secret"));
    }
}
