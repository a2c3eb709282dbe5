//! What a gateway would ask a policy backend: random pods and nodes, of which each verb is sent what the backend's
//! handshake declares, and what hooks may change of them. Nothing here asks: `policy-conformance` does.

#![expect(missing_docs, reason = "fields and constructors say what the policy API says of them")]

pub mod declared;
pub mod digest;
pub mod hook;
pub mod objects;
pub mod question;
pub mod random;
pub mod sent;
