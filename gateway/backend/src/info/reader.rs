//! Parses a handshake and determines why a verb cannot be used.

use std::sync::Arc;

use extender_gateway_contract::{
    change::{ChangedParts, is_of_pod, part_in_words},
    pod::PodView,
    row::{RowFields, RowView},
};
use extender_gateway_core::{
    BackendFailure, FailureKind, PolicyVerb,
    filter::Turn,
    reason,
    score::{Direction, Normalization, Range},
};
use extender_gateway_object::{
    counted::{PodCountView, TopologyCountView},
    view::{KeyPrefixes, NodeFactsView, PodFactsView},
};
use extender_gateway_settings::{BackendSettings, NodeSource, Normalize, ScoreSettings};
use extender_policy_api::v1beta1::{
    self as api, ChangedPart, Effects, GetInfoResponse, NodeView, PodPart, Reads, Scope, Verb, VerbInfo,
};

use super::{
    ApiVersion, BindPlan, ClusterTables, HOOK_SERVICE, HookPlan, NodesView, Plan, PodHookPlan, ReadsId,
    ScorePlan, VerbPlan, reads,
};

/// The handshake to parse.
pub(super) struct Reader<'r> {
    pub(super) response: &'r GetInfoResponse,
    /// The names of its declarations, verb by verb.
    pub(super) reads: &'r [ReadsId],
    pub(super) known: &'r ClusterTables,
}

impl Reader<'_> {
    /// The view of pods.
    fn pod(&self, verb: &VerbInfo) -> PodView {
        let (facts, identity) = match &verb.reads {
            None => (PodFactsView::from(self.prefixes()), verb.effects() != Effects::Pure),
            Some(Reads { pod: None, .. }) => ((&api::PodReads::default()).into(), false),
            Some(Reads { pod: Some(pod), .. }) => (pod.into(), reads_identity(pod)),
        };
        let topology = TopologyCountView::declared(topology_counts(verb)).into();
        if let Some(pods) = &self.known.pods {
            pods.register(&topology);
        }
        PodView { facts: Arc::new(facts), identity, raw: self.response.pod_raw, topology }
    }

    /// The facts about nodes.
    fn node_facts(&self, verb: &VerbInfo) -> NodeFactsView {
        match &verb.reads {
            None => self.prefixes().into(),
            Some(reads) => (&reads.node.clone().unwrap_or_default()).into(),
        }
    }

    fn prefixes(&self) -> KeyPrefixes {
        KeyPrefixes::new(self.response.annotation_prefixes.iter().cloned())
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
        let pure = self.is_pure(verb, name)?;
        Ok(self.verb_plan(verb, self.nodes(verb)?, pure))
    }

    /// Whether the verb is pure. A contradicting declaration is an error of the backend.
    fn is_pure(&self, verb: &VerbInfo, name: &str) -> Result<bool, BackendFailure> {
        let excluded = [
            (verb.scope() != Scope::Node, "depends on the whole set of nodes"),
            (verb.node_view() == NodeView::FactsAndRaw, "requests the JSON of nodes"),
            (self.response.pod_raw, "requests the JSON of pods"),
            (
                verb.reads.iter().flat_map(|reads| &reads.pod).any(reads_identity),
                "reads the identity of pods",
            ),
        ];
        let pure = verb.effects() == Effects::Pure;
        match excluded.iter().find(|(holds, _)| pure && *holds) {
            None => Ok(pure),
            Some((_, why)) => {
                Err(unsuitable(format!("declares {name} pure and also {why}; these are mutually exclusive")))
            }
        }
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
        if nodes.rows != RowView::Name && nodes.column.is_none() {
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
            reads_of_pods: reads_of_pods(verb, &pod),
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
        if verb.usage || verb.node_view != NodeView::Unspecified as i32 {
            return Err(unsuitable(format!("declares that {name} reads nodes, but is about the pod alone")));
        }
        let changes = self.changes(verb, hook)?;
        // There are no nodes on which an answer could depend.
        let alone = VerbInfo { scope: Scope::Node.into(), ..verb.clone() };
        let pure = self.is_pure(&alone, name)?;
        let pod = self.pod(verb);
        let (reads_of_pods, reads_id) = (reads_of_pods(verb, &pod), self.reads_id(verb));
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
        let (topology, on_nodes) = (!topology_counts(verb).is_empty(), !pod_counts(verb).is_empty());
        let wanted = [(verb.usage, "usage"), (on_nodes, "pod counts"), (topology, "topology counts")];
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
        let view = NodeView::try_from(verb.node_view).ok();
        if verb.usage && view == Some(NodeView::Name) {
            return Err(unsuitable("reads the usage of nodes, but requests only their names"));
        }
        let fields = RowFields {
            facts: Arc::new(self.node_facts(verb)),
            usage: verb.usage,
            pod_counts: PodCountView::declared(pod_counts(verb)).into(),
        };
        let rows = view.and_then(|view| RowView::new(view, fields)).ok_or_else(|| {
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
        let column = self.known.table.as_ref().map(|table| table.register(rows.clone()));
        let offered = self.known.offered.register(rows.clone());
        if let Some(pods) = self.known.pods.as_ref().filter(|_| !rows.pod_counts().is_empty()) {
            pods.views_changed();
        }
        Ok(NodesView { rows, column, offered })
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

/// What a verb reads of pods, in words; `None` without a declaration.
fn reads_of_pods(verb: &VerbInfo, pod: &PodView) -> Option<Arc<str>> {
    verb.reads.is_some().then(|| reason::one_line(&pod.words(), reason::LONGEST).into())
}

fn pod_counts(verb: &VerbInfo) -> &[api::PodCountReads] {
    let node = verb.reads.as_ref().and_then(|reads| reads.node.as_ref());
    node.map_or(&[], |node| &node.pod_counts)
}

fn topology_counts(verb: &VerbInfo) -> &[api::TopologyCountReads] {
    let pod = verb.reads.as_ref().and_then(|reads| reads.pod.as_ref());
    pod.map_or(&[], |pod| &pod.topology_counts)
}

fn reads_identity(pod: &api::PodReads) -> bool {
    pod.parts.contains(&PodPart::Identity.into())
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
