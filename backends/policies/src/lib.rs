//! Policy backends that are ready to be deployed, each a module here and a command of the program; the largest one,
//! `reservation`, is a crate of its own. [`program`] is what the commands share, [`resource`] reads what operators write.

#[cfg(test)]
mod arbitrary;
pub mod http_extender;
pub mod label_binder;
pub mod label_rules;
pub mod node_affinity;
pub mod node_resources;
pub mod program;
mod resource;
pub mod spread;
