//! The way to kube-apiserver, for commands that ask it: the usual kubeconfig, or the pod's account.

use std::{io::ErrorKind, path::PathBuf, time::Duration};

use clap::Args;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use super::Failure;
use crate::cluster::binder::ApiserverError;

/// How long the apiserver may be silent.
const SILENCE: Duration = Duration::from_secs(5);

/// Which cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which cluster")]
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
    /// The namespace that is meant where none is said.
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
        let client = self.config().await.and_then(|config| client(config).map_err(|error| error.to_string()));
        match client {
            Ok(apiserver) => Ok(Way::Open(apiserver)),
            Err(wrong) => match self.named() {
                Some(named) => Err(Failure::Usage(format!("{named}: {wrong}"))),
                None => Ok(Way::Closed(wrong)),
            },
        }
    }

    /// The option that names it.
    fn named(&self) -> Option<String> {
        let file = self.kubeconfig.as_ref().map(|file| format!("--kubeconfig {}", file.display()));
        file.or_else(|| self.context.as_ref().map(|context| format!("--context {context}")))
    }

    async fn config(&self) -> Result<Config, String> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let of_file = async |file: Result<Kubeconfig, KubeconfigError>| {
            Config::from_custom_kubeconfig(file?, &options).await
        };
        let unusable = |error: KubeconfigError| format!("the kubeconfig cannot be used: {error}");
        match &self.kubeconfig {
            Some(path) => of_file(Kubeconfig::read_from(path)).await.map_err(unusable),
            None if self.context.is_some() => of_file(Kubeconfig::read()).await.map_err(unusable),
            None => match Kubeconfig::read() {
                Err(error) if is_missing(&error) => Config::incluster().map_err(|_| NOWHERE.to_owned()),
                file => of_file(file).await.map_err(unusable),
            },
        }
    }
}

/// There is none at the usual places, which is usual, too.
fn is_missing(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == ErrorKind::NotFound,
        _ => false,
    }
}

const NOWHERE: &str =
    "there is no kubeconfig, and no service account of a pod; set KUBECONFIG, or say --kubeconfig FILE";

fn client(mut config: Config) -> Result<ClusterClient, kube::Error> {
    config.connect_timeout = Some(SILENCE);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    let namespace = config.default_namespace.clone();
    Ok(ClusterClient { client: Client::try_from(config)?, namespace })
}

/// What went wrong with a request to the apiserver.
pub(super) fn said(error: kube::Error) -> String {
    match ApiserverError::from(error) {
        ApiserverError::Refused { message, .. } => format!("it refuses: {message}"),
        ApiserverError::Failed(text) => text,
        late @ ApiserverError::Late => late.to_string(),
    }
}
