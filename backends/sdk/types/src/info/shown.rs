//! The paths at which a policy shows its state, as declared.

use extender_policy_api::v1beta1 as api;

/// A path that a policy shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownPath {
    pub(super) path: String,
    pub(super) description: String,
}

impl ShownPath {
    /// As declared, such as `/quotas/:namespace`.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The names of the path's parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        segments(&self.path).filter_map(|segment| segment.strip_prefix(':'))
    }

    pub(super) fn message(&self) -> api::IntrospectionPath {
        api::IntrospectionPath { path: self.path.clone(), description: self.description.clone() }
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('/').unwrap_or(path).split('/')
}
