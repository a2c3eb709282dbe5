//! Policy backends that are ready to be deployed. Each is a module here and a binary under `src/bin`;
//! [`program`] is what the binaries share, [`resource`] reads what operators write.

#[cfg(test)]
mod arbitrary;
mod backoff;
mod complaints;
pub mod http_extender;
pub mod label_binder;
pub mod label_rules;
pub mod node_affinity;
pub mod node_resources;
pub mod program;
pub mod reservation;
mod resource;
pub mod spread;
