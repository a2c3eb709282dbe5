//! More pods of a case, placed one after the other, and the changes in between.
//!
//! A policy's answer about a node depends only on its input: its tables are read at another offset with each step
//! of the node's state, of the pod's class, of counts of pods, of its rules and of its arguments.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use extender_reference::model::{BoundPod, FilterRule, Node, Pod, ScoreRule};
use serde::{Deserialize, Serialize};

use super::{Backend, Case, KNOWN, Manner, NODES, PodNews, Source};

/// Another pod, and what happened since the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The pod.
    pub sibling: Sibling,
    /// What kube-scheduler offers.
    pub offered: Vec<Node>,
    /// The form of the nodes.
    pub offer: Offer,
    /// The calls.
    pub calls: Calls,
    /// The change before the calls.
    pub before: Option<Change>,
    /// The nodes whose rows change during filter.
    pub during: BTreeSet<Node>,
    /// The nodes whose rows change between filter and prioritize.
    pub between: BTreeSet<Node>,
    /// Whether backends have their tables at the time of the call.
    pub tables: Tables,
    /// What happens to counted pods.
    #[serde(default)]
    pub news: PodNews,
}

/// A sibling of the first pod: it has another name, UID, generated name and volume with a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sibling {
    /// Nothing else is different.
    Same,
    /// In another namespace.
    Elsewhere(String),
    /// With other labels.
    Labelled(BTreeMap<String, String>),
}

/// The form in which kube-scheduler offers nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Offer {
    /// As for the first pod.
    AsBefore,
    /// As objects, whatever it did before: another scheduler, with another configuration.
    Objects,
}

/// kube-scheduler's calls about a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Calls {
    /// Filter, then prioritize what is left.
    FilterThenPrioritize,
    /// Prioritize what is offered.
    PrioritizeAlone,
}

/// What changes before a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// The rows of these nodes.
    Rows(BTreeSet<Node>),
    /// These nodes are deleted, and created again in this order, unchanged: in other slots, with other ids.
    Replaced(Vec<Node>),
    /// The backends' rules, and with them their revisions.
    Rules,
    /// The backends' rules, which the gateway learns only from the next answers, and the rows of these nodes, so
    /// that it has to call.
    RulesAndRows(BTreeSet<Node>),
    /// The backends' arguments, by another configuration.
    Args,
}

/// Whether backends have their tables of nodes at the time of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tables {
    /// The test waits for them.
    Awaited,
    /// As far as they are filled.
    AsTheyAre,
}

/// What a policy's answers depend on besides node and pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct World {
    /// How often the row of each node has changed, as calls bring it.
    pub states: [usize; KNOWN],
    /// The same as the gateway's source of nodes has it.
    pub listed: [usize; KNOWN],
    /// The pods that are counted besides those of preemption.
    pub pods: Arc<Vec<BoundPod>>,
    /// How often the rules have.
    pub rules: usize,
    /// How often the arguments have.
    pub args: usize,
}

/// A pod of a case, and the world in which it is placed.
#[derive(Debug, Clone)]
pub struct Placing<'c> {
    /// Which one: 0 for the case's own.
    pub number: usize,
    /// Its round; `None` for the case's own pod.
    pub round: Option<&'c Round>,
    /// The pod.
    pub pod: Pod,
    /// What kube-scheduler offers.
    pub offered: &'c [Node],
    /// The world in which it is filtered.
    pub filtering: World,
    /// The world in which it is prioritized.
    pub scoring: World,
}

impl World {
    /// The state of a node.
    pub fn state(&self, node: Node) -> usize {
        self.states.get(node).copied().unwrap_or_default()
    }

    /// The state of a node as a verb sees it, and its counts of pods: 0 if it sees neither.
    pub fn seen(&self, node: Node, manner: Manner) -> usize {
        let state = if manner.sees_states() { self.state(node) } else { 0 };
        state + self.counts_on(node, &manner.counts)
    }

    fn change(&mut self, nodes: &BTreeSet<Node>) {
        for node in nodes {
            self.states[*node] += 1;
            self.listed[*node] += 1;
        }
    }

    fn after(&mut self, change: &Change) {
        match change {
            Change::Rows(nodes) => self.change(nodes),
            Change::Replaced(_) => {}
            Change::Rules => self.rules += 1,
            Change::RulesAndRows(nodes) => {
                self.rules += 1;
                self.change(nodes);
            }
            Change::Args => self.args += 1,
        }
    }
}

impl Round {
    /// Whether something changes while filter is under way.
    pub fn changes_during(&self) -> bool {
        !self.during.is_empty() || !self.news.during.is_empty()
    }
}

/// A pod's namespace and labels, as far as a verb reads them.
pub type Class = (String, BTreeMap<String, String>);

