//! The predicate `always_true` of the demo extender to which articles about extending kube-scheduler point
//! (everpeace/k8s-scheduler-extender-example): it keeps every node.

use std::process::ExitCode;

use extender_policy_sdk::{Info, Node, Pod, Policy, Verb, Verdict, run};

struct AlwaysTrue;

impl Policy for AlwaysTrue {
    fn info(&self) -> Info {
        // It reads nothing: the gateway asks once, and caches the answer for all pods and nodes.
        Info::new("always-true", "1").filters(Verb::per_node().pure())
    }

    fn filter(&self, _: &Pod, _: &Node) -> Verdict {
        Verdict::Accept
    }
}

fn main() -> ExitCode {
    run(AlwaysTrue)
}

#[cfg(test)]
mod tests {
    use extender_policy_sdk::testing::{self, TestNode, TestPod};

    #[test]
    fn every_node_is_kept() {
        let nodes = ["a", "b"].map(TestNode::new);
        assert_eq!(testing::filter(super::AlwaysTrue, &TestPod::new("shop"), &nodes), Ok(Vec::new()));
    }
}
