//! Whether a backend is available: it is, while there is a session with at least one of its addresses.

use std::{net::SocketAddr, sync::Arc};

use extender_gateway_observe::{Metrics, WaitingPods, waiting::PolicyChange};
use extender_gateway_settings as config;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Where outages and changes of a backend are reported.
#[derive(Debug)]
pub(super) struct Reports {
    pub(super) backend: config::BackendName,
    pub(super) metrics: Arc<Metrics>,
    pub(super) waiting: Arc<WaitingPods>,
}

/// The availability of a backend over its addresses.
#[derive(Debug)]
pub(super) struct Availability {
    reports: Reports,
    addresses: Mutex<Addresses>,
    /// Whether the first attempt to connect has succeeded or failed.
    tried: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Addresses {
    /// Whether each of them has a session; `None` before the first attempt to connect.
    sessions: Vec<(SocketAddr, Option<bool>)>,
    state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first attempt to connect.
    #[default]
    Untried,
    Up {
        since: Timestamp,
    },
    Down,
}

impl Availability {
    pub(super) fn new(reports: Reports) -> Self {
        Self { reports, addresses: Mutex::default(), tried: watch::Sender::new(false) }
    }

    /// Since when it is available without an outage; `None` if it is not.
    pub(super) fn since(&self) -> Option<Timestamp> {
        match self.addresses.lock().state {
            State::Up { since } => Some(since),
            State::Untried | State::Down => None,
        }
    }

    /// Records that an address is new, and has not been tried.
    pub(super) fn add(&self, address: SocketAddr) {
        self.addresses.lock().sessions.push((address, None));
    }

    /// Records that an address is no longer used.
    pub(super) fn remove(&self, address: SocketAddr) {
        let mut addresses = self.addresses.lock();
        addresses.sessions.retain(|(known, _)| *known != address);
        self.settle(&mut addresses);
    }

    /// Records that an address has a session, or why not.
    pub(super) fn set_session(&self, address: SocketAddr, has_session: bool) {
        let mut addresses = self.addresses.lock();
        let known = addresses.sessions.iter_mut().find(|(known, _)| *known == address);
        // One that is removed has a session for a moment longer.
        let Some((_, session)) = known else { return };
        *session = Some(has_session);
        self.settle(&mut addresses);
    }

    /// Records that it has no address.
    pub(super) fn set_unresolved(&self) {
        self.down(&mut self.addresses.lock());
    }

    /// Reports that the version or the revision at an address has changed.
    pub(super) fn report_revision(&self) {
        self.reports.waiting.changed(self.reports.backend.as_str(), PolicyChange::Revision);
    }

    /// Waits until the first attempt to connect has succeeded or failed.
    pub(super) async fn first_attempt(&self) {
        // The sender is not dropped meanwhile.
        let _ = self.tried.subscribe().wait_for(|tried| *tried).await;
    }

    fn settle(&self, addresses: &mut Addresses) {
        let is = |session: Option<bool>| addresses.sessions.iter().any(|(_, known)| *known == session);
        match (is(Some(true)), is(None)) {
            (true, _) => self.up(addresses),
            // One of the others may have a session in a moment.
            (false, true) => {}
            (false, false) => self.down(addresses),
        }
    }

    fn up(&self, addresses: &mut Addresses) {
        if matches!(addresses.state, State::Up { .. }) {
            return;
        }
        if addresses.state == State::Down {
            self.reports.waiting.changed(self.reports.backend.as_str(), PolicyChange::Recovered);
        }
        addresses.state = State::Up { since: Timestamp::now() };
        self.tried.send_replace(true);
    }

    fn down(&self, addresses: &mut Addresses) {
        if addresses.state == State::Down {
            return;
        }
        if let Some(metrics) = self.reports.metrics.known_backend(self.reports.backend.as_str()) {
            metrics.outages.inc();
        }
        addresses.state = State::Down;
        self.tried.send_replace(true);
    }
}

#[cfg(test)]
impl Availability {
    /// That of a backend `test`.
    pub(super) fn of_test() -> Self {
        let backend = config::BackendName::new("test").unwrap();
        Self::new(Reports { backend, metrics: Arc::new(Metrics::new()), waiting: Arc::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 9000))
    }

    fn outages(availability: &Availability) -> u64 {
        availability.reports.metrics.backend("test").outages.get()
    }

    #[test]
    fn it_is_down_when_no_address_is_left_and_an_outage_counts_once() {
        let availability = Availability::of_test();
        let _shown = availability.reports.metrics.backend("test");
        for last in [1, 2] {
            availability.add(address(last));
        }
        availability.set_session(address(1), false);
        assert!(!*availability.tried.borrow(), "the other one is not tried yet");
        availability.set_session(address(2), true);
        assert!(*availability.tried.borrow());
        let since = availability.since().unwrap();
        availability.set_session(address(1), true);
        availability.set_session(address(2), false);
        assert_eq!((availability.since(), outages(&availability)), (Some(since), 0));
        availability.set_session(address(1), false);
        availability.set_session(address(1), false);
        assert_eq!((availability.since(), outages(&availability)), (None, 1));
        availability.set_session(address(1), true);
        assert!(availability.since().is_some());
    }

    #[test]
    fn addresses_that_are_replaced_are_no_outage() {
        let availability = Availability::of_test();
        let _shown = availability.reports.metrics.backend("test");
        availability.add(address(1));
        availability.set_session(address(1), true);
        availability.add(address(2));
        availability.remove(address(1));
        availability.set_session(address(1), false);
        assert!(availability.since().is_some(), "the new one is not tried yet");
        availability.set_session(address(2), true);
        assert_eq!(outages(&availability), 0);
        availability.set_unresolved();
        assert_eq!(outages(&availability), 1);
    }
}
