//! What a replica of a backend says about the controllers that one of the replicas runs.

use extender_policy_api::limits::{CONTROLLER_NAME_BYTES, CONTROLLER_NAMES, IDENTITY_BYTES, LEASE_BYTES};
use extender_policy_api::v1beta1::Controllers;

/// A report within the limits of info.proto.
#[derive(Debug, Clone)]
pub struct ReportedControllers(Controllers);

impl ReportedControllers {
    /// That of a handshake; `None` if it exceeds a limit.
    pub(super) fn read(reported: Controllers) -> Option<Self> {
        let Controllers { names, lease, identity, leader } = &reported;
        let is_named = |name: &String| (1..=CONTROLLER_NAME_BYTES).contains(&name.len());
        let is_valid = (1..=CONTROLLER_NAMES).contains(&names.len())
            && names.iter().all(is_named)
            && (1..=LEASE_BYTES).contains(&lease.len())
            && (1..=IDENTITY_BYTES).contains(&identity.len())
            && leader.len() <= IDENTITY_BYTES;
        is_valid.then_some(Self(reported))
    }

    /// Their names.
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// The Lease, as `NAMESPACE/NAME`.
    pub fn lease(&self) -> &str {
        &self.0.lease
    }

    /// Its holder, as far as this replica knows.
    pub fn leader(&self) -> Option<&str> {
        Some(self.0.leader.as_str()).filter(|leader| !leader.is_empty())
    }

    /// Whether this replica says that it is the holder, and so runs them.
    pub fn leads(&self) -> bool {
        self.0.leader == self.0.identity
    }
}
