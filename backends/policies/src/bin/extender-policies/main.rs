//! Serves a ready-made policy as a policy backend: each policy is a command of one program, which is much smaller than a
//! program for each, because most of its code is the same.

mod apiserver;
mod http_extender;
mod label_binder;
mod label_rules;
mod plain;
mod reservation;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use extender_policies::{node_affinity::NodeAffinity, node_resources::NodeResources, spread::Spread};

use self::plain::Plain;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Ready-made policy backends for extender-gateway.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Program {
    #[command(subcommand)]
    policy: Policy,
}

const EXAMPLES: &str = "\
Examples:
  extender-policies label-rules --rules racks-drained.yaml --address 0.0.0.0:9000
  extender-policies spread --help";

#[derive(Debug, Subcommand)]
enum Policy {
    HttpExtender(http_extender::HttpExtenderArguments),
    LabelRules(label_rules::LabelRulesArguments),
    LabelBinder(label_binder::LabelBinderArguments),
    /// Refuses nodes that have too little left for a pod, and scores the others by what is requested on them.
    ///
    /// The `args` of the backend's entry in the gateway's configuration select the resources and the scoring strategy.
    /// Prints `listening on ADDRESS` when it is ready.
    #[command(after_help = plain::examples("node-resources", "bin-packing"), mut_arg("name", plain::named("node-resources")))]
    NodeResources(Plain),
    /// Refuses nodes that a pod's node selector and affinity exclude, and scores the others by its preferences.
    ///
    /// The `args` of the backend's entry in the gateway's configuration may add to the affinity of every pod. Prints
    /// `listening on ADDRESS` when it is ready.
    #[command(after_help = plain::examples("node-affinity", "tenants"), mut_arg("name", plain::named("node-affinity")))]
    NodeAffinity(Plain),
    Reservation(reservation::ReservationArguments),
    /// Limits how many pods of one owner, namespace, label or priority class run in one rack, zone or other topology, or in
    /// the whole cluster, and prefers nodes where fewer of them run.
    ///
    /// The `args` of the backend's entry in the gateway's configuration are the constraints. Prints `listening on ADDRESS`
    /// when it is ready.
    #[command(after_help = plain::examples("spread", "racks"), mut_arg("name", plain::named("spread")))]
    Spread(Plain),
}

fn main() -> ExitCode {
    match Program::parse().policy {
        Policy::HttpExtender(arguments) => arguments.run(),
        Policy::LabelRules(arguments) => arguments.run(),
        Policy::LabelBinder(arguments) => arguments.run(),
        Policy::NodeResources(plain) => plain.serve(NodeResources::new),
        Policy::NodeAffinity(plain) => plain.serve(NodeAffinity::new),
        Policy::Reservation(arguments) => arguments.run(),
        Policy::Spread(plain) => plain.serve(Spread::new),
    }
}
