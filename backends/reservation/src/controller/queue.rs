//! Which Reservations are worked on, and when: a few at once, those that failed last and after pauses that grow.
//!
//! A request that hangs or fails usually does so for all Reservations of a namespace: it is gone, or its admission webhook is
//! away. So only a part of the places is for Reservations whose namespace has failures, and others never wait for them.

use std::{
    collections::{HashMap, HashSet},
    mem::{Discriminant, discriminant},
    time::Duration,
};

use extender_gateway_pace::backoff::Backoff;
use tokio::time::Instant;

use super::step::Action;
use crate::object::Reservation;

/// Reservations that are worked on at once, and those of them whose namespace has failures.
pub(super) const AT_ONCE: usize = 8;
const DOUBTFUL_AT_ONCE: usize = 4;

/// The pauses after failures.
pub(super) const PAUSES: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(5));
/// After a success, the watches have this time to tell of it.
const REST: Duration = Duration::from_millis(100);

/// What is to be done for a Reservation, as of one version. There is at least one action.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) reservation: Reservation,
    pub(super) actions: Vec<Action>,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Vec<Queued>,
    /// By UID: whether its namespace had failures.
    running: HashMap<String, bool>,
    /// By UID.
    pauses: HashMap<String, Pause>,
}

#[derive(Debug)]
struct Queued {
    work: Work,
    failures: u32,
    is_doubtful: bool,
}

#[derive(Debug)]
struct Pause {
    until: Instant,
    failures: u32,
    namespace: String,
    /// What failed; `None` after a success. Anything else need not wait.
    failed: Option<Discriminant<Action>>,
}

impl Work {
    pub(super) fn namespace(&self) -> &str {
        self.reservation.terms.as_ref().map_or("", |terms| &terms.namespace)
    }

    /// The one that takes the Reservation further; those before it tidy up.
    fn kind(&self) -> Option<Discriminant<Action>> {
        self.actions.last().map(discriminant)
    }
}

impl Queue {
    /// Replaces what waits. The failures of those for which nothing is to be done any more are forgotten.
    pub(super) fn offer(&mut self, work: Vec<Work>, now: Instant) {
        let to_do: HashSet<_> = work.iter().map(|work| work.reservation.uid.as_str()).collect();
        let has_failed = |uid: &String, pause: &Pause| pause.failures > 0 && to_do.contains(uid.as_str());
        self.pauses.retain(|uid, pause| has_failed(uid, pause) || pause.failures == 0 && pause.until > now);
        let failing = self.pauses.values().filter(|pause| pause.failures > 0);
        let failing: HashSet<_> = failing.map(|pause| pause.namespace.clone()).collect();
        let due = work.into_iter().filter(|work| self.is_due(work, now));
        let queued = due.map(|work| {
            let pause = self.pauses.get(&work.reservation.uid);
            let failures = pause.map_or(0, |pause| pause.failures);
            Queued { is_doubtful: failures > 0 || failing.contains(work.namespace()), failures, work }
        });
        let mut waiting: Vec<_> = queued.collect();
        // The next one is the last.
        waiting.sort_by_key(|queued| (queued.failures, queued.is_doubtful));
        waiting.reverse();
        self.waiting = waiting;
    }

    fn is_due(&self, work: &Work, now: Instant) -> bool {
        let uid = &work.reservation.uid;
        let rests = self.pauses.get(uid).is_some_and(|pause| {
            pause.until > now && pause.failed.is_none_or(|failed| Some(failed) == work.kind())
        });
        !rests && !self.running.contains_key(uid)
    }

    /// What to work on next, until [`ended`](Self::ended) is called for it; `None` if all places are taken.
    pub(super) fn take(&mut self) -> Option<Work> {
        if self.running.len() >= AT_ONCE {
            return None;
        }
        let doubtful = self.running.values().filter(|is_doubtful| **is_doubtful).count();
        let may = |queued: &Queued| !queued.is_doubtful || doubtful < DOUBTFUL_AT_ONCE;
        let at = self.waiting.iter().rposition(may)?;
        let Queued { work, is_doubtful, .. } = self.waiting.remove(at);
        self.running.insert(work.reservation.uid.clone(), is_doubtful);
        Some(work)
    }

