//! What programs have in common whose policy uses the apiserver.

use std::{io, process::ExitCode};

use extender_apiserver::ConnectError;
use extender_policies::program::{self, Fault};
use extender_policy_sdk::ServeError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("no runtime: {0}")]
    Runtime(io::Error),
}

impl Error {
    fn fault(&self) -> Fault {
        match self {
            Self::Connect(_) => Fault::Usage,
            Self::Serve(_) | Self::Runtime(_) => Fault::Other,
        }
    }
}

/// Serves until a signal stops it.
pub(crate) fn run(serve: impl Future<Output = Result<(), Error>>) -> ExitCode {
    // Fails only if a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    program::run(|| program::runtime().map_err(Error::Runtime)?.block_on(serve), Error::fault)
}
