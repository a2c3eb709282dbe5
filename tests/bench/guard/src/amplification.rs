//! How much memory the gateway has at one time for a call, as a multiple of the body: whoever may call, or create a pod, can
//! choose what a body is made of.
//!
//! The subject is the gateway on the calling thread, as in [`crate::subject`]. What is counted includes the body itself, what
//! is sent to the backends, and the reply.

use std::{fmt::Write, io, net::SocketAddr, path::PathBuf, thread};

use extender_harness::{
    gateway::NodeSource,
    node::{Images, nodes},
    request::{objects_part, write_node_list},
};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::{growth::post, subject::Subject};

/// The most memory for each byte of a body.
pub const TIMES: u64 = 10;

/// Memory that does not depend on the body: connections, buffers for reading and writing, and what is kept of the call.
pub const CONSTANT: u64 = 1 << 20;

/// A body of one shape.
#[derive(Debug)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// The number of nodes in the call.
    nodes: usize,
    call: Call,
}

#[derive(Debug, Clone, Copy)]
enum Call {
    /// A filter call with this pod and as many nodes.
    Filter { pod: fn() -> String, nodes: Form },
    /// A preempt call, which no backend gets.
    Preempt(fn() -> String),
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Names,
    Objects,
}

/// The memory for a call.
#[derive(Debug, Clone, Copy)]
pub struct Peak {
    /// The size of the body.
    pub body: u64,
    /// The most memory at one time.
    pub most: u64,
}

impl Peak {
    /// The multiple of the body, in tenths.
    pub fn tenths(self) -> u64 {
        self.most * 10 / self.body
    }