    /// Ends work, with the action that failed, if one has.
    pub(super) fn ended(&mut self, work: &Work, failed: Option<&Action>, now: Instant) {
        let uid = &work.reservation.uid;
        self.running.remove(uid);
        let before = self.pauses.get(uid).map_or(0, |pause| pause.failures);
        let failures = if failed.is_some() { before.saturating_add(1) } else { 0 };
        let pause = if failed.is_some() { PAUSES.after(before) } else { REST };
        let (until, namespace) = (now + pause, work.namespace().to_owned());
        self.pauses
            .insert(uid.clone(), Pause { until, failures, namespace, failed: failed.map(discriminant) });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::parse;

    fn work(uid: &str, namespace: &str) -> Work {
        let object = json!({
            "metadata": {"name": uid, "uid": uid, "resourceVersion": "1"},
            "spec": {
                "owners": [{"labelSelector": {}, "namespaces": ["shop"]}],
                "template": {"metadata": {"namespace": namespace}},
            },
        });
        let reservation = parse(object.to_string().as_bytes()).unwrap().unwrap();
        Work { reservation, actions: vec![Action::CreatePlaceholder] }
    }

    fn taken(queue: &mut Queue) -> Vec<Work> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn failures_take_only_a_part_of_the_places_and_come_last() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let bad: Vec<_> = (0..20).map(|number| work(&format!("bad-{number:02}"), "none")).collect();
        queue.offer(bad.clone(), now);
        let first = taken(&mut queue);
        assert_eq!(first.len(), AT_ONCE);
        queue.ended(&first[0], Some(&Action::CreatePlaceholder), now);
        assert_eq!(taken(&mut queue).len(), 1, "until the next offer, failures are not known");
        for failed in &first[1..] {
            queue.ended(failed, Some(&Action::CreatePlaceholder), now);
        }
        let good = work("good", "shop");
        queue.offer([bad, vec![good]].concat(), now);
        let next: Vec<_> = taken(&mut queue).into_iter().map(|work| work.reservation.uid).collect();
        assert_eq!((next.len(), &*next[0]), (5, "good"), "{next:?}");
        assert!(
            next[1..].iter().all(|uid| first.iter().all(|first| first.reservation.uid != *uid)),
            "{next:?}"
        );
    }

    #[test]
    fn pauses_grow_until_something_else_is_to_be_done() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        let one = work("one", "none");
        let mut pauses = Vec::new();
        for _ in 0..12 {
            queue.offer(vec![one.clone()], now);
            let taken = queue.take().unwrap();
            queue.offer(vec![one.clone()], now);
            assert!(queue.take().is_none(), "it is worked on");
            queue.ended(&taken, Some(&Action::CreatePlaceholder), now);
            let mut pause = Duration::ZERO;
            while {
                queue.offer(vec![one.clone()], now + pause);
                queue.waiting.is_empty()
            } {
                pause += Duration::from_secs(1);
            }
            pauses.push(pause.as_secs());
            now += pause;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        queue.offer(vec![one.clone()], now);
        let taken = queue.take().unwrap();
        queue.ended(&taken, Some(&Action::CreatePlaceholder), now);
        let status = one.reservation.status.clone();
        queue.offer(vec![Work { actions: vec![Action::Write(status)], ..one.clone() }], now);
        let other = queue.take().expect("an expiry does not wait");
        queue.ended(&other, None, now);
        queue.offer(vec![one.clone()], now);
        assert!(queue.take().is_none(), "the watches need a moment");
        queue.offer(vec![one], now + REST);
        assert!(queue.take().is_some());
        queue.offer(vec![], now + REST);
        assert!(queue.pauses.is_empty());
    }

    #[test]
    fn failures_are_forgotten_when_nothing_is_to_be_done() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let failed = work("failed", "shop");
        queue.offer(vec![failed.clone()], now);
        let taken = queue.take().unwrap();
        queue.ended(&taken, Some(&Action::CreatePlaceholder), now);
        let is_doubtful = |queue: &mut Queue, offered: &[Work]| {
            queue.offer(offered.to_vec(), now);
            queue.waiting.iter().any(|queued| queued.is_doubtful)
        };
        let good = work("good", "shop");
        assert!(is_doubtful(&mut queue, &[failed, good.clone()]));
        assert!(!is_doubtful(&mut queue, &[good]), "somebody else has done it");
    }
}
