//! Turns what a policy declares about itself into the contract's handshake. What the contract does not allow to declare
//! is rejected by the gateway, and named by policy-conformance.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use extender_policy_api::limits::REJECTED_CONFIGURATION_BYTES;
use extender_policy_api::v1beta1::{
    self as api, hook_service_server, introspection_service_server, node_table_service_server,
    outcome_service_server,
};

use super::{
    Best, DeclaredVerb, Effects, Info, Memory, Normalization, Pace, Scale, Scope, TableUse, Verb, program,
    shown::ShownPath,
};
use crate::{
    ChangedPart,
    digest::Digest,
    node::row::RowParts,
    reads::{access::Access, layout::Layout},
    size::MAX_MESSAGE_BYTES,
};

/// The package of the contract that this crate implements.
const API_VERSION: &str = "extender.policy.v1beta1";

/// All mistakes of an [`Info`], one sentence each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid policy info: {}", .0.join("; "))]
pub struct DeclarationError(Vec<String>);

impl DeclarationError {
    /// One sentence for each mistake.
    pub fn mistakes(&self) -> &[String] {
        &self.0
    }
}

/// An [`Info`] as the answer to the handshake, and what a call needs of it.
#[derive(Debug)]
pub struct Declaration {
    pub response: api::GetInfoResponse,
    verbs: BTreeMap<api::Verb, Terms>,
    shown: Vec<ShownPath>,
}

/// What a verb's declaration means for a call.
#[derive(Clone, Debug)]
pub struct Terms {
    verb: Verb,
    reads: Arc<Layout>,
    /// Of a hook alone.
    changes: BTreeSet<ChangedPart>,
}

impl Terms {
    /// What is read of pods and nodes.
    pub fn reads(&self) -> &Layout {
        &self.reads
    }

    /// `Call.reads` of the requests that this declaration asks for.
    pub fn reads_digest(&self) -> &Digest {
        &self.reads.digest
    }

    /// What each row of a request must have.
    pub fn row_parts(&self) -> RowParts {
        RowParts::of(&self.reads.rows)
    }

    /// What the policy may read of the pod, and of victims.
    pub fn pod_access(&self) -> Access<'_> {
        Access::to(&self.reads.pod)
    }

    /// What the policy may read of nodes.
    pub fn node_access(&self) -> Access<'_> {
        Access::to(&self.reads.node)
    }

    /// Whether answers may be cached.
    pub fn is_pure(&self) -> bool {
        self.verb.memory == Memory::Pure
    }

    pub fn has_side_effects(&self) -> bool {
        self.verb.effects == Effects::Outside
    }

    /// Whether the policy may wait for something outside.
    pub fn waits(&self) -> bool {
        self.verb.pace == Pace::Waits
    }

    /// What the policy may change: nothing if this is not a hook.
    pub fn changes(&self) -> &BTreeSet<ChangedPart> {
        &self.changes
    }

    /// Whether these scores may be given with the verdicts, before the other policies have filtered.
    pub fn may_come_with(&self, filter: &Self) -> bool {
        self.verb.scope == Scope::Node
            && !self.waits()
            && !self.has_side_effects()
            && self.reads_digest() == filter.reads_digest()
    }
}

impl Declaration {
    pub fn new(mut info: Info) -> Result<Self, DeclarationError> {
        let mistakes = mistakes(&info);
        if !mistakes.is_empty() {
            return Err(DeclarationError(mistakes));
        }
        let verbs = info.verbs.iter().map(|(&kind, declared)| (kind, terms(kind, declared))).collect();
        let shown = mem::take(&mut info.shows);
        let blank = api::GetInfoResponse::default();
        let declared = Self { response: blank, verbs, shown };
        Ok(Self { response: response(info, &declared), ..declared })
    }

    pub fn verb(&self, kind: api::Verb) -> Option<&Terms> {
        self.verbs.get(&kind)
    }

    /// Whether the policy observes outcomes.
    pub fn observes_outcomes(&self) -> bool {
        self.response.services.iter().any(|service| service == outcome_service_server::SERVICE_NAME)
    }

    /// The path that is declared with exactly this text.
    pub fn shown(&self, path: &str) -> Option<&ShownPath> {
        self.shown.iter().find(|shown| shown.path() == path)
    }

    /// Whether requests for this declaration can be answered with the other one, too.
    pub fn reads_as(&self, other: &Self) -> bool {
        let digests = |of: &Self| {
            of.verbs.iter().map(|(&kind, terms)| (kind, *terms.reads_digest())).collect::<Vec<_>>()
        };
        digests(self) == digests(other)
    }
}

fn terms(kind: api::Verb, declared: &DeclaredVerb) -> Terms {
    let DeclaredVerb { verb, changes, .. } = declared;
    let has_nodes = !matches!(kind, api::Verb::Bind | api::Verb::BeforeFilter);
    let reads = if has_nodes { Layout::new(&verb.reads) } else { Layout::new(&verb.reads.of_pod()) };
    Terms { verb: verb.clone(), reads: reads.into(), changes: changes.clone() }
}

