//! `check-config`: all mistakes of a configuration, or the effective configuration and warnings.

mod ask;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use clap::Args;
use extender_gateway_cluster::{
    file::{FileError, NodeFile},
    table::NodeTable,
};
use extender_gateway_serve::assembly::own_namespace;
use extender_gateway_settings::{
    BackendTls, Config, ConfigErrors, Content, Finding, NodeSource, ServerTls, default_exempt, shown_path,
};
use extender_gateway_tls::{
    CertificateFile, CertificateRole, IdentityFiles, PemError, PemFile, Validity, ValidityState,
    certificate_files, server_tls,
};
use jiff::Timestamp;

use super::{
    block_on,
    output::{Console, Failure},
};

/// The command's description.
pub(super) const ABOUT: &str = "Validate a configuration; print all mistakes or the effective configuration.\n\n\
    Prints every mistake to standard error with its line, path, what is wrong and what is expected; the exit code is then 3. Also \
    reads the files named in the configuration: certificates, keys, the kubeconfig and the node file; --no-files skips them, for \
    use on another machine. A valid configuration is printed to standard output with all defaults and the backends in effective \
    order. A line that begins with `warning:` on standard error marks settings that are valid but probably unintended.\n\n\
    --ask also calls every backend from where the command runs: whether it can be reached, accepts its args, and serves the \
    configured verbs with the configured sources. A running gateway checks the same before it uses a changed file, but a backend \
    that it cannot reach stops no change. The apiserver is never contacted.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway check-config --config gateway.yaml
  extender-gateway check-config --config gateway.yaml > effective.yaml
  kubectl -n extender-gateway exec -i deployment/extender-gateway -- extender-gateway check-config --ask --config - \\
    < gateway.yaml
  helm template policies ./chart | yq '.data.\"gateway.yaml\"' |
    extender-gateway check-config --no-files --config -";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct CheckConfigOptions {
    /// Configuration file (YAML); relative paths are relative to its folder. `-` reads standard input, with paths
    /// relative to the working directory
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Do not read the files named in the configuration
    #[arg(long)]
    no_files: bool,

    /// Also call the backends: connection, TLS, args, verbs
    #[arg(long, conflicts_with = "no_files")]
    ask: bool,
}

/// Prints the effective configuration as YAML, and its warnings as notes.
pub(super) fn run(options: &CheckConfigOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    let file = &options.config;
    let content = Content::read(file)?;
    let config = Config::of_file(file, &content)?;
    let mut warnings = Vec::new();
    let mut found = if options.no_files { Vec::new() } else { findings(&config) };
    if options.ask {
        let answers = ask::backends(&config)?;
        answers.notes.iter().try_for_each(|note| writeln!(console.notes, "{note}"))?;
        // A backend whose files are wrong cannot be reached either.
        let unexplained = answers.findings.into_iter().filter(|answer| !has_wrong_tls(&found, answer));
        found.extend(unexplained.collect::<Vec<_>>());
        warnings = answers.warnings;
    }
    if let Some(errors) = ConfigErrors::of_findings(file, &content, found) {
        return Err(errors.into());
    }
    let certificates = if options.no_files { Vec::new() } else { ending_certificates(&config) };
    for warning in
        config.warnings(&default_exempt(own_namespace())).into_iter().chain(certificates).chain(warnings)
    {
        writeln!(console.notes, "warning: {warning}")?;
    }
    let (config, has_secrets) = config.without_secrets();
    writeln!(console.out, "# {} is valid. Effective configuration:", shown_path(file))?;
    if has_secrets {
        writeln!(console.out, "# Values of args that may be secrets are hidden: this is not a usable file.")?;
    }
    write!(console.out, "{}", config.effective_yaml())?;
    Ok(())
}

/// Whether files of the backend that gave this answer are wrong.
fn has_wrong_tls(found: &[Finding], answer: &Finding) -> bool {
    let backend = answer.path.split('.').next().unwrap_or_default();
    found
        .iter()
        .any(|finding| finding.path.strip_prefix(backend).is_some_and(|field| field.starts_with(".tls")))
}

