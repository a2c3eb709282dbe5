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
};

use super::{
    Best, DeclaredVerb, Effects, Info, Memory, Normalization, Pace, Scale, Scope, TableUse, Usage, Verb,
    View, program, shown::ShownPath,
};
use crate::{
    Change,
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
    reads: Option<Arc<Layout>>,
    /// Of a hook alone.
    changes: BTreeSet<Change>,
}

impl Terms {
    /// The verb's view of each node.
    pub fn view(&self) -> View {
        self.verb.view
    }

    /// What is read of pods and nodes; `None`: everything.
    pub fn reads(&self) -> Option<&Layout> {
        self.reads.as_deref()
    }

    /// `Call.reads` of the requests that this declaration asks for; empty if nothing is declared.
    pub fn reads_digest(&self) -> &[u8] {
        self.reads().map_or(&[], |reads| &reads.digest)
    }

    /// What each row of a request must have.
    pub fn row_parts(&self) -> RowParts {
        RowParts::of(self.verb.view, self.reads().map(|reads| &reads.rows))
    }

    /// What the policy may read of nodes.
    pub fn node_access(&self) -> Access<'_> {
        Access::to(self.reads().map(|reads| &reads.node)).with_usage(self.verb.usage)
    }

    pub fn wants_usage(&self) -> bool {
        self.verb.usage == Usage::Wanted
    }

    /// Whether answers may be cached: then the pod's name and UID are not sent.
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
    pub fn changes(&self) -> &BTreeSet<Change> {
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
        let verbs = info.verbs.iter().map(|(&kind, declared)| (kind, terms(declared))).collect();
        let shown = mem::take(&mut info.shows);
        let blank = api::GetInfoResponse::default();
        let declared = Self { response: blank, verbs, shown };
        Ok(Self { response: response(info, &declared), ..declared })
    }

    pub fn verb(&self, kind: api::Verb) -> Option<&Terms> {
        self.verbs.get(&kind)
    }

    /// The path that is declared with exactly this text.
    pub fn shown(&self, path: &str) -> Option<&ShownPath> {
        self.shown.iter().find(|shown| shown.path() == path)
    }

    /// Whether requests for this declaration can be answered with the other one, too.
    pub fn reads_as(&self, other: &Self) -> bool {
        let digests = |of: &Self| {
            of.verbs.iter().map(|(&kind, terms)| (kind, terms.reads_digest().to_owned())).collect::<Vec<_>>()
        };
        digests(self) == digests(other)
    }
}

fn terms(declared: &DeclaredVerb) -> Terms {
    let DeclaredVerb { verb, changes, .. } = declared;
    let reads = verb.reads.as_ref();
    // Rows without facts are names: no table, and no watch of nodes is needed for them.
    let only_names = verb.view == View::Facts
        && verb.usage == Usage::Unwanted
        && reads.is_some_and(|reads| !reads.nodes());
    let view = if only_names { View::Name } else { verb.view };
    let reads = reads.map(|reads| Arc::new(Layout::new(reads, view)));
    Terms { verb: verb.clone().view(view), reads, changes: changes.clone() }
}

/// What no gateway can reject, because there is nothing to ask it about.
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
    contradictory.map(|(kind, _)| sentence(kind)).collect()
}

