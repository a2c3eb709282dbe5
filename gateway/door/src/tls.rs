//! TLS on an address: the gateway's certificate, and which client certificates are accepted.
//!
//! The files are read every second. A change is used when two reads agree, so that a certificate is not paired with
//! the key of its predecessor. New connections use it; open ones stay. Files that cannot be used change nothing but
//! the log.

mod acceptor;
mod handshake;

use std::{convert::Infallible, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use extender_apiserver::bounded;
use extender_files::Follower;
use jiff::Timestamp;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::ring,
    pki_types::{CertificateDer, UnixTime},
    server::{
        NoServerSessionStorage, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

pub(super) use self::acceptor::Acceptor;
use extender_gateway_settings::{ClientCertificate, ClientCertificates, PageTls, ServerTls};
use extender_gateway_tls::{IdentityFiles, PemError, PemFile};

use super::limit::Address;

/// How often the files are read.
const READ_PERIOD: Duration = Duration::from_secs(1);
pub(super) const HTTP_2: &[u8] = b"h2";
const HTTP_1: &[u8] = b"http/1.1";

/// TLS 1.2 and 1.3 on an address, with the certificates in use.
#[derive(Debug)]
pub struct Tls {
    address: Address,
    settings: ServerTls,
    /// The files at the start.
    first: Files,
    current: ArcSwap<ServerConfig>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Files {
    identity: IdentityFiles,
    authorities: Option<PemFile>,
}

impl Address {
    /// Its field in the configuration.
    fn field(self) -> &'static str {
        match self {
            Self::Extender => "extender.tls",
            Self::Metrics => "metrics.tls",
            Self::Admin => "admin.tls",
        }
    }

    /// The protocols that callers can choose from, the best first.
    fn protocols(self) -> Vec<Vec<u8>> {
        let protocols: &[&[u8]] = match self {
            Self::Extender => &[HTTP_2, HTTP_1],
            Self::Metrics | Self::Admin => &[HTTP_1],
        };
        protocols.iter().map(|name| name.to_vec()).collect()
    }
}

/// A file of an address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{field}.{error}")]
pub struct TlsError {
    field: &'static str,
    error: PemError,
}

impl Tls {
    /// TLS on the extender's address. Reads the files for the first time; blocks while it does.
    ///
    /// # Errors
    /// The file that cannot be used.
    pub fn open(settings: ServerTls) -> Result<Self, TlsError> {
        Self::open_at(Address::Extender, settings)
    }

    /// The same for the metrics or the admin address.
    pub fn open_pages(address: Address, settings: &PageTls) -> Result<Self, TlsError> {
        Self::open_at(address, settings.server().clone())
    }

    fn open_at(address: Address, settings: ServerTls) -> Result<Self, TlsError> {
        let opened = Files::read(&settings).and_then(|first| {
            let current = ArcSwap::from_pointee(first.server(address, &settings)?);
            Ok((first, current))
        });
        let (first, current) = opened.map_err(|error| TlsError { field: address.field(), error })?;
        Ok(Self { address, settings, first, current })
    }

    /// Reloads the certificates when their files change.
    async fn follow(&self) -> Infallible {
        let settings = self.settings.clone();
        let read = move || Files::read(&settings);
        let mut files = Follower::new(Ok(self.first.clone()), READ_PERIOD, read);
        let field = self.address.field();
        let mut used = self.first.clone();
        loop {
            let changed = files.changed().await.and_then(|mut files| {
                // Also with an expired certificate, an authority that was removed is no longer trusted.
                let refused = files.identity.replaces(&used.identity, Timestamp::now()).err();
                if let Some(error) = refused {
                    if files.authorities == used.authorities {
                        return Err(error);
                    }
                    tracing::warn!(
                        "cannot reload the certificate of {field}, the previous one stays in use: {error}"
                    );
                    files.identity = used.identity.clone();
                }
                let server = files.server(self.address, &self.settings)?;
                self.current.store(Arc::new(server));
                used = files;
                Ok(())
            });
            match changed {
                Ok(()) => tracing::info!("certificates of {field} reloaded; new connections use them"),
                Err(error) => {
                    tracing::warn!("cannot reload {field}, the previous certificates stay in use: {error}");
                }
            }
        }
    }
}

/// Reloads the certificates when their files change.
pub(super) async fn follow(tls: Option<Arc<Tls>>) {
    match tls {
        Some(tls) => match tls.follow().await {},
        None => std::future::pending().await,
    }
}

impl Files {
    fn read(settings: &ServerTls) -> Result<Self, PemError> {
        let identity = IdentityFiles::read(&settings.identity)?;
        let clients = settings.clients.as_ref();
        let authorities =
            clients.map(|clients| PemFile::read("clientCAFile", &clients.ca_file)).transpose()?;
        Ok(Self { identity, authorities })
    }

    fn server(&self, address: Address, settings: &ServerTls) -> Result<ServerConfig, PemError> {
        let provider = Arc::new(ring::default_provider());
        let versions = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has cipher suites for TLS 1.2 and 1.3");
        let builder = match (&self.authorities, &settings.clients) {
            (Some(file), Some(clients)) => {
                versions.with_client_cert_verifier(verifier(file.authorities()?, clients))
            }
            _ => versions.with_no_client_auth(),
        };
        let mut server = self.identity.build(|chain, key| builder.with_single_cert(chain, key))?;
        server.alpn_protocols = address.protocols();
        // A resumed session would skip the check of the client's certificate; kube-scheduler resumes none.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(server)
    }
}

/// The verifier of client certificates: signed by one of the authorities, with an allowed name.
fn verifier(authorities: RootCertStore, clients: &ClientCertificates) -> Arc<dyn ClientCertVerifier> {
    let provider = Arc::new(ring::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider);
    let builder = match clients.presence {
        ClientCertificate::Required => builder,
        ClientCertificate::Optional => builder.allow_unauthenticated(),
    };
    let signed = builder.build().expect("there is an authority, and no revocation list that could be wrong");
    if clients.allowed_names.is_empty() {
        return signed;
    }
    Arc::new(AllowedNames { signed, allowed: clients.allowed_names.clone() })
}

/// Accepts signed certificates with one of the names.
#[derive(Debug)]
struct AllowedNames {
    signed: Arc<dyn ClientCertVerifier>,
    allowed: Vec<String>,
}

/// A certificate without an allowed name.
#[derive(Debug, thiserror::Error)]
#[error("it has the names [{}]", .0.join(", "))]
struct NotAllowed(Vec<String>);

impl AllowedNames {
    /// Common names are compared exactly, DNS names case-insensitively.
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let (common, dns) = names(certificate).ok_or(CertificateError::BadEncoding)?;
        let has = |allowed: &String| {
            common.contains(allowed) || dns.iter().any(|name| name.eq_ignore_ascii_case(allowed))
        };
        if self.allowed.iter().any(has) {
            return Ok(());
        }
        let names = NotAllowed([common, dns].concat());
        Err(CertificateError::Other(OtherError(Arc::new(names))).into())
    }
}

/// The first name of a certificate, for people; bounded.
pub(super) fn certificate_name(certificate: &CertificateDer<'_>) -> String {
    let (common, dns) = names(certificate).unwrap_or_default();
    bounded(common.first().or(dns.first()).map_or("without a name", String::as_str))
}

/// The common names and the DNS names of a certificate; `None` if it cannot be parsed.
fn names(certificate: &CertificateDer<'_>) -> Option<(Vec<String>, Vec<String>)> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let alternatives = certificate.subject_alternative_name().ok()?;
    let alternatives = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    let dns = alternatives.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    Some((common.map(str::to_owned).collect(), dns.collect()))
}

impl ClientCertVerifier for AllowedNames {
    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.signed.verify_client_cert(certificate, intermediates, now)?;
        self.check(certificate).map(|()| verified)
    }

    fn offer_client_auth(&self) -> bool {
        self.signed.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.signed.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests;
