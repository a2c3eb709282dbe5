//! Access to kube-apiserver: finds it through a kubeconfig or a service account, creates the client, and sends
//! requests of which only a real answer counts as success.
//!
//! The client retries nothing by itself. kube's own retries are silent, wait as long as a `Retry-After` header
//! says, and know no deadline; each user here has its own backoff or deadline.

mod access;
mod binding;
mod error_text;
mod request;

pub use access::{ClientTimeouts, ConnectError, check, client, config, connect};
pub use binding::bind;
pub use error_text::{bounded, whole_text};
pub use request::{RequestError, read, send};
