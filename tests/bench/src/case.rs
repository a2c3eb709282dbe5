//! What is asked: the verb, how many nodes, in which form, and the bodies.
//!
//! Bodies are like kube-scheduler's: pods of a few Deployments that all differ, and nodes from a moving
//! start, since it never offers the same nodes in the same order twice (`findNodesThatPassFilters`).

use extender_harness::{
    node::Node,
    pod::ReplicaSet,
    request::{Verb, names_part, objects_part, pod_part},
};

/// Pods that are sent in turn. Many more than a remembered connection state could hold by accident.
const PODS: usize = 256;

/// The form in which nodes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `nodeCacheCapable: true`.
    Names,
    /// `nodeCacheCapable: false`, with 20 images a node.
    Objects,
}

/// One line of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// What is asked.
    pub verb: Verb,
    /// How nodes are sent.
    pub form: Form,
    /// How many nodes.
    pub nodes: usize,
    /// How many calls a round has at least.
    pub calls: usize,
}

/// A choice of nodes as the end of a body, and what a policy-abiding answer to it holds.
#[derive(Debug)]
pub struct Tail {
    /// The end of the body.
    pub bytes: Vec<u8>,
    /// How many of the nodes the policies leave.
    pub survivors: usize,
    /// How many nodes there are.
    pub nodes: usize,
}

/// The bodies of one case.
#[derive(Debug)]
pub struct Bodies {
    pods: Vec<Vec<u8>>,
    tails: Vec<Tail>,
}

impl Case {
    /// Every case, in the order of the report.
    pub fn all() -> Vec<Self> {
        let sizes = [
            (Form::Names, 100, 200),
            (Form::Names, 420, 200),
            (Form::Names, 500, 200),
            (Form::Names, 5_000, 30),
            (Form::Objects, 500, 10),
        ];
        let with = |verb| sizes.map(|(form, nodes, calls)| Self { verb, form, nodes, calls });
        [with(Verb::Filter), with(Verb::Prioritize)].concat()
    }

    /// What the report calls it.
    pub fn label(&self) -> String {
        let verb = self.verb.path().trim_start_matches('/');
        match self.form {
            Form::Names => format!("{verb} {} names", self.nodes),
            Form::Objects => format!("{verb} {} full nodes", self.nodes),
        }
    }

    /// How many choices of nodes are sent in turn: few where each has megabytes.
    fn variants(self) -> usize {
        match self.form {
            Form::Names => 16,
            Form::Objects => 4,
        }
    }
}

impl Bodies {
    /// The bodies of a case, with nodes of this cluster. `refused` says which nodes the policies refuse.
    pub fn new(case: &Case, cluster: &[Node], refused: impl Fn(&Node) -> bool) -> Self {
        let variants = case.variants();
        let step = cluster.len() / variants + 7;
        let tails = (0..variants).map(|variant| {
            let offered = cluster.iter().cycle().skip(variant * step % cluster.len()).take(case.nodes);
            Tail::new(case.form, offered, &refused)
        });
        Self { pods: pods(), tails: tails.collect() }
    }

    /// The body of the call with this number: pod and nodes change with different periods.
    pub fn body(&self, number: usize) -> ([&[u8]; 2], &Tail) {
        let tail = &self.tails[number % self.tails.len()];
        ([&self.pods[number % self.pods.len()], &tail.bytes], tail)
    }

    /// How many calls have seen every choice of nodes.
    pub fn variants(&self) -> usize {
        self.tails.len()
    }
}

impl Tail {
    fn new<'a>(
        form: Form,
        offered: impl Iterator<Item = &'a Node> + Clone,
        refused: impl Fn(&Node) -> bool,
    ) -> Self {
        let bytes = match form {
            Form::Names => names_part(offered.clone()),
            Form::Objects => objects_part(offered.clone()),
        };
        let survivors = offered.clone().filter(|node| !refused(node)).count();
        Self { bytes, survivors, nodes: offered.count() }
    }
}

/// Pods of four Deployments in turn, as when several are scaled up at once.
fn pods() -> Vec<Vec<u8>> {
    let apps = ["checkout", "payments", "search", "storefront"];
    let mut sets: Vec<ReplicaSet> = (1..)
        .zip(apps)
        .map(|(seed, app)| ReplicaSet::new("shop", app, &[("acme.io/tenant", "tenant-0")], seed))
        .collect();
    (0..PODS).map(|number| pod_part(&sets[number % apps.len()].pod())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use extender_harness::node::{Images, nodes};
    use serde_json::Value;

    use super::*;

    #[test]
    fn no_two_bodies_in_a_round_are_equal() {
        let cluster = nodes(0..200, Images::Few);
        for case in [(Form::Names, 100), (Form::Objects, 50)].map(|(form, nodes)| Case {
            verb: Verb::Filter,
            form,
            nodes,
            calls: PODS,
        }) {
            let bodies = Bodies::new(&case, &cluster, |_| false);
            let different: BTreeSet<Vec<u8>> =
                (0..PODS).map(|number| bodies.body(number).0.concat()).collect();
            assert_eq!(different.len(), PODS);
            let starts: BTreeSet<&[u8]> = bodies.tails.iter().map(|tail| &tail.bytes[..]).collect();
            assert_eq!(starts.len(), bodies.variants());
        }
    }

    #[test]
    fn a_tail_knows_what_the_policies_leave() {
        let cluster = nodes(0..12, Images::Few);
        let case = Case { verb: Verb::Filter, form: Form::Names, nodes: 10, calls: 1 };
        let bodies = Bodies::new(&case, &cluster, |node| node.rack == "rack-2");
        let (body, tail) = bodies.body(0);
        assert_eq!((tail.nodes, tail.survivors), (10, 8));
        let body: Value = serde_json::from_slice(&body.concat()).unwrap();
        assert_eq!(body["NodeNames"].as_array().unwrap().len(), 10);
        assert!(body["Nodes"].is_null());
    }
}
