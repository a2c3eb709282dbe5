//! Parses a handshake and determines why a verb cannot be used.

use extender_gateway_core::{
    BackendFailure, FailureKind,
    filter::Turn,
    score::{Direction, Normalization, Range},
};
use extender_policy_api::v1alpha1::{self as api, GetInfoResponse, NodeView, Scope, Verb, VerbInfo};

use super::{API_VERSION, ClusterTables, FilterPlan, NodesView, ScorePlan, VerbPlan};
use crate::{
    config::{NodeSource, Normalize, ScoreSettings},
    contract::{
        pod::PodView,
        question::ScoresWanted,
        row::{RowFields, RowView},
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
        PodView { annotations: self.prefixes(), raw: self.response.pod_raw, without_identity: false }
    }

    fn prefixes(&self) -> AnnotationPrefixes {
        AnnotationPrefixes::new(self.response.annotation_prefixes.iter().cloned())
    }

    /// `score` is the plan of scores that may come with the answers, if any.
    pub(super) fn filter(&self, score: Option<&ScorePlan>) -> Result<FilterPlan, BackendFailure> {
        let verb = self.verb(Verb::Filter, "filter")?;
        let common = self.common(verb, "filter")?;
        // Scores are prefetched only if score has the same views as filter.
        let fits = |ScorePlan { common: score, scope, .. }: &ScorePlan| {
            *scope == Scope::Node
                && !score.side_effects
                && (&score.nodes, &score.pod) == (&common.nodes, &common.pod)
        };
        let scores = if score.is_some_and(fits) { ScoresWanted::Wanted } else { ScoresWanted::Unwanted };
        let per_node = verb.scope() == Scope::Node && !verb.side_effects;
        let turn = if per_node { Turn::Parallel } else { Turn::InTurn };
        Ok(FilterPlan { common, turn, scores })
    }

    fn common(&self, verb: &VerbInfo, name: &str) -> Result<VerbPlan, BackendFailure> {
        let pure = self.is_pure(verb, name)?;
        let (nodes, pod) = (self.nodes(verb)?, PodView { without_identity: pure, ..self.pod() });
        Ok(VerbPlan { nodes, pod, side_effects: verb.side_effects, pure })
    }

    /// Whether the verb is pure. A contradicting declaration is an error of the backend.
    fn is_pure(&self, verb: &VerbInfo, name: &str) -> Result<bool, BackendFailure> {
        let excluded = [
            (verb.scope() != Scope::Node, "depends on the whole set of nodes"),
            (verb.side_effects, "has side effects"),
            (verb.node_view() == NodeView::FactsAndRaw, "requests the JSON of nodes"),
            (self.response.pod_raw, "requests the JSON of pods"),
        ];
        match excluded.iter().find(|(holds, _)| verb.pure && *holds) {
            None => Ok(verb.pure),
            Some((_, why)) => {
                Err(unsuitable(format!("declares {name} pure and also {why}; these are mutually exclusive")))
            }
        }
    }

    pub(super) fn score(&self, settings: &ScoreSettings) -> Result<ScorePlan, BackendFailure> {
        let verb = self.verb(Verb::Score, "score")?;
        let range = Range { least: verb.score_min, largest: verb.score_max };
        if let (Some(least), Some(largest)) = (range.least, range.largest)
            && least > largest
        {
            return Err(unsuitable(format!("declares an empty score range, {least} to {largest}")));
        }
        Ok(ScorePlan {
            common: self.common(verb, "score")?,
            range,
            normalization: normalization(verb, range, settings)?,
            scope: if verb.scope() == Scope::Node { Scope::Node } else { Scope::WholeSet },
        })
    }

    pub(super) fn preempt(&self) -> Result<VerbPlan, BackendFailure> {
        let verb = self.verb(Verb::Preempt, "preempt")?;
        let nodes = self.nodes(verb)?;
        if nodes.rows != RowView::Name && nodes.column.is_none() {
            return Err(unsuitable(
                "needs facts about nodes, which preempt calls do not contain; set nodes.source to Watch or File",
            ));
        }
        Ok(VerbPlan { nodes, pod: self.pod(), side_effects: verb.side_effects, pure: false })
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
        let wanted = RowFields { annotations: self.prefixes(), usage: verb.usage };
        let rows = view.and_then(|view| RowView::new(view, wanted)).ok_or_else(|| {
            unsuitable(format!(
                "requests node view {}, which this gateway version does not support",
                verb.node_view
            ))
        })?;
        if rows != RowView::Name && matches!(self.known.source, NodeSource::NamesOnly) {
            return Err(unsuitable(
                "needs facts about nodes, which nodes.source: NamesOnly does not provide; set Watch, Request or File",
            ));
        }
        if verb.usage && self.known.pods.is_none() {
            return Err(unsuitable("needs usage, but pods are not watched; set pods.source: Watch"));
        }
        let column = self.known.table.as_ref().map(|table| table.register(rows.clone()));
        let offered = self.known.offered.register(rows.clone());
        Ok(NodesView { rows, column, offered })
    }
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
            return Err(unsuitable(format!(
                "declares normalization {}, which this gateway version does not support",
                verb.normalization
            )));
        }
    };
    let reversed = settings.reversed.unwrap_or(verb.reversed);
    let direction = if reversed { Direction::LeastIsBest } else { Direction::LargestIsBest };
    match settings.normalize.unwrap_or(declared) {
        Normalize::None if reversed => Err(unsuitable("declares reversed scores without a normalization")),
        Normalize::None => Ok(Normalization::None),
        Normalize::Max => Ok(Normalization::Max(direction)),
        Normalize::MinMax => Ok(Normalization::MinMax(direction)),
        Normalize::Range => match (range.least, range.largest) {
            (Some(least), Some(largest)) if least < largest => Ok(Normalization::Range(direction)),
            _ => Err(unsuitable("normalization Range requires score_min < score_max")),
        },
    }
}

/// The failure for a verb that cannot be used.
pub(super) fn unsuitable(detail: impl AsRef<str>) -> BackendFailure {
    BackendFailure::new(FailureKind::Unsuitable, detail)
}
