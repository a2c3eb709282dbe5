//! Introspection as a policy sees it: a request for what a path shows, and the possible errors.

use std::collections::BTreeMap;

use extender_policy_api::v1beta1 as api;

use crate::{NotReady, info::shown::ShownPath, reads::access::undeclared_parameter};

/// Which of the paths that [`Info::shows`](crate::Info::shows) declares is asked for, and with which values.
#[derive(Clone, Copy, Debug)]
pub struct IntrospectAsk<'a> {
    shown: &'a ShownPath,
    parameters: &'a BTreeMap<String, String>,
    query: &'a BTreeMap<String, String>,
}

impl<'a> IntrospectAsk<'a> {
    /// A view of a request for this path; the error names the parameter that is missing.
    #[doc(hidden)]
    pub fn new(shown: &'a ShownPath, request: &'a api::IntrospectRequest) -> Result<Self, &'a str> {
        let api::IntrospectRequest { parameters, query, .. } = request;
        let given = |name: &&str| parameters.get(*name).is_some_and(|value| !value.is_empty());
        match shown.parameters().find(|name| !given(name)) {
            Some(missing) => Err(missing),
            None => Ok(Self { shown, parameters, query }),
        }
    }

    /// The path as declared, such as `/quotas/:namespace`.
    pub fn path(&self) -> &'a str {
        self.shown.path()
    }

    /// The value of a parameter of the path, without the colon; never empty.
    ///
    /// # Panics
    ///
    /// The path has no parameter of this name.
    #[track_caller]
    pub fn parameter(&self, name: &str) -> &'a str {
        if !self.shown.parameters().any(|parameter| parameter == name) {
            undeclared_parameter(name, self.path());
        }
        // `new` has checked that each is given.
        self.parameters.get(name).map_or("", String::as_str)
    }

    /// The value of a key in the query of the URL: of a repeated key the last one.
    pub fn query(&self, key: &str) -> Option<&'a str> {
        self.query.get(key).map(String::as_str)
    }

    /// The whole query, by key.
    pub fn queries(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.query.iter().map(|(key, value)| (&**key, &**value))
    }
}

/// Why a path shows nothing: one sentence for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IntrospectError {
    /// There is no such object. The gateway answers 404.
    #[error("{0}")]
    NotFound(String),
    /// A parameter or the query is invalid. The text says what is expected. The gateway answers 400.
    #[error("{0}")]
    InvalidParameter(String),
    /// The policy cannot tell now. The gateway answers 503.
    #[error("{0}")]
    NotReady(String),
    /// The policy's own code failed. The text is logged, and not sent: the gateway gets INTERNAL.
    #[error("{0}")]
    Failed(String),
    /// The policy declares paths and does not implement [`Policy::introspect`](crate::Policy::introspect). The gateway
    /// answers 501.
    #[error("this policy declares the path and does not implement Policy::introspect")]
    NotImplemented,
}

impl From<NotReady> for IntrospectError {
    fn from(NotReady(sentence): NotReady) -> Self {
        Self::NotReady(sentence)
    }
}
