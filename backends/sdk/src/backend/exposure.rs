//! Does not lend the permissions of this process to clients without a certificate: a policy that binds, or whose args name
//! URLs or files, does what its callers say.

use std::{net::SocketAddr, sync::Arc};

use extender_policy_api::v1beta1 as api;

use super::{Backend, Prepared};
use crate::error::CallError;

/// What the callers of a policy with the verb bind can do.
const BIND: &str = "bind pods";

/// An address that other machines reach, at which callers need no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{address} is reached from other machines without a client certificate, and callers of this policy can {power} \
     with its permissions; set --tls-client-ca or a loopback --address, or --allow-unauthenticated-bind"
)]
pub struct Exposed {
    address: SocketAddr,
    power: &'static str,
}

impl Backend {
    /// Declares that callers can do more than ask this policy, such as `"read files"`, which completes the sentence
    /// "callers can …": it is then served beyond loopback only to clients with a certificate, or with
    /// [`Options::allow_unauthenticated_bind`](crate::Options::allow_unauthenticated_bind). Policies that declare
    /// [`Info::binds`](crate::Info::binds) are treated so without it.
    #[must_use]
    pub fn requires_client_certificates(self, callers_can: &'static str) -> Self {
        Self { power: Some(callers_can), ..self }
    }

    /// The same backend at an address that other machines reach without a certificate. The policies that are built from
    /// args later are checked when they are called.
    ///
    /// # Errors
    ///
    /// It is known already that it must not be served there.
    pub(crate) fn exposed_at(self, address: SocketAddr) -> Result<Self, Exposed> {
        let known = self.known().is_some_and(|versions| versions.newest().binds());
        match self.power.or(known.then_some(BIND)) {
            Some(power) => Err(Exposed { address, power }),
            None => Ok(Self { exposed: Some(Exposed { address, power: BIND }), ..self }),
        }
    }

    /// The policy, unless it binds and may not be served here.
    pub(super) fn permitted(&self, prepared: Arc<Prepared>) -> Result<Arc<Prepared>, CallError> {
        match self.exposed {
            Some(exposed) if prepared.binds() => Err(CallError::Exposed(exposed)),
            _ => Ok(prepared),
        }
    }
}

impl Prepared {
    fn binds(&self) -> bool {
        self.declaration.verb(api::Verb::Bind).is_some()
    }
}
