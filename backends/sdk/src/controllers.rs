//! What a backend reports about its controllers, and how they run beside the server. The crate
//! `extender-policy-controllers` elects the replica that runs them; this crate has no Kubernetes client.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use extender_policy_api::limits::{CONTROLLER_NAME_BYTES, CONTROLLER_NAMES, IDENTITY_BYTES, LEASE_BYTES};
use extender_policy_api::v1beta1 as api;
use tokio::sync::watch;

use crate::BoxFuture;

/// Controllers that run beside the server, in one replica of a backend at a time.
pub trait RunControllers: Send + Sync + 'static {
    /// What is reported of them. Called once.
    ///
    /// # Errors
    ///
    /// They cannot be run as configured; the backend then does not start.
    fn report(&self) -> Result<ControllersReport, ControllersFailed>;

    /// Runs them until `stop` is ready, and ends when they have stopped. The replica that leads, as far as this one
    /// knows, is recorded with [`ControllersReport::led_by`]. Called at most once.
    ///
    /// # Errors
    ///
    /// They cannot go on; the server then drains, and the process ends. So it does if they end before the stop.
    fn run<'a>(
        &'a self,
        report: &'a ControllersReport,
        stop: BoxFuture<'static, ()>,
    ) -> BoxFuture<'a, Result<(), ControllersFailed>>;
}

/// Why controllers do not run: one sentence for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ControllersFailed(pub String);

/// What the handshake and the health service `extender.policy.v1beta1.Controllers` say about a backend's controllers.
/// Clones are the same report.
#[derive(Clone, Debug)]
pub struct ControllersReport {
    names: Arc<[String]>,
    lease: Arc<str>,
    identity: Arc<str>,
    leader: watch::Sender<Option<Arc<str>>>,
}

impl ControllersReport {
    /// A report of these controllers, without a leader yet. The lease is NAMESPACE/NAME, the identity is this replica's
    /// name as its holder.
    ///
    /// # Errors
    ///
    /// All mistakes: no controller or more than 32, a text that is empty or too long, a name that occurs twice.
    pub fn new(
        names: impl IntoIterator<Item = impl Into<String>>,
        lease: &str,
        identity: &str,
    ) -> Result<Self, ControllersFailed> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let mistakes = mistakes(&names, lease, identity);
        if !mistakes.is_empty() {
            return Err(ControllersFailed(format!("invalid controllers: {}", mistakes.join("; "))));
        }
        let (lease, identity) = (lease.into(), identity.into());
        Ok(Self { names: names.into(), lease, identity, leader: watch::Sender::new(None) })
    }

    /// The lease, as NAMESPACE/NAME.
    pub fn lease(&self) -> &str {
        &self.lease
    }

    /// This replica's name as a holder of the lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// The holder of the lease, as far as this replica knows.
    pub fn leader(&self) -> Option<String> {
        self.leader.borrow().as_deref().map(str::to_owned)
    }

    /// From now on this is the holder of the lease; `None` if there is none, or it is not known. Equal to the identity:
    /// this replica runs the controllers. At most 253 bytes are reported.
    pub fn led_by(&self, leader: Option<&str>) {
        let leader = leader.map(|leader| &leader[..leader.floor_char_boundary(IDENTITY_BYTES)]);
        self.leader.send_if_modified(|current| {
            let changes = current.as_deref() != leader;
            if changes {
                *current = leader.map(Arc::from);
            }
            changes
        });
    }

    /// Waits until this replica begins or ceases to lead.
    pub(crate) async fn changed(&self, leads: bool) {
        let changed = |leader: &Option<Arc<str>>| (leader.as_ref() == Some(&self.identity)) != leads;
        // The sender lives as long as `self`.
        drop(self.leader.subscribe().wait_for(changed).await);
    }

    pub(crate) fn message(&self) -> api::Controllers {
        api::Controllers {
            names: self.names.to_vec(),
            lease: self.lease.to_string(),
            identity: self.identity.to_string(),
            leader: self.leader().unwrap_or_default(),
        }
    }
}

fn mistakes(names: &[String], lease: &str, identity: &str) -> Vec<String> {
    let number = (names.is_empty() || names.len() > CONTROLLER_NAMES)
        .then(|| format!("{} controllers; expected 1 to {CONTROLLER_NAMES}", names.len()));
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    let twice = twice.map(|(_, name)| format!("two controllers are named {name:?}; rename one"));
    let texts = names.iter().map(|name| ("the name of a controller", &**name, CONTROLLER_NAME_BYTES));
    let texts = texts.chain([("the lease", lease, LEASE_BYTES), ("the identity", identity, IDENTITY_BYTES)]);
    let wrong = texts.filter(|(_, text, limit)| text.is_empty() || text.len() > *limit);
    let wrong =
        wrong.map(|(what, text, limit)| format!("{what} has {} bytes; expected 1 to {limit}", text.len()));
    number.into_iter().chain(twice).chain(wrong).collect()
}

/// The controllers of a backend, with what they report.
#[derive(Clone)]
pub(crate) struct Beside {
    controllers: Arc<dyn RunControllers>,
    pub(crate) report: ControllersReport,
    /// Whether they were run: two runs at a time have one identity, and would both lead.
    ran: Arc<AtomicBool>,
}

impl Beside {
    pub(crate) fn new(controllers: impl RunControllers) -> Result<Self, ControllersFailed> {
        let report = controllers.report()?;
        Ok(Self { controllers: Arc::new(controllers), report, ran: Arc::default() })
    }

    /// Runs the controllers, for the first server of the backend.
    pub(crate) async fn run(&self, stop: BoxFuture<'static, ()>) -> Result<(), ControllersFailed> {
        if self.ran.swap(true, SeqCst) {
            let text =
                "the controllers of this backend were run already; serve it once, or build another one";
            return Err(ControllersFailed(text.to_owned()));
        }
        self.controllers.run(&self.report, stop).await
    }
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").field("report", &self.report).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_come_together() {
        let long = "n".repeat(64);
        let error = ControllersReport::new(["a", "a", &long, ""], "", &"i".repeat(254)).unwrap_err().0;
        for expected in [
            "two controllers are named \"a\"",
            "the name of a controller has 64 bytes; expected 1 to 63",
            "the name of a controller has 0 bytes",
            "the lease has 0 bytes; expected 1 to 320",
            "the identity has 254 bytes; expected 1 to 253",
        ] {
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        }
        let error = ControllersReport::new([""; 0], "a/b", "i").unwrap_err().0;
        assert_eq!(error, "invalid controllers: 0 controllers; expected 1 to 32");
    }

    #[test]
    fn the_leader_is_that_of_now() {
        let report = ControllersReport::new(["sync"], "shop/quota", "pod-a").unwrap();
        let expected = |leader: &str| api::Controllers {
            names: vec!["sync".to_owned()],
            lease: "shop/quota".to_owned(),
            identity: "pod-a".to_owned(),
            leader: leader.to_owned(),
        };
        assert_eq!(report.message(), expected(""));
        report.clone().led_by(Some("pod-b"));
        assert_eq!(report.message(), expected("pod-b"));
        report.led_by(None);
        assert_eq!(report.leader(), None);
        report.led_by(Some(&"ä".repeat(200)));
        assert_eq!(report.leader().unwrap().len(), 252);
    }
}
