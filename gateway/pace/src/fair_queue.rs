//! The order of calls that wait for something limited: fair between callers.
//!
//! Callers take turns (Nagle, "On Packet Switches with Infinite Storage", 1985; the fair queuing of kube-apiserver's API
//! Priority and Fairness): one that sends many calls waits for its own, and delays another by at most a call for each of
//! that one's. Tower's limits have one queue for all.

pub mod slots;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;

/// Calls that are queued together: those of one caller. A caller with a client certificate is known by it wherever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// The callers with this client certificate, by its hash.
    Certificate(u64),
    /// The callers without a certificate at this address. Not by connection: one of HTTP/1.1 has a single call, so whoever
    /// opens more of them would get more.
    Address(IpAddr),
    /// kube-scheduler's plugin, at the socket.
    Socket,
    /// The gateway itself: shadow calls and simulations.
    Own,
}

impl Flow {
    /// That of a caller without a certificate. Of IPv6 the first 64 bits count: one machine has all of the others.
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::from(u64::MAX) << 64)))
            }
            address @ IpAddr::V4(_) => address,
        })
    }
}

/// A call that waits: its flow, and its number among all that have arrived.
pub type Position = (Flow, u64);

/// Calls that wait, each with a value.
#[derive(Debug)]
pub struct FairQueue<T> {
    /// The calls of each flow that has any, in the order of their arrival.
    flows: HashMap<Flow, BTreeMap<u64, T>>,
    /// These flows in the order of their turns.
    turns: VecDeque<Flow>,
    waiting: usize,
    arrivals: u64,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { flows: HashMap::new(), turns: VecDeque::new(), waiting: 0, arrivals: 0 }
    }
}

impl<T> FairQueue<T> {
    /// The number of calls that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many calls would be taken before the next one of this flow, at most.
    pub fn ahead_of(&self, flow: Flow) -> usize {
        let own = self.flows.get(&flow).map_or(0, BTreeMap::len);
        let others = self.flows.len() - usize::from(own > 0);
        self.waiting.min(own + (own + 1).saturating_mul(others))
    }

    /// Adds a call.
    pub fn add(&mut self, flow: Flow, value: T) -> Position {
        let number = self.arrivals;
        self.arrivals += 1;
        self.waiting += 1;
        let calls = self.flows.entry(flow).or_default();
        if calls.is_empty() {
            self.turns.push_back(flow);
        }
        calls.insert(number, value);
        (flow, number)
    }

    /// Takes the call whose turn it is.
    pub fn take(&mut self) -> Option<T> {
        let flow = self.turns.pop_front()?;
        let calls = self.flows.get_mut(&flow)?;
        let (_, value) = calls.pop_first()?;
        self.waiting -= 1;
        if calls.is_empty() {
            self.flows.remove(&flow);
        } else {
            self.turns.push_back(flow);
        }
        Some(value)
    }

    /// Removes a call that waits no longer; `None` if it was taken.
    pub fn remove(&mut self, (flow, number): Position) -> Option<T> {
        let calls = self.flows.get_mut(&flow)?;
        let value = calls.remove(&number)?;
        self.waiting -= 1;
        if calls.is_empty() {
            self.flows.remove(&flow);
            self.turns.retain(|other| *other != flow);
        }
        Some(value)
    }
}

/// The place of a call in a queue, which it leaves when this is dropped, also if its caller has gone.
pub struct Place<'l, L, T> {
    lock: &'l Mutex<L>,
    queue: fn(&mut L) -> &mut FairQueue<T>,
    position: Position,
}

impl<'l, L, T> Place<'l, L, T> {
    /// That of a call in this queue, which is behind this lock.
    pub fn new(lock: &'l Mutex<L>, queue: fn(&mut L) -> &mut FairQueue<T>, position: Position) -> Self {
        Self { lock, queue, position }
    }
}

impl<L, T> Drop for Place<'_, L, T> {
    fn drop(&mut self) {
        (self.queue)(&mut self.lock.lock()).remove(self.position);
    }
}

/// The time that something takes: an exponential moving average, zero at first. Each time counts by 1/2^`WEIGHT`.
#[derive(Debug, Default)]
pub struct AverageTime<const WEIGHT: u32> {
    nanoseconds: AtomicU64,
}

