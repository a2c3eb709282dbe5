//! The priority `zero_score` of the same demo as [always-true.rs](always-true.rs): each node has the score 0.

use std::process::ExitCode;

use extender_policy_sdk::{Info, Node, Pod, Policy, Scale, Verb, run};

struct ZeroScore;

impl Policy for ZeroScore {
    fn info(&self) -> Info {
        let verb = Verb::per_node().pure();
        Info::new("zero-score", "1").scores(verb, Scale::between(0..=10))
    }

    fn score(&self, _: &Pod, _: &Node) -> i32 {
        0
    }
}

fn main() -> ExitCode {
    run(ZeroScore)
}

#[cfg(test)]
mod tests {
    use extender_policy_sdk::testing::{self, TestNode, TestPod};

    #[test]
    fn no_node_is_better_than_another() {
        let nodes = ["a", "b"].map(TestNode::new);
        assert_eq!(testing::score(super::ZeroScore, &TestPod::new("shop"), &nodes), Ok(vec![0, 0]));
    }
}