fn response(info: Info, declared: &Declaration) -> api::GetInfoResponse {
    let services = services(&info, declared);
    let Info { name, version, revision, rejected_configuration, verbs, annotations, raw_pod, .. } = info;
    let verbs = verbs.iter().zip(declared.verbs.values());
    api::GetInfoResponse {
        name,
        revision: revision.unwrap_or_else(|| program::revision(&version)),
        version,
        api_version: API_VERSION.to_owned(),
        requires: Vec::new(),
        services,
        verbs: verbs.map(|((&kind, declared), terms)| verb_info(kind, declared, terms)).collect(),
        pod_raw: raw_pod,
        annotation_prefixes: annotations,
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
    let wants_facts = declared.verbs.values().any(|terms| terms.view().has_facts());
    let keeps = wants_facts && info.table == TableUse::Kept;
    let table = keeps.then_some(node_table_service_server::SERVICE_NAME);
    let introspection = (!declared.shown.is_empty()).then_some(introspection_service_server::SERVICE_NAME);
    let hooks = declared
        .verbs
        .keys()
        .any(|kind| {
            matches!(kind, api::Verb::BeforeFilter | api::Verb::BeforeFilterNodes | api::Verb::BeforeScore)
        })
        .then_some(hook_service_server::SERVICE_NAME);
    table.into_iter().chain(introspection).chain(hooks).map(str::to_owned).collect()
}

fn verb_info(kind: api::Verb, declared: &DeclaredVerb, terms: &Terms) -> api::VerbInfo {
    let reads = terms.reads().map(|reads| reads.message.clone());
    let nothing = api::VerbInfo { verb: kind.into(), reads, ..api::VerbInfo::default() };
    if kind == api::Verb::Bind {
        return nothing;
    }
    let node_view = match terms.view() {
        _ if kind == api::Verb::BeforeFilter => api::NodeView::Unspecified,
        View::Name => api::NodeView::Name,
        View::Facts => api::NodeView::Facts,
        View::FactsAndRaw => api::NodeView::FactsAndRaw,
    };
    let scope = match terms.verb.scope {
        Scope::Node => api::Scope::Node,
        Scope::WholeSet => api::Scope::WholeSet,
    };
    let info = api::VerbInfo {
        node_view: node_view.into(),
        scope: scope.into(),
        effects: effects(terms).into(),
        usage: terms.wants_usage(),
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
    fn a_verb_that_is_not_declared_is_not_listed() {
        let verbs = |info| Declaration::new(info).unwrap().response.verbs;
        let [filter] = verbs(pure()).try_into().unwrap();
        assert_eq!(
            (filter.verb(), filter.effects(), filter.usage),
            (api::Verb::Filter, api::Effects::Pure, false)
        );
        let [filter] = verbs(pure().filters(Verb::per_node().pure().usage())).try_into().unwrap();
        assert_eq!((filter.effects(), filter.usage), (api::Effects::Pure, true));
        let [score] = verbs(scores(Scale::between(-3..=7))).try_into().unwrap();
        assert_eq!((score.verb(), score.score_min, score.score_max), (api::Verb::Score, Some(-3), Some(7)));
        let [bind] = verbs(Info::new("p", "1").binds()).try_into().unwrap();
        assert_eq!(bind.verb(), api::Verb::Bind);
    }

    #[test]
    fn the_handshake_says_what_was_declared() {
        let info = Info::new("p", "1.2.3")
            .filters(Verb::whole_set().side_effects().view(View::Name))
            .scores(Verb::per_node(), Scale::unbounded().normalize(Normalization::MinMax).reversed())
            .annotations("acme.io/")
            .raw_pod();
        let response = Declaration::new(info).unwrap().response;
        assert!(response.name == "p" && response.revision.starts_with("1.2.3+"), "{response:?}");
        assert_eq!((response.pod_raw, &*response.annotation_prefixes), (true, &["acme.io/".to_owned()][..]));
        let [filter, score] = &response.verbs[..] else { panic!("two verbs: {response:?}") };
        assert_eq!((filter.scope(), filter.node_view()), (api::Scope::WholeSet, api::NodeView::Name));
        assert_eq!(
            (filter.effects(), score.effects()),
            (api::Effects::ChangesOutside, api::Effects::ReadsOutside)
        );
        assert_eq!(score.scope(), api::Scope::Node);
        assert_eq!((score.normalization(), score.reversed), (api::Normalization::MinMax, true));
    }

    #[test]
    fn nodes_of_which_nothing_is_read_are_names() {
        let declared = |verb: Verb| {
            let info = Info::new("p", "1").filters(verb.reads(&Reads::new()));
            let response = Declaration::new(info).unwrap().response;
            (response.verbs[0].node_view(), response.services.len())
        };
        assert_eq!(declared(Verb::per_node()), (api::NodeView::Name, 0));
        assert_eq!(declared(Verb::per_node().usage()), (api::NodeView::Facts, 1));
        assert_eq!(declared(Verb::per_node().view(View::FactsAndRaw)), (api::NodeView::FactsAndRaw, 1));
    }

    #[test]
    fn names_alone_need_no_facts() {
        let mut reads = Reads::new();
        reads.node(NodePart::Name);
        let declared = |verb: Verb| {
            let info = Info::new("p", "1").filters(verb.reads(&reads));
            let verb = Declaration::new(info).unwrap().response.verbs.remove(0);
            (verb.node_view(), verb.reads.unwrap().node.map(|node| node.parts))
        };
        let name = vec![api::NodePart::Name.into()];
        assert_eq!(declared(Verb::per_node()), (api::NodeView::Name, None));
        assert_eq!(declared(Verb::per_node().view(View::Name)), (api::NodeView::Name, None));
        assert_eq!(declared(Verb::per_node().usage()), (api::NodeView::Facts, Some(name)));
    }

    #[test]
    fn the_api_version_is_the_package_of_the_service() {
        assert_eq!(api::policy_service_server::SERVICE_NAME.rsplit_once('.').unwrap().0, API_VERSION);
    }
}
