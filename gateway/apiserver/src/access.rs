//! Finds the apiserver and creates a client for it.

use std::{
    env,
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::Duration,
};

use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tokio::task::spawn_blocking;
use tower::util::MapErrLayer;

use crate::{unreachable::named, whole_text};

/// Why no client can be created. Contains the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig that the operator named cannot be used.
    #[error("invalid kubeconfig {path}: {source}")]
    Named {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: KubeconfigError,
    },
    /// No kubeconfig was named, and the default one cannot be used.
    #[error("invalid kubeconfig: {0}")]
    Default(#[source] KubeconfigError),
    /// No file in `KUBECONFIG` exists.
    #[error("no file of KUBECONFIG={} exists; correct or unset it", .0.display())]
    Missing(OsString),
    /// No kubeconfig was named, and there is no default one.
    #[error(
        "no kubeconfig and no service account of a pod; set KUBECONFIG or name a kubeconfig, or mount a \
         service account token"
    )]
    NotFound(#[source] InClusterError),
    /// TLS settings or credentials cannot be used.
    #[error("invalid credentials for the apiserver: {0}")]
    Credentials(#[source] kube::Error),
}

impl ConnectError {
    /// The cause, without the file's name.
    pub fn cause(&self) -> String {
        match self {
            Self::Named { source, .. } | Self::Default(source) => whole_text(source),
            Self::Missing(_) | Self::NotFound(_) => self.to_string(),
            Self::Credentials(source) => whole_text(source),
        }
    }
}

/// Timeouts of a client.
#[derive(Debug, Clone, Copy)]
pub struct ClientTimeouts {
    /// For a connection, with its TLS handshake. Short: when a network is back, attempts of before still wait for it.
    pub connect: Duration,
    /// For the next bytes of an answer. Without it, a client would wait indefinitely for an apiserver that accepts
    /// requests but does not answer.
    pub read: Duration,
}

impl Default for ClientTimeouts {
    /// Longer than the apiserver may take for a list (60 s by default), and than it keeps a watch without events open.
    fn default() -> Self {
        Self { connect: Duration::from_secs(5), read: Duration::from_secs(75) }
    }
}

/// A client with the default timeouts. Does not connect yet; its tasks run on the runtime of this call.
///
/// # Errors
/// There is no usable access, as for [`config`] and [`client`].
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    client(config(kubeconfig, None).await?, ClientTimeouts::default()).await
}

/// The configuration in this kubeconfig; without one, in the files of `KUBECONFIG`; if it is unset or empty, in
/// `~/.kube/config`, or of the pod's service account. `context` names one of the kubeconfig's contexts.
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
    match default_kubeconfig(env::var_os("KUBECONFIG").unwrap_or_default(), env::home_dir())? {
        None if context.is_none() => Config::incluster().map_err(ConnectError::NotFound),
        file => {
            let file = file.ok_or(KubeconfigError::FindPath);
            of_file(file).await.map_err(ConnectError::Default)
        }
    }
}

/// The kubeconfig that kubectl would use; `None` if none is named and there is none in the home directory, as in most
/// pods. Mirrors `ClientConfigLoadingRules` of client-go, which skips missing files.
fn default_kubeconfig(named: OsString, home: Option<PathBuf>) -> Result<Option<Kubeconfig>, ConnectError> {
    let files: Vec<_> = env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    if files.is_empty() {
        let Some(home) = home else { return Ok(None) };
        return match Kubeconfig::read_from(home.join(".kube/config")) {
            // The home directory may be that of another user.
            Err(KubeconfigError::ReadConfig(error, _))
                if matches!(
                    error.kind(),
                    ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory
                ) =>
            {
                Ok(None)
            }
            read => read.map(Some).map_err(ConnectError::Default),
        };
    }
    let mut merged: Option<Kubeconfig> = None;
    for file in files {
        let read = match Kubeconfig::read_from(file) {
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => continue,
            read => read.and_then(|file| merged.take().unwrap_or_default().merge(file)),
        };
        merged = Some(read.map_err(ConnectError::Default)?);
    }
    merged.map(Some).ok_or(ConnectError::Missing(named))
}

