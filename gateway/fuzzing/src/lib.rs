//! What holds for all bytes that the gateway reads from outside: functions that panic if it does not.
//!
//! The same functions are called by the targets of cargo-fuzz (the folder `fuzz`), by the module `hostile` with generated
//! input, and by the tests below with each file of `fuzz/corpus`.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a property that does not hold is a panic")]

pub mod admin;
pub mod answers;
pub mod calls;
pub mod configuration;
pub mod handshake;
#[cfg(test)]
mod hostile;
pub mod objects;
pub mod pem;
pub mod quantity;
pub mod statuses;
pub mod strange;
pub mod values;
pub mod watch;

/// The function for input of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name of the target of cargo-fuzz, and of its folder of `fuzz/corpus`.
    pub name: &'static str,
    /// Panics if the property does not hold for these bytes.
    pub check: fn(&[u8]),
}

/// All targets of the gateway. The SDK for Rust has one more.
pub const TARGETS: [Target; 22] = [
    Target { name: "filter_call", check: calls::filter },
    Target { name: "prioritize_call", check: calls::prioritize },
    Target { name: "preempt_call", check: calls::preempt },
    Target { name: "bind_call", check: calls::bind },
    Target { name: "filter_answer", check: answers::filter },
    Target { name: "score_answer", check: answers::score },
    Target { name: "hook_answer", check: answers::hook },
    Target { name: "preempt_answer", check: answers::preempt },
    Target { name: "bind_answer", check: answers::bind },
    Target { name: "grpc_status", check: statuses::status },
    Target { name: "handshake", check: handshake::handshake },
    Target { name: "configuration", check: configuration::gateway },
    Target { name: "scheduler_configuration", check: configuration::scheduler },
    Target { name: "setting", check: values::setting },
    Target { name: "quantity", check: quantity::quantity },
    Target { name: "pod", check: objects::pod },
    Target { name: "node", check: objects::node },
    Target { name: "object_file", check: objects::file },
    Target { name: "watch", check: watch::watch },
    Target { name: "strange_object", check: strange::object },
    Target { name: "admin_request", check: admin::request },
    Target { name: "pem", check: pem::pem },
];

#[cfg(test)]
mod tests;
