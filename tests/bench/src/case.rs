//! The measured calls: the verb, the number of nodes, their form, and the bodies.
//!
//! Bodies are like kube-scheduler's: a pod of [`Pods`], and nodes from a moving start, since it never offers
//! the same nodes in the same order twice (`findNodesThatPassFilters`).

use std::borrow::Cow;

use extender_harness::{
    node::Node,
    request::{Verb, names_part, objects_part},
};

use crate::pods::Pods;

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
    /// The verb.
    pub verb: Verb,
    /// The form of the nodes.
    pub form: Form,
    /// How many nodes.
    pub nodes: usize,
    /// The minimum number of calls of a round.
    pub calls: usize,
}

/// A selection of nodes as the end of a body, and the expected answer.
#[derive(Debug)]
pub struct Tail {
    /// The end of the body.
    pub bytes: Vec<u8>,
    /// How many of the nodes the policies leave.
    pub survivors: usize,
    /// How many nodes there are.
    pub nodes: usize,
}

/// The selections of nodes of one case.
#[derive(Debug)]
pub struct Offers {
    tails: Vec<Tail>,
}

/// One call.
#[derive(Debug)]
pub struct Question<'a> {
    /// The beginning of the body.
    pub pod: Cow<'a, [u8]>,
    /// The end of the body.
    pub tail: &'a Tail,
    /// The index of this selection of nodes.
    pub variant: usize,
}

impl Case {
    /// Every case, in the order of the report.
    pub fn all() -> Vec<Self> {
        let sizes = [
            (Form::Names, 100, 200),
            (Form::Names, 420, 200),
            (Form::Names, 500, 200),
            (Form::Names, 750, 200),
            (Form::Names, 5_000, 30),
            (Form::Objects, 500, 10),
            (Form::Objects, 5_000, 3),
        ];
        let with = |verb| sizes.map(|(form, nodes, calls)| Self { verb, form, nodes, calls });
        [with(Verb::Filter), with(Verb::Prioritize)].concat()
    }

    /// Its name in the report.
    pub fn label(&self) -> String {
        let verb = self.verb.path().trim_start_matches('/');
        match self.form {
            Form::Names => format!("{verb} {} names", self.nodes),
            Form::Objects => format!("{verb} {} full nodes", self.nodes),
        }
    }

    /// How many selections of nodes are sent in turn: few if each has megabytes.
    fn variants(self) -> usize {
        match self.form {
            Form::Names => 16,
            Form::Objects if self.nodes > 1_000 => 2,
            Form::Objects => 4,
        }
    }

    /// The estimated time of a round of one contender, in seconds, to display the remaining time.
    #[expect(clippy::cast_precision_loss, reason = "counts of calls and nodes are far below 2^52")]
    pub fn weight(&self) -> f64 {
        let seconds_a_node = match self.form {
            Form::Names => 0.3e-6,
            Form::Objects => 40e-6,
        };
        (self.calls as f64 * self.nodes as f64 * seconds_a_node).max(0.2)
    }
}

impl Offers {
    /// The selections of a case among nodes of this cluster. `refused` returns whether the policies refuse a node.
    pub fn new(case: &Case, cluster: &[Node], refused: impl Fn(&Node) -> bool) -> Self {
        let variants = case.variants();
        let step = cluster.len() / variants + 7;
        let tails = (0..variants).map(|variant| {
            let offered = cluster.iter().cycle().skip(variant * step % cluster.len()).take(case.nodes);
            Tail::new(case.form, offered, &refused)
        });
        Self { tails: tails.collect() }
    }

    /// The call with this number.
    pub fn question<'a>(&'a self, pods: &'a Pods, number: usize) -> Question<'a> {
        let variant = number % self.tails.len();
        Question { pod: pods.part(number), tail: &self.tails[variant], variant }
    }

    /// How many calls cover every selection of nodes.
    pub fn variants(&self) -> usize {
        self.tails.len()
    }
}

impl Question<'_> {
    /// The body, in parts.
    pub fn body(&self) -> [&[u8]; 2] {
        [&self.pod, &self.tail.bytes]
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
