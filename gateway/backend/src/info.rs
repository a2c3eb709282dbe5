//! A backend's handshake, checked against the configuration.

mod reader;
mod reads;

use std::sync::{Arc, LazyLock};

pub use extender_gateway_contract::api::{ApiVersion, Handshake, ReadsId};
use extender_gateway_core::{
    BackendFailure, FailureKind, PerPolicyVerb, PolicyVerb,
    filter::Turn,
    score::{Normalization, Range},
};
use extender_policy_api::limits::REQUEST_BYTES;
use extender_policy_api::v1beta1::TopologyCounts;
pub use extender_policy_api::v1beta1::{
    hook_service_server::SERVICE_NAME as HOOK_SERVICE,
    node_table_service_server::SERVICE_NAME as NODE_TABLE_SERVICE,
    policy_service_server::SERVICE_NAME as POLICY_SERVICE,
};

use extender_gateway_cluster::{
    pods::PodTable,
    table::{Column, NodeTable, ViewId},
};
use extender_gateway_contract::{change::ChangedParts, pod::PodView, question::ScoresWanted, row::RowView};
use extender_gateway_object::{counted::TopologyCountView, pod::ObjectPod};
use extender_gateway_settings::{self as config, Config, NodeSource, PodSource};

use self::reader::{Reader, unsuitable};
use super::{answer_cache::CachedVerbs, introspection::Introspection, outcomes};

/// A parsed handshake.
#[derive(Debug)]
pub struct Info {
    /// The backend's name.
    pub name: String,
    /// Its version; empty when unknown.
    pub version: String,
    /// Its revision; empty when unknown.
    pub revision: String,
    /// The largest request message that it accepts, in bytes.
    pub most_request_bytes: usize,
    plans: PerPolicyVerb<Result<Plan, BackendFailure>>,
    /// Whether scores may come with the verdicts of filter.
    pub scores_with_filter: ScoresWanted,
    /// Whether it keeps tables of nodes.
    pub keeps_tables: bool,
    /// Whether it is told how attempts to place pods ended.
    pub takes_outcomes: bool,
    /// What it shows of its state.
    pub introspection: Introspection,
}

/// Scores that are not normalized and may be larger than those of extenders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "its scores {}, are not normalized, and count 10 times in kube-scheduler, where a plugin gives at most 100", scores(*.largest)
)]
pub struct UnscaledScores {
    /// The largest one; `None` without a bound.
    pub largest: Option<i32>,
}

impl UnscaledScores {
    /// What to do about them.
    pub const REMEDY: &str = "if they are to count as much as a plugin's, set `score.normalize` to Range, or to MinMax if they have \
                              no bounds, in its entry, or declare it in the policy";
}

fn scores(largest: Option<i32>) -> String {
    largest.map_or_else(|| "have no bound".to_owned(), |largest| format!("reach {largest}"))
}

/// The largest score of an extender, `MaxExtenderPriority` of kube-scheduler.
const USUAL_SCORE: i32 = 10;

/// A backend's view of nodes, with its columns in the node tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesView {
    /// The view.
    pub rows: RowView,
    /// Its column in the table that a watch or file fills; `None` without such a table.
    pub column: Option<Column>,
    /// Its column in the table of nodes that calls bring.
    pub offered: Column,
}

/// How a backend serves a verb about nodes.
#[derive(Debug)]
pub struct VerbPlan {
    /// Its view of nodes.
    pub nodes: NodesView,
    /// Its view of the pod.
    pub pod: PodView,
    /// The declaration that these views are from.
    pub reads_id: ReadsId,
    /// What it reads of pods, in words.
    pub reads_of_pods: Arc<str>,
    /// In turn if its answer for a node may depend on other nodes, or it has side effects.
    pub turn: Turn,
    /// It has side effects: it is called for decisions only.
    pub side_effects: bool,
    /// Whether the answer for a node depends only on the views of pod and node.
    pub pure: bool,
}

/// How a backend binds.
#[derive(Debug, Clone)]
pub struct BindPlan {
    /// Its view of the pod.
    pub pod: PodView,
    /// The declaration that the view is from.
    pub reads_id: ReadsId,
}

