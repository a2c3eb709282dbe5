//! What a policy declares about itself, in one place. [`declaration`] checks it and turns it into the
//! contract's handshake, [`hook`] has the hooks, [`shown`] the paths that are shown.

#[doc(hidden)]
pub mod declaration;
pub(crate) mod hook;
mod program;
pub(crate) mod shown;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
};

use extender_policy_api::v1beta1 as api;

use self::{hook::Hook, shown::ShownPath};
use crate::{ChangedPart, Reads};

/// What a policy is, and which data it needs.
///
/// A verb that is not declared here is never called:
///
/// ```
/// use extender_policy_sdk::{Info, Scale, Verb};
///
/// # let reads = extender_policy_sdk::Reads::new();
/// let only_filters = Info::new("no-arm", "1.0.0").filters(Verb::per_node().pure().reads(&reads));
/// let only_scores = Info::new("near", "1.0.0").scores(Verb::per_node().reads(&reads), Scale::between(0..=10));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Info {
    name: String,
    version: String,
    revision: Option<String>,
    rejected_configuration: String,
    verbs: BTreeMap<api::Verb, DeclaredVerb>,
    table: TableUse,
    shows: Vec<ShownPath>,
    observes_outcomes: bool,
}

/// A verb or a hook.
#[derive(Clone, Debug)]
struct DeclaredVerb {
    verb: Verb,
    /// Of a score alone.
    scale: Option<Scale>,
    /// Of a hook alone.
    changes: BTreeSet<ChangedPart>,
}

impl From<Verb> for DeclaredVerb {
    fn from(verb: Verb) -> Self {
        Self { verb, scale: None, changes: BTreeSet::new() }
    }
}

/// Whether the backend holds the gateway's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableUse {
    Kept,
    Declined,
}

impl Info {
    /// A policy that serves nothing yet. The name is what the policy calls itself, such as
    /// "label-rules"; the version is that of the program, usually `env!("CARGO_PKG_VERSION")`. Neither
    /// may be empty; at most 63 and 64 bytes.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            revision: None,
            rejected_configuration: String::new(),
            verbs: BTreeMap::new(),
            table: TableUse::Kept,
            shows: Vec::new(),
            observes_outcomes: false,
        }
    }

    /// Nodes come with each call in full. Without this, a policy that reads more than the names of nodes holds what it reads
    /// of them, about 2 kB of memory for each if that is everything but JSON, and receives only changes.
    pub fn without_node_table(self) -> Self {
        Self { table: TableUse::Declined, ..self }
    }

    /// Names everything that the answers depend on besides the request: code and rule files, not the
    /// operator's args. At most 64 bytes. Default: the version and a digest of the program, which is right for a
    /// policy that reads nothing else.
    pub fn revision(self, revision: impl Into<String>) -> Self {
        Self { revision: Some(revision.into()), ..self }
    }

    /// Says why a configuration of the policy's own, such as a changed rule file, is not used, in one line for operators: the
    /// gateway's `status` shows it until the policy is replaced by one without. At most 1,024 bytes are
    /// sent.
    pub fn rejected_configuration(self, why: impl Into<String>) -> Self {
        Self { rejected_configuration: why.into(), ..self }
    }

    /// The policy refuses nodes.
    pub fn filters(self, verb: Verb) -> Self {
        self.with(api::Verb::Filter, verb.into())
    }

    /// The policy scores nodes, on this scale.
    pub fn scores(self, verb: Verb, scale: Scale) -> Self {
        self.with(api::Verb::Score, DeclaredVerb { scale: Some(scale), ..verb.into() })
    }

    /// The policy decides which pods may be evicted to make room. Not a [pure](Verb::pure) verb: its answer depends
    /// on the victims, too. A verb that reads more of nodes than their names needs a gateway that watches them.
    pub fn preempts(self, verb: Verb) -> Self {
        self.with(api::Verb::Preempt, verb.into())
    }

    /// The policy binds pods, with [`Policy::bind`](crate::Policy::bind). It reads nothing of them but namespace, name, UID and
    /// node, which [`BindAsk`](crate::BindAsk) has in any case.
    pub fn binds(self) -> Self {
        self.binds_reading(&Reads::new())
    }

    /// The policy binds pods and reads this of them, too. Nothing is read of nodes.
    pub fn binds_reading(self, reads: &Reads) -> Self {
        self.with(api::Verb::Bind, Verb::per_node().reads(reads).into())
    }

    /// The policy changes the pod before it is filtered for, with [`Policy::before_filter`](crate::Policy::before_filter).
    /// It is sent no nodes, and changes the pod alone.
    pub fn before_filter(self, hook: Hook) -> Self {
        self.with(api::Verb::BeforeFilter, hook.declared())
    }

    /// The policy changes nodes before they are filtered, with
    /// [`Policy::before_filter_nodes`](crate::Policy::before_filter_nodes). It changes nodes alone.
    pub fn before_filter_nodes(self, hook: Hook) -> Self {
        self.with(api::Verb::BeforeFilterNodes, hook.declared())
    }

    /// The policy changes the pod and the nodes before these are scored, with
    /// [`Policy::before_score`](crate::Policy::before_score). What was changed before filter has no effect here. A
    /// [pure](Hook::pure) one changes nodes alone.
    pub fn before_score(self, hook: Hook) -> Self {
        self.with(api::Verb::BeforeScore, hook.declared())
    }

    fn with(mut self, kind: api::Verb, declared: DeclaredVerb) -> Self {
        self.verbs.insert(kind, declared);
        self
    }

    /// The policy shows a part of its state at this path, below `/apis/v1/plugins/BACKEND` of the gateway's admin
    /// address, with [`Policy::introspect`](crate::Policy::introspect). A segment with a colon is a parameter:
    ///
    /// ```
    /// # use extender_policy_sdk::{Info, Verb};
    /// # let info = Info::new("quotas", "1").filters(Verb::per_node());
    /// let info = info
    ///     .shows("/quotas", "all namespaces with a quota")
    ///     .shows("/quotas/:namespace", "the quota of a namespace, and what is used of it");
    /// ```
    ///
    /// The description is for people: one line, at most 256 bytes. At most 64 paths. Everybody who may read the admin address
    /// sees them, so no path should show secrets.
    pub fn shows(mut self, path: impl Into<String>, description: impl Into<String>) -> Self {
        self.shows.push(ShownPath { path: path.into(), description: description.into() });
        self
    }

    /// The policy observes how attempts to place pods ended, with [`Policy::observe`](crate::Policy::observe): of the pods about
    /// which it was called for a decision, with filter or bind.
    pub fn observes_outcomes(self) -> Self {
        Self { observes_outcomes: true, ..self }
    }

    /// The same with all verbs reading [everything](Reads::everything), annotations and usage included, and unless they are pure,
    /// JSON and the identity of the pod.
    #[doc(hidden)]
    pub fn reading_everything(mut self) -> Self {
        for DeclaredVerb { verb, .. } in self.verbs.values_mut() {
            verb.reads = verb.reads.and_everything(verb.memory == Memory::Pure).into();
        }
        self
    }
}

