//! Parses a handshake and determines why a verb cannot be used.

use std::sync::Arc;

use extender_gateway_contract::{
    change::{ChangedParts, is_of_pod, part_in_words},
    pod::PodView,
    row::RowView,
};
use extender_gateway_core::{
    BackendFailure, FailureKind, PolicyVerb,
    filter::Turn,
    reason,
    score::{Direction, Normalization, Range},
};
use extender_gateway_object::counted::TopologyCountView;
use extender_gateway_settings::{BackendSettings, NodeSource, Normalize, ScoreSettings};
use extender_policy_api::v1beta1::{
    self as api, ChangedPart, Effects, GetInfoResponse, NodePart, PodPart, Scope, Verb, VerbInfo,
};

use super::{
    ApiVersion, BindPlan, ClusterTables, HOOK_SERVICE, HookPlan, NodesView, Plan, PodHookPlan, ReadsId,
    ScorePlan, VerbPlan, reads,
};

/// The handshake to parse.
pub(super) struct Reader<'r> {
    pub(super) response: &'r GetInfoResponse,
    /// The package that it is in.
    pub(super) api: ApiVersion,
    /// The names of its declarations, verb by verb.
    pub(super) reads: &'r [ReadsId],
    pub(super) known: &'r ClusterTables,
}

