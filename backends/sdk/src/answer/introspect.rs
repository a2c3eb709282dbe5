//! The answer to Introspect.

use extender_policy_api::limits::{JSON_BYTES, PATH_TEXT_BYTES};
use extender_policy_api::v1beta1 as api;

use super::guarded;
use crate::{Backend, IntrospectAsk, IntrospectError, backend::NamedArgs, error::CallError};

/// What a path shows.
pub(crate) fn introspect(
    backend: &Backend,
    request: &api::IntrospectRequest,
) -> Result<api::IntrospectResponse, CallError> {
    let path = || request.path[..request.path.floor_char_boundary(PATH_TEXT_BYTES)].to_owned();
    let shown = guarded("Introspect", || {
        let prepared = backend.policy_for(NamedArgs::whole(&request.args)?)?;
        let shown = prepared.declaration.shown(&request.path).ok_or_else(|| CallError::NoPath(path()))?;
        let ask = IntrospectAsk::new(shown, request)
            .map_err(|name| CallError::NoParameter { path: path(), name: name.to_owned() })?;
        let value = prepared.policy.introspect(&ask).map_err(|error| match error {
            // Details of a bug are for the log.
            IntrospectError::Failed(why) => {
                tracing::error!("the policy failed to show {:?}: {why}", request.path);
                CallError::ShowFailed(path())
            }
            error => error.into(),
        })?;
        let json = value.to_string().into_bytes();
        if json.len() > JSON_BYTES {
            return Err(CallError::LargeJson { path: path(), bytes: json.len() });
        }
        Ok(api::IntrospectResponse { json: json.into() })
    });
    shown.map_err(|error| match error {
        CallError::Panicked(_) => CallError::ShowFailed(path()),
        error => error,
    })
}