impl<const WEIGHT: u32> AverageTime<WEIGHT> {
    /// The average.
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Relaxed))
    }

    /// Forgets all times.
    pub fn clear(&self) {
        self.nanoseconds.store(0, Relaxed);
    }

    /// Knows this time alone.
    pub fn set(&self, time: Duration) {
        self.nanoseconds.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Adds a time. If several threads do this at once, some are lost.
    pub fn add(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let average = self.nanoseconds.load(Relaxed);
        let average = average - (average >> WEIGHT) + (time >> WEIGHT);
        self.nanoseconds.store(average, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GREEDY: Flow = Flow::Certificate(0);
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
        assert_eq!((queue.ahead_of(GREEDY), queue.ahead_of(MODEST)), (4, 1));
        add(&mut queue, [MODEST; 2]);
        assert_eq!(order(&mut queue), [GREEDY, MODEST, GREEDY, MODEST, GREEDY, GREEDY]);
        assert!(queue.flows.is_empty() && queue.turns.is_empty());
    }

    #[test]
    fn calls_whose_caller_has_gone_leave_their_places_and_their_turns() {
        let mut queue = FairQueue::default();
        let gone = add(&mut queue, [GREEDY; 200]);
        add(&mut queue, [GREEDY, MODEST, MODEST, MODEST]);
        for position in &gone {
            assert_eq!(queue.remove(*position), Some(GREEDY));
        }
        assert_eq!((queue.waiting(), queue.ahead_of(GREEDY)), (4, 3));
        assert_eq!(order(&mut queue), [GREEDY, MODEST, MODEST, MODEST]);
        let position = add(&mut queue, [MODEST])[0];
        assert_eq!((queue.remove(position), queue.take()), (Some(MODEST), None));
        assert_eq!(queue.remove(gone[0]), None, "as when it has been taken");
    }

    #[test]
    fn addresses_of_one_machine_are_one_caller() {
        let flow = |address: &str| Flow::of_address(address.parse().unwrap());
        assert_eq!(flow("::ffff:10.0.0.1"), flow("10.0.0.1"));
        assert_ne!(flow("10.0.0.1"), flow("10.0.0.2"));
        assert_eq!(flow("fd00:1:2:3::1"), flow("fd00:1:2:3:ffff::2"));
        assert_ne!(flow("fd00:1:2:3::1"), flow("fd00:1:2:4::1"));
    }

    proptest! {
        #[test]
        fn between_two_calls_of_a_caller_each_other_has_at_most_one(
            arrivals in prop::collection::vec((0_u64..4, 0_usize..3), 1..60),
        ) {
            let (mut queue, mut taken, mut added) = (FairQueue::default(), 0, 0);
            for (flow, takes) in arrivals {
                let flow = Flow::Certificate(flow);
                let ahead = queue.ahead_of(flow);
                add(&mut queue, [flow]);
                added += 1;
                // Its call is the last one of its flow.
                let before = last_of(flow, &queue);
                prop_assert!(before <= ahead, "{before} calls are taken earlier, and not {ahead}");
                taken += std::iter::from_fn(|| queue.take()).take(takes).count();
            }
            let order = order(&mut queue);
            prop_assert_eq!(taken + order.len(), added);
            for (at, flow) in order.iter().enumerate() {
                let next = order[at + 1..].iter().position(|each| each == flow);
                let Some(between) = next.map(|next| &order[at + 1..][..next]) else { continue };
                for other in between {
                    prop_assert_eq!(between.iter().filter(|each| *each == other).count(), 1, "{:?}", order);
                }
            }
        }
    }

    /// How many calls are taken before the last one of this flow, if none arrives.
    fn last_of(flow: Flow, queue: &FairQueue<Flow>) -> usize {
        let mut copy = FairQueue {
            flows: queue.flows.clone(),
            turns: queue.turns.clone(),
            waiting: queue.waiting,
            arrivals: queue.arrivals,
        };
        order(&mut copy).iter().rposition(|each| *each == flow).unwrap()
    }

    #[test]
    fn a_single_long_time_counts_little() {
        let time = AverageTime::<5>::default();
        time.add(Duration::from_secs(32));
        assert_eq!(time.get(), Duration::from_secs(1));
    }
}