impl Reader<'_> {
    /// The view of pods.
    fn pod(&self, verb: &VerbInfo) -> PodView {
        let pod = pod_reads(verb).cloned().unwrap_or_default();
        let reads = |part: PodPart| pod.parts.contains(&part.into());
        let topology = TopologyCountView::declared(&pod.topology_counts).into();
        if let Some(pods) = &self.known.pods {
            pods.register(&topology);
        }
        PodView {
            facts: Arc::new((&pod).into()),
            identity: reads(PodPart::Identity),
            raw: reads(PodPart::RawJson),
            api: self.api,
            topology,
        }
    }

    /// How the backend serves a verb.
    ///
    /// # Errors
    /// It is not configured for it, or cannot serve it.
    pub(super) fn plan(&self, verb: PolicyVerb, settings: &BackendSettings) -> Result<Plan, BackendFailure> {
        let unconfigured = || unsuitable(format!("is not configured for {}", verb.name()));
        settings.timeouts()[verb].ok_or_else(unconfigured)?;
        match verb {
            PolicyVerb::Filter => self.common(self.verb(Verb::Filter, "filter")?, "filter").map(Plan::Nodes),
            PolicyVerb::Score => {
                self.score(settings.score.as_ref().ok_or_else(unconfigured)?).map(Plan::Score)
            }
            PolicyVerb::Preempt => self.preempt().map(Plan::Nodes),
            PolicyVerb::Bind => self.bind().map(Plan::Bind),
            PolicyVerb::BeforeFilter => self.pod_hook(verb, Verb::BeforeFilter).map(Plan::PodHook),
            PolicyVerb::BeforeFilterNodes => {
                self.nodes_hook(verb, Verb::BeforeFilterNodes).map(Plan::NodesHook)
            }
            PolicyVerb::BeforeScore => self.nodes_hook(verb, Verb::BeforeScore).map(Plan::NodesHook),
        }
    }

    fn common(&self, verb: &VerbInfo, name: &str) -> Result<VerbPlan, BackendFailure> {
        let pure = is_pure(verb, name)?;
        Ok(self.verb_plan(verb, self.nodes(verb)?, pure))
    }

    fn score(&self, settings: &ScoreSettings) -> Result<ScorePlan, BackendFailure> {
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
        })
    }

    fn preempt(&self) -> Result<VerbPlan, BackendFailure> {
        let verb = self.verb(Verb::Preempt, "preempt")?;
        if verb.effects() == Effects::Pure {
            return Err(unsuitable("declares preempt pure, but its answers depend on the victims"));
        }
        let nodes = self.nodes(verb)?;
        if !nodes.rows.is_bare() && nodes.column.is_none() {
            return Err(unsuitable(
                "needs facts about nodes, which preempt calls do not contain; set nodes.source to Watch or File",
            ));
        }
        Ok(self.verb_plan(verb, nodes, false))
    }

    fn verb_plan(&self, verb: &VerbInfo, nodes: NodesView, pure: bool) -> VerbPlan {
        let pod = self.pod(verb);
        let side_effects = verb.effects() == Effects::ChangesOutside;
        let per_node = verb.scope() == Scope::Node && !side_effects;
        VerbPlan {
            nodes,
            reads_of_pods: reads_of_pods(&pod),
            pod,
            reads_id: self.reads_id(verb),
            turn: if per_node { Turn::Parallel } else { Turn::InTurn },
            side_effects,
            pure,
        }
    }

    /// A hook about nodes.
    fn nodes_hook(&self, hook: PolicyVerb, wanted: Verb) -> Result<HookPlan, BackendFailure> {
        let verb = self.verb(wanted, hook.name())?;
        let changes = self.changes(verb, hook)?;
        Ok(HookPlan { common: self.common(verb, hook.name())?, changes })
    }

    /// A hook about the pod alone.
    fn pod_hook(&self, hook: PolicyVerb, wanted: Verb) -> Result<PodHookPlan, BackendFailure> {
        let name = hook.name();
        let verb = self.verb(wanted, name)?;
        let changes = self.changes(verb, hook)?;
        // There are no nodes on which an answer could depend.
        let alone = VerbInfo { scope: Scope::Node.into(), ..verb.clone() };
        let pure = is_pure(&alone, name)?;
        let pod = self.pod(verb);
        let (reads_of_pods, reads_id) = (reads_of_pods(&pod), self.reads_id(verb));
        Ok(PodHookPlan { pod, reads_id, reads_of_pods, pure, changes })
    }

    /// What a hook changes.
    fn changes(&self, verb: &VerbInfo, hook: PolicyVerb) -> Result<ChangedParts, BackendFailure> {
        let name = hook.name();
        if !self.response.services.iter().any(|service| service == HOOK_SERVICE) {
            return Err(unsuitable(format!(
                "declares {name} without the service {HOOK_SERVICE} in `services`"
            )));
        }
        if verb.effects() == Effects::ChangesOutside {
            return Err(unsuitable(format!(
                "declares that {name} has side effects, which hooks cannot have"
            )));
        }
        let refused = |part: &str| unsuitable(format!("declares that {name} changes {part}"));
        let mut parts = Vec::new();
        for number in &verb.changes {
            let part = ChangedPart::try_from(*number).ok().filter(|part| *part != ChangedPart::Unspecified);
            let Some(part) = part else {
                return Err(refused(&format!("part {number}, which this gateway version does not support")));
            };
            if parts.contains(&part) {
                return Err(refused(&format!("{} twice", part_in_words(part))));
            }
            if let Some(why) = contradiction(hook, verb, part) {
                return Err(refused(&format!("{}, {why}", part_in_words(part))));
            }
            parts.push(part);
        }
        if parts.is_empty() {
            return Err(unsuitable(format!("declares {name}, and nothing that it changes")));
        }
        Ok(ChangedParts::new(parts))
    }

    fn bind(&self) -> Result<BindPlan, BackendFailure> {
        let verb = self.verb(Verb::Bind, "bind")?;
        Ok(BindPlan { pod: self.pod(verb), reads_id: self.reads_id(verb) })
    }

    /// What the backend declares about a verb, if it can be used at all.
    fn verb(&self, wanted: Verb, name: &str) -> Result<&VerbInfo, BackendFailure> {
        let GetInfoResponse { api_version, requires, verbs, .. } = self.response;
        if api_version != ApiVersion::NEWEST.package() {
            let [newest, older] = ApiVersion::ALL.map(ApiVersion::package);
            return Err(unsuitable(format!(
                "implements API \"{api_version}\"; this gateway supports \"{newest}\" and \"{older}\""
            )));
        }
        if let Some(required) = requires.first() {
            return Err(unsuitable(format!(
                "requires \"{required}\", which this gateway version does not support"
            )));
        }
        let missing = || unsuitable(format!("does not serve {name}; remove {name} from its configuration"));
        let verb = verbs.iter().find(|verb| verb.verb == wanted as i32).ok_or_else(missing)?;
        reads::check(verb, name)?;
        self.check_sources(verb).map(|()| verb)
    }

    /// The configured sources provide what the verb reads of pods.
    fn check_sources(&self, verb: &VerbInfo) -> Result<(), BackendFailure> {
        let topology = pod_reads(verb).is_some_and(|pod| !pod.topology_counts.is_empty());
        let on_nodes = node_reads(verb).is_some_and(|node| !node.pod_counts.is_empty());
        let of_node = |part: NodePart| node_reads(verb).is_some_and(|node| node.parts.contains(&part.into()));
        let wanted = [
            (of_node(NodePart::Usage), "usage"),
            (of_node(NodePart::Nominated), "requests of nominated pods"),
            (on_nodes, "pod counts"),
            (topology, "topology counts"),
        ];
        let wanted = wanted.iter().find(|(wanted, _)| *wanted);
        if let Some((_, what)) = wanted.filter(|_| self.known.pods.is_none()) {
            return Err(unsuitable(format!(
                "needs {what}, but pods are not watched; set pods.source: Watch"
            )));
        }
        if topology && self.known.table.is_none() {
            return Err(unsuitable(
                "needs topology counts, for which all nodes must be known; set nodes.source to Watch or File",
            ));
        }
        Ok(())
    }

    /// The name of a verb's declaration.
    fn reads_id(&self, verb: &VerbInfo) -> ReadsId {
        let at = self.response.verbs.iter().position(|declared| declared.verb == verb.verb);
        at.and_then(|at| self.reads.get(at)).copied().unwrap_or_default()
    }

    fn nodes(&self, verb: &VerbInfo) -> Result<NodesView, BackendFailure> {
        let rows = RowView::new(&node_reads(verb).cloned().unwrap_or_default(), self.api);
        if !rows.is_bare() && matches!(self.known.source, NodeSource::NamesOnly) {
            return Err(unsuitable(
                "needs facts about nodes, which nodes.source: NamesOnly does not provide; set Watch, Request or File",
            ));
        }
        let column = self.known.table.as_ref().map(|table| table.register(rows.clone()));
        let offered = self.known.offered.register(rows.clone());
        if let Some(pods) = self.known.pods.as_ref().filter(|_| !rows.pod_counts().is_empty()) {
            pods.views_changed();
        }
        Ok(NodesView { rows, column, offered })
    }
}

