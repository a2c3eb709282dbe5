//! Which client certificates are accepted: signed by one of the authorities, with an allowed name.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, RootCertStore,
    SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::ring,
    pki_types::{CertificateDer, UnixTime},
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use crate::config::{ClientCertificate, ClientCertificates};

/// The verifier of client certificates for the operator's settings.
pub(super) fn verifier(
    authorities: RootCertStore,
    clients: &ClientCertificates,
) -> Arc<dyn ClientCertVerifier> {
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
pub(super) struct NotAllowed(pub(super) Vec<String>);

/// The names of a certificate.
#[derive(Debug, Default)]
struct CertificateNames {
    common: Vec<String>,
    dns: Vec<String>,
}

impl CertificateNames {
    /// `None` if it cannot be parsed.
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = parse_x509_certificate(certificate).ok()?;
        let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
        let alternatives = certificate.subject_alternative_name().ok()?;
        let alternatives = alternatives.iter().flat_map(|extension| &extension.value.general_names);
        let dns = alternatives.filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(*name),
            _ => None,
        });
        Some(Self { common: common.map(str::to_owned).collect(), dns: dns.map(str::to_owned).collect() })
    }

    /// Common names are compared exactly, DNS names case-insensitively.
    fn has(&self, allowed: &str) -> bool {
        self.common.iter().any(|name| name == allowed)
            || self.dns.iter().any(|name| name.eq_ignore_ascii_case(allowed))
    }
}

impl AllowedNames {
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let names = CertificateNames::of(certificate).ok_or(CertificateError::BadEncoding)?;
        if self.allowed.iter().any(|allowed| names.has(allowed)) {
            return Ok(());
        }
        let names = NotAllowed(names.common.into_iter().chain(names.dns).collect());
        Err(CertificateError::Other(OtherError(Arc::new(names))).into())
    }
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
