//! Enforces a declaration where the policy reads. A read that is not declared panics: any value would look like that
//! of an object without the label, and a policy that goes on with it might bind a pod or make a reservation.

use std::{
    any::Any,
    collections::VecDeque,
    panic::panic_any,
    sync::{Mutex, PoisonError},
};

use super::{
    Part,
    key::{Key, Map, Prefix},
    keys::Place,
    layout::SentFields,
    pods::{PodsBy, SentCount},
    topology::{SentTopology, Topology},
};

const REQUESTS: &str = "the sum of the requests of counted pods";

/// What a policy may read of an object: what is declared.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a>(&'a SentFields);

impl<'a> Access<'a> {
    /// What is sent may be read.
    pub fn to(sent: &'a SentFields) -> Self {
        Self(sent)
    }

    /// Where the value of a key is.
    #[inline]
    #[track_caller]
    pub(crate) fn key(self, key: &Key) -> Place {
        let Self(fields) = self;
        match fields.places(key.map).of(key) {
            Some(place) => place,
            None => undeclared_key(fields, key.map, &key.text),
        }
    }

    /// The same for a key that is given as a text.
    #[track_caller]
    pub(crate) fn text(self, map: Map, key: &str) -> Place {
        let Self(fields) = self;
        match fields.places(map).find(key) {
            Some(place) => place,
            None => undeclared_key(fields, map, key),
        }
    }

    /// Entries whose key begins with this are read.
    #[track_caller]
    pub(crate) fn prefix(self, prefix: &Prefix) {
        self.entries(prefix.map, &prefix.text);
    }

    /// The same for a prefix that is given as a text.
    #[track_caller]
    pub(crate) fn entries(self, map: Map, prefix: &str) {
        let Self(fields) = self;
        if !fields.places(map).covers(prefix) {
            let (object, name) = (fields.object, name(map));
            undeclared(
                &format!("{name}s of the {object} that begin with {prefix:?}"),
                &format!("{object}_{name}s"),
            );
        }
    }

    /// Where the pods are counted by this.
    #[inline]
    #[track_caller]
    pub(crate) fn pods(self, by: &PodsBy) -> &'a SentCount {
        match self.0.pods(by) {
            Some(sent) => sent,
            None => undeclared("a count of pods", &format!("pods_by({by})")),
        }
    }

    /// Where the pods in the cluster are counted by this.
    #[inline]
    #[track_caller]
    pub(crate) fn topology(self, topology: &Topology) -> &'a SentTopology {
        match self.0.topology(topology) {
            Some(sent) => sent,
            None => undeclared("a count of pods by topology", &format!("pods_by_topology({topology})")),
        }
    }

    /// A part is read.
    #[track_caller]
    pub(crate) fn part<P: Part>(self, part: P) {
        let Self(fields) = self;
        if !fields.parts.contains(part) {
            let object = fields.object;
            undeclared(&format!("{part:?} of the {object}"), &format!("{object}({}::{part:?})", P::TYPE));
        }
    }
}

fn name(map: Map) -> &'static str {
    match map {
        Map::Labels => "label",
        Map::Annotations => "annotation",
    }
}

#[cold]
#[track_caller]
fn undeclared_key(fields: &SentFields, map: Map, key: &str) -> ! {
    let (object, name) = (fields.object, name(map));
    undeclared(&format!("{name} {key:?} of the {object}"), &format!("{object}_{name}"))
}

/// The requests of counted pods are read.
#[cold]
#[track_caller]
pub(crate) fn undeclared_requests(by: &PodsBy) -> ! {
    undeclared(REQUESTS, &format!("pods_and_requests_by({by})"))
}

/// The same of pods in the cluster.
#[cold]
#[track_caller]
pub(crate) fn undeclared_topology_requests(topology: &Topology) -> ! {
    undeclared(REQUESTS, &format!("pods_and_requests_by_topology({topology})"))
}

#[cold]
#[track_caller]
fn undeclared(what: &str, right: &str) -> ! {
    misused(format!("{what} is read and not declared; declare it with Reads::{right}"))
}

/// A parameter is read that the path does not have.
#[cold]
#[track_caller]
pub(crate) fn undeclared_parameter(name: &str, path: &str) -> ! {
    misused(format!(
        "parameter {name:?} is read and not declared; declare it as a segment :{name} of the path {path}"
    ))
}

/// The id of the call is read in a pure verb.
#[cold]
#[track_caller]
pub(crate) fn call_id_of_pure() -> ! {
    misused(
        "call_id is another one in each call, which a pure verb cannot read; declare it without pure".into(),
    )
}

/// A verb or hook is called that is declared with this method of `Info`, and none of these has been written.
#[cold]
pub(crate) fn unwritten(declared: &str, methods: &str) -> ! {
    misused(format!(
        "it declares Info::{declared} and has no method for it; write {methods}, or remove the declaration"
    ))
}

#[cold]
#[track_caller]
#[expect(clippy::panic, reason = "a mistake in the policy's code, which ends its call; see the module")]
fn misused(text: String) -> ! {
    let mut texts = MISUSES.lock().unwrap_or_else(PoisonError::into_inner);
    if !texts.contains(&text) {
        texts.truncate(KEPT_TEXTS - 1);
        texts.push_front(text.clone());
    }
    drop(texts);
    // A string: the panic hook prints nothing else.
    panic_any(text)
}

/// More different misuses than a policy has at a time.
const KEPT_TEXTS: usize = 16;

/// The texts of the latest misuses, of all threads: a policy may read on another thread than the one that catches its panic.
static MISUSES: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// The text of a panic about a read that is not allowed or a verb without a method: it is this crate's own, so it may reach the
/// gateway, which the text of any other panic may not.
pub fn misuse(panic: &(dyn Any + Send)) -> Option<String> {
    let text = panic.downcast_ref::<String>()?;
    MISUSES.lock().unwrap_or_else(PoisonError::into_inner).contains(text).then(|| text.clone())
}
