//! One case: a pod, nodes, backends with their policies, and how all of it is put to the gateway.

mod room;

use std::collections::BTreeSet;

use extender_reference::model::{
    Best, Candidate, Differences, Extender, Failing, Filter, FilterRule, Node, Normalize, OnFailure, Pod,
    Preemption, ScoreRule,
};
use serde::{Deserialize, Serialize};

pub use self::room::{Form, Pods, RUNNING, UNSEEN, node_of, running, victims_on};

/// How many nodes the cluster has. Those from here on are names that the gateway does not know.
pub const KNOWN: usize = 10;
/// How many nodes the tables of policies are about, the unknown ones included.
pub const NODES: usize = KNOWN + 2;

/// A case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The pod that is to be placed.
    pub pod: Pod,
    /// What kube-scheduler offers; a node may occur twice.
    pub offered: Vec<Node>,
    /// What kube-scheduler would evict, and where.
    pub candidates: Vec<Candidate>,
    /// How it says so.
    pub form: Form,
    /// Whether the gateway knows the pods that run.
    pub pods: Pods,
    /// Where facts about nodes come from.
    pub source: Source,
    /// What the gateway is configured to do unlike separate extenders.
    pub differences: Differences,
    /// In the order of the configuration.
    pub backends: Vec<Backend>,
}

/// How nodes reach the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// Names in the calls, facts from a file.
    File,
    /// Objects in the calls.
    Request,
    /// Names in the calls, no facts.
    NamesOnly,
}

/// A backend: an extender's policy behind gRPC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backend {
    /// What the reference asks.
    pub extender: Extender,
    /// Whether somebody listens at its address.
    pub reach: Reach,
    /// Who says how scores are normalised.
    pub scale: Scale,
    /// How Filter goes over the wire.
    pub filter: Manner,
    /// How Score does.
    pub score: Manner,
    /// How Preempt does.
    pub preempt: Manner,
}

/// Whether somebody listens at a backend's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// Yes.
    Alive,
    /// Nobody does.
    Dead,
}

/// Who says how scores are normalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// The backend's handshake.
    Declared,
    /// The configuration, against the handshake.
    Configured,
}

/// How a verb goes over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manner {
    /// What the backend is told about nodes.
    pub view: View,
    /// What the verdict about a node depends on, as the backend declares it. In preempt nothing follows from
    /// it: backends are asked in turn anyway.
    pub scope: Scope,
    /// In which way it fails, when it fails.
    pub failure: Failure,
}

/// What a backend is told about nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum View {
    /// Names.
    Name,
    /// Facts, and it goes by these.
    Facts,
    /// The object, and it goes by that.
    Raw,
}

/// What a backend declares about its verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// They depend on the node alone.
    Node,
    /// They depend on the whole set.
    WholeSet,
    /// Nothing: taken as the whole set.
    Unspecified,
    /// They depend on the node alone, and asking changes something.
    NodeWithSideEffects,
}

/// In which way a backend fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Failure {
    /// A gRPC status: UNAVAILABLE.
    Unavailable,
    /// Another: INTERNAL, with a text.
    Internal,
    /// It never answers.
    Hang,
    /// It resets the stream.
    Reset,
    /// Bytes that are no message.
    Garbage,
    /// A default message.
    Empty,
    /// An answer about another number of nodes.
    Miscounted,
    /// A position that was not asked about, or a score too few.
    OutOfRange,
    /// A node that is refused or kept twice, or a score too many.
    Twice,
    /// A position of a victim that was not asked about; in preempt alone.
    VictimOutOfRange,
    /// A victim that is kept twice; in preempt alone.
    VictimTwice,
    /// It says that it cannot read nodes inline.
    Miss,
    /// Its handshake does not list the verb.
    Unlisted,
}

impl Case {
    /// The case with what contradicts itself put right, so that generators can choose freely.
    #[must_use]
    pub fn settled(mut self) -> Self {
        if self.source != Source::File {
            self.offered.retain(|node| *node < KNOWN);
        }
        self.settle_room();
        let (source, pods) = (self.source, self.pods);
        self.backends.iter_mut().for_each(|backend| backend.settle(source, pods));
        self
    }

