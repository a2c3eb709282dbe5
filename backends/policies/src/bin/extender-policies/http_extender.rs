//! Serves `http-extender` as a policy backend: one process for any number of extenders.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use extender_policies::{
    http_extender::{Allowed, HttpExtender, Url},
    program::{self, Listen},
};
use extender_policy_sdk::Backend;

/// Asks existing HTTP scheduler extenders.
///
/// The `args` of the backend's entry in the gateway's configuration are an item of `extenders` in kube-scheduler's
/// configuration; `extender-gateway scheduler-config --import` writes them. One process serves any number of
/// extenders. Prints `listening on ADDRESS` when it is ready.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HttpExtenderArguments {
    /// Name of the policy in its handshake, 1 to 63 bytes
    #[arg(long, default_value = "http-extender", value_parser = program::name)]
    name: String,
    /// An extender that args may name, with the URLs below it; may be repeated [default: any]
    #[arg(long, value_name = "URL", value_parser = Url::parse)]
    allow_url: Vec<Url>,
    /// A file, or a folder of files, that args may name in tlsConfig; may be repeated [default: any, without --allow-url]
    #[arg(long, value_name = "PATH")]
    allow_file: Vec<PathBuf>,
    #[command(flatten)]
    listen: Listen,
}

/// What callers can do: args may come with any call.
const POWER: &str = "send requests to extenders and name files";

const EXAMPLES: &str = "\
Examples:
  extender-policies http-extender
  extender-policies http-extender --allow-url http://gpu-extender.kube-system.svc:8888/scheduler
  extender-policies http-extender --address 0.0.0.0:9000 --tls-cert tls.crt --tls-key tls.key --tls-client-ca ca.crt

Exit codes: 0 stopped by a signal, 1 failed to start, 2 usage error.";

impl HttpExtenderArguments {
    /// Serves until a signal stops it.
    pub(crate) fn run(self) -> ExitCode {
        let Self { name, allow_url: urls, allow_file: files, listen } = self;
        let options = program::options(&name, listen);
        let allowed = Allowed { urls, files };
        let backend = Backend::configured(move |args| HttpExtender::new(&name, &allowed, args));
        program::serve_backend(backend.requires_client_certificates(POWER), options)
    }
}