/// What no gateway can reject, because there is nothing to ask it about, and what no test of the policy can pass.
fn mistakes(info: &Info) -> Vec<String> {
    if info.verbs.is_empty() {
        let right = "call Info::filters, Info::scores, Info::preempts, Info::binds or the method of a hook, such as \
                     Info::before_filter";
        return vec![format!("no verb is declared; {right}")];
    }
    // The contract has one field for both.
    let both = |verb: &Verb| verb.memory == Memory::Pure && verb.effects == Effects::Outside;
    let contradictory = info.verbs.iter().filter(|(_, declared)| both(&declared.verb));
    let sentence = |kind: &api::Verb| {
        format!(
            "{} is declared with pure() and side_effects(); only one of them can be true",
            kind.as_str_name()
        )
    };
    let scales = info.verbs.values().filter_map(|declared| declared.scale.as_ref()?.bounds.as_ref());
    let empty = scales
        .filter(|bounds| bounds.is_empty())
        .map(|bounds| format!("Scale::between({bounds:?}): the least score is larger than the largest"));
    contradictory.map(|(kind, _)| sentence(kind)).chain(empty).collect()
}

fn response(info: Info, declared: &Declaration) -> api::GetInfoResponse {
    let services = services(&info, declared);
    let Info { name, version, revision, rejected_configuration, verbs, .. } = info;
    let verbs = verbs.iter().zip(declared.verbs.values());
    api::GetInfoResponse {
        name,
        revision: revision.unwrap_or_else(|| program::revision(&version)),
        version,
        api_version: API_VERSION.to_owned(),
        requires: Vec::new(),
        services,
        verbs: verbs.map(|((&kind, declared), terms)| verb_info(kind, declared, terms)).collect(),
        max_request_bytes: MAX_MESSAGE_BYTES as u64,
        introspection: declared.shown.iter().map(ShownPath::message).collect(),
        // Reported by the backend, not declared by the policy: it changes at run time.
        controllers: None,
        rejected_configuration: beginning(rejected_configuration, REJECTED_CONFIGURATION_BYTES),
    }
}