/// A client that retries nothing. Does not connect yet, but may run a program that the kubeconfig names for its
/// credentials.
///
/// # Errors
/// TLS settings or credentials cannot be used.
pub async fn client(mut config: Config, timeouts: ClientTimeouts) -> Result<Client, ConnectError> {
    config.default_retry = false;
    config.connect_timeout = Some(timeouts.connect);
    config.read_timeout = Some(timeouts.read);
    // The read timeout begins with the request, not when the connection became idle.
    config.reset_reader_on_write = true;
    let url = config.cluster_url.to_string();
    // Reads files and waits for the program.
    let client = spawn_blocking(move || {
        let named = MapErrLayer::new(move |error| named(error, &url));
        Ok(ClientBuilder::try_from(config)?.with_layer(&named).build())
    });
    let client = client.await;
    client.unwrap_or_else(|error| Err(kube::Error::Service(error.into()))).map_err(ConnectError::Credentials)
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
    client(config, ClientTimeouts::default()).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Names of the clusters in the kubeconfig that is found.
    fn clusters(named: &[&Path], home: &Path) -> Result<Option<Vec<String>>, String> {
        let named = env::join_paths(named).unwrap();
        let found = default_kubeconfig(named, Some(home.to_owned())).map_err(|error| error.to_string())?;
        Ok(found.map(|file| file.clusters.into_iter().map(|cluster| cluster.name).collect()))
    }

    #[test]
    fn a_kubeconfig_is_found_as_by_kubectl() {
        let folder = tempfile::tempdir().unwrap();
        let [a, b, wrong, missing, home] =
            ["a", "b", "wrong", "missing", "home"].map(|name| folder.path().join(name));
        for (path, text) in [(&a, "clusters: [{name: a}]"), (&b, "clusters: [{name: b}]"), (&wrong, "[")] {
            fs::write(path, text).unwrap();
        }
        let names = |names: &[&str]| Ok(Some(names.iter().map(|&name| name.to_owned()).collect()));
        assert_eq!(clusters(&[&a, &missing, &b], &home), names(&["a", "b"]));
        assert_eq!(clusters(&[&missing, &b], &home), names(&["b"]));
        assert!(clusters(&[&a, &wrong], &home).is_err());
        let error = clusters(&[&missing, &missing], &home).unwrap_err();
        assert!(error.contains("KUBECONFIG=") && error.contains(missing.to_str().unwrap()), "{error}");

        // Unset or empty.
        for named in [&[][..], &[Path::new("")]] {
            assert_eq!(clusters(named, &missing), Ok(None), "there is none");
            assert_eq!(clusters(named, &a), Ok(None), "the home directory is a file");
        }
        fs::create_dir_all(home.join(".kube")).unwrap();
        fs::write(home.join(".kube/config"), "clusters: [{name: home}]").unwrap();
        assert_eq!(clusters(&[], &home), names(&["home"]));
        fs::write(home.join(".kube/config"), "[").unwrap();
        assert!(clusters(&[], &home).is_err());
    }

    #[tokio::test]
    async fn a_program_for_credentials_does_not_block_the_runtime() {
        let folder = tempfile::tempdir().unwrap();
        let (began, go) = (folder.path().join("began"), folder.path().join("go"));
        let script = format!(
            r#"touch {}; for _ in $(seq 600); do test -e {} && exec echo '{{"status": {{"token": "t"}}}}'; sleep 0.1; done"#,
            began.display(),
            go.display()
        );
        let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
        config.auth_info.exec = Some(kube::config::ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1".to_owned()),
            command: Some("sh".to_owned()),
            args: Some(vec!["-c".to_owned(), script]),
            interactive_mode: Some(kube::config::ExecInteractiveMode::Never),
            ..kube::config::ExecConfig::default()
        });
        let release = async {
            while !began.exists() {
                tokio::task::yield_now().await;
            }
            fs::write(&go, "").unwrap();
        };
        let (client, ()) = tokio::join!(client(config, ClientTimeouts::default()), release);
        assert!(client.is_ok(), "the program waited for this thread");
    }
}
