//! A policy with args: refuses nodes that carry a label, whose key comes in `args`. One process serves as many
//! drains as the gateway's configuration names.

use std::process::ExitCode;

use extender_policy_sdk::{Args, Backend, Info, Node, Pod, Policy, Reads, Verb, Verdict, run};

/// In the gateway's configuration: `args: {label: acme.io/draining}`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Drain {
    label: String,
}

impl Policy for Drain {
    fn info(&self) -> Info {
        let mut reads = Reads::new();
        reads.node_label(self.label.as_str());
        Info::new("drain", env!("CARGO_PKG_VERSION")).filters(Verb::per_node().pure().reads(&reads))
    }

    fn filter(&self, _pod: &Pod, node: &Node) -> Verdict {
        match node.label(&self.label) {
            Some(_) => Verdict::reject("node is being drained").unresolvable(),
            None => Verdict::Accept,
        }
    }
}

fn main() -> ExitCode {
    run(Backend::configured(Args::parse::<Drain>))
}
