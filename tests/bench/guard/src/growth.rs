//! How the work of a call grows with its body: bodies of one size and of four times that size, each with many items
//! of one kind.
//!
//! The subject is the built gateway under valgrind, as in [`crate::instructions`]. The count of the same run with a
//! body without any of these items is subtracted from the count of a run; the rest may grow as fast as the body,
//! and no faster.

use std::{
    fmt::Write,
    io::{self, Read},
    net::{SocketAddr, TcpStream},
    path::Path,
};

use extender_harness::{gateway::NodeSource, request::write_node_list};
use tempfile::TempDir;

use crate::instructions::{CountError, Hook, Run};

/// How much larger the second body is.
pub const TIMES: u64 = 4;

/// The most work for the larger body, as a multiple of that for the smaller one: [`TIMES`] and half as much again,
/// for trees that are a level deeper and data that no longer fits the processor's caches.
const MOST: u64 = TIMES + TIMES / 2;

/// Instructions that differ from run to run: handshakes and timers depend on time, and valgrind takes more of it.
const NOISE: u64 = 4_000_000;

/// A body with many items of one kind.
#[derive(Debug)]
pub struct Many {
    /// The kind.
    pub name: &'static str,
    /// The number of items in the smaller body.
    pub few: usize,
    verb: Verb,
    nodes: Nodes,
    body: fn(usize) -> String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Filter,
    /// After a hook that changes each node in its own way.
    FilterAfterHook,
    Preempt,
}

/// The nodes that the gateway knows, and the number of different nodes in a call.
#[derive(Debug, Clone, Copy)]
enum Nodes {
    /// None; a call brings one.
    One,
    /// None; a call brings as many as it has items.
    AsMany,
    /// As many as the larger body names, and a call names as many as it has items.
    Known,
    /// One, which the calls name.
    OneKnown,
}

/// The work for bodies of both sizes, beyond that for an empty one.
#[derive(Debug, Clone, Copy)]
pub struct Growth {
    few: u64,
    many: u64,
}

impl Growth {
    /// The problem, in words.
    ///
    /// # Errors
    /// The work grows faster than the body.
    pub fn judge(self, name: &str) -> Result<(), String> {
        let Self { few, many } = self;
        let most = few * MOST + NOISE;
        if many <= most {
            return Ok(());
        }
        Err(format!(
            "{name}: {TIMES} times as many take {many} instructions instead of {few}, {most} at most: the work grows \
             faster than the body"
        ))
    }
}

impl Many {
    /// All of them. Kinds in one body are linear together, or not.
    pub const ALL: [Self; 10] = [
        Self::filter("resources of a container", 1_500, Nodes::One, resources),
        Self::filter("containers, init containers and sidecars", 1_000, Nodes::One, containers),
        Self::filter("entries of the pod's other lists", 1_000, Nodes::One, lists),
        Self::filter("long texts and deep nesting", 2_000, Nodes::One, texts),
        Self::filter("entries of a node's lists", 1_000, Nodes::One, node_lists),
        Self::filter("node objects", 1_000, Nodes::AsMany, node_objects),
        Self::filter("node names", 2_000, Nodes::Known, names),
        Self::filter("repetitions of a name", 10_000, Nodes::OneKnown, repetitions),
        Self {
            verb: Verb::FilterAfterHook,
            ..Self::filter("nodes that a hook changes", 2_000, Nodes::Known, names)
        },
        Self { verb: Verb::Preempt, ..Self::filter("victims and their nodes", 1_000, Nodes::One, victims) },
    ];

    const fn filter(name: &'static str, few: usize, nodes: Nodes, body: fn(usize) -> String) -> Self {
        Self { name, few, verb: Verb::Filter, nodes, body }
    }

    /// Counts the instructions.
    ///
    /// # Errors
    /// Counting failed.
    pub fn growth(&self, folder: &Path) -> Result<Growth, CountError> {
        let many = self.few * usize::try_from(TIMES).expect("it is small");
        let of = |size| self.total(size, many, folder);
        let nothing = of(1)?;
        let beyond = |size| Ok::<_, CountError>(of(size)?.saturating_sub(nothing));
        Ok(Growth { few: beyond(self.few)?, many: beyond(many)? })
    }

