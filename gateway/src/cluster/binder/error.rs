//! Why the apiserver did not do, or did not say, what was asked.

use std::fmt::Display;

use extender_apiserver::{RequestError, bounded};

use crate::object::ObjectError;

/// Why a request to the apiserver brought nothing. For people; says what to set right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiserverError {
    /// It answered that it will not.
    #[error("the apiserver rejected the request: {message}{}", remedy(*.code))]
    Refused {
        /// The HTTP status.
        code: u16,
        /// In its own words.
        message: String,
    },
    /// It did not answer in the time that was left.
    #[error("the apiserver did not respond in time")]
    Late,
    /// It cannot be reached, or what it says cannot be understood.
    #[error("the request to the apiserver failed: {0}")]
    Failed(String),
}

fn remedy(code: u16) -> &'static str {
    match code {
        401 => "; check the token or client certificate of the kubeconfig or the service account",
        403 => {
            "; bind the gateway's service account to a ClusterRole with the rules {apiGroups: [\"\"], \
             resources: [pods], verbs: [get]} and {apiGroups: [\"\"], resources: [pods/binding], verbs: [create]}"
        }
        _ => "",
    }
}

impl ApiserverError {
    /// What was asked for does not exist.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }

    pub(super) fn malformed(error: impl Display) -> Self {
        Self::Failed(bounded(&format!("cannot parse the pod from the apiserver ({error})")))
    }
}

impl From<RequestError> for ApiserverError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Refused { code, message } => Self::Refused { code, message },
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<ObjectError> for ApiserverError {
    fn from(error: ObjectError) -> Self {
        Self::malformed(error)
    }
}
