//! What a backend says of itself in the handshake, held against what the configuration asks of it.

use std::sync::Arc;

use extender_gateway_core::{
    BackendFailure, FailureKind,
    filter::Turn,
    score::{Direction, Normalization, Range},
};
use extender_policy_api::v1alpha1::{self as api, GetInfoResponse, NodeView, Scope, Verb, VerbInfo};

use super::{
    memory::Remembered,
    question::Scores,
    row::{RowView, Usage, Wanted},
    sync,
};
use crate::{
    cluster::{
        pods::PodTable,
        table::{NodeTable, ViewId},
    },
    config::{self, NodeSource, Normalize, ScoreSettings},
    object::annotations::AnnotationPrefixes,
};

/// The package of the contract that this gateway speaks.
pub const API_VERSION: &str = "extender.policy.v1alpha1";

/// What a backend accepts when it does not say: gRPC's usual limit.
const USUAL_REQUEST_BYTES: usize = 4 << 20;

/// A handshake that has been read. A verb that cannot be used says why, for people.
#[derive(Debug)]
pub struct Info {
    /// What the backend calls itself.
    pub name: String,
    /// Its version; empty when unknown.
    pub version: String,
    /// Its revision; empty when unknown.
    pub revision: String,
    /// What it wants to know about pods.
    pub pod: PodView,
    /// The largest request message that it accepts, in bytes.
    pub most_request_bytes: usize,
    /// How it filters.
    pub filter: Result<FilterPlan, BackendFailure>,
    /// How it scores.
    pub score: Result<ScorePlan, BackendFailure>,
    /// How it says who may be evicted.
    pub preempt: Result<PreemptPlan, BackendFailure>,
    /// Whether it binds.
    pub bind: Result<(), BackendFailure>,
    /// Whether it keeps tables of nodes.
    pub keeps_tables: bool,
}

/// What a backend wants to know about pods. Equal views share their encoding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodView {
    /// Among the facts.
    pub annotations: AnnotationPrefixes,
    /// The object's JSON, too.
    pub raw: bool,
    /// What tells it from its siblings.
    pub identity: Identity,
}

/// Whether a backend is told what tells a pod from its siblings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Identity {
    /// It is.
    #[default]
    Told,
    /// It is not: its verb is pure.
    Withheld,
}

impl PodView {
    /// The same, for a pure verb.
    #[must_use]
    pub fn without_identity(&self) -> Self {
        Self { identity: Identity::Withheld, ..self.clone() }
    }
}

/// What a backend wants to know about nodes, and where the table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesView {
    /// The view.
    pub rows: RowView,
    /// Where the table of a watch or file has it; `None` where there is no such table.
    pub column: Option<ViewId>,
    /// Where the table of what calls bring has it.
    pub offered: ViewId,
}

/// How a backend filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterPlan {
    /// About nodes.
    pub nodes: NodesView,
    /// When it is asked.
    pub turn: Turn,
    /// Asking changes something: it is asked for decisions alone.
    pub side_effects: bool,
    /// What it is told about the pod.
    pub pod: PodView,
    /// Whether scores may come with the verdicts.
    pub scores: Scores,
    /// Whether the answer for a node depends on what is told of pod and node alone.
    pub pure: bool,
}

/// How a backend scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScorePlan {
    /// About nodes.
    pub nodes: NodesView,
    /// What its scores are clamped to.
    pub range: Range,
    /// How they become 0 to 10, the operator's wish included.
    pub normalization: Normalization,
    /// Asking changes something: it is asked for decisions alone.
    pub side_effects: bool,
    /// What it is told about the pod.
    pub pod: PodView,
    /// Whether it may be asked about some of the nodes alone.
    pub scope: Scope,
    /// Whether the score of a node depends on what is told of pod and node alone.
    pub pure: bool,
}

/// How a backend is asked a verb about nodes.
pub trait Plan: Sized {
    /// The plan of a handshake.
    fn of(info: &Info) -> &Result<Self, BackendFailure>;
    /// What is told about the pod and about nodes.
    fn views(&self) -> (&PodView, &NodesView);
    /// Whether asking changes something.
    fn has_side_effects(&self) -> bool;
}

impl Plan for FilterPlan {
    fn of(info: &Info) -> &Result<Self, BackendFailure> {
        &info.filter
    }

    fn views(&self) -> (&PodView, &NodesView) {
        (&self.pod, &self.nodes)
    }

    fn has_side_effects(&self) -> bool {
        self.side_effects
    }
}

impl Plan for ScorePlan {
    fn of(info: &Info) -> &Result<Self, BackendFailure> {
        &info.score
    }

    fn views(&self) -> (&PodView, &NodesView) {
        (&self.pod, &self.nodes)
    }

    fn has_side_effects(&self) -> bool {
        self.side_effects
    }
}

/// How a backend says who may be evicted. It is always asked in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptPlan {
    /// About nodes.
    pub nodes: NodesView,
    /// Asking changes something: it is asked for decisions alone.
    pub side_effects: bool,
}

