//! The place of metrics in a program that was built without them.

#![expect(clippy::unused_async, reason = "with metrics they wait")]

use std::{convert::Infallible, io, net::SocketAddr, time::Duration};

use crate::{Backend, table::Tables};

const MISSING: &str = "this program was built without metrics; turn on the feature `metrics` of extender-policy-sdk in its Cargo.toml";

/// There are none.
#[derive(Clone, Debug)]
pub(crate) enum Metrics {}

impl Metrics {
    pub(crate) async fn bind(_: SocketAddr) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, MISSING))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match *self {}
    }

    pub(crate) fn count(&self, _verb: String, _code: String, _taken: Duration) {
        match *self {}
    }

    pub(crate) async fn serve(&self, _: &Backend, _: &Tables) -> Infallible {
        match *self {}
    }
}
