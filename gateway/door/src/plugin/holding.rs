//! Answers that a plugin keeps: in which state of the gateway they hold, and for which pods.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

pub(super) use extender_gateway_decide::holding::is_complete;
use extender_gateway_decide::holding::{DecidingState, PodClass};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::v1alpha1::{HoldRequest, HoldResponse, Keep};
use crate::{Door, Served};

/// How long a call of Hold waits for another state.
const LONGEST_HOLD: Duration = Duration::from_millis(900);
/// How often it looks at the state, which many parts of the gateway change. A plugin only calls Hold while it keeps answers: for a second
/// after a pod was placed.
const INTERVAL: Duration = Duration::from_millis(10);
/// The most labels in an answer: a plugin looks up all of them for each pod.
const MOST_LABELS: usize = 64;

/// The states of the gateway, numbered as plugins have seen them.
#[derive(Debug)]
pub(crate) struct States(Mutex<NumberedState>);

#[derive(Debug)]
struct NumberedState {
    /// Begins at random, so that a restarted gateway has other numbers.
    number: u64,
    generation: u64,
    state: DecidingState,
}

impl Default for States {
    fn default() -> Self {
        // The random key of a hasher is the standard library's source of randomness.
        let number = RandomState::new().hash_one(0_u8) >> 1;
        Self(Mutex::new(NumberedState { number, generation: 0, state: DecidingState::default() }))
    }
}

impl States {
    /// The number of the state of now. Never 0.
    pub(super) fn number(&self, served: &Served) -> u64 {
        let (generation, state) = (served.generation, served.decider.deciding_state());
        let mut known = self.0.lock();
        if known.generation != generation || known.state != state {
            *known = NumberedState { number: known.number + 1, generation, state };
        }
        known.number.max(1)
    }
}

/// How long an answer holds, which was made in the state of this number.
pub(super) fn keep(state: u64, class: PodClass) -> Keep {
    let PodClass { namespace, labels, template } = class;
    if template || labels.len() > MOST_LABELS {
        return Keep { state, template: true, ..Keep::default() };
    }
    Keep { state, namespace, labels: labels.into_iter().collect(), template }
}

impl Door {
    /// Answers a call of Hold.
    pub(super) async fn hold(&self, known: &HoldRequest) -> HoldResponse {
        let began = Instant::now();
        loop {
            let (now, waited) = (self.state(), began.elapsed());
            // In a large cluster some node changes all the time, in what nobody reads.
            let is_newer = now.nodes_at > known.nodes_at && waited >= INTERVAL;
            if now.state != known.state || is_newer || waited >= LONGEST_HOLD {
                return now;
            }
            sleep(INTERVAL).await;
        }
    }

    fn state(&self) -> HoldResponse {
        let served = self.served.load_full();
        // Before the state, which then is at least as new.
        let table = served.decider.tables().table.as_ref();
        let version = table.map_or(0, |table| table.source_health.version());
        // A source without resource versions is not the one that kube-scheduler knows: its changes are seen when they come.
        let nodes_at = if version == 0 { u64::MAX } else { version };
        HoldResponse { state: self.states.number(&served), nodes_at }
    }
}