/// How a verb is called, and what it reads. The default suits most policies: about each node on its own, and again for each
/// call.
#[derive(Clone, Debug)]
#[must_use]
pub struct Verb {
    scope: Scope,
    effects: Effects,
    memory: Memory,
    pace: Pace,
    reads: Arc<Reads>,
}

impl Verb {
    /// The answer about a node depends on the pod and that node alone.
    pub fn per_node() -> Self {
        Self {
            scope: Scope::Node,
            effects: Effects::None,
            memory: Memory::AskAgain,
            pace: Pace::AtOnce,
            reads: Arc::default(),
        }
    }

    /// The answer depends on all nodes of the request ("at most three of them"): the policy is called after those
    /// before it, with the nodes that they left. Costs a separate round for each pod.
    pub fn whole_set() -> Self {
        Self { scope: Scope::WholeSet, ..Self::per_node() }
    }

    /// The answer for a node is a function of args, the pod's facts and that node: it may be cached. By far the fastest. Not with
    /// [`whole_set`](Self::whole_set) or [`side_effects`](Self::side_effects), nor for a verb that reads JSON or the
    /// [identity](crate::PodPart::Identity) of the pod, or the [id of the call](crate::Pod::call_id); not for a policy that uses the time, or anything outside that its
    /// revision does not name.
    pub fn pure(self) -> Self {
        Self { memory: Memory::Pure, ..self }
    }

    /// What the verb reads of pods and nodes: this is sent, and nothing else can be read. Default: nothing. Scores come in one
    /// round with the verdicts only if both verbs read the same.
    pub fn reads(self, reads: &Reads) -> Self {
        Self { reads: Arc::new(reads.clone()), ..self }
    }

    /// The policy waits for something outside, such as another server: the verb is answered by
    /// [`filter_later`](crate::Policy::filter_later), [`score_later`](crate::Policy::score_later) or
    /// [`preempt_later`](crate::Policy::preempt_later), and other calls are answered meanwhile. The gateway does not
    /// notice; its timeout of the call applies.
    pub fn waits(self) -> Self {
        Self { pace: Pace::Waits, ..self }
    }

    /// A call changes something outside (a reservation, a quota): the policy is called in turn, only with the nodes
    /// that really remain, and only when kube-scheduler is deciding. Calls for any other purpose are rejected
    /// before they reach the policy.
    pub fn side_effects(self) -> Self {
        Self { effects: Effects::Outside, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Node,
    WholeSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effects {
    None,
    Outside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    AskAgain,
    Pure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    AtOnce,
    Waits,
}

/// The score of a node about which the policy has no opinion: no normalization counts it, and it adds nothing to the total of
/// the node. A score of 0 does both.
pub const NO_OPINION: i32 = i32::MIN;

/// What the policy's scores mean. [`NO_OPINION`] is on every scale.
#[derive(Clone, Debug)]
#[must_use]
pub struct Scale {
    bounds: Option<RangeInclusive<i32>>,
    normalization: Normalization,
    best: Best,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Best {
    Largest,
    Least,
}

impl Scale {
    /// Scores from the least to the largest, both included. The gateway clamps scores outside this range, and
    /// counts them.
    pub fn between(bounds: RangeInclusive<i32>) -> Self {
        Self { bounds: Some(bounds), ..Self::unbounded() }
    }

    /// Any scores.
    pub fn unbounded() -> Self {
        Self { bounds: None, normalization: Normalization::None, best: Best::Largest }
    }

    /// How raw scores become 0 to 10. Default: [`Normalization::None`].
    pub fn normalize(self, normalization: Normalization) -> Self {
        Self { normalization, ..self }
    }

    /// The least raw score is the best. Only with a normalization.
    pub fn reversed(self) -> Self {
        Self { best: Best::Least, ..self }
    }
}

/// How raw scores are normalized to 0 to 10, over the nodes of one prioritize call. The operator may override it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalization {
    /// Unchanged: the operator's weight multiplies the raw score.
    None,
    /// 10 · (s − least of the scale) / (largest − least of the scale). Needs [`Scale::between`].
    Range,
    /// 10 · s / the largest of the call; 0 when that is not positive.
    Max,
    /// 10 · (s − least of the call) / (largest − least of the call); 0 when they are equal.
    MinMax,
}