/// How a backend scores.
#[derive(Debug)]
pub struct ScorePlan {
    /// The views and properties of the verb.
    pub common: VerbPlan,
    /// What its scores are clamped to.
    pub range: Range,
    /// How they are mapped to 0 to 10, including the operator's setting.
    pub normalization: Normalization,
}

/// How a backend changes what it is told about with nodes.
#[derive(Debug)]
pub struct HookPlan {
    /// The views and properties of the hook.
    pub common: VerbPlan,
    /// What it may change.
    pub changes: ChangedParts,
}

/// How a backend changes the pod alone.
#[derive(Debug)]
pub struct PodHookPlan {
    /// Its view of the pod.
    pub pod: PodView,
    /// The declaration that the view is from.
    pub reads_id: ReadsId,
    /// What it reads of pods, in words.
    pub reads_of_pods: Arc<str>,
    /// Whether the change depends only on the view of the pod.
    pub pure: bool,
    /// What it may change.
    pub changes: ChangedParts,
}

/// How a backend serves a verb.
#[derive(Debug)]
enum Plan {
    /// Filter and preempt.
    Nodes(VerbPlan),
    Score(ScorePlan),
    Bind(BindPlan),
    /// A hook about the pod alone.
    PodHook(PodHookPlan),
    /// A hook about nodes.
    NodesHook(HookPlan),
}

impl Plan {
    /// Of a verb about nodes.
    fn about_nodes(&self) -> Option<&VerbPlan> {
        match self {
            Self::Nodes(plan) => Some(plan),
            Self::Score(plan) => Some(&plan.common),
            Self::NodesHook(plan) => Some(&plan.common),
            Self::Bind(_) | Self::PodHook(_) => None,
        }
    }

    /// What the verb is sent of pods and of nodes, in words.
    fn reads_in_words(&self) -> (String, String) {
        let (pod, nodes) = match self {
            Self::Nodes(common)
            | Self::Score(ScorePlan { common, .. })
            | Self::NodesHook(HookPlan { common, .. }) => (&common.pod, common.nodes.rows.words()),
            Self::Bind(plan) => (&plan.pod, "name".to_owned()),
            Self::PodHook(plan) => (&plan.pod, "nothing".to_owned()),
        };
        (pod.words(), nodes)
    }

    fn has_side_effects(&self) -> bool {
        match self {
            Self::Bind(_) => true,
            Self::PodHook(_) => false,
            Self::Nodes(_) | Self::Score(_) | Self::NodesHook(_) => {
                self.about_nodes().is_some_and(|common| common.side_effects)
            }
        }
    }

    fn is_pure(&self) -> bool {
        match self {
            Self::Nodes(common)
            | Self::Score(ScorePlan { common, .. })
            | Self::NodesHook(HookPlan { common, .. }) => common.pure,
            Self::Bind(_) => false,
            Self::PodHook(plan) => plan.pure,
        }
    }
}

/// The failure for a verb with a plan of another form than the caller needs.
static OTHER_PLAN: LazyLock<BackendFailure> =
    LazyLock::new(|| BackendFailure::new(FailureKind::Internal, "the verb has a plan of another form"));

/// The sources of facts that backends get.
#[derive(Debug, Clone)]
pub struct ClusterTables {
    /// The configured source of nodes.
    pub source: NodeSource,
    /// The table that a watch or a file fills.
    pub table: Option<Arc<NodeTable>>,
    /// The table of nodes that calls bring.
    pub offered: Arc<NodeTable>,
    /// The table that a watch of pods fills; `None` if pods are not watched.
    pub pods: Option<Arc<PodTable>>,
}

impl ClusterTables {
    /// Empty tables for this source of nodes, without pods.
    pub fn of_source(source: NodeSource) -> Self {
        let table = match source {
            NodeSource::Watch | NodeSource::File { .. } => Some(Arc::new(NodeTable::new())),
            NodeSource::Request | NodeSource::NamesOnly => None,
        };
        Self { source, table, offered: Arc::new(NodeTable::of_calls()), pods: None }
    }

    /// Empty tables for the sources of this configuration.
    pub fn of_config(config: &Config) -> Self {
        let pods = (config.pod_source() == PodSource::Watch).then(Default::default);
        Self { pods, ..Self::of_source(config.nodes.clone()) }
    }

