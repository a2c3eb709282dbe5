//! The echo's answers: it finds the nodes in a body by searching bytes, without parsing. kube-scheduler's form is
//! fixed, so this is enough: `,"Nodes":…,"NodeNames":…}` ends every body, and inside a string the quotes of such a
//! text would be escaped.

use std::io::Write;

use extender_harness::request::Verb;
use memchr::{memchr, memmem};

/// The memory of one connection's answers.
#[derive(Debug, Default)]
pub(super) struct Reply {
    scores: Vec<u8>,
}

/// The nodes of a body, as bytes of it.
enum Nodes<'a> {
    /// The array of names, brackets included.
    Names(&'a [u8]),
    /// The `NodeList` object.
    Objects(&'a [u8]),
}

impl Reply {
    /// The answer to a body, in parts.
    pub(super) fn to<'a>(&'a mut self, verb: Verb, body: &'a [u8]) -> [&'a [u8]; 3] {
        match (verb, Nodes::find(body)) {
            (Verb::Filter, Nodes::Names(names)) => [b"{\"NodeNames\":", names, b"}"],
            (Verb::Filter, Nodes::Objects(objects)) => [b"{\"Nodes\":", objects, b"}"],
            (Verb::Prioritize, nodes) => [b"[", self.scores_of(&nodes), b"]"],
        }
    }

    fn scores_of(&mut self, nodes: &Nodes<'_>) -> &[u8] {
        self.scores.clear();
        match nodes {
            Nodes::Names(names) => self.score_quoted(names),
            Nodes::Objects(objects) => self.score_named(objects),
        }
        &self.scores
    }

    /// Every string of an array of names, which need no escapes.
    fn score_quoted(&mut self, mut names: &[u8]) {
        let mut count = 0;
        while let Some(open) = memchr(b'"', names) {
            names = &names[open + 1..];
            let Some(close) = memchr(b'"', names) else { return };
            self.score(&names[..close], &mut count);
            names = &names[close + 1..];
        }
    }

    /// Every node object: its name is the first thing in it.
    fn score_named(&mut self, objects: &[u8]) {
        const BEGINNING: &[u8] = b"{\"metadata\":{\"name\":\"";
        let mut count = 0;
        for at in memmem::find_iter(objects, BEGINNING) {
            let rest = &objects[at + BEGINNING.len()..];
            let Some(close) = memchr(b'"', rest) else { return };
            self.score(&rest[..close], &mut count);
        }
    }

    /// The score is the position's last digit: it differs from node to node, and costs nothing.
    fn score(&mut self, name: &[u8], count: &mut usize) {
        if *count > 0 {
            self.scores.push(b',');
        }
        self.scores.extend_from_slice(b"{\"Host\":\"");
        self.scores.extend_from_slice(name);
        // Writing to a Vec cannot fail.
        let _ = write!(self.scores, "\",\"Score\":{}}}", *count % 10);
        *count += 1;
    }
}

impl<'a> Nodes<'a> {
    /// A body that is not kube-scheduler's has no names.
    fn find(body: &'a [u8]) -> Self {
        const NODES: &[u8] = b",\"Nodes\":";
        const NO_NODES: &[u8] = b"null,\"NodeNames\":";
        const NO_NAMES: &[u8] = b",\"NodeNames\":null}";
        for at in memmem::find_iter(body, NODES) {
            let value = &body[at + NODES.len()..];
            if let Some(names) = value.strip_prefix(NO_NODES).and_then(|names| names.strip_suffix(b"}")) {
                return Self::Names(names);
            }
            if let Some(objects) = value.strip_suffix(NO_NAMES) {
                return Self::Objects(objects);
            }
        }
        Self::Names(b"[]")
    }
}
