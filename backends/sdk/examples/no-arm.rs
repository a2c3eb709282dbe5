//! A whole policy: refuses arm64 nodes, and prefers nodes of the pod's own team.

use std::process::ExitCode;

use extender_policy_sdk::{Info, Node, Pod, Policy, Reads, Scale, Verb, Verdict, run};

const ARCH: &str = "kubernetes.io/arch";
const TEAM: &str = "acme.io/team";

struct NoArm;

impl Policy for NoArm {
    fn info(&self) -> Info {
        let mut reads = Reads::new();
        reads.node_label(ARCH);
        reads.node_label(TEAM);
        reads.pod_label(TEAM);
        let verb = Verb::per_node().pure().reads(&reads);
        Info::new("no-arm", env!("CARGO_PKG_VERSION"))
            .filters(verb.clone())
            .scores(verb, Scale::between(0..=10))
    }

    fn filter(&self, _pod: &Pod, node: &Node) -> Verdict {
        match node.label(ARCH) {
            Some("arm64") => Verdict::reject("arm64 nodes are not in use yet").unresolvable(),
            _ => Verdict::Accept,
        }
    }

    fn score(&self, pod: &Pod, node: &Node) -> i32 {
        let team = pod.label(TEAM);
        if team.is_some() && node.label(TEAM) == team { 10 } else { 0 }
    }
}

fn main() -> ExitCode {
    run(NoArm)
}
