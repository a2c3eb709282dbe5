//! What a gateway would ask a policy backend: random pods and nodes, of which each verb is sent what the backend's
//! handshake declares, what hooks may change of them, and the rules of answers. Nothing here asks: `policy-conformance` does.

#![expect(missing_docs, reason = "fields and constructors say what the policy API says of them")]

pub mod answer;
pub mod declared;
pub mod digest;
pub mod hook;
pub mod objects;
pub mod question;
pub mod random;
pub mod sent;
