//! The objects that cannot be read: each costs itself, and status names it until it is readable or gone.

use std::{collections::BTreeMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The most objects that are named; later ones are counted.
const MOST: usize = 1_000;
/// The longest error that is kept, in characters.
const LONGEST: usize = 300;
/// For how long after the latest call with it an object is known. Calls do not say when it is gone.
const SINCE_A_CALL: Duration = Duration::from_mins(10);
/// The time between sweeps, also while there is no room: a call can have thousands of them.
const SWEEP_PERIOD: Duration = Duration::from_mins(1);

/// The identity of an object, as far as it can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// `Node` or `Pod`.
    pub kind: &'static str,
    /// `metadata.namespace`; empty for a node.
    pub namespace: String,
    /// `metadata.name`; empty if it cannot be read.
    pub name: String,
}

impl ObjectName {
    /// A node.
    pub fn node(name: &str) -> Self {
        Self { kind: "Node", namespace: String::new(), name: name.to_owned() }
    }

    /// The object in words, such as `pod shop/web-1`.
    pub fn words(&self) -> String {
        let Self { kind, namespace, name } = self;
        let kind = kind.to_lowercase();
        match (&**namespace, &**name) {
            (_, "") => format!("a {kind} whose name cannot be read"),
            ("", name) => format!("{kind} {name}"),
            (namespace, name) => format!("{kind} {namespace}/{name}"),
        }
    }
}

/// Why an object cannot be read, and when that was last seen.
#[derive(Debug, Clone)]
pub struct UnreadableObject {
    /// The error.
    pub error: String,
    /// When it was last received.
    pub seen: Instant,
}

/// The objects of a source that cannot be read.
#[derive(Debug, Default)]
pub struct Unreadable(Mutex<UnreadableState>);

#[derive(Debug, Default, Clone)]
struct UnreadableState {
    named: BTreeMap<ObjectName, UnreadableObject>,
    /// The kind of the latest object without a name, or for which there is no room, its error, and their number.
    others: Option<(&'static str, UnreadableObject, u64)>,
    /// When those that no call has had lately were forgotten.
    swept: Option<Instant>,
}

impl Unreadable {
    /// An object cannot be read.
    pub fn add(&self, object: ObjectName, error: &str) {
        self.0.lock().add(object, error, Instant::now());
    }

    /// An object of a call cannot be read.
    pub fn add_of_call(&self, object: ObjectName, error: &str) {
        let now = Instant::now();
        let mut state = self.0.lock();
        if state.swept.is_none_or(|swept| now - swept >= SWEEP_PERIOD) {
            state.sweep(now);
        }
        state.add(object, error, now);
    }

    /// An object can be read, or is gone.
    pub fn remove(&self, kind: &'static str, namespace: &str, name: &str) {
        let mut state = self.0.lock();
        if !state.named.is_empty() {
            let object = ObjectName { kind, namespace: namespace.to_owned(), name: name.to_owned() };
            state.named.remove(&object);
        }
    }

    /// These are all, after a list.
    pub fn replace(&self, objects: Vec<(ObjectName, String)>) {
        let (mut listed, now) = (UnreadableState::default(), Instant::now());
        for (object, error) in objects {
            listed.add(object, &error, now);
        }
        *self.0.lock() = listed;
    }

    /// Whether a node of this name cannot be read.
    pub fn has_node(&self, name: &str) -> bool {
        let state = self.0.lock();
        !state.named.is_empty() && state.named.contains_key(&ObjectName::node(name))
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.0.lock().count()
    }

    /// The named ones, and with an empty name the latest of the others; with their number.
    pub fn all(&self) -> (Vec<(ObjectName, UnreadableObject)>, usize) {
        self.0.lock().all()
    }

    /// The same, without those that no call has had lately.
    pub fn of_recent_calls(&self) -> (Vec<(ObjectName, UnreadableObject)>, usize) {
        let mut recent = self.0.lock().clone();
        recent.sweep(Instant::now());
        recent.all()
    }
}

impl UnreadableState {
    fn count(&self) -> usize {
        let others = self.others.as_ref().map_or(0, |(.., count)| *count);
        self.named.len() + usize::try_from(others).unwrap_or(usize::MAX)
    }

    fn all(&self) -> (Vec<(ObjectName, UnreadableObject)>, usize) {
        let unnamed = |kind| ObjectName { kind, ..ObjectName::default() };
        let other = self.others.iter().map(|(kind, object, _)| (unnamed(kind), object.clone()));
        let named = self.named.iter().map(|(name, object)| (name.clone(), object.clone()));
        (named.chain(other).collect(), self.count())
    }

    /// Forgets the objects that no call has had lately.
    fn sweep(&mut self, now: Instant) {
        let is_recent = |object: &UnreadableObject| now - object.seen < SINCE_A_CALL;
        self.named.retain(|_, object| is_recent(object));
        self.others.take_if(|(_, object, _)| !is_recent(object));
        self.swept = Some(now);
    }

    fn add(&mut self, object: ObjectName, error: &str, seen: Instant) {
        let error = error.chars().take(LONGEST).collect();
        let unreadable = UnreadableObject { error, seen };
        let is_named =
            !object.name.is_empty() && (self.named.len() < MOST || self.named.contains_key(&object));
        if is_named {
            self.named.insert(object, unreadable);
        } else {
            let count = self.others.as_ref().map_or(0, |(.., count)| *count);
            self.others = Some((object.kind, unreadable, count + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_no_call_has_any_more_makes_room() {
        let calls = Unreadable::default();
        let named = |name: usize| ObjectName::node(&format!("n{name}"));
        for name in 0..MOST + 5 {
            calls.add_of_call(named(name), "no");
        }
        assert_eq!((calls.count(), calls.has_node("n1004")), (MOST + 5, false));
        advance(SINCE_A_CALL / 2).await;
        calls.add_of_call(named(0), "still");
        calls.remove("Node", "", "n1");
        assert_eq!((calls.count(), calls.has_node("n1")), (MOST + 4, false), "n1 was read again");
        advance(SINCE_A_CALL / 2).await;
        calls.add_of_call(named(1004), "no");
        assert_eq!((calls.count(), calls.has_node("n0"), calls.has_node("n1004")), (2, true, true));
        advance(SINCE_A_CALL).await;
        assert_eq!((calls.of_recent_calls().1, calls.count()), (0, 2), "a report changes nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_a_call_has_they_are_swept_once_a_minute() {
        let calls = Unreadable::default();
        let add = |name: &str| calls.add_of_call(ObjectName::node(name), "no");
        add("first");
        advance(SWEEP_PERIOD / 2).await;
        add("second");
        advance(SWEEP_PERIOD * 19 / 2).await;
        for name in 0..5 * MOST {
            add(&format!("n{name}"));
        }
        assert_eq!((calls.has_node("first"), calls.has_node("second")), (false, true));
        advance(SWEEP_PERIOD / 2).await;
        add("n0");
        assert!(calls.has_node("second"), "the latest sweep is half a minute ago");
        assert_eq!((calls.of_recent_calls().1, calls.count()), (5 * MOST, 5 * MOST + 1));
        advance(SWEEP_PERIOD / 2).await;
        add("n0");
        assert_eq!((calls.has_node("second"), calls.count()), (false, 5 * MOST));
    }
}
