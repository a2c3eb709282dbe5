//! Rejects nodes of closed zones. The operator's args name the label of the zone and the closed zones:
//! `{label: topology.kubernetes.io/zone, closed: [eu-1a]}`.

use std::process::ExitCode;

use extender_policy_sdk::{Args, Backend, Info, Node, Pod, Policy, Reads, Verb, Verdict, run};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ClosedZones {
    label: String,
    closed: Vec<String>,
}

impl Policy for ClosedZones {
    fn info(&self) -> Info {
        // Only this label is sent, and pods for which it is the same share cached answers.
        let mut reads = Reads::new();
        reads.node_label(self.label.as_str());
        Info::new("{{name}}", env!("CARGO_PKG_VERSION")).filters(Verb::per_node().pure().reads(&reads))
    }

    fn filter(&self, _pod: &Pod, node: &Node) -> Verdict {
        match node.label(&self.label) {
            Some(zone) if self.closed.iter().any(|closed| closed == zone) => {
                Verdict::reject("zone is closed").unresolvable()
            }
            _ => Verdict::Accept,
        }
    }
}

fn backend() -> Backend {
    Backend::configured(Args::parse::<ClosedZones>)
}

fn main() -> ExitCode {
    run(backend())
}

#[cfg(test)]
mod tests {
    use extender_policy_sdk::testing::{self, TestNode, TestPod};

    use super::backend;

    #[test]
    fn nodes_of_closed_zones_are_rejected() {
        let policy = testing::with_args(backend(), r#"{"label": "zone", "closed": ["a"]}"#).unwrap();
        let nodes = [TestNode::new("n1").label("zone", "a"), TestNode::new("n2").label("zone", "b")];
        let rejected = testing::filter(policy, &TestPod::new("shop"), &nodes).unwrap();
        assert_eq!(rejected, [("n1".to_owned(), "zone is closed".to_owned())]);
    }

    #[test]
    fn wrong_args_are_named() {
        let error = testing::with_args(backend(), r#"{"label": "zone", "close": ["a"]}"#).unwrap_err();
        assert!(error.to_string().contains("close"), "{error}");
    }
}
