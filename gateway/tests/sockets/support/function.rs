//! A backend whose answer about a node follows from the node's row, unless a test makes it violate its declaration.

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use extender_policy_api::v1beta1::{
    self as api, FilterRequest, FilterResponse, GetInfoResponse, NodeRow, Reads, Rejection, ScoreResponse,
    Scores,
};
use prost::Message;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{
    backend::{Act, Scripted, info, rows},
    reading,
};

/// A running backend. It refuses the nodes that have a label `refused`, with the label as the reason and the label `rule`
/// as its rule, and scores a node by its label `score`, without an opinion if that is `none`.
pub(crate) struct Function {
    pub(crate) backend: Scripted,
    state: Arc<Mutex<State>>,
}

/// How it behaves.
pub(crate) struct State {
    /// Its declaration.
    pub(crate) info: GetInfoResponse,
    /// Handshakes have no answer until this is true.
    held: Option<watch::Receiver<bool>>,
    /// The revision that its answers name.
    pub(crate) revision: String,
    /// Replaces every answer.
    pub(crate) instead: Option<Act>,
    /// Whether filter returns the requested scores.
    pub(crate) brings: Brings,
    /// Added to every score: makes it a different function.
    pub(crate) bonus: i32,
    /// Whether it refuses every node: makes it a different function.
    pub(crate) strict: bool,
    /// Done before the next answer.
    pub(crate) meanwhile: Option<Box<dyn FnOnce() + Send>>,
}

/// What an answer to filter has besides the verdicts.
#[derive(Clone, Copy)]
pub(crate) enum Brings {
    /// One score for each node, if scores are requested.
    Scores,
    /// No scores.
    Nothing,
    /// One score too many.
    OneTooMany,
}

/// Filter and score declared pure, at revision `r1`, with what both read besides the identity of the pod.
pub(crate) fn pure(reads: Reads) -> GetInfoResponse {
    let reads = reading::without_identity(reads);
    let mut info = GetInfoResponse { revision: "r1".into(), ..info(reads) };
    info.verbs.iter_mut().for_each(|verb| verb.set_effects(api::Effects::Pure));
    info
}

impl Function {
    pub(crate) async fn start(info: GetInfoResponse) -> Self {
        let state = State {
            revision: info.revision.clone(),
            info,
            held: None,
            instead: None,
            brings: Brings::Scores,
            bonus: 0,
            strict: false,
            meanwhile: None,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let script = move |verb: &str, message| shared.lock().unwrap().answer(verb, &message);
        Self { backend: Scripted::start_bare(script, None).await, state }
    }

    /// Its behavior, to be changed.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Blocks handshakes from now on, until true is sent. A handshake in progress has its answer before any later
    /// call.
    pub(crate) fn hold_handshakes(&self) -> watch::Sender<bool> {
        let (go, held) = watch::channel(false);
        self.state().held = Some(held);
        go
    }

    /// The names of the nodes of each filter call so far.
    pub(crate) fn filtered(&self) -> Vec<Vec<String>> {
        self.backend.asked("Filter")
    }

    /// The names of the nodes of each score call so far.
    pub(crate) fn scored(&self) -> Vec<Vec<String>> {
        self.backend.asked("Score")
    }
}

impl State {
    fn answer(&mut self, verb: &str, message: &Bytes) -> Act {
        if let Some(meanwhile) = self.meanwhile.take_if(|_| verb != "GetInfo") {
            meanwhile();
        }
        let introduction = || Act::Message(self.info.encode_to_vec());
        match (verb, &self.held, &self.instead) {
            ("GetInfo", Some(go), _) => Act::Later(go.clone(), Box::new(introduction())),
            ("GetInfo", None, _) => introduction(),
            (_, _, Some(act)) => act.clone(),
            ("Filter", ..) => Act::Message(self.filter(message).encode_to_vec()),
            _ => Act::Message(self.score(message).encode_to_vec()),
        }
    }

    fn result(&self, count: usize) -> api::Result {
        api::Result { revision: self.revision.clone(), ..super::backend::result(count) }
    }

    fn filter(&self, message: &Bytes) -> FilterResponse {
        let rows = rows(message);
        let refused = |row: &NodeRow| if self.strict { Some("strict".into()) } else { label(row, "refused") };
        let rejection = |(at, row)| {
            let rule = label(row, "rule").unwrap_or_default();
            Some(Rejection {
                reason: refused(row)?,
                kind: api::RejectionKind::Unresolvable.into(),
                positions: vec![at],
                rule,
                ..Rejection::default()
            })
        };
        let rejections = (0..).zip(&rows).filter_map(rejection);
        let wanted = FilterRequest::decode(message.clone()).unwrap().want_scores;
        let mut scores = self.scores(&rows);
        let scores = match self.brings {
            Brings::Nothing => None,
            Brings::Scores => wanted.then_some(scores),
            Brings::OneTooMany => {
                scores.values.push(0);
                Some(scores)
            }
        };
        FilterResponse { result: Some(self.result(rows.len())), rejections: rejections.collect(), scores }
    }

    fn score(&self, message: &Bytes) -> ScoreResponse {
        let rows = rows(message);
        ScoreResponse { result: Some(self.result(rows.len())), scores: Some(self.scores(&rows)) }
    }

    fn scores(&self, rows: &[NodeRow]) -> Scores {
        let scores: Vec<_> = rows.iter().map(|row| label(row, "score").unwrap_or_default()).collect();
        let absent = (0..).zip(&scores).filter(|(_, score)| *score == "none").map(|(at, _)| at);
        let value = |score: &String| score.parse::<i32>().unwrap_or(0) + self.bonus;
        Scores { values: scores.iter().map(value).collect(), absent: absent.collect() }
    }
}

fn label(row: &NodeRow, key: &str) -> Option<String> {
    row.facts.as_ref()?.labels.as_ref()?.entries.get(key).cloned()
}

/// A node with these labels.
pub(crate) fn labelled(name: &str, labels: &Value) -> String {
    json!({"metadata": {"name": name, "labels": labels}}).to_string()
}

/// A pod as a `ReplicaSet` creates it: siblings have other numbers.
pub(crate) fn sibling(number: u32) -> Value {
    let access = format!("kube-api-access-{number:05}");
    json!({
        "metadata": {
            "name": format!("web-5d4f8c7b9-{number:05}"), "generateName": "web-5d4f8c7b9-", "namespace": "shop",
            "uid": format!("u-{number}"), "creationTimestamp": format!("2026-01-01T00:00:{number:02}Z"),
            "resourceVersion": number.to_string(), "labels": {"app": "web", "pod-template-hash": "5d4f8c7b9"},
            "annotations": {"example.com/tier": "front", "kubectl/at": number.to_string()},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f8c7b9",
                "uid": "rs-1", "controller": true}],
        },
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}},
                "volumeMounts": [{"name": access, "mountPath": "/var/run"}]}],
            "volumes": [{"name": access, "projected": {}}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
        },
        "status": {"phase": "Pending"},
    })
}

/// A request about this pod in names mode.
pub(crate) fn about(pod: &Value, names: &[&str]) -> String {
    json!({"Pod": pod, "Nodes": null, "NodeNames": names}).to_string()
}

/// A request about this pod with these node objects.
pub(crate) fn about_objects(pod: &Value, nodes: &[String]) -> String {
    format!(r#"{{"Pod":{pod},"Nodes":{{"metadata":{{}},"items":[{}]}},"NodeNames":null}}"#, nodes.join(","))
}
