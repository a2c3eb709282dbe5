//! A whole policy: refuses arm64 nodes, and prefers nodes of the pod's own team.

use std::process::ExitCode;

use extender_policy_sdk::{Info, Node, Pod, Policy, Scale, Verb, Verdict, run};

struct NoArm;

impl Policy for NoArm {
    fn info(&self) -> Info {
        Info::new("no-arm", env!("CARGO_PKG_VERSION"))
            .filters(Verb::per_node().pure())
            .scores(Verb::per_node().pure(), Scale::between(0..=10))
    }

    fn filter(&self, _pod: &Pod, node: &Node) -> Verdict {
        match node.label("kubernetes.io/arch") {
            Some("arm64") => Verdict::reject("arm64 nodes are not in use yet"),
            _ => Verdict::Accept,
        }
    }

    fn score(&self, pod: &Pod, node: &Node) -> i32 {
        let team = pod.label("acme.io/team");
        if team.is_some() && node.label("acme.io/team") == team { 10 } else { 0 }
    }
}

fn main() -> ExitCode {
    run(NoArm)
}
