//! Serves `label-binder` as a policy backend.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use extender_policies::{
    label_binder::LabelBinder,
    program::{self, Listen},
};
use extender_policy_sdk::{Backend, serve};

use crate::apiserver;

/// Binds pods and copies labels of their node to them as annotations.
///
/// The `args` of the backend's entry in the gateway's configuration select the labels. Prints `listening on
/// ADDRESS` when it is ready.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LabelBinderArguments {
    /// How the apiserver is reached [default: KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Name of the policy in its handshake, 1 to 63 bytes
    #[arg(long, default_value = "label-binder", value_parser = program::name)]
    name: String,
    #[command(flatten)]
    listen: Listen,
}

const EXAMPLES: &str = "\
Examples:
  extender-policies label-binder --kubeconfig ~/.kube/config
  extender-policies label-binder --address 0.0.0.0:9000 --tls-cert tls.crt --tls-key tls.key --tls-client-ca ca.crt

Exit codes: 0 stopped by a signal, 1 failed to start, 2 usage error or invalid kubeconfig.";

impl LabelBinderArguments {
    /// Serves until a signal stops it.
    pub(crate) fn run(self) -> ExitCode {
        apiserver::run(serve_binder(self))
    }
}

async fn serve_binder(arguments: LabelBinderArguments) -> Result<(), apiserver::Error> {
    let LabelBinderArguments { kubeconfig, name, listen } = arguments;
    let client = extender_apiserver::connect(kubeconfig.as_deref()).await?;
    let options = program::options(&name, listen);
    let backend = Backend::configured(move |args| LabelBinder::new(&name, client.clone(), args));
    Ok(serve(backend.requires_client_certificates("bind pods"), options).await?)
}