/// What the gateway can tell backends about nodes and pods.
#[derive(Debug, Clone)]
pub struct Known {
    /// Where the configuration says that it comes from.
    pub source: NodeSource,
    /// What a watch or a file fills.
    pub table: Option<Arc<NodeTable>>,
    /// What calls bring.
    pub offered: Arc<NodeTable>,
    /// What a watch of pods fills; `None` where pods are not watched.
    pub pods: Option<Arc<PodTable>>,
}

impl Info {
    /// Reads a handshake.
    pub fn read(response: GetInfoResponse, scoring: Option<&ScoreSettings>, known: &Known) -> Self {
        let reader = Reader { response: &response, known };
        let score = reader.score(scoring);
        let filter = reader.filter(score.as_ref().ok().filter(|_| scoring.is_some()));
        let preempt = reader.preempt();
        let bind = reader.verb(Verb::Bind, "bind").map(drop);
        Self {
            filter,
            score,
            preempt,
            bind,
            pod: reader.pod(),
            keeps_tables: response.services.iter().any(|service| service == sync::SERVICE),
            most_request_bytes: match usize::try_from(response.max_request_bytes) {
                Ok(0) => USUAL_REQUEST_BYTES,
                most => most.unwrap_or(usize::MAX),
            },
            name: response.name,
            version: response.version,
            revision: response.revision,
        }
    }

    /// The views with facts in which filter and score, where they are configured, are told about nodes.
    pub fn views(&self, settings: &config::Backend) -> impl Iterator<Item = &NodesView> {
        let filter = self.filter.as_ref().ok().filter(|_| settings.filter.is_some()).map(|plan| &plan.nodes);
        let score = self.score.as_ref().ok().filter(|_| settings.score.is_some()).map(|plan| &plan.nodes);
        filter.into_iter().chain(score).filter(|view| view.rows != RowView::Name)
    }

    /// The columns of the table that its verbs are told from.
    pub fn columns(&self) -> impl Iterator<Item = ViewId> {
        let filter = self.filter.as_ref().ok().and_then(|plan| plan.nodes.column);
        let score = self.score.as_ref().ok().and_then(|plan| plan.nodes.column);
        let preempt = self.preempt.as_ref().ok().and_then(|plan| plan.nodes.column);
        filter.into_iter().chain(score).chain(preempt)
    }

    /// The verbs whose answers may be remembered: pure ones, of a backend that says by which revision it answers.
    pub fn remembered(&self) -> Remembered {
        let known = !self.revision.is_empty();
        Remembered {
            filter: known && self.filter.as_ref().is_ok_and(|plan| plan.pure),
            score: known && self.score.as_ref().is_ok_and(|plan| plan.pure),
        }
    }
}

struct Reader<'r> {
    response: &'r GetInfoResponse,
    known: &'r Known,
}

