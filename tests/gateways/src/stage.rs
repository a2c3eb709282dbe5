//! A gateway between kube-scheduler's side and its backends: what the cases of a group share.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use bytes::Bytes;
use http::{Request, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::Mutex, time::timeout};

use crate::{
    apiserver::Apiserver,
    backend::{Backend, PATIENCE},
    case::{Check, Group, Nodes, Stop},
    fault::Fault,
    launcher::{Launcher, Running},
    scene,
};

/// The name of the cluster in each document.
pub(crate) const CLUSTER: &str = "conformance";

/// What a group shares; clones are the same.
#[derive(Clone)]
pub(crate) struct Stage(Arc<Shared>);

struct Shared {
    gateway: Mutex<Option<Running>>,
    url: String,
    backends: Vec<Backend>,
    apiserver: Option<Apiserver>,
    fault: Fault,
    folder: tempfile::TempDir,
}

/// What kube-scheduler reads in an answer to filter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filtered {
    pub(crate) kept: Vec<String>,
    pub(crate) failed: BTreeMap<String, String>,
    pub(crate) unresolvable: BTreeMap<String, String>,
    pub(crate) error: String,
    pub(crate) body: Value,
}

impl Stage {
    /// Starts backends and gateway, and waits until it has called each backend.
    pub(crate) async fn start(group: &Group, launcher: &Launcher, fault: &Fault) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("the suite cannot start its servers: {error}");
        let folder = tempfile::tempdir().map_err(failed)?;
        let mut backends = Vec::new();
        for declared in &group.backends {
            backends.push(Backend::start(declared.clone(), fault.clone()).await.map_err(failed)?);
        }
        let mut document = json!({
            "timeout": "20s",
            "cluster": CLUSTER,
            "nodes": {},
            "backends": backends.iter().map(Backend::document).collect::<Vec<_>>(),
        });
        if let Nodes::File(nodes) = &group.nodes {
            let file = folder.path().join("nodes.json");
            std::fs::write(&file, scene::list(nodes).to_string()).map_err(failed)?;
            document["nodes"]["file"] = file.display().to_string().into();
        }
        let apiserver = if group.binds { Some(Apiserver::start().await.map_err(failed)?) } else { None };
        if let Some(apiserver) = &apiserver {
            let file = folder.path().join("kubeconfig");
            std::fs::write(&file, apiserver.kubeconfig().to_string()).map_err(failed)?;
            document["kubeconfig"] = file.display().to_string().into();
        }
        let running = launcher.start(&document, folder.path()).await?;
        let url = running.url.clone();
        let gateway = Mutex::new(Some(running));
        let stage =
            Self(Arc::new(Shared { gateway, url, backends, apiserver, fault: fault.clone(), folder }));
        for backend in &stage.0.backends {
            let called = backend.until("GetInfo is called", "GetInfo", |calls| calls.first().map(drop)).await;
            called.map_err(|stop| match stop {
                Stop::Failed(text) | Stop::Skipped(text) => text,
            })?;
        }
        Ok(stage)
    }

    /// Ends the gateway.
    pub(crate) async fn stop(&self) {
        if let Some(running) = self.0.gateway.lock().await.take() {
            running.stop().await;
        }
    }

    /// As before any case.
    pub(crate) fn reset(&self) {
        self.0.backends.iter().for_each(Backend::reset);
    }

    /// The backend of this name, which the group has.
    pub(crate) fn backend(&self, name: &str) -> Check<&Backend> {
        let found = self.0.backends.iter().find(|backend| backend.name() == name);
        found.ok_or_else(|| Stop::Failed(format!("the suite has no backend {name} here")))
    }

    pub(crate) fn apiserver(&self) -> Check<&Apiserver> {
        self.0.apiserver.as_ref().ok_or_else(|| "the suite has no apiserver here".into())
    }

    /// Replaces the file of nodes at once.
    pub(crate) fn replace_nodes(&self, nodes: &[Value]) -> Check {
        let folder = self.0.folder.path();
        let written: (PathBuf, PathBuf) = (folder.join("new.json"), folder.join("nodes.json"));
        let replaced = std::fs::write(&written.0, scene::list(nodes).to_string())
            .and_then(|()| std::fs::rename(&written.0, &written.1));
        replaced.map_err(|error| Stop::Failed(format!("the suite cannot write the nodes: {error}")))
    }

    /// Posts a body as kube-scheduler does.
    pub(crate) async fn post(&self, verb: &str, body: &(impl ToString + ?Sized)) -> Check<Value> {
        let body = body.to_string();
        let answered = timeout(PATIENCE * 2, self.send(verb, body)).await;
        let late = || Stop::Failed(format!("/{verb} is not answered within {} s", PATIENCE.as_secs() * 2));
        let body =
            answered.map_err(|_| late())?.map_err(|error| Stop::Failed(format!("/{verb}: {error}")))?;
        Ok(self.0.fault.reply(verb, body))
    }

    async fn send(
        &self,
        verb: &str,
        body: String,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let url: http::Uri = format!("{}/{verb}", self.0.url).parse()?;
        let host = url.authority().map(ToString::to_string).unwrap_or_default();
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(TcpStream::connect(&host).await?)).await?;
        // A caller that is dropped disconnects.
        let connection = AbortOnDrop(tokio::spawn(async move { drop(connection.await) }));
        let request = Request::post(url.path()).header("host", host).header(CONTENT_TYPE, "application/json");
        let response = sender.send_request(request.body(Full::new(Bytes::from(body)))?).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        drop(connection);
        if status != 200 {
            let body = String::from_utf8_lossy(&body);
            return Err(format!("status {status}, which kube-scheduler reads as no answer: {body}").into());
        }
        Ok(serde_json::from_slice(&body)?)
    }

    /// Posts this body to filter.
    pub(crate) async fn filter(&self, body: &(impl ToString + ?Sized)) -> Check<Filtered> {
        let body = self.post("filter", body).await?;
        let texts = |map: &Value| match map {
            Value::Object(map) => map
                .iter()
                .map(|(key, text)| (key.clone(), text.as_str().unwrap_or_default().to_owned()))
                .collect(),
            _ => BTreeMap::new(),
        };
        let names = |list: &Value, name: fn(&Value) -> &Value| {
            let names = list.as_array().into_iter().flatten().map(name);
            names.map(|name| name.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let kept = match &body["NodeNames"] {
            Value::Null => names(&body["Nodes"]["items"], |node| &node["metadata"]["name"]),
            listed => names(listed, |name| name),
        };
        Ok(Filtered {
            kept,
            failed: texts(&body["FailedNodes"]),
            unresolvable: texts(&body["FailedAndUnresolvableNodes"]),
            error: body["Error"].as_str().unwrap_or_default().to_owned(),
            body,
        })
    }

    /// The same, which must succeed.
    pub(crate) async fn filter_ok(&self, body: &(impl ToString + ?Sized)) -> Check<Filtered> {
        let filtered = self.filter(body).await?;
        if filtered.error.is_empty() {
            Ok(filtered)
        } else {
            Err(format!("filter: {}", filtered.error).into())
        }
    }

    /// The scores of prioritize by the names of the nodes.
    pub(crate) async fn prioritize(&self, body: &Value) -> Check<Vec<(String, i64)>> {
        let scores = self.post("prioritize", body).await?;
        let scores =
            scores.as_array().ok_or_else(|| Stop::Failed(format!("prioritize: no list: {scores}")))?;
        let score = |score: &Value| Some((score["Host"].as_str()?.to_owned(), score["Score"].as_i64()?));
        let read: Option<Vec<_>> = scores.iter().map(score).collect();
        let mut read =
            read.ok_or_else(|| Stop::Failed(format!("prioritize: not hosts and scores: {scores:?}")))?;
        read.sort();
        Ok(read)
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
