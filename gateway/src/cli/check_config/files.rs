//! Checks whether the gateway could use the files that a configuration names.

use std::path::{Path, PathBuf};

use tokio::runtime;

use crate::{
    cluster::{
        file::{FileError, NodeFile},
        table::NodeTable,
    },
    config::{BackendTls, Config, Finding, NodeSource, ServerTls},
    tls::pem::{IdentityFiles, PemError, PemFile},
};

/// The problems of all files; blocks while they are read.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    let server = config.extender.tls.iter().flat_map(of_server).map(|error| of_pem("extender.tls", error));
    let backends = config.backends.iter().enumerate().flat_map(|(at, backend)| {
        let errors = backend.tls.iter().flat_map(of_backend);
        errors.map(move |error| of_pem(&format!("backends[{at}].tls"), error)).collect::<Vec<_>>()
    });
    let kubeconfig = config.cluster.kubeconfig.as_deref().and_then(of_kubeconfig);
    server.chain(kubeconfig).chain(of_nodes(&config.nodes)).chain(backends).collect()
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
    // A second installation finds the first one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Reading needs neither the network nor a second thread.
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let checked = match runtime {
        Ok(runtime) => runtime.block_on(extender_apiserver::check(path)).map_err(|error| error.cause()),
        Err(error) => Err(error.to_string()),
    };
    let remedy = "expected a kubeconfig with which `kubectl --kubeconfig FILE get nodes` works";
    checked.err().map(|problem| finding("cluster.kubeconfig", path, &problem, remedy))
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
    Finding {
        path: field.to_owned(),
        wrong: format!("{}: {problem}", file.display()),
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests;