/// The offset in the tables for a pod of this class under these rules and arguments. `first` is the class of the case's
/// first pod.
pub fn turn(class: &Class, first: &Class, (rules, args): (usize, usize)) -> usize {
    sum(class) + NODES - sum(first) % NODES + 5 * rules + 7 * args
}

fn sum((namespace, labels): &Class) -> usize {
    let sum = |text: &str| text.bytes().map(usize::from).sum::<usize>();
    sum(namespace) + labels.iter().map(|(key, value)| 3 * sum(key) + sum(value)).sum::<usize>()
}

/// A rule's answers when its table is read at this offset.
pub fn turned_filter(rule: &FilterRule, turn: impl Fn(Node) -> usize) -> FilterRule {
    match rule {
        FilterRule::PerNode(table) => FilterRule::PerNode(turned(table, turn)),
        other => other.clone(),
    }
}

/// As [`turned_filter`].
pub fn turned_score(rule: &ScoreRule, turn: impl Fn(Node) -> usize) -> ScoreRule {
    match rule {
        ScoreRule::PerNode(table) => ScoreRule::PerNode(turned(table, turn)),
        other @ ScoreRule::ByRank { .. } => other.clone(),
    }
}

fn turned<T: Clone>(table: &[T], turn: impl Fn(Node) -> usize) -> Vec<T> {
    (0..table.len()).map(|node| table[(node + turn(node)) % table.len()].clone()).collect()
}

impl Case {
    /// The pods of the case, in the order in which they are placed.
    pub fn placings(&self) -> Vec<Placing<'_>> {
        let mut world = self.world();
        let first = Placing {
            number: 0,
            round: None,
            pod: self.pod.clone(),
            offered: &self.offered,
            filtering: world.clone(),
            scoring: world.clone(),
        };
        let later = (1..).zip(&self.rounds).map(|(number, round)| {
            round.before.iter().for_each(|change| world.after(change));
            world.happen(&round.news.before);
            let filtering = world.clone();
            world.change(&round.during);
            world.happen(&round.news.during);
            world.change(&round.between);
            world.happen(&round.news.between);
            let (pod, scoring) = (self.sibling(&round.sibling), world.clone());
            Placing { number, round: Some(round), pod, offered: &round.offered, filtering, scoring }
        });
        [first].into_iter().chain(later).collect()
    }

    /// The world at first.
    pub fn world(&self) -> World {
        World { pods: Arc::new(self.bound.clone()), ..World::default() }
    }

    pub(super) fn sibling(&self, sibling: &Sibling) -> Pod {
        let mut pod = self.pod.clone();
        match sibling {
            Sibling::Same => {}
            Sibling::Elsewhere(namespace) => pod.namespace.clone_from(namespace),
            Sibling::Labelled(labels) => pod.labels.clone_from(labels),
        }
        pod
    }

    /// Cached answers of a backend that is not called stay valid for a moment, by design. So rules change unnoticed
    /// only if every backend is called about a row that changes with them.
    pub(super) fn settle_rules(&mut self) {
        let asks_all = self.source != Source::NamesOnly
            && self.differences.exempt.is_empty()
            && self.backends.iter().all(Backend::is_asked_about_rows);
        for round in &mut self.rounds {
            let Some(Change::RulesAndRows(nodes)) = &mut round.before else { continue };
            nodes.retain(|node| round.offered.contains(node));
            if !asks_all || nodes.is_empty() || round.calls == Calls::PrioritizeAlone {
                round.before = Some(Change::Rules);
            }
        }
    }

    /// Rows change only if there are any, and are known before the call brings them if that is intended.
    pub(super) fn settle_rounds(&mut self) {
        let source = self.source;
        for round in &mut self.rounds {
            if source == Source::NamesOnly {
                round.offer = Offer::AsBefore;
            }
            if source != Source::File || round.offer == Offer::Objects {
                round.offered.retain(|node| *node < KNOWN);
            }
            if source != Source::File {
                round.during.clear();
                if matches!(round.before, Some(Change::Replaced(_))) {
                    round.before = None;
                }
            }
            if source == Source::NamesOnly {
                round.between.clear();
                if matches!(round.before, Some(Change::Rows(_))) {
                    round.before = None;
                }
            }
            if round.calls == Calls::PrioritizeAlone {
                round.during.clear();
                round.between.clear();
            }
        }
    }
}

impl Placing<'_> {
    /// The source of facts about nodes for this pod.
    pub fn source(&self, usual: Source) -> Source {
        match self.round.map(|round| round.offer) {
            Some(Offer::Objects) => Source::Request,
            Some(Offer::AsBefore) | None => usual,
        }
    }

    /// The offset in a verb's table for each node.
    pub(super) fn turn(&self, first: &Pod, (world, manner): (&World, Manner)) -> impl Fn(Node) -> usize {
        let turn = turn(&manner.class(&self.pod), &manner.class(first), (world.rules, world.args))
            + world.counts_like(&self.pod, &manner.counts);
        move |node| turn + world.seen(node, manner)
    }
}
