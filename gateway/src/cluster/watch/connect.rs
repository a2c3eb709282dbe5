//! The way to kube-apiserver: a kubeconfig, or what the place where the gateway runs offers.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use kube::{
    Client, Config,
    config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use crate::cluster::error_text::whole_text;

/// How long the apiserver may be silent on a connection that something is expected on: longer than a list may
/// take it (60 s unless it is told otherwise), and longer than it holds a watch open without a word.
const SILENCE: Duration = Duration::from_secs(75);

/// Why there is no client. Says what to set right.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file that the operator named cannot be used.
    #[error("the kubeconfig {path} cannot be used: {source}")]
    Kubeconfig {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        source: KubeconfigError,
    },
    /// No file was named, and there is none at the usual places.
    #[error(
        "no way to the apiserver: {0}. In a pod, mount a service account token; elsewhere, set KUBECONFIG or \
         name a kubeconfig"
    )]
    Nowhere(#[source] InferConfigError),
    /// The configuration was read, but TLS or credentials in it are not usable.
    #[error("the credentials for the apiserver cannot be used: {0}")]
    Credentials(#[source] kube::Error),
}

/// A client of the apiserver that this kubeconfig names; without one, of `KUBECONFIG`, `~/.kube/config` or
/// the pod's service account, whichever is there first. Does not connect yet.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let config = match kubeconfig {
        Some(path) => {
            read(path).await.map_err(|source| ConnectError::Kubeconfig { path: path.to_owned(), source })?
        }
        None => Config::infer().await.map_err(ConnectError::Nowhere)?,
    };
    client(config, SILENCE).map_err(ConnectError::Credentials)
}

/// Reads this kubeconfig and the files that it names. Does not connect, and runs no program that the kubeconfig
/// names for its credentials.
///
/// # Errors
/// It could not be used.
pub async fn check(kubeconfig: &Path) -> Result<(), ConnectError> {
    let config = read(kubeconfig).await;
    let config = config.map_err(|source| ConnectError::Kubeconfig { path: kubeconfig.to_owned(), source })?;
    if config.auth_info.exec.is_some() || config.auth_info.auth_provider.is_some() {
        return Ok(());
    }
    client(config, SILENCE).map(drop).map_err(ConnectError::Credentials)
}

impl ConnectError {
    /// What is wrong, without the file's name.
    pub fn cause(&self) -> String {
        match self {
            Self::Kubeconfig { source, .. } => whole_text(source),
            Self::Nowhere(source) => whole_text(source),
            Self::Credentials(source) => whole_text(source),
        }
    }
}

/// A client that takes an apiserver for gone which accepts requests and says nothing for so long. Of itself it
/// would wait for ever, and what is watched would grow old without a word in the log.
pub(super) fn client(mut config: Config, silence: Duration) -> Result<Client, kube::Error> {
    config.read_timeout = Some(silence);
    // Counts from the request, and not from when the connection went idle.
    config.reset_reader_on_write = true;
    Client::try_from(config)
}

async fn read(path: &Path) -> Result<Config, KubeconfigError> {
    Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default()).await
}
