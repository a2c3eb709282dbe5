//! The way to kube-apiserver, for commands that ask it: the usual kubeconfig, or the pod's account.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use extender_apiserver::{ClientTimeouts, ConnectError, RequestError};
use kube::Client;

use super::Failure;

/// How long the apiserver may be silent.
const SILENCE: Duration = Duration::from_secs(5);

/// Which cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterOptions {
    /// The kubeconfig [default: KUBECONFIG, ~/.kube/config or the pod's own account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// The apiserver, if there is a way to it.
pub(super) enum Way {
    /// There is.
    Open(ClusterClient),
    /// There is not, for this reason.
    Closed(String),
}

/// The apiserver that is asked. Is not connected to yet.
pub(super) struct ClusterClient {
    pub(super) client: Client,
    /// The default namespace.
    pub(super) namespace: String,
}

impl ClusterOptions {
    /// Finds the apiserver; runs on the runtime of this call.
    ///
    /// # Errors
    /// What the command line names cannot be used. What is only usual may be missing.
    pub(super) async fn way(&self) -> Result<Way, Failure> {
        // A second installation finds the first one in place.
        let _ = rustls::crypto::ring::default_provider().install_default();
        match self.client().await {
            Ok(apiserver) => Ok(Way::Open(apiserver)),
            Err(wrong) => match self.named() {
                Some(named) => Err(Failure::Usage(format!("{named}: invalid kubeconfig: {}", wrong.cause()))),
                None => Ok(Way::Closed(wrong.to_string())),
            },
        }
    }

    /// The option that names it.
    fn named(&self) -> Option<String> {
        let file = self.kubeconfig.as_ref().map(|file| format!("--kubeconfig {}", file.display()));
        file.or_else(|| self.context.as_ref().map(|context| format!("--context {context}")))
    }

    async fn client(&self) -> Result<ClusterClient, ConnectError> {
        let config = extender_apiserver::config(self.kubeconfig.as_deref(), self.context.as_deref()).await?;
        let namespace = config.default_namespace.clone();
        let timeouts = ClientTimeouts { connect: SILENCE, read: SILENCE };
        Ok(ClusterClient { client: extender_apiserver::client(config, timeouts).await?, namespace })
    }
}

/// What went wrong with a request to the apiserver.
pub(super) fn said(error: kube::Error) -> String {
    match RequestError::from(error) {
        RequestError::Refused { message, .. } => format!("it rejected the request: {message}"),
        other => other.to_string(),
    }
}
