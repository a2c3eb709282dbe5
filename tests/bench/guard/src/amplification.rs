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

/// The same for names of a few bytes, of which a call has at most 100,000: each takes as much memory as a long one, besides its
/// text.
const TIMES_OF_SHORT_NAMES: u64 = 20;

/// Memory that does not depend on the body: connections, buffers for reading and writing, and what is kept of the call.
pub const CONSTANT: u64 = 256 << 10;

/// A body of one shape.
#[derive(Debug)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// The most memory for each byte of the body.
    times: u64,
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
    /// By names that are made of their numbers.
    Names(fn(usize) -> String),
    Objects,
}

/// The memory for a call.
#[derive(Debug, Clone, Copy)]
pub struct Peak {
    /// The size of the body.
    pub body: u64,
    /// The most memory at one time.
    pub most: u64,
    /// The most that it may be, for each byte of the body.
    pub times: u64,
}

impl Peak {
    /// The multiple of the body, in tenths.
    pub fn tenths(self) -> u64 {
        self.most * 10 / self.body
    }

    /// # Errors
    /// The gateway takes more memory than it may for such a body.
    pub fn judge(self, name: &str) -> Result<(), String> {
        let Self { body, most, times } = self;
        let allowed = times * body + CONSTANT;
        if most <= allowed {
            return Ok(());
        }
        Err(format!("{name}: {most} bytes at one time for a body of {body} bytes, {allowed} at most"))
    }
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::filter("many names", 10_000, small_pod, Form::Names(usual_name)),
        Self {
            times: TIMES_OF_SHORT_NAMES,
            ..Self::filter("short names", 20_000, small_pod, Form::Names(short_name))
        },
        Self::filter("full nodes", 300, small_pod, Form::Objects),
        Self::filter("one node", 1, small_pod, Form::Objects),
        Self::filter("nested arrays", 1, nested, Form::Objects),
        Self::filter("unknown fields", 1, unknown_fields, Form::Objects),
        Self::filter("a text of escapes", 1, escapes, Form::Objects),
        Self::filter("containers", 1, containers, Form::Objects),
        Self::filter("resources", 1, resources, Form::Objects),
        Self::filter("labels", 1, labels, Form::Objects),
        Self::preempt("victims", victims),
        Self::preempt("victims as objects", victim_objects),
    ];

    const fn filter(name: &'static str, nodes: usize, pod: fn() -> String, form: Form) -> Self {
        Self { name, times: TIMES, nodes, call: Call::Filter { pod, nodes: form } }
    }

    const fn preempt(name: &'static str, body: fn() -> String) -> Self {
        Self { name, times: TIMES, nodes: 0, call: Call::Preempt(body) }
    }

    /// Makes the call, and counts.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn peak(&self) -> io::Result<Peak> {
        let folder = TempDir::new()?;
        match self.call {
            Call::Filter { pod, nodes } => self.filtered(&pod(), nodes, &folder),
            Call::Preempt(body) => {
                let (subject, _peers) = Subject::with_peers(NodeSource::Request, 1);
                let body = body().into_bytes();
                let size = body.len();
                let answered = posted(subject.address(), body);
                Ok(self.peak_of(size, subject.most_until(answered)))
            }
        }
    }

    fn filtered(&self, pod: &str, form: Form, folder: &TempDir) -> io::Result<Peak> {
        let (tail, source) = match form {
            Form::Names(name) => {
                let names: Vec<String> = (0..self.nodes).map(name).collect();
                (names_part(&names), NodeSource::File(node_file(folder, &names)?))
            }
            Form::Objects => (objects_part(&nodes(0..self.nodes, Images::Usual)), NodeSource::Request),
        };
        let body = [format!(r#"{{"Pod":{pod}"#).as_bytes(), &tail].concat();
        let size = body.len();
        let (subject, peers) = Subject::with_peers(source, self.nodes);
        Ok(self.peak_of(size, subject.most_of(peers.ask("/filter", body))))
    }

    fn peak_of(&self, body: usize, most: u64) -> Peak {
        Peak { body: body as u64, most, times: self.times }
    }
}

/// As cloud providers name them.
fn usual_name(at: usize) -> String {
    format!("ip-10-16-{}-{}.eu-west-1.compute.internal", at / 256, at % 256)
}

fn short_name(at: usize) -> String {
    format!("n{at}")
}

/// Nodes of which nothing is known but the name: what is known of them is not part of the body, and is sent to backends, too.
fn node_file(folder: &TempDir, names: &[String]) -> io::Result<PathBuf> {
    let file = folder.path().join("nodes.json");
    let nodes: Vec<String> =
        names.iter().map(|name| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)).collect();
    write_node_list(&file, nodes.iter().map(String::as_str))?;
    Ok(file)
}

/// The end of a body with these names.
fn names_part(names: &[String]) -> Vec<u8> {
    format!(r#","NodeNames":["{}"]}}"#, names.join(r#"",""#)).into()
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
        let judge = |most| Peak { body, most, times: TIMES }.judge("shape");
        let most = TIMES * body + CONSTANT;
        assert_eq!(judge(most), Ok(()));
        let complaint = judge(most + 1).unwrap_err();
        assert_eq!(
            complaint,
            format!("shape: {} bytes at one time for a body of {body} bytes, {most} at most", most + 1)
        );
    }
}