    /// Everything from the gateway's start to its end, with one call of this size.
    fn total(&self, size: usize, most: usize, folder: &Path) -> Result<u64, CountError> {
        let files = TempDir::new()?;
        let known = match self.nodes {
            Nodes::One | Nodes::AsMany => 0,
            Nodes::OneKnown => 1,
            Nodes::Known => most,
        };
        let source =
            if known == 0 { NodeSource::Request } else { NodeSource::File(node_file(&files, known)?) };
        let about = match self.nodes {
            Nodes::One | Nodes::OneKnown => 1,
            Nodes::AsMany | Nodes::Known => size,
        };
        let counts = folder.join(format!("callgrind.out.{}.{size}", self.name.replace([' ', ','], "-")));
        let hook = if self.verb == Verb::FilterAfterHook { Hook::OfEachNode } else { Hook::None };
        let run = Run::start((source, hook), about, counts)?;
        let body = (self.body)(size).into_bytes();
        match self.verb {
            Verb::Filter | Verb::FilterAfterHook => run.make("/filter", body)?,
            // No backend is called.
            Verb::Preempt => post(run.address(), "/preempt", &body)?,
        }
        run.finish()
    }
}

fn node_file(files: &TempDir, count: usize) -> io::Result<std::path::PathBuf> {
    let file = files.path().join("nodes.json");
    let nodes: Vec<String> = (0..count).map(node).collect();
    write_node_list(&file, nodes.iter().map(String::as_str))?;
    Ok(file)
}

/// Posts a body and reads the answer, which must be a success.
pub(crate) fn post(address: SocketAddr, path: &str, body: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    io::Write::write_all(&mut stream, &[head.as_bytes(), body].concat())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(io::Error::other(answer)) }
}

/// This many items, distinguished by their numbers, separated by commas.
fn many(count: usize, thing: impl Fn(usize) -> String) -> String {
    (0..count).map(thing).collect::<Vec<_>>().join(",")
}

fn call(metadata: &str, spec: &str, node: &str) -> String {
    format!(
        r#"{{"Pod":{{"metadata":{{"name":"web-0","namespace":"shop","uid":"u-0"{metadata}}},"spec":{{{spec}}}}},"Nodes":{{"items":[{node}]}}}}"#
    )
}

