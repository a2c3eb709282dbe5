//! The answers of the apiserver: pages of lists, and events of watches. Their objects are not read here.

use std::borrow::Cow;

use extender_apiserver::{RequestError, bounded};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    pub(super) metadata: ListMeta,
    /// Required, but may be null.
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
    pub(super) r#continue: Option<String>,
}

/// A line of a watch response.
#[derive(Deserialize)]
pub(super) struct WatchEvent<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// The `Status` of an error event.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct EventStatus {
    pub(super) code: u16,
    pub(super) message: String,
}

pub(super) fn parse<'a, T: Deserialize<'a>>(json: &'a [u8], what: &str) -> Result<T, RequestError> {
    serde_json::from_slice(json).map_err(|error| unreadable(what, &error.to_string()))
}

pub(super) fn unreadable(what: &str, why: &str) -> RequestError {
    RequestError::Failed(format!("the {what} cannot be read: {}", bounded(why)))
}

/// The message of an error event, or what stands for it if the event has none.
pub(super) fn reported(code: u16, message: &str) -> String {
    let message = bounded(message);
    if message.is_empty() {
        format!("the watch ended with an error without a message, code {code}")
    } else {
        message
    }
}

pub(super) fn version(version: String) -> Result<String, RequestError> {
    if version.is_empty() { Err(unreadable("answer", "it has no resourceVersion")) } else { Ok(version) }
}
