//! Serves `label-binder` as a policy backend.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use extender_policies::{label_binder::LabelBinder, program};
use extender_policy_sdk::{Backend, Options, ServeError, serve};
use kube::{
    Client, Config,
    config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Binds pods, and gives them labels of their node as annotations.
///
/// Which labels, the `args` of the backend's entry in the gateway's configuration say. Prints `listening on
/// ADDRESS` when it is ready.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    /// How the apiserver is reached [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// What the policy calls itself, 1 to 63 bytes
    #[arg(long, default_value = "label-binder", value_parser = program::name)]
    name: String,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    address: SocketAddr,
}

const EXAMPLES: &str = "\
Examples:
  label-binder --kubeconfig ~/.kube/config
  label-binder --address 0.0.0.0:9000

Exit codes: 0 stopped by a signal, 1 failed to start, 2 bad usage or a kubeconfig that cannot be used.";

/// Exit code for what the operator has to set right, as clap's for arguments.
const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    program::log();
    match start(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // For people, before there is anything to log; the exit code tells programs.
            drop(writeln!(io::stderr(), "{error}"));
            error.exit_code()
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the kubeconfig {path} cannot be used: {source}")]
    Kubeconfig { path: PathBuf, source: KubeconfigError },
    #[error("no way to the apiserver: {0}; give --kubeconfig")]
    Nowhere(InferConfigError),
    #[error("the credentials for the apiserver cannot be used: {0}")]
    Credentials(kube::Error),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("no runtime: {0}")]
    Runtime(io::Error),
}

impl Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Kubeconfig { .. } | Self::Nowhere(_) | Self::Credentials(_) => ExitCode::from(BAD_USAGE),
            Self::Serve(_) | Self::Runtime(_) => ExitCode::FAILURE,
        }
    }
}

fn start(arguments: Arguments) -> Result<(), Error> {
    let Arguments { kubeconfig, name, address } = arguments;
    // A second installation finds the first one in place.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // One thread: a bind waits for the apiserver, not for the processor.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
    runtime.block_on(async {
        let client = connect(kubeconfig.as_deref()).await?;
        let backend = Backend::configured(move |args| LabelBinder::new(&name, client.clone(), args));
        Ok(serve(backend, Options { address, ..Options::default() }).await?)
    })
}

/// A client of the apiserver; does not connect yet.
async fn connect(kubeconfig: Option<&Path>) -> Result<Client, Error> {
    let config = match kubeconfig {
        Some(path) => {
            read(path).await.map_err(|source| Error::Kubeconfig { path: path.to_owned(), source })?
        }
        None => Config::infer().await.map_err(Error::Nowhere)?,
    };
    Client::try_from(config).map_err(Error::Credentials)
}

async fn read(path: &Path) -> Result<Config, KubeconfigError> {
    Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await
}
