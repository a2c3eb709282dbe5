//! Access to kube-apiserver: the usual kubeconfig, or the pod's account.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use extender_apiserver::{ClientTimeouts, ConnectError, RequestError};
use kube::Client;

use super::output::Failure;

/// How long the apiserver may be silent.
const SILENCE: Duration = Duration::from_secs(5);

/// Which cluster.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterOptions {
    /// The kubeconfig [default: KUBECONFIG, ~/.kube/config or the pod's own account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// The apiserver, or why it is not queried.
pub(super) type ClusterAccess = Result<ClusterClient, String>;

/// A client of the apiserver, which is not connected yet.
pub(super) struct ClusterClient {
    pub(super) client: Client,
    /// The default namespace.
    pub(super) namespace: String,
}

impl ClusterOptions {
    /// Creates a client on the runtime of this call.
    ///
    /// # Errors
    /// A file or context that the command line names cannot be used. The defaults may be missing.
    pub(super) async fn access(&self) -> Result<ClusterAccess, Failure> {
        // A provider that is already installed stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = self.kubeconfig.as_ref().map(|file| format!("--kubeconfig {}", file.display()));
        let context = || self.context.as_ref().map(|context| format!("--context {context}"));
        match (self.client().await, file.or_else(context)) {
            (Err(error), Some(option)) => {
                Err(Failure::Usage(format!("{option}: invalid kubeconfig: {}", error.cause())))
            }
            (client, _) => Ok(client.map_err(|error| error.to_string())),
        }
    }

    async fn client(&self) -> Result<ClusterClient, ConnectError> {
        let config = extender_apiserver::config(self.kubeconfig.as_deref(), self.context.as_deref()).await?;
        let namespace = config.default_namespace.clone();
        let timeouts = ClientTimeouts { connect: SILENCE, read: SILENCE };
        Ok(ClusterClient { client: extender_apiserver::client(config, timeouts).await?, namespace })
    }
}

/// Why a request to the apiserver failed.
pub(super) fn error_text(error: kube::Error) -> String {
    match RequestError::from(error) {
        RequestError::Refused { message, .. } => format!("it rejected the request: {message}"),
        other => other.to_string(),
    }
}
