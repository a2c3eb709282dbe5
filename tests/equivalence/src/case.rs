//! One case: a pod, nodes, backends with their policies, and the gateway's configuration and calls.

mod counts;
mod crowd;
mod room;
mod round;
mod settle;

use std::collections::{BTreeMap, BTreeSet};

use extender_reference::model::{BoundPod, Candidate, Differences, Extender, Node, Pod};
use serde::{Deserialize, Serialize};

pub use self::{
    counts::{
        ATTRIBUTES, Counting, Counts, DISK, Feed, MOST_BOUND, PodEvent, PodNews, Topology, has_disks, offset,
        zone,
    },
    crowd::{Caller, Crowd},
    room::{Form, Pods, RUNNING, UNSEEN, node_of, running, victims_on},
    round::{
        Calls, Change, Class, Offer, Placing, Round, Sibling, Tables, World, turn, turned_filter,
        turned_score,
    },
};

/// The number of nodes in the cluster. Numbers from here on are names that the gateway does not know.
pub const KNOWN: usize = 10;
/// The number of nodes in the policies' tables, including the unknown ones.
pub const NODES: usize = KNOWN + 2;

/// A case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// The pod that is to be placed.
    pub pod: Pod,
    /// The nodes that kube-scheduler offers; a node may occur twice.
    pub offered: Vec<Node>,
    /// The evictions that kube-scheduler would make.
    pub candidates: Vec<Candidate>,
    /// The form of the preempt call.
    pub form: Form,
    /// Whether the gateway knows the running pods.
    pub pods: Pods,
    /// Further pods that the gateway knows.
    #[serde(default)]
    pub bound: Vec<BoundPod>,
    /// The source of facts about nodes.
    pub source: Source,
    /// The gateway's configured differences from separate extenders.
    pub differences: Differences,
    /// In the order of the configuration.
    pub backends: Vec<Backend>,
    /// The pods after this one.
    #[serde(default)]
    pub rounds: Vec<Round>,
    /// The concurrent callers after that.
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
    /// The extender for the reference.
    pub extender: Extender,
    /// Whether its address has a listener.
    pub reach: Reach,
    /// Where the normalization of scores is declared.
    pub scale: Scale,
    /// How Filter is declared and answered.
    pub filter: Manner,
    /// The same for Score.
    pub score: Manner,
    /// The same for Preempt.
    pub preempt: Manner,
    /// Whether it holds nodes.
    #[serde(default)]
    pub table: Table,
    /// Whether it scores in filter if it may.
    #[serde(default)]
    pub early: Early,
    /// Whether the gateway may cache its answers.
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
    /// Yes, and it reports a miss for every call.
    Behind,
}

/// Whether a backend's filter answers contain scores if they are requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Early {
    /// Yes.
    Scores,
    /// No.
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

/// Whether a backend's address has a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    /// Yes.
    Alive,
    /// No.
    Dead,
}

/// Where the normalization of scores is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// The backend's handshake.
    Declared,
    /// The configuration, which overrides the handshake.
    Configured,
}

/// How a verb is declared and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manner {
    /// The data that the backend gets about nodes.
    pub view: View,
    /// What the verdict about a node depends on, as the backend declares it. It has no effect in preempt: backends
    /// are always called in turn.
    pub scope: Scope,
    /// How it fails, if it fails.
    pub failure: Failure,
    /// Whether it is declared pure.
    #[serde(default)]
    pub purity: Purity,
    /// What it declares that it reads, and decides by.
    #[serde(default)]
    pub reads: Reads,
    /// The counts of pods that it declares, and decides by.
    #[serde(default)]
    pub counts: Counts,
}

/// Whether a verb is declared pure; if so, it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Purity {
    /// Yes.
    Pure,
    /// No.
    #[default]
    Undeclared,
}

/// What a verb declares that it reads. Of nodes it is their number, and their state unless it is [`Self::Nothing`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reads {
    /// Everything.
    #[default]
    Everything,
    /// The pod's namespace and labels.
    Class,
    /// The pod's namespace.
    Namespace,
    /// Nothing of the pod, and not the state of nodes.
    Nothing,
}

/// The data that a backend gets about nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum View {
    /// Names.
    Name,
    /// Facts, and it decides by them.
    Facts,
    /// The object, and it decides by it.
    Raw,
}

/// What a backend declares about its verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// They depend on the node alone.
    Node,
    /// They depend on the whole set.
    WholeSet,
    /// Nothing: handled as the whole set.
    Unspecified,
    /// They depend on the node alone, and a call has side effects.
    NodeWithSideEffects,
}

/// How a backend fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Failure {
    /// A gRPC status, with a text. The calls about the pods after the first one fail with the codes after this one.
    Status(u16),
    /// It never answers.
    Hang,
    /// It resets the stream.
    Reset,
    /// Bytes that are not a message.
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
    /// It reports that it cannot read inline nodes.
    Miss,
    /// Its handshake does not list the verb.
    Unlisted,
}

impl Case {
    /// The case without contradictions, so that generators can choose freely.
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
        self.settle_counts();
        if !self.rounds.is_empty() || !self.crowd.callers.is_empty() {
            self.backends.iter_mut().for_each(Backend::settle_memory);
        }
        if self.rounds.iter().any(Round::changes_during) {
            self.backends.iter_mut().for_each(Backend::settle_change);
        }
        self.settle_rules();
        self
    }

    /// The reference's input for a pod: the extenders, each with the nodes that it has no data about, and with its
    /// answers in the world of that pod.
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

impl Manner {
    /// What the verb reads of a pod's namespace and labels.
    pub fn class(&self, pod: &Pod) -> Class {
        match self.reads {
            Reads::Everything | Reads::Class => (pod.namespace.clone(), pod.labels.clone()),
            Reads::Namespace => (pod.namespace.clone(), BTreeMap::new()),
            Reads::Nothing => Default::default(),
        }
    }

    /// Whether the verb gets the state of a node.
    pub fn sees_states(&self) -> bool {
        match self.view {
            View::Name => false,
            View::Facts => self.reads != Reads::Nothing,
            View::Raw => true,
        }
    }
}

impl Backend {
    /// Whether the gateway needs facts for this verb. The view is unknown for a backend whose handshake has not
    /// arrived, or does not list the verb.
    fn is_blind(&self, manner: Manner) -> bool {
        self.reach == Reach::Alive && manner.failure != Failure::Unlisted && manner.view != View::Name
    }
}
