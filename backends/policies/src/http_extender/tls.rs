//! TLS with an extender, as kube-scheduler does it. The client certificate is read again for each new connection, the
//! CAs are not.

use std::sync::{Arc, Mutex, PoisonError};

use extender_files::read_regular_file;
use hyper_rustls::ConfigBuilderExt as _;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        ResolvesClientCert, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{
        CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
    },
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
    sign::CertifiedKey,
};

use super::args::{Pem, Secret, Tls, Verification};

/// The largest file, in bytes.
const LARGEST: u64 = 4 << 20;

/// The configuration of a client. Reads the files; blocks meanwhile.
pub(super) fn client(tls: &Tls) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for TLS 1.2 and 1.3");
    let verified = |by| {
        let algorithms = provider.signature_verification_algorithms;
        builder.clone().dangerous().with_custom_certificate_verifier(Arc::new(Verifier { by, algorithms }))
    };
    let builder = match &tls.verification {
        Verification::System => builder.clone().with_native_roots().map_err(|error| {
            format!(
                "args.urlPrefix is https, and the system's CAs cannot be read: {error}; set tlsConfig.caFile"
            )
        })?,
        Verification::Authorities(pem) => verified(Some(Authorities::read(pem, &provider)?)),
        Verification::None => verified(None),
    };
    Ok(match &tls.identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let identity = ClientIdentity::read(chain.clone(), key.clone(), provider)?;
            builder.with_client_cert_resolver(Arc::new(identity))
        }
    })
}

/// Accepts certificates of these CAs, and these themselves: a certificate that signed itself is its own CA, as in Go.
#[derive(Debug)]
struct Authorities {
    given: Vec<CertificateDer<'static>>,
    issued: Arc<WebPkiServerVerifier>,
}

impl Authorities {
    fn read(pem: &Pem, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let given = pem.certificates()?;
        let mut store = RootCertStore::empty();
        for certificate in &given {
            let added = store.add(certificate.clone());
            added.map_err(|error| pem.invalid(&format!("is not a CA certificate: {error}")))?;
        }
        let issued =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider)).build();
        let issued = issued.map_err(|error| pem.invalid(&format!("cannot be used: {error}")))?;
        Ok(Self { given, issued })
    }
}

/// Verifies a server by these CAs. Without, it accepts every certificate, as kube-scheduler does.
#[derive(Debug)]
struct Verifier {
    by: Option<Authorities>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(Authorities { given, issued }) = &self.by else {
            return Ok(ServerCertVerified::assertion());
        };
        match issued.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // A CA is not accepted as a server; whether it has expired was checked before.
            Err(Error::InvalidCertificate(CertificateError::Other(_))) if given.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl Pem {
    fn content(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Inline(_, Secret(content)) => Ok(content.clone()),
            Self::File(_, path) => read_regular_file(path, LARGEST)
                .map_err(|error| self.invalid(&format!("cannot be read: {error}"))),
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let content = self.content()?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
        match certificates {
            Ok(some) if !some.is_empty() => Ok(some),
            Ok(_) => Err(self.invalid("has no certificate")),
            Err(error) => Err(self.invalid(&format!("is not PEM: {error}"))),
        }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        let content = self.content()?;
        PrivateKeyDer::from_pem_slice(&content)
            .map_err(|error| self.invalid(&format!("has no usable key: {error}")))
    }

    fn invalid(&self, problem: &str) -> String {
        match self {
            Self::Inline(field, _) => {
                format!("args.tlsConfig.{field}: {problem}; expected PEM, encoded with base64")
            }
            Self::File(field, path) => {
                let path = path.display();
                format!(
                    "args.tlsConfig.{field}: {path} {problem}; expected a PEM file where http-extender runs"
                )
            }
        }
    }
}

/// The client certificate.
#[derive(Debug)]
struct ClientIdentity {
    chain: Pem,
    key: Pem,
    provider: Arc<CryptoProvider>,
    /// What was read last without an error.
    latest: Mutex<Arc<CertifiedKey>>,
}

impl ClientIdentity {
    fn read(chain: Pem, key: Pem, provider: Arc<CryptoProvider>) -> Result<Self, String> {
        let latest = Mutex::new(Arc::new(certified(&chain, &key, &provider)?));
        Ok(Self { chain, key, provider, latest })
    }
}

fn certified(chain: &Pem, key: &Pem, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let certified = CertifiedKey::from_der(chain.certificates()?, key.key()?, provider);
    certified.map_err(|error| match error {
        // A certificate of X.509 version 1, for example.
        Error::InvalidCertificate(_) => {
            chain.invalid(&format!("cannot be used as a client certificate: {error}"))
        }
        _ => key.invalid(&format!("does not match the certificate: {error}")),
    })
}

impl ResolvesClientCert for ClientIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // Nothing that can panic runs under the lock.
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        match certified(&self.chain, &self.key, &self.provider) {
            Ok(now) => *latest = Arc::new(now),
            Err(error) => {
                tracing::warn!(
                    "the client certificate for an extender cannot be read again, the previous one is used: {error}"
                );
            }
        }
        Some(Arc::clone(&latest))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
