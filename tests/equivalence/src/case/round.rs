//! More pods of a case, placed one after the other, and what changes in between.
//!
//! What a policy says about a node depends on nothing but what it is told: its tables are looked up further on
//! with each step of the node's state, of the pod's class, of its rules and of its arguments.

use std::collections::{BTreeMap, BTreeSet};

use extender_reference::model::{FilterRule, Node, Pod, ScoreRule};
use serde::{Deserialize, Serialize};

use super::{Backend, Case, KNOWN, Manner, NODES, Source, View};

/// Another pod, and what happened since the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Which pod.
    pub sibling: Sibling,
    /// What kube-scheduler offers.
    pub offered: Vec<Node>,
    /// How it says which nodes these are.
    pub offer: Offer,
    /// How it calls.
    pub calls: Calls,
    /// What changes before it calls.
    pub before: Option<Change>,
    /// The nodes whose rows change while filter is under way.
    pub during: BTreeSet<Node>,
    /// The nodes whose rows change between filter and prioritize.
    pub between: BTreeSet<Node>,
    /// Whether backends have their tables when it calls.
    pub tables: Tables,
}

/// A pod beside the first one: it has another name, UID, generated name and volume with a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sibling {
    /// Nothing else is different.
    Same,
    /// In another namespace.
    Elsewhere(String),
    /// With other labels.
    Labelled(BTreeMap<String, String>),
}

/// How kube-scheduler says which nodes it offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Offer {
    /// As for the first pod.
    AsBefore,
    /// In full, whatever it did before: another scheduler, with another configuration.
    Objects,
}

/// How kube-scheduler calls about a pod.
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
    /// These nodes go, and come back in this order as they were: in other places, with other ids.
    Replaced(Vec<Node>),
    /// The backends' rules, and with them their revisions.
    Rules,
    /// The backends' rules, of which the gateway hears by the next answers alone, and the rows of these nodes, so
    /// that it has to ask.
    RulesAndRows(BTreeSet<Node>),
    /// The backends' arguments, by another configuration.
    Args,
}

/// Whether backends have their tables of nodes when a call comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tables {
    /// They are waited for.
    Awaited,
    /// As far as they are.
    AsTheyAre,
}

/// What a policy's answers depend on besides node and pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct World {
    /// How often the row of each node has changed.
    pub states: [usize; KNOWN],
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
    /// How it came to that; `None` for the case's own pod.
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
    /// The state of a node, where a view shows it.
    pub fn seen(&self, node: Node, view: View) -> usize {
        if view == View::Name { 0 } else { self.states.get(node).copied().unwrap_or_default() }
    }

    fn change(&mut self, nodes: &BTreeSet<Node>) {
        for node in nodes {
            self.states[*node] += 1;
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

/// How far on tables are looked up for a pod of this class under these rules and arguments.
pub fn turn(
    (namespace, labels): (&str, &BTreeMap<String, String>),
    first: &Pod,
    (rules, args): (usize, usize),
) -> usize {
    let own = class(&first.namespace, &first.labels) % NODES;
    class(namespace, labels) + NODES - own + 5 * rules + 7 * args
}

fn class(namespace: &str, labels: &BTreeMap<String, String>) -> usize {
    let sum = |text: &str| text.bytes().map(usize::from).sum::<usize>();
    sum(namespace) + labels.iter().map(|(key, value)| 3 * sum(key) + sum(value)).sum::<usize>()
}

/// What a rule says of each node when its table is looked up so much further on.
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
        let mut world = World::default();
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
            let filtering = world.clone();
            world.change(&round.during);
            world.change(&round.between);
            let (pod, scoring) = (self.sibling(&round.sibling), world.clone());
            Placing { number, round: Some(round), pod, offered: &round.offered, filtering, scoring }
        });
        [first].into_iter().chain(later).collect()
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

    /// What is remembered of a backend that nobody has to ask stays as it was for a moment, on purpose. So rules
    /// change unnoticed only where everybody is asked about a row that changes with them.
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

    /// Rows change where there are any, and are known before the call brings them where that is meant.
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
    /// Where facts about nodes come from, for this pod.
    pub fn source(&self, usual: Source) -> Source {
        match self.round.map(|round| round.offer) {
            Some(Offer::Objects) => Source::Request,
            Some(Offer::AsBefore) | None => usual,
        }
    }

    /// How far on a verb's table is looked up for each node.
    pub(super) fn turn(&self, first: &Pod, (world, manner): (&World, Manner)) -> impl Fn(Node) -> usize {
        let turn = turn((&self.pod.namespace, &self.pod.labels), first, (world.rules, world.args));
        move |node| turn + world.seen(node, manner.view)
    }
}