fn node(number: usize) -> String {
    format!(r#"{{"metadata":{{"name":"node-{number:06}"}}}}"#)
}

fn of_the_pod(metadata: &str, spec: &str) -> String {
    call(metadata, spec, &node(0))
}

/// With amounts of 0: the apiserver and kube-scheduler accept as many as fit into etcd.
fn resources(count: usize) -> String {
    let amounts = many(count, |at| format!(r#""example.com/r{at:06}":"0""#));
    of_the_pod(
        "",
        &format!(
            r#""containers":[{{"name":"c","resources":{{"requests":{{{amounts}}},"limits":{{{amounts}}}}}}}]"#
        ),
    )
}

fn containers(count: usize) -> String {
    let plain =
        many(count, |at| format!(r#"{{"name":"c{at:06}","resources":{{"requests":{{"cpu":"1m"}}}}}}"#));
    let own = |at| {
        format!(
            r#"{{"name":"s{at:06}","restartPolicy":"Always","resources":{{"requests":{{"example.com/r{at:06}":"1"}}}}}}"#
        )
    };
    let sidecars = many(count, own);
    let last =
        many(count, |at| format!(r#"{{"name":"i{at:06}","resources":{{"requests":{{"cpu":"2m"}}}}}}"#));
    of_the_pod("", &format!(r#""containers":[{plain}],"initContainers":[{sidecars},{last}]"#))
}

fn lists(count: usize) -> String {
    let pairs = many(count, |at| format!(r#""example.com/k{at:06}":"v""#));
    let owners = many(count, |at| format!(r#"{{"kind":"Job","name":"o{at:06}","uid":"u{at:06}"}}"#));
    let tolerations = many(count, |at| format!(r#"{{"key":"k{at:06}","operator":"Exists"}}"#));
    let volume = |at| match at % 2 {
        0 => format!(r#"{{"name":"v{at:06}","ephemeral":{{}}}}"#),
        _ => format!(r#"{{"name":"v{at:06}","persistentVolumeClaim":{{"claimName":"c{at:06}-web-0"}}}}"#),
    };
    let volumes = many(count, volume);
    let terms = many(count, |at| {
        format!(r#"{{"matchExpressions":[{{"key":"k","operator":"In","values":["v{at:06}"]}}]}}"#)
    });
    let metadata = format!(r#","labels":{{{pairs}}},"annotations":{{{pairs}}},"ownerReferences":[{owners}]"#);
    let affinity = format!(
        r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{terms}]}}}}}}"#
    );
    let spec = format!(
        r#""tolerations":[{tolerations}],"nodeSelector":{{{pairs}}},"volumes":[{volumes}],{affinity}"#
    );
    of_the_pod(&metadata, &spec)
}

fn texts(count: usize) -> String {
    const DEPTH: usize = 100;
    let escaped = "\\u00e4".repeat(20 * count);
    let plain = "a".repeat(200 * count);
    let mut nested = String::new();
    for _ in 0..count {
        let _ = write!(nested, "{}{},", "[".repeat(DEPTH), "]".repeat(DEPTH));
    }
    let metadata = format!(r#","labels":{{"plain":"{plain}","escaped":"{escaped}"}}"#);
    of_the_pod(&metadata, &format!(r#""unknown":[{nested}0],"priorityClassName":"{escaped}""#))
}

fn node_lists(count: usize) -> String {
    let pairs = many(count, |at| format!(r#""example.com/k{at:06}":"1""#));
    let taints = many(count, |at| format!(r#"{{"key":"k{at:06}","effect":"NoSchedule"}}"#));
    let conditions = many(count, |at| format!(r#"{{"type":"T{at:06}","status":"True"}}"#));
    let images =
        many(count, |at| format!(r#"{{"names":["registry.example.com/i{at:06}"],"sizeBytes":{at}}}"#));
    let node = format!(
        r#"{{"metadata":{{"name":"node-000000","labels":{{{pairs}}},"annotations":{{{pairs}}}}},"spec":{{"taints":[{taints}]}},"status":{{"capacity":{{{pairs}}},"allocatable":{{{pairs}}},"conditions":[{conditions}],"images":[{images}]}}}}"#
    );
    call("", "", &node)
}

fn node_objects(count: usize) -> String {
    call("", "", &many(count, node))
}

fn names(count: usize) -> String {
    format!(
        r#"{{"Pod":{{"metadata":{{"name":"web-0","uid":"u-0"}}}},"NodeNames":[{}]}}"#,
        many(count, |at| format!(r#""node-{at:06}""#))
    )
}

fn repetitions(count: usize) -> String {
    format!(
        r#"{{"Pod":{{"metadata":{{"name":"web-0","uid":"u-0"}}}},"NodeNames":[{}]}}"#,
        many(count, |_| r#""node-000000""#.to_owned())
    )
}

fn victims(count: usize) -> String {
    let victims = |node| format!(r#"{{"metadata":{{"uid":"v{node:06}"}},"spec":{{}}}}"#);
    let one_each = many(count, |at| format!(r#""node-{at:06}":{{"Pods":[{}]}}"#, victims(at)));
    let all = many(count, victims);
    format!(
        r#"{{"Pod":{{"metadata":{{"name":"web-0"}}}},"NodeNameToVictims":{{{one_each},"node-all":{{"Pods":[{all}]}}}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_and_grow_with_their_size() {
        for Many { name, few, body, .. } in &Many::ALL {
            let sizes = [*few, few * 2].map(|size| {
                let text = body(size);
                assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{name}: {text:.200}");
                text.len()
            });
            assert!(sizes[1] > sizes[0] * 19 / 10 && sizes[1] < sizes[0] * 21 / 10, "{name}: {sizes:?}");
        }
    }

    #[test]
    fn what_grows_faster_than_its_body_is_named() {
        let linear = Growth { few: 10_000_000, many: 42_000_000 };
        assert_eq!(linear.judge("labels"), Ok(()));
        let text = Growth { few: 10_000_000, many: 160_000_000 }.judge("labels").unwrap_err();
        assert!(text.starts_with("labels: 4 times as many take 160000000 instructions"), "{text}");
    }
}