    /// What the reference is asked: the extenders, each with the nodes that it cannot be told about.
    pub fn extenders(&self) -> Vec<Extender> {
        let unknown: BTreeSet<Node> = (KNOWN..NODES).collect();
        let extender = |backend: &Backend| {
            let mut extender = backend.extender.clone();
            if let Some(filter) = extender.filter.as_mut().filter(|_| backend.is_blind(backend.filter)) {
                filter.blind.clone_from(&unknown);
            }
            if let Some(score) = extender.score.as_mut().filter(|_| backend.is_blind(backend.score)) {
                score.blind.clone_from(&unknown);
            }
            if let Some(preempt) = &mut extender.preempt {
                preempt.unseen = room::unseen();
                if backend.is_blind(backend.preempt) {
                    preempt.blind.clone_from(&unknown);
                }
            }
            extender
        };
        self.backends.iter().map(extender).collect()
    }
}

impl Backend {
    /// Whether the gateway needs facts for this verb. What it wants is not known of a backend whose
    /// handshake has not come, or does not list the verb.
    fn is_blind(&self, manner: Manner) -> bool {
        self.reach == Reach::Alive && manner.failure != Failure::Unlisted && manner.view != View::Name
    }

    fn settle(&mut self, source: Source, pods: Pods) {
        let Extender { filter, score, preempt, .. } = &self.extender;
        if filter.is_none() && score.is_none() && preempt.is_none() {
            self.extender.filter = Some(Filter {
                on_failure: OnFailure::Fail,
                preemption: Preemption::Ignored,
                rule: FilterRule::PerNode(vec![None; NODES]),
                failing: Failing::Never,
                blind: BTreeSet::new(),
            });
        }
        if source == Source::NamesOnly {
            (self.filter.view, self.score.view) = (View::Name, View::Name);
        }
        self.settle_filter();
        self.settle_score();
        self.settle_preempt(source, pods);
    }

    fn settle_filter(&mut self) {
        let Some(filter) = &mut self.extender.filter else { return };
        self.filter.scope = match (&filter.rule, self.filter.scope) {
            (FilterRule::FirstOf { .. } | FilterRule::AtLeast { .. }, Scope::Node) => Scope::WholeSet,
            (FilterRule::Once { .. }, _) => Scope::NodeWithSideEffects,
            (_, scope) => scope,
        };
        without_victims(&mut self.filter);
        settle_failure(&mut filter.failing, &mut self.filter, self.reach);
    }

    fn settle_score(&mut self) {
        let Some(score) = &mut self.extender.score else { return };
        if let (ScoreRule::ByRank { .. }, Scope::Node) = (&score.rule, self.score.scope) {
            self.score.scope = Scope::WholeSet;
        }
        if let (Some(lowest), Some(highest)) = score.range {
            score.range = (Some(lowest.min(highest)), Some(lowest.max(highest)));
        }
        let is_range = matches!(score.range, (Some(lowest), Some(highest)) if lowest < highest);
        if score.normalize == Normalize::Range && !is_range {
            score.normalize = Normalize::MinMax;
        }
        if score.normalize == Normalize::None {
            score.best = Best::Largest;
        }
        without_victims(&mut self.score);
        settle_failure(&mut score.failing, &mut self.score, self.reach);
    }
}

/// Only in preempt there are victims to be wrong about.
fn without_victims(manner: &mut Manner) {
    manner.failure = match manner.failure {
        Failure::VictimOutOfRange => Failure::OutOfRange,
        Failure::VictimTwice => Failure::Twice,
        failure => failure,
    };
}

/// A backend that is away, or does not know the verb, always fails; one that fails now and then does not
/// hang, because its timeout would have to be short, and a slow machine would find it late.
fn settle_failure(failing: &mut Failing, manner: &mut Manner, reach: Reach) {
    if reach == Reach::Dead {
        *failing = Failing::Always;
    }
    if *failing != Failing::Always && matches!(manner.failure, Failure::Hang | Failure::Unlisted) {
        manner.failure = Failure::Unavailable;
    }
}