/// The problems of the files that a configuration names; blocks while they are read.
fn findings(config: &Config) -> Vec<Finding> {
    let servers = server_tls(config)
        .flat_map(|(section, tls)| of_server(tls).into_iter().map(move |error| of_pem(section, error)));
    let backends = config.backends.iter().enumerate().flat_map(|(at, backend)| {
        let errors = backend.tls.iter().flat_map(of_backend);
        errors.map(move |error| of_pem(&format!("backends[{at}].tls"), error))
    });
    let kubeconfig = config.cluster.kubeconfig.as_deref().and_then(of_kubeconfig);
    let invalid = validities(config).filter_map(|(file, validity)| {
        let problem = validity.problem(Timestamp::now()).filter(|_| is_unusable(&file, &validity))?;
        Some(finding(&file.field, &file.path, &problem, "expected certificates that are valid now"))
    });
    servers.chain(kubeconfig).chain(of_nodes(&config.nodes)).chain(backends).chain(invalid).collect()
}

/// Whether peers reject the gateway because of it now.
fn is_unusable(file: &CertificateFile, validity: &Validity) -> bool {
    // rustls ignores when the certificates of authorities begin and end.
    file.role == CertificateRole::Chain && validity.state(Timestamp::now()) > ValidityState::EndsSoon
}

/// Warnings about certificates that end soon, and about authorities that have expired.
fn ending_certificates(config: &Config) -> Vec<String> {
    let warning = |(file, validity): (CertificateFile, Validity)| {
        let problem = validity.problem(Timestamp::now()).filter(|_| !is_unusable(&file, &validity))?;
        Some(format!("{}: {}: {problem}; renew it", file.field, file.path.display()))
    };
    validities(config).filter_map(warning).collect()
}

/// The validity of each file that can be read; problems with the others are reported elsewhere.
fn validities(config: &Config) -> impl Iterator<Item = (CertificateFile, Validity)> {
    let validity = |file: CertificateFile| {
        let validity = file.validity().ok().flatten()?;
        Some((file, validity))
    };
    certificate_files(config).into_iter().filter_map(validity)
}

fn of_server(tls: &ServerTls) -> Vec<PemError> {
    let authorities = tls.clients.as_ref().and_then(|clients| authorities("clientCAFile", &clients.ca_file));
    IdentityFiles::mistakes(&tls.identity).into_iter().chain(authorities).collect()
}

fn of_backend(tls: &BackendTls) -> Vec<PemError> {
    let identity = tls.identity.as_ref().map(IdentityFiles::mistakes).unwrap_or_default();
    authorities("caFile", &tls.ca_file).into_iter().chain(identity).collect()
}

fn authorities(field: &'static str, path: &Path) -> Option<PemError> {
    PemFile::read(field, path).and_then(|file| file.authorities()).err()
}

fn of_pem(section: &str, error: PemError) -> Finding {
    let PemError { field, path, problem, remedy } = error;
    finding(&format!("{section}.{field}"), &path, &problem, remedy)
}

fn of_kubeconfig(path: &Path) -> Option<Finding> {
    // A provider that is already installed stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let problem = match block_on(extender_apiserver::check(path)) {
        Ok(checked) => checked.err()?.cause(),
        Err(error) => error.to_string(),
    };
    let remedy = "expected a kubeconfig with which `kubectl --kubeconfig FILE get nodes` works";
    Some(finding("cluster.kubeconfig", path, &problem, remedy))
}

fn of_nodes(source: &NodeSource) -> Option<Finding> {
    let NodeSource::File { path } = source else { return None };
    let remedy = "expected a file as written by `kubectl get nodes -o yaml`";
    let problem = match NodeFile::open(PathBuf::clone(path), &NodeTable::new()).err()? {
        FileError::Unreadable { source, .. } => format!("cannot be read: {source}"),
        FileError::Content { problem, .. } => problem.to_string(),
    };
    // Some problems contain their own remedy.
    let (problem, remedy) = problem.rsplit_once("; ").unwrap_or((&problem, remedy));
    Some(finding("nodes.file", path, problem, remedy))
}

fn finding(field: &str, file: &Path, problem: &str, remedy: &str) -> Finding {
    let wrong = format!("{}: {problem}", file.display());
    Finding { path: field.to_owned(), wrong, remedy: remedy.to_owned() }
}