    /// The tables of nodes, in a fixed order.
    pub fn node_tables(&self) -> impl Iterator<Item = &NodeTable> + Clone {
        self.table.iter().chain([&self.offered]).map(|table| &**table)
    }

    /// The pods in the cluster that are like this one, in each view.
    ///
    /// # Errors
    /// They are not counted yet: the sources have just started, or the views are new.
    pub fn topology_counts(
        &self,
        pod: &ObjectPod<'_>,
        views: &[TopologyCountView],
    ) -> Result<Vec<TopologyCounts>, BackendFailure> {
        if views.is_empty() {
            return Ok(Vec::new());
        }
        // The handshake has ensured that there are both.
        let sources = self.pods.as_ref().zip(self.table.as_ref());
        let counts = sources.and_then(|(pods, table)| pods.topology_counts(pod, views, table));
        counts.ok_or_else(|| unsuitable("needs topology counts, and the pods are not counted yet"))
    }
}

impl VerbPlan {
    /// Whether scores may come with the verdicts of filter: only with the same views.
    fn fits(&self, filter: &Self) -> bool {
        self.turn == Turn::Parallel
            && (self.reads_id, self.pure) == (filter.reads_id, filter.pure)
            && (&self.nodes, &self.pod) == (&filter.nodes, &filter.pod)
    }

    /// Whether its answers about a node depend on the pods that are bound.
    pub fn depends_on_pods(&self) -> bool {
        self.nodes.rows.depends_on_pods() || !self.pod.topology.is_empty()
    }

    /// Whether it has pods counted.
    pub fn counts_pods(&self) -> bool {
        !self.nodes.rows.pod_counts().is_empty() || !self.pod.topology.is_empty()
    }
}

impl Info {
    /// Reads the handshake of a backend with these settings. Only views of configured verbs get rows.
    pub fn read(handshake: Handshake, settings: &config::BackendSettings, known: &ClusterTables) -> Self {
        let Handshake { api, response, reads } = handshake;
        let reader = Reader { response: &response, api, reads: &reads, known };
        let plans = PerPolicyVerb::from_fn(|verb| reader.plan(verb, settings));
        let about_nodes = |verb: PolicyVerb| plans[verb].as_ref().ok().and_then(Plan::about_nodes);
        let scores_with_filter = match (about_nodes(PolicyVerb::Filter), about_nodes(PolicyVerb::Score)) {
            (Some(filter), Some(score)) if score.fits(filter) => ScoresWanted::Wanted,
            _ => ScoresWanted::Unwanted,
        };
        let is_served = |name: &str| response.services.iter().any(|service| service == name);
        Self {
            plans,
            scores_with_filter,
            keeps_tables: is_served(NODE_TABLE_SERVICE),
            takes_outcomes: api == ApiVersion::NEWEST && is_served(outcomes::SERVICE_NAME),
            most_request_bytes: match usize::try_from(response.max_request_bytes) {
                Ok(0) => REQUEST_BYTES,
                most => most.unwrap_or(usize::MAX),
            },
            introspection: Introspection::read(response.introspection, &response.services),
            name: response.name,
            version: response.version,
            revision: response.revision,
        }
    }

    /// The plan of a verb in the form that the caller needs.
    fn plan<'p, P>(
        &'p self,
        verb: PolicyVerb,
        form: impl FnOnce(&'p Plan) -> Option<&'p P>,
    ) -> Result<&'p P, &'p BackendFailure> {
        form(self.plans[verb].as_ref()?).ok_or(&*OTHER_PLAN)
    }

    /// How it scores.
    pub fn score(&self) -> Result<&ScorePlan, &BackendFailure> {
        self.plan(PolicyVerb::Score, |plan| if let Plan::Score(plan) = plan { Some(plan) } else { None })
    }

    /// How it binds.
    pub fn bind(&self) -> Result<&BindPlan, &BackendFailure> {
        self.plan(PolicyVerb::Bind, |plan| if let Plan::Bind(plan) = plan { Some(plan) } else { None })
    }

