//! What decisions are for, and what follows for the calls to backends.

use extender_gateway_backend::info::VerbPlan;
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_policy_api::v1alpha1::Purpose;

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

    /// Why a verb is not called.
    pub(super) fn excludes(self, plan: &VerbPlan) -> Option<BackendFailure> {
        let excluded = self == Self::Simulation && plan.side_effects;
        let detail = "has side effects and is not asked in a simulation";
        excluded.then(|| BackendFailure::new(FailureKind::Unsuitable, detail))
    }
}
