//! Starts the ready-made policy `label-rules` with a file of rules.

use std::{net::SocketAddr, path::Path, process::Command};

use crate::{
    binaries::{BinaryError, Program},
    process::{Process, StartError},
};

/// A policy as a gRPC server in its own process.
#[derive(Debug)]
pub struct Policy {
    /// The running server.
    pub process: Process,
    /// Its address.
    pub address: SocketAddr,
}

/// Why a program does not run: it is missing, or it did not become ready.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// It is missing.
    #[error(transparent)]
    Binary(#[from] BinaryError),
    /// It did not become ready.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Policy {
    /// Serves the rules of this file on a free port of loopback, under this name.
    pub fn start(name: &str, rules: &Path) -> Result<Self, LaunchError> {
        let mut command = Command::new(Program::Policies.path()?);
        command.arg("label-rules");
        command.arg("--rules").arg(rules).args(["--name", name, "--address", "127.0.0.1:0"]);
        let (process, [address]) = Process::start(name, command, ["listening on "])?;
        Ok(Self { process, address })
    }
}
