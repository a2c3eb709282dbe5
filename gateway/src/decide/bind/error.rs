//! The errors of a bind call: the Binding is not known to exist.

use std::fmt;

use crate::cluster::binder::{ApiserverError, BindingState};

/// Why a pod is not bound, or not known to be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindError {
    /// The gateway is not configured to bind.
    NoBinder,
    /// The state of the pod excludes that it is bound to the node.
    Pod(BindingState),
    /// The apiserver does not return the state, or rejects the Binding.
    Apiserver(ApiserverError),
}

impl BindError {
    /// The kind as a metric label: one lower-case word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoBinder => "no_binder",
            Self::Pod(_) => "pod",
            Self::Apiserver(_) => "apiserver",
        }
    }
}

impl From<BindingState> for BindError {
    fn from(truth: BindingState) -> Self {
        match truth {
            BindingState::Unknown(error) => Self::Apiserver(error),
            known => Self::Pod(known),
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBinder => f.write_str(
                "bind is not configured: set `binder` to BuiltIn or a backend's name, or remove bindVerb from kube-scheduler's \
                 configuration",
            ),
            Self::Pod(truth) => write!(f, "cannot bind: {truth}"),
            Self::Apiserver(error) => write!(f, "cannot bind: {error}"),
        }
    }
}
