//! Certificates for a test, in a folder of its own.

use std::{fs, path::PathBuf, sync::Arc};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;

/// Signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
pub(crate) struct Identity {
    certificate: Certificate,
    key: KeyPair,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate with this common name and these DNS names or IP addresses.
    pub(crate) fn issue(&self, common: &str, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        Identity { certificate: params.signed_by(&key, &self.0).unwrap(), key }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        Arc::new(roots)
    }

    /// A client that trusts only this authority, presents `identity` and offers `protocols`.
    pub(crate) fn client(&self, identity: Option<&Identity>, protocols: &[&str]) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots());
        let mut config = match identity {
            Some(identity) => builder.with_client_auth_cert(identity.chain(), identity.secret()).unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// A server that presents `identity`, requires certificates of `clients`, and offers `protocols`.
    pub(crate) fn server(
        identity: &Identity,
        clients: Option<&Self>,
        protocols: &[&str],
    ) -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(clients.roots(), provider).build().unwrap(),
            ),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(identity.chain(), identity.secret()).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

impl Identity {
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.der().clone()]
    }

    fn secret(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }
}

/// A folder of PEM files.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Writes `NAME.crt` and `NAME.key`.
    pub(crate) fn identity(&self, name: &str, identity: &Identity) {
        self.write(&format!("{name}.crt"), identity.certificate.pem());
        self.write(&format!("{name}.key"), identity.key.serialize_pem());
    }

    /// Writes `NAME.crt`.
    pub(crate) fn authority(&self, name: &str, authority: &Authority) {
        self.write(&format!("{name}.crt"), authority.0.pem());
    }
}
