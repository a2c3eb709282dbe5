//! `scheduler-config`: the `extenders` of kube-scheduler's configuration for a gateway's configuration.

use std::fmt::Display;
use std::path::PathBuf;

use clap::Args;

use super::{Console, Failure};
use crate::{
    config::Config,
    scheduler_config::{
        ConfigForm, Credentials, Extenders, LegacyPolicy, Reach, Scope, UrlSource, Version, entries_of,
    },
};

/// The command's description.
pub(super) const ABOUT: &str = "Print the extenders entries for kube-scheduler's configuration.\n\n\
    Prints the entries that make kube-scheduler call a gateway with this configuration. Filter, prioritize and preempt are always \
    included, so that adding a backend needs no change in kube-scheduler; --minimal prints only the verbs in use. Binding, \
    resources ignored by kube-scheduler, TLS and timeouts follow the gateway's configuration.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway scheduler-config --config gateway.yaml --url http://gateway:8888
  extender-gateway scheduler-config --config gateway.yaml --url https://10.0.0.10:8888 \\
    --ca-file /etc/kubernetes/gateway/ca.crt --cert-file /etc/kubernetes/gateway/tls.crt \\
    --key-file /etc/kubernetes/gateway/tls.key
  extender-gateway scheduler-config --config gateway.yaml --kubernetes 1.18 > policy.json";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct SchedulerConfigOptions {
    /// The gateway's configuration file (YAML); `-` reads standard input
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// How kube-scheduler reaches the gateway [default: extender.address, from the same machine]
    #[arg(long)]
    url: Option<String>,

    /// The version of kube-scheduler, 1.18 or later; for 1.18, prints the file for --policy-config-file
    #[arg(long, value_name = "VERSION", default_value = "1.36")]
    kubernetes: Version,

    /// Print only the verbs that the backends use
    #[arg(long)]
    minimal: bool,

    /// CA file for the gateway's certificate, on kube-scheduler's machine
    #[arg(long, value_name = "FILE")]
    ca_file: Option<String>,

    /// Client certificate of kube-scheduler, on its machine
    #[arg(long, value_name = "FILE", requires = "key_file")]
    cert_file: Option<String>,

    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    key_file: Option<String>,
}

/// Prints the entries for kube-scheduler.
pub(super) fn run(options: &SchedulerConfigOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    let config = Config::read(&options.config)?;
    let credentials = Credentials {
        ca: options.ca_file.clone(),
        pair: options.cert_file.clone().zip(options.key_file.clone()),
    };
    let reach = Reach::new(&config, options.url.as_deref(), credentials)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let scope = if options.minimal { Scope::Minimal } else { Scope::Lasting };
    let entries = &entries_of(&config, scope);
    let form = options.kubernetes.form();
    let text: &dyn Display = match form {
        ConfigForm::Extenders => &Extenders { entries, reach: &reach },
        ConfigForm::Policy => &LegacyPolicy { entries, reach: &reach },
    };
    write!(console.out, "{text}")?;
    note(&reach, form, console)?;
    note_version(options.kubernetes, console)
}

/// Notes what an old kube-scheduler does not support.
fn note_version(version: Version, console: &mut Console<'_>) -> Result<(), Failure> {
    if !version.shows_all_reasons() {
        writeln!(
            console.notes,
            "kube-scheduler up to 1.20 drops rejected nodes but shows no reason unless preemption may help"
        )?;
    }
    Ok(())
}

/// Notes what JSON has no comments for, and what must not be overlooked.
fn note(reach: &Reach, form: ConfigForm, console: &mut Console<'_>) -> Result<(), Failure> {
    if form == ConfigForm::Policy && reach.source == UrlSource::Address {
        writeln!(
            console.notes,
            "urlPrefix assumes kube-scheduler on the gateway's machine; set --url to change it"
        )?;
    }
    if reach.has_placeholders() {
        writeln!(
            console.notes,
            "fill in the files of tlsConfig, or set --ca-file, --cert-file and --key-file"
        )?;
    }
    Ok(())
}
