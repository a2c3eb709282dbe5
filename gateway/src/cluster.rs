//! What the gateway knows of the cluster: the node table and its sources.
//!
//! [`table`] holds the nodes as rows, ready to be sent; a call reads them there. It is fed by one source: the
//! apiserver ([`watch`]) or a file ([`mod@file`]). [`pods`] holds the pods where something needs them. Sources
//! run on a runtime of their own, away from the calls. [`binder`] asks the apiserver on behalf of a call: it
//! binds pods, and says whether they are bound.

pub mod binder;
pub mod file;
pub mod pods;
pub mod source_health;
pub mod table;
pub mod usage;
pub mod watch;
