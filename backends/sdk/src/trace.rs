//! The trace of the call that a policy is answering, for a policy that adds to it.
//!
//! Each call says whether it is traced. If it is, this crate sends a span of the policy's work to the collector
//! that the `OTEL_*` variables name (see [`Telemetry`](crate::Telemetry)), with the attributes and events that are
//! added here. For all other calls these functions do nothing, at no cost.
//!
//! ```
//! # use extender_policy_sdk::{Nodes, Pod, Verdict, trace};
//! # fn decide(_: &Pod, _: &Nodes) -> Vec<Verdict> { Vec::new() }
//! fn filter_all(pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<Verdict> {
//!     trace::attribute("acme.quota.tenant", pod.namespace());
//!     trace::event("prices read");
//!     decide(pod, nodes)
//! }
//! ```
//!
//! They find the call by the thread that answers it: [`Policy`](crate::Policy)'s own methods, and the futures of
//! [`Policy::bind`](crate::Policy::bind). Threads or tasks that a policy starts are not covered.

use std::{borrow::Cow, cell::RefCell, time::SystemTime};

/// More attributes or events than these are dropped: a span describes a call, not each node.
const MOST: usize = 128;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A fraction.
    Fraction(f64),
    /// True or false.
    Flag(bool),
}

/// Sets an attribute of the call: the last value counts for each key, and at most 128 keys are kept. Use your own
/// keys, such as `acme.quota.left`.
pub fn attribute<V: Into<Value>>(key: impl Into<Cow<'static, str>>, value: V) {
    note(|notes| {
        let (key, value) = (key.into(), value.into());
        match notes.attributes.iter().position(|(known, _)| *known == key) {
            Some(known) => notes.attributes[known].1 = value,
            None if notes.attributes.len() < MOST => notes.attributes.push((key, value)),
            None => {}
        }
    });
}

/// Records an event at the current time. At most 128 are kept.
pub fn event(name: impl Into<Cow<'static, str>>) {
    note(|notes| {
        if notes.events.len() < MOST {
            notes.events.push((name.into(), SystemTime::now()));
        }
    });
}

/// The call's span as a W3C `traceparent`, for requests that the policy makes during the call. `None` if the call
/// is not traced.
pub fn traceparent() -> Option<String> {
    CURRENT.with_borrow(|current| current.as_ref().map(|notes| notes.traceparent.clone()))
}

/// The notes of a traced call, besides its time and result.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) traceparent: String,
    pub(crate) attributes: Vec<(Cow<'static, str>, Value)>,
    pub(crate) events: Vec<(Cow<'static, str>, SystemTime)>,
}

thread_local! {
    /// The notes of the call that this thread is answering.
    static CURRENT: RefCell<Option<Box<Notes>>> = const { RefCell::new(None) };
}

fn note(add: impl FnOnce(&mut Notes)) {
    CURRENT.with_borrow_mut(|current| current.as_deref_mut().map(add));
}

/// Runs a part of the work for a call, which may add to its notes.
#[cfg(feature = "otlp")]
pub(crate) fn noting<T>(notes: &mut Option<Box<Notes>>, work: impl FnOnce() -> T) -> T {
    /// Takes the notes back, however the work ends.
    struct Taken<'a>(&'a mut Option<Box<Notes>>);

    impl Drop for Taken<'_> {
        fn drop(&mut self) {
            CURRENT.with_borrow_mut(|current| std::mem::swap(current, self.0));
        }
    }

    CURRENT.with_borrow_mut(|current| std::mem::swap(current, notes));
    let _taken = Taken(notes);
    work()
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Whole(number.into())
    }
}

impl From<usize> for Value {
    /// Larger numbers do not occur.
    fn from(number: usize) -> Self {
        Self::Whole(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Fraction(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}
