//! The preemption of the same demo as [always-true.rs](always-true.rs), `EchoPreemption`: it returns what it gets, so
//! kube-scheduler's choice of victims stands.

use std::process::ExitCode;

use extender_policy_sdk::{Candidate, Eviction, Info, Pod, Policy, Verb, run};

struct EchoPreemption;

impl Policy for EchoPreemption {
    fn info(&self) -> Info {
        // It reads nothing of pods and nodes.
        Info::new("echo-preemption", "1").preempts(Verb::per_node())
    }

    fn preempt(&self, _: &Pod, _: &Candidate) -> Eviction {
        Eviction::All
    }
}

fn main() -> ExitCode {
    run(EchoPreemption)
}

#[cfg(test)]
mod tests {
    use extender_policy_sdk::testing::{self, TestCandidate, TestNode, TestPod};

    #[test]
    fn all_victims_stay_victims() {
        let candidate =
            TestCandidate::new(TestNode::new("a")).victim("u", TestPod::new("shop")).unknown_victim("v");
        let kept = testing::preempt(super::EchoPreemption, &TestPod::new("shop"), &[candidate]);
        assert_eq!(kept, Ok(vec![("a".to_owned(), vec!["u".to_owned(), "v".to_owned()])]));
    }
}