impl Reader<'_> {
    /// What is told about pods to verbs that are not pure.
    fn pod(&self) -> PodView {
        PodView { annotations: prefixes(self.response), raw: self.response.pod_raw, identity: Identity::Told }
    }

    /// `score` is the plan of the scores that are wanted, if any are.
    fn filter(&self, score: Option<&ScorePlan>) -> Result<FilterPlan, BackendFailure> {
        let verb = self.verb(Verb::Filter, "filter")?;
        let pure = self.is_pure(verb, "filter")?;
        let (nodes, pod) = (self.nodes(verb)?, self.pod_of(pure));
        // Scores come for exactly what is told to filter.
        let same = |score: &&ScorePlan| {
            score.scope == Scope::Node && !score.side_effects && (&score.nodes, &score.pod) == (&nodes, &pod)
        };
        let scores = if score.as_ref().is_some_and(same) { Scores::Wanted } else { Scores::Unwanted };
        let per_node = verb.scope() == Scope::Node && !verb.side_effects;
        let turn = if per_node { Turn::Parallel } else { Turn::InTurn };
        Ok(FilterPlan { nodes, turn, side_effects: verb.side_effects, pod, scores, pure })
    }

    fn pod_of(&self, pure: bool) -> PodView {
        if pure { self.pod().without_identity() } else { self.pod() }
    }

    /// Whether the verb is pure. To call it so and to want what excludes it is a mistake of the backend.
    fn is_pure(&self, verb: &VerbInfo, name: &str) -> Result<bool, BackendFailure> {
        let excluded = [
            (verb.scope() != Scope::Node, "depends on the whole set of nodes"),
            (verb.side_effects, "has side effects"),
            (verb.node_view() == NodeView::FactsAndRaw, "wants the JSON of nodes"),
            (self.response.pod_raw, "wants the JSON of pods"),
        ];
        let excluded = excluded.iter().find(|(holds, _)| verb.pure && *holds);
        let contradiction = |(_, why): &(bool, &str)| {
            Err(unsuitable(format!("declares {name} pure, and {why}, which exclude one another")))
        };
        excluded.map_or(Ok(verb.pure), contradiction)
    }

    fn score(&self, settings: Option<&ScoreSettings>) -> Result<ScorePlan, BackendFailure> {
        let verb = self.verb(Verb::Score, "score")?;
        let range = Range { least: verb.score_min, largest: verb.score_max };
        if let (Some(least), Some(largest)) = (range.least, range.largest)
            && least > largest
        {
            return Err(unsuitable(format!("declares scores from {least} to {largest}, which is no range")));
        }
        let pure = self.is_pure(verb, "score")?;
        Ok(ScorePlan {
            nodes: self.nodes(verb)?,
            range,
            normalization: normalization(verb, range, settings)?,
            side_effects: verb.side_effects,
            pod: self.pod_of(pure),
            scope: if verb.scope() == Scope::Node { Scope::Node } else { Scope::WholeSet },
            pure,
        })
    }

    fn preempt(&self) -> Result<PreemptPlan, BackendFailure> {
        let verb = self.verb(Verb::Preempt, "preempt")?;
        let nodes = self.nodes(verb)?;
        if nodes.rows != RowView::Name && nodes.column.is_none() {
            return Err(unsuitable(
                "wants facts about nodes, and preempt calls bring none; use nodes.source Watch or File"
                    .to_owned(),
            ));
        }
        Ok(PreemptPlan { nodes, side_effects: verb.side_effects })
    }

    /// What the backend declares about a verb, if it can be used at all.
    fn verb(&self, wanted: Verb, name: &str) -> Result<&VerbInfo, BackendFailure> {
        let GetInfoResponse { api_version, requires, verbs, .. } = self.response;
        if api_version != API_VERSION {
            return Err(unsuitable(format!(
                "speaks \"{api_version}\", this gateway speaks \"{API_VERSION}\""
            )));
        }
        if let Some(required) = requires.first() {
            return Err(unsuitable(format!(
                "requires \"{required}\", which this version of the gateway does not know"
            )));
        }
        let missing = || unsuitable(format!("does not serve {name}; leave {name} out of its configuration"));
        verbs.iter().find(|verb| verb.verb == wanted as i32).ok_or_else(missing)
    }

    fn nodes(&self, verb: &VerbInfo) -> Result<NodesView, BackendFailure> {
        let view = NodeView::try_from(verb.node_view).ok();
        let usage = if verb.usage { Usage::Told } else { Usage::Untold };
        let wanted = Wanted { annotations: prefixes(self.response), usage };
        let rows = view.and_then(|view| RowView::new(view, wanted)).ok_or_else(|| {
            unsuitable(format!(
                "asks for node view {}, which this version of the gateway does not know",
                verb.node_view
            ))
        })?;
        if rows != RowView::Name && matches!(self.known.source, NodeSource::NamesOnly) {
            return Err(unsuitable(
                "wants facts about nodes, and there are none with nodes.source NamesOnly; use Watch, Request or File"
                    .to_owned(),
            ));
        }
        if verb.usage && self.known.pods.is_none() {
            return Err(unsuitable(
                "wants to know what pods have requested, and pods are not watched; set pods.source to Watch"
                    .to_owned(),
            ));
        }
        let column = self.known.table.as_ref().map(|table| table.register(rows.clone()));
        let offered = self.known.offered.register(rows.clone());
        Ok(NodesView { rows, column, offered })
    }
}

fn prefixes(response: &GetInfoResponse) -> AnnotationPrefixes {
    AnnotationPrefixes::new(response.annotation_prefixes.iter().cloned())
}

fn normalization(
    verb: &VerbInfo,
    range: Range,
    settings: Option<&ScoreSettings>,
) -> Result<Normalization, BackendFailure> {
    let declared = match api::Normalization::try_from(verb.normalization) {
        Ok(api::Normalization::Unspecified | api::Normalization::None) => Normalize::None,
        Ok(api::Normalization::Range) => Normalize::Range,
        Ok(api::Normalization::Max) => Normalize::Max,
        Ok(api::Normalization::MinMax) => Normalize::MinMax,
        Err(_) => {
            let detail =
                format!("declares normalization {}, which this gateway does not know", verb.normalization);
            return Err(unsuitable(detail));
        }
    };
    let reversed = settings.and_then(|settings| settings.reversed).unwrap_or(verb.reversed);
    let direction = if reversed { Direction::LeastIsBest } else { Direction::LargestIsBest };
    match settings.and_then(|settings| settings.normalize).unwrap_or(declared) {
        Normalize::None if reversed => {
            Err(unsuitable("has reversed scores, which need a normalization".to_owned()))
        }
        Normalize::None => Ok(Normalization::None),
        Normalize::Max => Ok(Normalization::Max(direction)),
        Normalize::MinMax => Ok(Normalization::MinMax(direction)),
        Normalize::Range => match (range.least, range.largest) {
            (Some(least), Some(largest)) if least < largest => Ok(Normalization::Range(direction)),
            _ => Err(unsuitable(
                "declares no score_min < score_max, which normalization Range needs".to_owned(),
            )),
        },
    }
}

fn unsuitable(detail: String) -> BackendFailure {
    BackendFailure::new(FailureKind::Unsuitable, detail)
}

#[cfg(test)]
mod tests;
