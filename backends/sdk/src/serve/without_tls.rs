//! The place of TLS in a program that was built without it.

#![expect(clippy::unused_async, reason = "with TLS they wait")]

use std::convert::Infallible;

use tokio::net::TcpStream;
use tonic::transport::server::{Connected as _, TcpConnectInfo};

use super::{TlsError, TlsFiles};

const MISSING: &str = "--tls-cert: this program was built without TLS; turn on the feature `tls` of extender-policy-sdk in its Cargo.toml";

/// There is none.
#[derive(Debug)]
pub(super) enum NoTls {}

pub(super) type Stream = TcpStream;

pub(super) fn peer(stream: &Stream) -> TcpConnectInfo {
    stream.connect_info()
}

impl NoTls {
    pub(super) fn open(_: TlsFiles) -> Result<Self, TlsError> {
        Err(TlsError(MISSING.to_owned()))
    }

    pub(super) async fn follow(&self) -> Infallible {
        match *self {}
    }
}

pub(super) async fn handshake(tls: &NoTls, _: TcpStream) -> Option<Stream> {
    match *tls {}
}
