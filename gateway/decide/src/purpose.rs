//! What decisions are for, and what follows for the calls to backends.

use extender_gateway_backend::info::Info;
use extender_gateway_core::{BackendFailure, FailureKind, PolicyVerb};
use extender_policy_api::v1beta1::Purpose;

/// What decisions are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionPurpose {
    /// kube-scheduler acts on them.
    Scheduling,
    /// Nothing acts on them: a verb with side effects is not called, and its failure is ignored.
    Simulation,
}

impl DecisionPurpose {
    /// The purpose of calls to backends, except those in shadow mode.
    pub(super) fn of_calls(self) -> Purpose {
        match self {
            Self::Scheduling => Purpose::Decide,
            Self::Simulation => Purpose::Simulate,
        }
    }

    /// The purpose of calls to backends in shadow mode.
    pub(super) fn of_shadow_calls(self) -> Purpose {
        match self {
            Self::Scheduling => Purpose::Shadow,
            Self::Simulation => Purpose::Simulate,
        }
    }
}

/// Why a verb is not called for this purpose.
pub(super) fn excluded(purpose: Purpose, info: &Info, verb: PolicyVerb) -> Option<BackendFailure> {
    let is_excluded = purpose == Purpose::Simulate && info.has_side_effects(verb);
    let detail = "has side effects and is not asked in a simulation";
    is_excluded.then(|| BackendFailure::new(FailureKind::Unsuitable, detail))
}
