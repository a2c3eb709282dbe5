//! Access to kube-apiserver: finds it through a kubeconfig or a service account, creates the client, sends requests, and
//! checks their answers.
//!
//! The client retries nothing: kube's own retries are not logged, wait as long as a `Retry-After` header says, and have
//! no deadline. Each caller has its own backoff or deadline.

mod access;
mod binding;
pub mod clock;
mod condition;
mod event;
mod request;
mod review;
pub mod text;
mod touch;
mod unreachable;

use std::error::Error;

pub use access::{ClientTimeouts, ConnectError, check, client, config, connect};
pub use binding::bind;
pub use condition::{PodCondition, set_condition};
pub use event::{EventPod, PodEvent, create_event};
pub use request::{RequestError, read, send};
pub use review::{may, user_of};
pub use touch::{RETRY, touch_node};

/// The most characters of an external text in an error.
const LONGEST: usize = 1_000;

/// The beginning of an external text: errors are logged and shown in responses.
pub fn bounded(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The error with its causes. The text of an error often contains that of its cause, but not always: "connection refused"
/// would be missing.
pub fn whole_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        cause = error.source();
    }
    text
}
