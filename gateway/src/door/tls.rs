//! TLS on the extender's address: what is shown to callers, and that it follows its files.
//!
//! The files are read every second, and used when they are others than before and have rested for one
//! look, so that a certificate is not paired with the key of its predecessor. New connections get what is
//! new; old ones stay. Files that cannot be used change nothing but the log.

mod clients;
mod handshake;
mod refusal;

use std::{convert::Infallible, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use extender_config::Follower;
use rustls::{
    ServerConfig, crypto::ring, server::NoServerSessionStorage, server::danger::ClientCertVerifier,
};
use tokio_rustls::TlsAcceptor;

pub(super) use self::{
    handshake::{HandshakeError, handshake},
    refusal::TlsCause,
};
use crate::{
    config::ServerTls,
    tls::{IdentityFiles, PemError, PemFile},
};

/// How often the files are read.
const LOOK: Duration = Duration::from_secs(1);
/// What callers can choose from, the best first.
const PROTOCOLS: [&[u8]; 2] = [HTTP_2, b"http/1.1"];
/// HTTP/2 by its name in ALPN.
pub(super) const HTTP_2: &[u8] = b"h2";

/// How the extender's address speaks TLS at the moment: 1.2 or 1.3.
#[derive(Debug)]
pub struct Tls {
    settings: ServerTls,
    /// As the files were at the start.
    first: Files,
    current: ArcSwap<ServerConfig>,
}

/// The content of all files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Files {
    identity: IdentityFiles,
    authorities: Option<PemFile>,
}

impl Tls {
    /// Reads the files for the first time; blocks while it does.
    ///
    /// # Errors
    /// The file that cannot be used.
    pub fn open(settings: ServerTls) -> Result<Self, PemError> {
        let first = Files::read(&settings)?;
        let current = ArcSwap::from_pointee(first.server(&settings)?);
        Ok(Self { settings, first, current })
    }

    /// For one connection.
    fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }

    /// Keeps the certificates up to date with their files.
    pub(super) async fn follow(&self) -> Infallible {
        let settings = self.settings.clone();
        let mut files = Follower::new(Ok(self.first.clone()), LOOK, move || Files::read(&settings));
        loop {
            self.take(&files.changed().await);
        }
    }

    fn take(&self, files: &Result<Files, PemError>) {
        let server = files.as_ref().map_err(Clone::clone).and_then(|files| files.server(&self.settings));
        match server {
            Ok(server) => {
                self.current.store(Arc::new(server));
                tracing::info!("certificates of extender.tls reloaded; new connections use them");
            }
            Err(error) => {
                tracing::warn!("cannot reload extender.tls, the previous certificates stay in use: {error}");
            }
        }
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

    fn server(&self, settings: &ServerTls) -> Result<ServerConfig, PemError> {
        let provider = Arc::new(ring::default_provider());
        let versions = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has cipher suites for TLS 1.2 and 1.3");
        let builder = match self.clients(settings)? {
            Some(verifier) => versions.with_client_cert_verifier(verifier),
            None => versions.with_no_client_auth(),
        };
        let mut server = self.identity.build(|chain, key| builder.with_single_cert(chain, key))?;
        server.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        // A resumed session would skip the look at the client's certificate; kube-scheduler resumes none.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(server)
    }

    fn clients(&self, settings: &ServerTls) -> Result<Option<Arc<dyn ClientCertVerifier>>, PemError> {
        let Some((file, clients)) = self.authorities.as_ref().zip(settings.clients.as_ref()) else {
            return Ok(None);
        };
        Ok(Some(clients::verifier(file.authorities()?, clients)))
    }
}

#[cfg(test)]
mod tests;
