//! Where the apiserver is, and a client for it.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use kube::{
    Client, Config,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use crate::whole_text;

/// Why no client can be created. Contains the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file that the operator named cannot be used.
    #[error("invalid kubeconfig {path}: {source}")]
    Named {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        source: KubeconfigError,
    },
    /// No file was named, and the one at the default locations cannot be used.
    #[error("invalid kubeconfig: {0}")]
    Usual(#[source] KubeconfigError),
    /// No file was named, and none exists at the default locations.
    #[error(
        "no kubeconfig and no service account of a pod; set KUBECONFIG or name a kubeconfig, or mount a \
         service account token"
    )]
    Nowhere(#[source] InClusterError),
    /// The configuration was read, but TLS or credentials in it are not usable.
    #[error("invalid credentials for the apiserver: {0}")]
    Credentials(#[source] kube::Error),
}

impl ConnectError {
    /// The cause, without the file's name.
    pub fn cause(&self) -> String {
        match self {
            Self::Named { source, .. } | Self::Usual(source) => whole_text(source),
            Self::Nowhere(_) => self.to_string(),
            Self::Credentials(source) => whole_text(source),
        }
    }
}

/// Timeouts of a client.
#[derive(Debug, Clone, Copy)]
pub struct ClientTimeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the next bytes on a connection from which some are expected. Without this, a client would wait
    /// indefinitely for an apiserver that accepts requests and does not answer.
    pub silence: Duration,
}

impl Default for ClientTimeouts {
    /// Longer than a list may take the apiserver (60 s by default), and than it holds a quiet watch open.
    fn default() -> Self {
        Self { connect: Duration::from_secs(30), silence: Duration::from_secs(75) }
    }
}

/// A client with the default timeouts. Does not connect yet; its tasks run on the runtime of this call.
///
/// # Errors
/// There is no usable access, as for [`config`] and [`client`].
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    client(config(kubeconfig, None).await?, ClientTimeouts::default())
}

/// The configuration in this kubeconfig; without one, the first of `KUBECONFIG`, `~/.kube/config` and the pod's
/// service account that exists. `context` names one of the kubeconfig's contexts.
///
/// # Errors
/// It cannot be used, or does not exist.
pub async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let of_file = async |file: Result<Kubeconfig, KubeconfigError>| {
        Config::from_custom_kubeconfig(file?, &options).await
    };
    if let Some(path) = kubeconfig {
        let config = of_file(Kubeconfig::read_from(path)).await;
        return config.map_err(|source| ConnectError::Named { path: path.to_owned(), source });
    }
    match Kubeconfig::read() {
        Err(error) if context.is_none() && is_missing(&error) => {
            Config::incluster().map_err(ConnectError::Nowhere)
        }
        file => of_file(file).await.map_err(ConnectError::Usual),
    }
}

/// Whether there is no file, as in most pods.
fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == ErrorKind::NotFound,
        _ => false,
    }
}

/// A client that retries nothing. Does not connect yet.
///
/// # Errors
/// TLS settings or credentials cannot be used.
pub fn client(mut config: Config, timeouts: ClientTimeouts) -> Result<Client, ConnectError> {
    config.default_retry = false;
    config.connect_timeout = Some(timeouts.connect);
    config.read_timeout = Some(timeouts.silence);
    // Counts from the request, and not from when the connection went idle.
    config.reset_reader_on_write = true;
    Client::try_from(config).map_err(ConnectError::Credentials)
}

/// Reads this kubeconfig and the files that it names. Does not connect, and runs no program that the kubeconfig
/// names for its credentials.
///
/// # Errors
/// It cannot be used.
pub async fn check(kubeconfig: &Path) -> Result<(), ConnectError> {
    let config = config(Some(kubeconfig), None).await?;
    if config.auth_info.exec.is_some() || config.auth_info.auth_provider.is_some() {
        return Ok(());
    }
    client(config, ClientTimeouts::default()).map(drop)
}
