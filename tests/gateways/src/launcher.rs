//! Starts gateways for the suite: by a program that the user names, or the one of this repository.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// Long, because a machine that builds at the same time is slow.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How long it may take to end after SIGTERM, before it is killed.
const END_WITHIN: Duration = Duration::from_secs(30);

/// How gateways are started.
#[derive(Clone, Debug)]
pub enum Launcher {
    /// This program with these arguments, and then the path of the document.
    Program(PathBuf, Vec<String>),
    /// This `extender-gateway`.
    ExtenderGateway(PathBuf),
}

/// A running gateway.
pub(crate) struct Running {
    child: Child,
    /// Without a slash at the end.
    pub(crate) url: String,
}

impl Launcher {
    /// The program.
    pub(crate) fn program(&self) -> &Path {
        match self {
            Self::Program(program, _) | Self::ExtenderGateway(program) => program,
        }
    }

    /// Starts one with this document; the folder is for files.
    ///
    /// # Errors
    ///
    /// Why it does not serve, with the last line that it wrote to standard error.
    pub(crate) async fn start(&self, document: &Value, folder: &Path) -> Result<Running, String> {
        let log = folder.join("gateway.log");
        let started = self.started(document, folder, &log).await;
        started.map_err(|error| {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            let last = log.lines().next_back().map_or_else(String::new, |line| format!("; it wrote: {line}"));
            format!("{} did not start a gateway: {error}{last}", self.program().display())
        })
    }

    async fn started(&self, document: &Value, folder: &Path, log: &Path) -> io::Result<Running> {
        let file = folder.join("gateway.json");
        let (content, arguments, prefix, scheme) = match self {
            Self::Program(_, arguments) => (document.clone(), arguments.clone(), "", ""),
            Self::ExtenderGateway(_) => {
                let arguments = vec!["serve".into(), "--config".into()];
                (extender_gateway(document), arguments, "extender listening on ", "http://")
            }
        };
        std::fs::write(&file, content.to_string())?;
        let mut command = Command::new(self.program());
        command
            .args(arguments)
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(log)?);
        let mut child = command.kill_on_drop(true).spawn()?;
        let Some(stdout) = child.stdout.take() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let mut lines = BufReader::new(stdout).lines();
        let line = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(url) = line.strip_prefix(prefix) {
                    return Ok(format!("{scheme}{}", url.trim().trim_end_matches('/')));
                }
            }
            Err(io::Error::other("it ended its standard output without the URL of the gateway"))
        };
        let late = || io::Error::other(format!("no URL within {} s", READY_WITHIN.as_secs()));
        let url = timeout(READY_WITHIN, line).await.map_err(|_| late())??;
        // What else it prints is read, so that it never waits for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Running { child, url })
    }
}

impl Running {
    /// Ends it with SIGTERM.
    pub(crate) async fn stop(mut self) {
        if let Some(id) = self.child.id() {
            let _ = Command::new("kill").args(["-TERM", &id.to_string()]).status().await;
        }
        // Otherwise it is killed when it is dropped.
        let _ = timeout(END_WITHIN, self.child.wait()).await;
    }
}

/// The configuration of this repository's gateway, in JSON, which is YAML.
fn extender_gateway(document: &Value) -> Value {
    let nodes = match &document["nodes"]["file"] {
        Value::Null => json!({"source": "Request"}),
        file => json!({"source": "File", "file": file}),
    };
    let mut configuration = json!({
        "apiVersion": "extender-gateway.io/v1alpha1",
        "kind": "GatewayConfiguration",
        "extender": {"address": "127.0.0.1:0"},
        "metrics": {"address": "127.0.0.1:0"},
        "admin": {"address": "127.0.0.1:0"},
        "timeouts": {"decision": document["timeout"], "bind": document["timeout"]},
        "cluster": {"name": document["cluster"]},
        "exempt": {"namespaces": []},
        "nodes": nodes,
        "backends": document["backends"],
    });
    if let Value::String(kubeconfig) = &document["kubeconfig"] {
        configuration["cluster"]["kubeconfig"] = kubeconfig.as_str().into();
        configuration["binder"] = "BuiltIn".into();
    }
    configuration
}
