//! Parses a handshake and determines why a verb cannot be used.

use extender_gateway_core::{
    BackendFailure, FailureKind,
    filter::Turn,
    score::{Direction, Normalization, Range},
};
use extender_policy_api::v1alpha1::{self as api, GetInfoResponse, NodeView, Scope, Verb, VerbInfo};

use super::{API_VERSION, ClusterTables, FilterPlan, NodesView, PreemptPlan, ScorePlan};
use crate::{
    config::{NodeSource, Normalize, ScoreSettings},
    contract::{
        pod::{Identity, PodView},
        question::ScoresWanted,
        row::{RowFields, RowView, UsageWanted},
    },
    object::annotations::AnnotationPrefixes,
};

/// The handshake to parse.
pub(super) struct Reader<'r> {
    pub(super) response: &'r GetInfoResponse,
    pub(super) known: &'r ClusterTables,
}

impl Reader<'_> {
    /// The view of pods for verbs that are not pure.
    pub(super) fn pod(&self) -> PodView {
        PodView { annotations: prefixes(self.response), raw: self.response.pod_raw, identity: Identity::Told }
    }

    /// `score` is the plan of scores that may come with the answers, if any.
    pub(super) fn filter(&self, score: Option<&ScorePlan>) -> Result<FilterPlan, BackendFailure> {
        let verb = self.verb(Verb::Filter, "filter")?;
        let pure = self.is_pure(verb, "filter")?;
        let (nodes, pod) = (self.nodes(verb)?, self.pod_of(pure));
        // Scores are prefetched only if score has the same views as filter.
        let same = |score: &&ScorePlan| {
            score.scope == Scope::Node && !score.side_effects && (&score.nodes, &score.pod) == (&nodes, &pod)
        };
        let scores =
            if score.as_ref().is_some_and(same) { ScoresWanted::Wanted } else { ScoresWanted::Unwanted };
        let per_node = verb.scope() == Scope::Node && !verb.side_effects;
        let turn = if per_node { Turn::Parallel } else { Turn::InTurn };
        Ok(FilterPlan { nodes, turn, side_effects: verb.side_effects, pod, scores, pure })
    }

    fn pod_of(&self, pure: bool) -> PodView {
        if pure { self.pod().without_identity() } else { self.pod() }
    }

    /// Whether the verb is pure. A contradicting declaration is an error of the backend.
    fn is_pure(&self, verb: &VerbInfo, name: &str) -> Result<bool, BackendFailure> {
        let excluded = [
            (verb.scope() != Scope::Node, "depends on the whole set of nodes"),
            (verb.side_effects, "has side effects"),
            (verb.node_view() == NodeView::FactsAndRaw, "requests the JSON of nodes"),
            (self.response.pod_raw, "requests the JSON of pods"),
        ];
        let excluded = excluded.iter().find(|(holds, _)| verb.pure && *holds);
        let contradiction = |(_, why): &(bool, &str)| {
            Err(unsuitable(format!("declares {name} pure and also {why}; these are mutually exclusive")))
        };
        excluded.map_or(Ok(verb.pure), contradiction)
    }

    pub(super) fn score(&self, settings: &ScoreSettings) -> Result<ScorePlan, BackendFailure> {
        let verb = self.verb(Verb::Score, "score")?;
        let range = Range { least: verb.score_min, largest: verb.score_max };
        if let (Some(least), Some(largest)) = (range.least, range.largest)
            && least > largest
        {
            return Err(unsuitable(format!("declares an empty score range, {least} to {largest}")));
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

    pub(super) fn preempt(&self) -> Result<PreemptPlan, BackendFailure> {
        let verb = self.verb(Verb::Preempt, "preempt")?;
        let nodes = self.nodes(verb)?;
        if nodes.rows != RowView::Name && nodes.column.is_none() {
            return Err(unsuitable(
                "needs facts about nodes, which preempt calls do not contain; set nodes.source to Watch or File"
                    .to_owned(),
            ));
        }
        Ok(PreemptPlan { nodes, side_effects: verb.side_effects })
    }

    /// What the backend declares about a verb, if it can be used at all.
    pub(super) fn verb(&self, wanted: Verb, name: &str) -> Result<&VerbInfo, BackendFailure> {
        let GetInfoResponse { api_version, requires, verbs, .. } = self.response;
        if api_version != API_VERSION {
            return Err(unsuitable(format!(
                "implements API \"{api_version}\"; this gateway supports \"{API_VERSION}\""
            )));
        }
        if let Some(required) = requires.first() {
            return Err(unsuitable(format!(
                "requires \"{required}\", which this gateway version does not support"
            )));
        }
        let missing = || unsuitable(format!("does not serve {name}; remove {name} from its configuration"));
        verbs.iter().find(|verb| verb.verb == wanted as i32).ok_or_else(missing)
    }

    fn nodes(&self, verb: &VerbInfo) -> Result<NodesView, BackendFailure> {
        let view = NodeView::try_from(verb.node_view).ok();
        let usage = if verb.usage { UsageWanted::Told } else { UsageWanted::Untold };
        let wanted = RowFields { annotations: prefixes(self.response), usage };
        let rows = view.and_then(|view| RowView::new(view, wanted)).ok_or_else(|| {
            unsuitable(format!(
                "requests node view {}, which this gateway version does not support",
                verb.node_view
            ))
        })?;
        if rows != RowView::Name && matches!(self.known.source, NodeSource::NamesOnly) {
            return Err(unsuitable(
                "needs facts about nodes, which nodes.source: NamesOnly does not provide; set Watch, Request or File"
                    .to_owned(),
            ));
        }
        if verb.usage && self.known.pods.is_none() {
            return Err(unsuitable(
                "needs usage, but pods are not watched; set pods.source: Watch".to_owned(),
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
    settings: &ScoreSettings,
) -> Result<Normalization, BackendFailure> {
    let declared = match api::Normalization::try_from(verb.normalization) {
        Ok(api::Normalization::Unspecified | api::Normalization::None) => Normalize::None,
        Ok(api::Normalization::Range) => Normalize::Range,
        Ok(api::Normalization::Max) => Normalize::Max,
        Ok(api::Normalization::MinMax) => Normalize::MinMax,
        Err(_) => {
            let detail = format!(
                "declares normalization {}, which this gateway version does not support",
                verb.normalization
            );
            return Err(unsuitable(detail));
        }
    };
    let reversed = settings.reversed.unwrap_or(verb.reversed);
    let direction = if reversed { Direction::LeastIsBest } else { Direction::LargestIsBest };
    match settings.normalize.unwrap_or(declared) {
        Normalize::None if reversed => {
            Err(unsuitable("declares reversed scores without a normalization".to_owned()))
        }
        Normalize::None => Ok(Normalization::None),
        Normalize::Max => Ok(Normalization::Max(direction)),
        Normalize::MinMax => Ok(Normalization::MinMax(direction)),
        Normalize::Range => match (range.least, range.largest) {
            (Some(least), Some(largest)) if least < largest => Ok(Normalization::Range(direction)),
            _ => Err(unsuitable("normalization Range requires score_min < score_max".to_owned())),
        },
    }
}

/// The verb is not configured.
pub(super) fn unconfigured<P>(verb: &str) -> Result<P, BackendFailure> {
    Err(unsuitable(format!("is not configured for {verb}")))
}

fn unsuitable(detail: String) -> BackendFailure {
    BackendFailure::new(FailureKind::Unsuitable, detail)
}