/// The beginning of a text, of at most this many bytes.
fn beginning(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

/// Services besides `PolicyService`. Tables are worth filling only if rows hold more than names.
fn services(info: &Info, declared: &Declaration) -> Vec<String> {
    let reads_facts = declared.verbs.values().any(|terms| terms.row_parts().has_facts());
    let keeps = reads_facts && info.table == TableUse::Kept;
    let table = keeps.then_some(node_table_service_server::SERVICE_NAME);
    let introspection = (!declared.shown.is_empty()).then_some(introspection_service_server::SERVICE_NAME);
    let hooks = declared
        .verbs
        .keys()
        .any(|kind| {
            matches!(kind, api::Verb::BeforeFilter | api::Verb::BeforeFilterNodes | api::Verb::BeforeScore)
        })
        .then_some(hook_service_server::SERVICE_NAME);
    let outcomes = info.observes_outcomes.then_some(outcome_service_server::SERVICE_NAME);
    table.into_iter().chain(introspection).chain(hooks).chain(outcomes).map(str::to_owned).collect()
}

fn verb_info(kind: api::Verb, declared: &DeclaredVerb, terms: &Terms) -> api::VerbInfo {
    let reads = Some(terms.reads().message.clone());
    let nothing = api::VerbInfo { verb: kind.into(), reads, ..api::VerbInfo::default() };
    if kind == api::Verb::Bind {
        return nothing;
    }
    let scope = match terms.verb.scope {
        Scope::Node => api::Scope::Node,
        Scope::WholeSet => api::Scope::WholeSet,
    };
    let info = api::VerbInfo {
        scope: scope.into(),
        effects: effects(terms).into(),
        changes: terms.changes.iter().map(|change| change.number()).collect(),
        ..nothing
    };
    match &declared.scale {
        Some(scale) => scored(info, scale),
        None => info,
    }
}

fn effects(terms: &Terms) -> api::Effects {
    if terms.has_side_effects() {
        api::Effects::ChangesOutside
    } else if terms.is_pure() {
        api::Effects::Pure
    } else {
        api::Effects::ReadsOutside
    }
}

fn scored(verb: api::VerbInfo, scale: &Scale) -> api::VerbInfo {
    let normalization = match scale.normalization {
        Normalization::None => api::Normalization::None,
        Normalization::Range => api::Normalization::Range,
        Normalization::Max => api::Normalization::Max,
        Normalization::MinMax => api::Normalization::MinMax,
    };
    api::VerbInfo {
        score_min: scale.bounds.as_ref().map(|bounds| *bounds.start()),
        score_max: scale.bounds.as_ref().map(|bounds| *bounds.end()),
        normalization: normalization.into(),
        reversed: scale.best == Best::Least,
        ..verb
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::*;
    use crate::{NodePart, Reads};

    fn pure() -> Info {
        Info::new("p", "1").filters(Verb::per_node().pure())
    }

    fn scores(scale: Scale) -> Info {
        Info::new("p", "1").scores(Verb::per_node(), scale)
    }

    #[test]
    fn a_policy_without_a_verb_is_refused() {
        let error = Declaration::new(Info::new("p", "1")).unwrap_err();
        assert!(error.to_string().contains("no verb is declared; call Info::filters"), "{error}");
    }

    #[test]
    fn a_verb_that_is_pure_and_has_side_effects_is_refused() {
        let both = || Verb::per_node().pure().side_effects();
        let error = Declaration::new(pure().preempts(both()).filters(both())).unwrap_err();
        let expected = ["VERB_FILTER", "VERB_PREEMPT"].map(|verb| {
            format!("{verb} is declared with pure() and side_effects(); only one of them can be true")
        });
        assert_eq!(error.mistakes(), expected);
    }

    #[test]
    fn a_scale_without_scores_is_refused() {
        let error = Declaration::new(scores(Scale::between(RangeInclusive::new(10, 0)))).unwrap_err();
        let expected = "Scale::between(10..=0): the least score is larger than the largest";
        assert_eq!(error.mistakes(), [expected]);
        assert!(Declaration::new(scores(Scale::between(3..=3))).is_ok());
    }

    #[test]
    fn a_verb_that_is_not_declared_is_not_listed() {
        let verbs = |info| Declaration::new(info).unwrap().response.verbs;
        let [filter] = verbs(pure()).try_into().unwrap();
        assert_eq!((filter.verb(), filter.effects()), (api::Verb::Filter, api::Effects::Pure));
        let [score] = verbs(scores(Scale::between(-3..=7))).try_into().unwrap();
        assert_eq!((score.verb(), score.score_min, score.score_max), (api::Verb::Score, Some(-3), Some(7)));
        let [bind] = verbs(Info::new("p", "1").binds()).try_into().unwrap();
        assert_eq!(bind.verb(), api::Verb::Bind);
    }

    #[test]
    fn the_handshake_says_what_was_declared() {
        let info = Info::new("p", "1.2.3")
            .filters(Verb::whole_set().side_effects())
            .scores(Verb::per_node(), Scale::unbounded().normalize(Normalization::MinMax).reversed());
        let response = Declaration::new(info).unwrap().response;
        assert!(response.name == "p" && response.revision.starts_with("1.2.3+"), "{response:?}");
        let [filter, score] = &response.verbs[..] else { panic!("two verbs: {response:?}") };
        assert_eq!((filter.scope(), score.scope()), (api::Scope::WholeSet, api::Scope::Node));
        assert_eq!(
            (filter.effects(), score.effects()),
            (api::Effects::ChangesOutside, api::Effects::ReadsOutside)
        );
        assert_eq!((score.normalization(), score.reversed), (api::Normalization::MinMax, true));
    }

    /// The declaration and the number of services for a verb that reads this.
    fn declared(reads: &Reads) -> (api::Reads, usize) {
        let mut response =
            Declaration::new(pure().filters(Verb::per_node().pure().reads(reads))).unwrap().response;
        (response.verbs.remove(0).reads.unwrap(), response.services.len())
    }

    #[test]
    fn a_verb_without_a_declaration_reads_nothing() {
        for info in [pure(), Info::new("p", "1").binds()] {
            let [verb] = Declaration::new(info).unwrap().response.verbs.try_into().unwrap();
            assert_eq!(verb.reads, Some(api::Reads::default()));
        }
    }

    #[test]
    fn names_alone_need_no_table_of_nodes() {
        let mut reads = Reads::new();
        assert_eq!(declared(&reads), (api::Reads::default(), 0));
        reads.node(NodePart::Name);
        let parts = vec![api::NodePart::Name.into()];
        let names =
            api::Reads { node: Some(api::NodeReads { parts, ..api::NodeReads::default() }), pod: None };
        assert_eq!(declared(&reads), (names, 0));
        assert_eq!(declared(&Reads::everything()).1, 1);
        reads.node(NodePart::Usage);
        assert_eq!(declared(&reads).1, 1);
    }

    #[test]
    fn a_verb_without_nodes_reads_everything_of_none() {
        let bind = |reads: &Reads| {
            let info = Info::new("p", "1").binds_reading(reads);
            Declaration::new(info).unwrap().response.verbs.remove(0).reads.unwrap()
        };
        let pod = Some(api::PodReads { everything: true, ..api::PodReads::default() });
        assert_eq!(bind(&Reads::everything()), api::Reads { pod, node: None });
        // For the gateway to reject.
        let mut reads = Reads::new();
        reads.node(NodePart::Taints);
        assert!(bind(&reads).node.is_some());
    }

    #[test]
    fn the_api_version_is_the_package_of_the_service() {
        assert_eq!(api::policy_service_server::SERVICE_NAME.rsplit_once('.').unwrap().0, API_VERSION);
    }
}
