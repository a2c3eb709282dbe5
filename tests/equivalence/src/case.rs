//! One case: a pod, nodes, backends with their policies, and how all of it is put to the gateway.

mod crowd;
mod room;
mod round;
mod settle;

use std::collections::BTreeSet;

use extender_reference::model::{Candidate, Differences, Extender, Node, Pod};
use serde::{Deserialize, Serialize};

pub use self::{
    crowd::{Caller, Crowd},
    room::{Form, Pods, RUNNING, UNSEEN, node_of, running, victims_on},
    round::{
        Calls, Change, Offer, Placing, Round, Sibling, Tables, World, turn, turned_filter, turned_score,
    },
};

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
    /// What comes after this pod.
    #[serde(default)]
    pub rounds: Vec<Round>,
    /// Who calls at the same time after that.
    #[serde(default)]
    pub crowd: Crowd,
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
    /// Who says how scores are normalized.
    pub scale: Scale,
    /// How Filter goes over the wire.
    pub filter: Manner,
    /// How Score does.
    pub score: Manner,
    /// How Preempt does.
    pub preempt: Manner,
    /// Whether it holds nodes.
    #[serde(default)]
    pub table: Table,
    /// Whether it scores in filter when it may.
    #[serde(default)]
    pub early: Early,
    /// Whether the gateway may remember what it says.
    #[serde(default)]
    pub memory: Memory,
}

/// Whether a backend serves `NodeTableService`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Table {
    /// No.
    #[default]
    None,
    /// Yes, and it has what it was sent.
    Kept,
    /// Yes, and it says of every call that it does not have those nodes.
    Behind,
}

/// Whether a backend's filter answers bring scores where they are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Early {
    /// They do.
    Scores,
    /// They do not.
    #[default]
    Nothing,
}

/// `pureAnswers` of a backend's configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Memory {
    /// `Remembered`.
    #[default]
    Remembered,
    /// `AskedEachTime`.
    AskedEachTime,
}

/// Whether somebody listens at a backend's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// Yes.
    Alive,
    /// Nobody does.
    Dead,
}

/// Who says how scores are normalized.
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
    /// Whether it is declared pure.
    #[serde(default)]
    pub purity: Purity,
}

/// Whether a verb is declared pure, which it then is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Purity {
    /// Yes.
    Pure,
    /// No.
    #[default]
    Undeclared,
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
        self.settle_rounds();
        self.settle_crowd();
        let (source, pods) = (self.source, self.pods);
        self.backends.iter_mut().for_each(|backend| backend.settle(source, pods));
        if !self.rounds.is_empty() || !self.crowd.callers.is_empty() {
            self.backends.iter_mut().for_each(Backend::settle_memory);
        }
        if self.rounds.iter().any(|round| !round.during.is_empty()) {
            self.backends.iter_mut().for_each(Backend::settle_change);
        }
        self.settle_rules();
        self
    }

    /// What the reference is asked about a pod: the extenders, each with the nodes that it cannot be told about,
    /// and with what it says in the world of that pod.
    pub fn extenders(&self, placing: &Placing<'_>) -> Vec<Extender> {
        let unknown: BTreeSet<Node> = (KNOWN..NODES).collect();
        let extender = |backend: &Backend| {
            let mut extender = backend.extender.clone();
            if let Some(filter) = &mut extender.filter {
                let turn = placing.turn(&self.pod, (&placing.filtering, backend.filter));
                filter.rule = turned_filter(&filter.rule, turn);
                if backend.is_blind(backend.filter) {
                    filter.blind.clone_from(&unknown);
                }
            }
            if let Some(score) = &mut extender.score {
                let turn = placing.turn(&self.pod, (&placing.scoring, backend.score));
                score.rule = turned_score(&score.rule, turn);
                if backend.is_blind(backend.score) {
                    score.blind.clone_from(&unknown);
                }
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
}