/// Whether the verb is pure. A contradicting declaration is an error of the backend.
fn is_pure(verb: &VerbInfo, name: &str) -> Result<bool, BackendFailure> {
    let reads_of_pod = |part: PodPart| pod_reads(verb).is_some_and(|pod| pod.parts.contains(&part.into()));
    let reads_of_node =
        |part: NodePart| node_reads(verb).is_some_and(|node| node.parts.contains(&part.into()));
    let excluded = [
        (verb.scope() != Scope::Node, "depends on the whole set of nodes"),
        (reads_of_node(NodePart::RawJson), "reads the JSON of nodes"),
        (reads_of_pod(PodPart::RawJson), "reads the JSON of pods"),
        (reads_of_pod(PodPart::Identity), "reads the identity of pods"),
    ];
    let pure = verb.effects() == Effects::Pure;
    match excluded.iter().find(|(holds, _)| pure && *holds) {
        None => Ok(pure),
        Some((_, why)) => {
            Err(unsuitable(format!("declares {name} pure and also {why}; these are mutually exclusive")))
        }
    }
}

/// Why a hook cannot change this part.
fn contradiction(hook: PolicyVerb, verb: &VerbInfo, part: ChangedPart) -> Option<&'static str> {
    let is_of_pod = is_of_pod(part);
    match hook {
        PolicyVerb::BeforeFilter => (!is_of_pod).then_some("but it is about the pod alone"),
        PolicyVerb::BeforeFilterNodes => is_of_pod.then_some("but it is about nodes alone"),
        PolicyVerb::BeforeScore => (is_of_pod && verb.effects() == Effects::Pure)
            .then_some("and that it is pure; these are mutually exclusive"),
        PolicyVerb::Filter | PolicyVerb::Score | PolicyVerb::Preempt | PolicyVerb::Bind => {
            Some("but it is no hook")
        }
    }
}

/// What a verb reads of pods, in words.
fn reads_of_pods(pod: &PodView) -> Arc<str> {
    reason::one_line(&pod.words(), reason::LONGEST).into()
}

fn node_reads(verb: &VerbInfo) -> Option<&api::NodeReads> {
    verb.reads.as_ref()?.node.as_ref()
}

fn pod_reads(verb: &VerbInfo) -> Option<&api::PodReads> {
    verb.reads.as_ref()?.pod.as_ref()
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
