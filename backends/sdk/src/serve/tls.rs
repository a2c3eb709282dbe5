//! TLS on the address of a backend: its certificate, and which clients are accepted.
//!
//! The files are read every second. A change is used when two reads agree, so that a certificate is not paired with
//! the key of its predecessor. New connections use it; open ones stay. Files that cannot be used change nothing but
//! the log. The gateway treats the files of its own address in the same way.

mod files;
mod handshake;

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use arc_swap::ArcSwap;
use extender_files::Follower;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::{Connected as _, TcpConnectInfo};

use self::files::TlsContents;
pub(super) use self::handshake::handshake;
use super::{TlsError, TlsFiles, turn::LogTurn};

/// How often the files are read.
const READ_PERIOD: Duration = Duration::from_secs(1);

/// A connection after its handshake.
pub(super) type Stream = TlsStream<TcpStream>;

/// Who is at the other end.
pub(super) fn peer(stream: &Stream) -> TcpConnectInfo {
    stream.get_ref().0.connect_info()
}

/// TLS 1.2 and 1.3, with the certificates in use.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    /// The files at the start.
    first: TlsContents,
    current: ArcSwap<ServerConfig>,
    /// Limits the lines about failed handshakes.
    failed: Mutex<LogTurn>,
}

impl Tls {
    /// Reads the files for the first time; blocks while it does.
    pub(super) fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let first = TlsContents::read(&files)?;
        let current = ArcSwap::from_pointee(first.server()?);
        Ok(Self { files, first, current, failed: Mutex::default() })
    }

    /// Uses the files again when they change.
    pub(super) async fn follow(&self) -> Infallible {
        let files = self.files.clone();
        let mut contents =
            Follower::new(Ok(self.first.clone()), READ_PERIOD, move || TlsContents::read(&files));
        loop {
            match contents.changed().await.and_then(|contents| contents.server()) {
                Ok(server) => {
                    self.current.store(Arc::new(server));
                    tracing::info!("TLS certificates reloaded; new connections use them");
                }
                Err(error) => {
                    tracing::warn!(
                        "cannot reload the TLS certificates, the previous ones stay in use: {error}"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