    /// # Errors
    /// The gateway takes more memory than it may for such a body.
    pub fn judge(self, name: &str) -> Result<(), String> {
        let Self { body, most } = self;
        let allowed = TIMES * body + CONSTANT;
        if most <= allowed {
            return Ok(());
        }
        Err(format!("{name}: {most} bytes at one time for a body of {body} bytes, {allowed} at most"))
    }
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self { name: "many names", nodes: 20_000, call: filter(small_pod, Form::Names) },
        Self { name: "full nodes", nodes: 300, call: filter(small_pod, Form::Objects) },
        Self { name: "nested arrays", nodes: 1, call: filter(nested, Form::Objects) },
        Self { name: "unknown fields", nodes: 1, call: filter(unknown_fields, Form::Objects) },
        Self { name: "a text of escapes", nodes: 1, call: filter(escapes, Form::Objects) },
        Self { name: "containers", nodes: 1, call: filter(containers, Form::Objects) },
        Self { name: "resources", nodes: 1, call: filter(resources, Form::Objects) },
        Self { name: "labels", nodes: 1, call: filter(labels, Form::Objects) },
        Self { name: "one node", nodes: 1, call: filter(small_pod, Form::Objects) },
        Self { name: "victims", nodes: 0, call: Call::Preempt(victims) },
        Self { name: "victims as objects", nodes: 0, call: Call::Preempt(victim_objects) },
    ];

    /// Makes the call, and counts.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn peak(&self) -> io::Result<Peak> {
        let folder = TempDir::new()?;
        match self.call {
            Call::Filter { pod, nodes: form } => self.filter(&pod(), form, &folder),
            Call::Preempt(body) => {
                let (subject, _peers) = Subject::with_peers(NodeSource::Request, 1);
                let body = body().into_bytes();
                let size = body.len() as u64;
                let answered = posted(subject.address(), body);
                Ok(Peak { body: size, most: subject.most_until(answered) })
            }
        }
    }

    fn filter(&self, pod: &str, form: Form, folder: &TempDir) -> io::Result<Peak> {
        let (tail, source) = match form {
            Form::Names => (names(self.nodes), NodeSource::File(node_file(folder, self.nodes)?)),
            Form::Objects => (objects_part(&nodes(0..self.nodes, Images::Usual)), NodeSource::Request),
        };
        let body = [format!(r#"{{"Pod":{pod}"#).as_bytes(), &tail].concat();
        let size = body.len() as u64;
        let (subject, peers) = Subject::with_peers(source, self.nodes);
        Ok(Peak { body: size, most: subject.most_of(peers.ask("/filter", body)) })
    }
}

const fn filter(pod: fn() -> String, nodes: Form) -> Call {
    Call::Filter { pod, nodes }
}

/// Nodes of which nothing is known but the name: what is known of them is not part of the body, and is sent to backends, too.
fn node_file(folder: &TempDir, count: usize) -> io::Result<PathBuf> {
    let file = folder.path().join("nodes.json");
    let nodes: Vec<String> =
        (0..count).map(|at| format!(r#"{{"metadata":{{"name":"node-{at:06}"}}}}"#)).collect();
    write_node_list(&file, nodes.iter().map(String::as_str))?;
    Ok(file)
}

/// The end of a body with these names.
fn names(count: usize) -> Vec<u8> {
    format!(r#","NodeNames":[{}]}}"#, many(count, |at| format!(r#""node-{at:06}""#))).into()
}

/// Posts a body on a thread of its own. Ready when the answer has been read.
fn posted(gateway: SocketAddr, body: Vec<u8>) -> oneshot::Receiver<()> {
    let (send, answered) = oneshot::channel();
    thread::spawn(move || {
        post(gateway, "/preempt", &body).expect("the gateway answers");
        let _ = send.send(());
    });
    answered
}

fn many(count: usize, thing: impl Fn(usize) -> String) -> String {
    (0..count).map(thing).collect::<Vec<_>>().join(",")
}

fn pod(metadata: &str, spec: &str) -> String {
    format!(r#"{{"metadata":{{"name":"web-0","namespace":"shop","uid":"u-0"{metadata}}},"spec":{{{spec}}}}}"#)
}

fn small_pod() -> String {
    pod("", "")
}

/// Arrays of the deepest nesting that is accepted, in a field that is not read.
fn nested() -> String {
    const DEPTH: usize = 100;
    let mut arrays = String::new();
    for _ in 0..5_000 {
        let _ = write!(arrays, "{}{},", "[".repeat(DEPTH), "]".repeat(DEPTH));
    }
    pod("", &format!(r#""unknown":[{arrays}0]"#))
}

fn unknown_fields() -> String {
    let fields = many(50_000, |at| format!(r#""unknown{at}":{at}"#));
    pod(&format!(",{fields}"), &fields)
}

/// A text that has to be copied to be read, in fields that backends get.
fn escapes() -> String {
    let text = "\\u00e4".repeat(100_000);
    pod(
        &format!(r#","labels":{{"a":"{text}"}},"annotations":{{"b":"{text}"}}"#),
        &format!(r#""priorityClassName":"{text}""#),
    )
}

fn containers() -> String {
    let container = |at| {
        format!(
            r#"{{"name":"c{at:06}","image":"registry.example.com/web:1","resources":{{"requests":{{"cpu":"1m","memory":"1Mi"}},"limits":{{"memory":"2Mi"}}}}}}"#
        )
    };
    pod("", &format!(r#""containers":[{}]"#, many(5_000, container)))
}

fn resources() -> String {
    let amounts = many(5_000, |at| format!(r#""example.com/resource-{at:06}":"1""#));
    pod(
        "",
        &format!(
            r#""containers":[{{"name":"c","resources":{{"requests":{{{amounts}}},"limits":{{{amounts}}}}}}}]"#
        ),
    )
}

fn labels() -> String {
    let labels = many(15_000, |at| format!(r#""example.com/label-{at:06}":"value""#));
    pod(&format!(r#","labels":{{{labels}}},"annotations":{{{labels}}}"#), "")
}

/// UIDs as of kube-apiserver.
fn uid(node: usize, victim: usize) -> String {
    format!("00000000-0000-4000-8000-{node:06}{victim:06}")
}

fn victims() -> String {
    let node = |node| {
        let pods = many(50, |victim| format!(r#"{{"UID":"{}"}}"#, uid(node, victim)));
        format!(r#""node-{node:06}":{{"Pods":[{pods}],"NumPDBViolations":0}}"#)
    };
    format!(r#"{{"Pod":{},"NodeNameToMetaVictims":{{{}}}}}"#, small_pod(), many(500, node))
}

fn victim_objects() -> String {
    let pod = |node, victim| {
        format!(
            r#"{{"metadata":{{"name":"victim-{victim}","namespace":"shop","uid":"{}","labels":{{"app":"web"}}}},"spec":{{"containers":[{{"name":"c","image":"web:1"}}]}}}}"#,
            uid(node, victim)
        )
    };
    let node = |node| {
        let pods = many(50, |victim| pod(node, victim));
        format!(r#""node-{node:06}":{{"Pods":[{pods}],"NumPDBViolations":0}}"#)
    };
    format!(r#"{{"Pod":{},"NodeNameToVictims":{{{}}}}}"#, small_pod(), many(200, node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_more_than_it_may_is_named() {
        let body = 1 << 20;
        let judge = |most| Peak { body, most }.judge("shape");
        let most = TIMES * body + CONSTANT;
        assert_eq!(judge(most), Ok(()));
        let complaint = judge(most + 1).unwrap_err();
        assert_eq!(
            complaint,
            format!("shape: {} bytes at one time for a body of {body} bytes, {most} at most", most + 1)
        );
    }
}
