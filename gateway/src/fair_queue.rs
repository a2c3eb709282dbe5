//! The order of calls that wait for a limited resource: fair between callers.
//!
//! It is start-time fair queuing (Goyal, Vin and Cheng, 1996), as in the API Priority and Fairness of kube-apiserver: a
//! caller that sends many calls waits for its own, and hardly delays another that sends few. Tower's limits have one
//! queue for all.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Calls that are queued together: those of one caller. A caller with a client certificate is known by it wherever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// The callers with this client certificate, by its hash.
    Certificate(u64),
    /// The callers without a certificate at this address. Not by connection: one of HTTP/1.1 has a single call, so whoever
    /// opens more of them would get more.
    Address(IpAddr),
    /// The gateway itself: shadow calls and simulations.
    Own,
}

/// The position of a call: the start of its service in virtual time, in which each waiting caller has one call a round.
/// Then its number, because that of several may be the same.
pub type Position = (u64, u64);

/// Calls that wait, each with a value.
#[derive(Debug)]
pub struct FairQueue<T> {
    calls: BTreeMap<Position, (Flow, T)>,
    flows: HashMap<Flow, FlowState>,
    /// The round of the call that was taken last.
    round: u64,
    arrivals: u64,
}

#[derive(Debug, Default)]
struct FlowState {
    waiting: usize,
    /// The round after that of its last call.
    next: u64,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { calls: BTreeMap::new(), flows: HashMap::new(), round: 0, arrivals: 0 }
    }
}

impl<T> FairQueue<T> {
    /// The number of calls that wait.
    pub fn waiting(&self) -> usize {
        self.calls.len()
    }

    /// The round in which the next call of this flow would be taken.
    fn round_of(&self, flow: Flow) -> u64 {
        self.flows.get(&flow).map_or(self.round, |state| state.next.max(self.round))
    }

    /// How many calls would be taken before the next one of this flow, at most.
    pub fn ahead_of(&self, flow: Flow) -> usize {
        let rounds = usize::try_from(self.round_of(flow) - self.round).unwrap_or(usize::MAX);
        self.calls.len().min(rounds.saturating_add(1).saturating_mul(self.flows.len()))
    }

    /// Adds a call.
    pub fn add(&mut self, flow: Flow, value: T) -> Position {
        let position = (self.round_of(flow), self.arrivals);
        self.arrivals += 1;
        let state = self.flows.entry(flow).or_default();
        state.waiting += 1;
        state.next = position.0 + 1;
        self.calls.insert(position, (flow, value));
        position
    }

    /// Takes the call whose turn it is.
    pub fn take(&mut self) -> Option<T> {
        let (&position, _) = self.calls.first_key_value()?;
        self.round = position.0;
        self.remove(position)
    }

    /// Removes a call that waits no longer; `None` if it was taken.
    pub fn remove(&mut self, position: Position) -> Option<T> {
        let (flow, value) = self.calls.remove(&position)?;
        let state = self.flows.get_mut(&flow);
        if state.is_some_and(|state| {
            state.waiting -= 1;
            state.waiting == 0
        }) {
            self.flows.remove(&flow);
        }
        Some(value)
    }
}

/// The time that something takes: an exponential moving average, zero at first.
#[derive(Debug, Default)]
pub struct AverageTime {
    nanoseconds: AtomicU64,
}

impl AverageTime {
    /// Each time counts by 1/2^5.
    const WEIGHT: u32 = 5;

    /// The average.
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Relaxed))
    }

    /// Adds a time. If several threads do this at once, some are lost.
    pub fn add(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let average = self.nanoseconds.load(Relaxed);
        let average = average - (average >> Self::WEIGHT) + (time >> Self::WEIGHT);
        self.nanoseconds.store(average, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    const GREEDY: Flow = Flow::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));
    const MODEST: Flow = Flow::Certificate(1);

    /// Adds calls of these flows, in this order.
    fn add(queue: &mut FairQueue<Flow>, flows: impl IntoIterator<Item = Flow>) -> Vec<Position> {
        flows.into_iter().map(|flow| queue.add(flow, flow)).collect()
    }

    fn order(queue: &mut FairQueue<Flow>) -> Vec<Flow> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn a_caller_with_few_calls_does_not_wait_for_one_with_many() {
        let mut queue = FairQueue::default();
        add(&mut queue, [GREEDY; 5]);
        assert_eq!(queue.take(), Some(GREEDY));
        assert_eq!(queue.ahead_of(GREEDY), 4);
        assert_eq!(queue.ahead_of(MODEST), 1);
        add(&mut queue, [MODEST; 2]);
        assert_eq!(order(&mut queue), [MODEST, GREEDY, MODEST, GREEDY, GREEDY, GREEDY]);
        assert!(queue.flows.is_empty());
    }

    #[test]
    fn a_call_whose_caller_has_gone_leaves_its_place() {
        let mut queue = FairQueue::default();
        let positions = add(&mut queue, [GREEDY, MODEST, GREEDY]);
        queue.remove(positions[0]);
        queue.remove(positions[1]);
        assert_eq!((queue.ahead_of(GREEDY), queue.flows.len()), (1, 1));
        assert_eq!(order(&mut queue), [GREEDY]);
        // As when the call has been taken.
        assert!(queue.remove(positions[2]).is_none());
    }

    proptest! {
        #[test]
        fn between_two_calls_of_a_caller_each_other_has_at_most_two(
            arrivals in prop::collection::vec((0_u64..4, 0_usize..3), 1..60),
        ) {
            let (mut queue, mut taken, mut added) = (FairQueue::default(), 0, 0);
            for (flow, takes) in arrivals {
                let ahead = queue.ahead_of(Flow::Certificate(flow));
                let position = add(&mut queue, [Flow::Certificate(flow)])[0];
                added += 1;
                let before = queue.calls.range(..position).count();
                prop_assert!(before <= ahead, "{before} calls are taken earlier, and not {ahead}");
                taken += std::iter::from_fn(|| queue.take()).take(takes).count();
            }
            let order = order(&mut queue);
            prop_assert_eq!(taken + order.len(), added);
            for (at, flow) in order.iter().enumerate() {
                let between = order[at + 1..].iter().position(|each| each == flow);
                let Some(between) = between.map(|next| &order[at + 1..][..next]) else { continue };
                for other in between {
                    let count = between.iter().filter(|each| *each == other).count();
                    prop_assert!(count <= 2, "{order:?}");
                }
            }
        }
    }

    #[test]
    fn a_single_long_time_counts_little() {
        let time = AverageTime::default();
        time.add(Duration::from_secs(32));
        assert_eq!(time.get(), Duration::from_secs(1));
    }
}
