//! Serves a ready-made policy as a policy backend: each policy is a command of one program, which is much smaller than a
//! program for each, because most of its code is the same.

mod apiserver;
mod http_extender;
mod label_binder;
mod label_rules;
mod node_affinity;
mod node_resources;
mod reservation;
mod spread;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    HttpExtender(http_extender::Arguments),
    LabelRules(label_rules::Arguments),
    LabelBinder(label_binder::Arguments),
    NodeResources(node_resources::Arguments),
    NodeAffinity(node_affinity::Arguments),
    Reservation(reservation::Arguments),
    Spread(spread::Arguments),
}

fn main() -> ExitCode {
    match Program::parse().policy {
        Policy::HttpExtender(arguments) => arguments.run(),
        Policy::LabelRules(arguments) => arguments.run(),
        Policy::LabelBinder(arguments) => arguments.run(),
        Policy::NodeResources(arguments) => arguments.run(),
        Policy::NodeAffinity(arguments) => arguments.run(),
        Policy::Reservation(arguments) => arguments.run(),
        Policy::Spread(arguments) => arguments.run(),
    }
}
