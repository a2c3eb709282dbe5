//! A variation of the same demo as [always-true.rs](always-true.rs): the pod needs luck with half of the nodes, and
//! the others get a random score. The same seed gives the same sequence of answers.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use extender_policy_sdk::{Args, ArgsError, Backend, Info, Node, Pod, Policy, Scale, Verb, Verdict, run};

/// In the gateway's configuration: `args: {seed: 42}`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    seed: u64,
}

struct Lucky(AtomicU64);

impl Lucky {
    fn new(args: &Args) -> Result<Self, ArgsError> {
        let Settings { seed } = args.parse()?;
        Ok(Self(AtomicU64::new(seed)))
    }

    /// The next random number below `limit` (`SplitMix64`).
    fn random(&self, limit: u64) -> u64 {
        let state = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Relaxed).wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }
}

impl Policy for Lucky {
    fn info(&self) -> Info {
        // Not pure: the same question has another answer the next time.
        let verb = Verb::per_node();
        Info::new("lucky", "1").filters(verb.clone()).scores(verb, Scale::between(0..=10))
    }

    fn filter(&self, _: &Pod<'_>, _: &Node<'_>) -> Verdict {
        match self.random(2) {
            0 => Verdict::reject("the pod is not lucky here").unresolvable(),
            _ => Verdict::Accept,
        }
    }

    fn score(&self, _: &Pod<'_>, _: &Node<'_>) -> i32 {
        i32::try_from(self.random(11)).unwrap_or_default()
    }
}

fn main() -> ExitCode {
    run(Backend::configured(Lucky::new))
}

#[cfg(test)]
mod tests {
    use extender_policy_sdk::testing::{self, TestNode, TestPod};

    use super::*;

    #[test]
    fn the_same_seed_has_the_same_luck() {
        let nodes: Vec<_> = (0..100).map(|node| TestNode::new(node.to_string())).collect();
        let luck = |args: &str| {
            let lucky = testing::with_args(Backend::configured(Lucky::new), args).unwrap();
            let refused = testing::filter(lucky.clone(), &TestPod::new("shop"), &nodes).unwrap();
            (refused, testing::score(lucky, &TestPod::new("shop"), &nodes).unwrap())
        };
        let (refused, scores) = luck(r#"{"seed": 42}"#);
        assert!((30..=70).contains(&refused.len()), "{} of 100 refused", refused.len());
        assert!((0..=10).all(|score| scores.contains(&score)), "{scores:?}");
        assert_eq!(luck(r#"{"seed": 42}"#), (refused, scores.clone()));
        assert_ne!(luck(r#"{"seed": 43}"#).1, scores);
    }
}