    /// How it serves a verb about nodes.
    pub fn about_nodes(&self, verb: PolicyVerb) -> Result<&VerbPlan, &BackendFailure> {
        self.plan(verb, Plan::about_nodes)
    }

    /// How it serves a hook about the pod alone.
    pub fn pod_hook(&self, verb: PolicyVerb) -> Result<&PodHookPlan, &BackendFailure> {
        self.plan(verb, |plan| if let Plan::PodHook(plan) = plan { Some(plan) } else { None })
    }

    /// How it serves a hook about nodes.
    pub fn hook(&self, verb: PolicyVerb) -> Result<&HookPlan, &BackendFailure> {
        self.plan(verb, |plan| if let Plan::NodesHook(plan) = plan { Some(plan) } else { None })
    }

    /// Whether a verb has side effects: it is called for decisions only, and never twice.
    pub fn has_side_effects(&self, verb: PolicyVerb) -> bool {
        self.plans[verb].as_ref().is_ok_and(Plan::has_side_effects)
    }

    /// Why it cannot serve this verb.
    pub fn refusal(&self, verb: PolicyVerb) -> Option<&BackendFailure> {
        self.plans[verb].as_ref().err()
    }

    /// Whether its filter decides by the pods that are bound: by usage or counts.
    pub fn filters_by_bound_pods(&self) -> bool {
        self.about_nodes(PolicyVerb::Filter).is_ok_and(VerbPlan::depends_on_pods)
    }

    /// What is probably unintended about its scores: an extender's reach 10, and kube-scheduler multiplies them by 10, so that
    /// 100 of a policy outweighs ten plugins of its own.
    pub fn unscaled_scores(&self) -> Option<UnscaledScores> {
        let score = self.score().ok()?;
        let is_usual = score.range.largest.is_some_and(|largest| largest <= USUAL_SCORE);
        let is_scaled = score.normalization != Normalization::None;
        (!is_scaled && !is_usual).then_some(UnscaledScores { largest: score.range.largest })
    }

    /// What a verb is sent of pods and of nodes, in words; `None` if it cannot be used.
    pub fn reads_in_words(&self, verb: PolicyVerb) -> Option<(String, String)> {
        self.plans[verb].as_ref().ok().map(Plan::reads_in_words)
    }

    /// The views of nodes of its verbs, with the verbs.
    pub fn node_views(&self) -> impl Iterator<Item = (PolicyVerb, &NodesView)> {
        self.plans.iter().filter_map(|(verb, plan)| Some((verb, &plan.as_ref().ok()?.about_nodes()?.nodes)))
    }

    /// The labels of nodes that filter reads by their keys.
    pub fn filtered_labels(&self) -> &[String] {
        let plan = self.about_nodes(PolicyVerb::Filter).ok();
        plan.and_then(|plan| plan.nodes.rows.facts()).map_or(&[], |facts| facts.labels.keys())
    }

    /// The views with facts about nodes of verbs to which nodes are named by the ids of a table: all but preempt.
    pub fn views(&self) -> impl Iterator<Item = &NodesView> {
        let views = self.node_views().filter(|(verb, _)| *verb != PolicyVerb::Preempt);
        views.map(|(_, view)| view).filter(|view| !view.rows.is_bare())
    }

    /// How its verbs have pods counted over a topology; nothing of verbs that do not.
    pub fn topologies(&self) -> impl Iterator<Item = &[TopologyCountView]> {
        let verbs = [PolicyVerb::Filter, PolicyVerb::Score].map(|verb| self.about_nodes(verb));
        verbs.into_iter().flatten().map(|plan| &*plan.pod.topology).filter(|views| !views.is_empty())
    }

    /// The columns of the table that its verbs use.
    pub fn columns(&self) -> impl Iterator<Item = ViewId> {
        self.node_views().filter_map(|(_, view)| view.column.as_ref()).map(Column::id)
    }

    /// The verbs whose answers may be cached: pure ones, of a backend that reports its revision.
    pub fn remembered(&self) -> CachedVerbs {
        let known = !self.revision.is_empty();
        PerPolicyVerb::from_fn(|verb| known && self.plans[verb].as_ref().is_ok_and(Plan::is_pure))
    }
}

#[cfg(test)]
mod tests;
