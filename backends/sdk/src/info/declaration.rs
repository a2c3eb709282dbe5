//! Checks what a policy declares about itself and turns it into the contract's handshake.

use extender_policy_api::v1alpha1::{self as api, node_table_service_server};

use super::{Best, Effects, Info, Memory, Normalization, Scale, Scope, Table, Usage, Verb, View};
use crate::MAX_MESSAGE_BYTES;

/// The package of the contract that this crate implements.
const API_VERSION: &str = "extender.policy.v1alpha1";

/// Limits of the contract, in bytes.
const MAX_NAME: usize = 63;
const MAX_VERSION: usize = 64;

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

/// A checked [`Info`]: the answer to the handshake, and what a call needs of it.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) response: api::GetInfoResponse,
    pub(crate) filter: Option<Terms>,
    pub(crate) score: Option<Terms>,
    pub(crate) binds: bool,
    pub(crate) preempt: Option<Terms>,
}

/// What a verb's declaration means for a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    view: View,
    scope: Scope,
    effects: Effects,
}

impl Terms {
    /// The verb's view of each node.
    pub(crate) fn view(self) -> View {
        self.view
    }

    pub(crate) fn needs_facts(self) -> bool {
        self.view.has_facts()
    }

    pub(crate) fn has_side_effects(self) -> bool {
        self.effects == Effects::Outside
    }

    /// Whether scores may be given before the other policies have filtered.
    pub(crate) fn may_come_with_filter(self) -> bool {
        self.scope == Scope::Node && !self.has_side_effects()
    }
}

impl Declaration {
    /// Checks everything and reports all mistakes together.
    pub(crate) fn new(info: Info) -> Result<Self, DeclarationError> {
        let mistakes = mistakes(&info);
        if !mistakes.is_empty() {
            return Err(DeclarationError(mistakes));
        }
        let filter = info.filter.map(terms);
        let score = info.score.as_ref().map(|(verb, _)| terms(*verb));
        let preempt = info.preempt.map(terms);
        let binds = info.binds;
        Ok(Self { response: response(info), filter, score, preempt, binds })
    }
}

fn terms(verb: Verb) -> Terms {
    Terms { view: verb.view, scope: verb.scope, effects: verb.effects }
}

fn mistakes(info: &Info) -> Vec<String> {
    let mut mistakes = text_mistakes(info);
    let decides = info.filter.is_some() || info.score.is_some() || info.preempt.is_some();
    if !decides && !info.binds {
        let right = "call Info::filters, Info::scores, Info::preempts or Info::binds";
        mistakes.push(format!("no verb is declared; {right}"));
    }
    if info.preempt.is_some_and(|verb| verb.memory == Memory::Pure) {
        mistakes.push(
            "preempt cannot be pure, because its answers depend on the victims; remove Verb::pure".to_owned(),
        );
    }
    if let Some(verb) = info.preempt {
        mistakes.extend(usage_mistake("preempt", verb));
    }
    if let Some(verb) = info.filter {
        mistakes.extend(verb_mistakes("filter", verb, info));
    }
    if let Some((verb, scale)) = &info.score {
        mistakes.extend(verb_mistakes("score", *verb, info));
        mistakes.extend(scale_mistakes(scale));
    }
    mistakes
}

fn text_mistakes(info: &Info) -> Vec<String> {
    let limits = [
        ("name", info.name.as_str(), MAX_NAME),
        ("version", info.version.as_str(), MAX_VERSION),
        ("revision", info.revision.as_deref().unwrap_or(&info.version), MAX_VERSION),
    ];
    let wrong = limits.into_iter().filter(|(_, text, limit)| text.is_empty() || text.len() > *limit);
    wrong
        .map(|(what, text, limit)| format!("{what} has {} bytes; expected 1 to {limit}", text.len()))
        .collect()
}

fn verb_mistakes(name: &str, verb: Verb, info: &Info) -> Vec<String> {
    usage_mistake(name, verb).into_iter().chain(memory_mistakes(name, verb, info)).collect()
}

/// A view of names works even if the gateway knows no nodes, and so no pods on them.
fn usage_mistake(name: &str, verb: Verb) -> Option<String> {
    let contradicts = verb.usage == Usage::Wanted && verb.view == View::Name;
    contradicts.then(|| format!("{name} has Verb::usage and View::Name; use View::Facts"))
}

/// What a pure verb excludes: each of these makes an answer depend on more than the cache key.
fn memory_mistakes(name: &str, verb: Verb, info: &Info) -> Vec<String> {
    if verb.memory != Memory::Pure {
        return Vec::new();
    }
    let excluded = [
        (verb.scope == Scope::WholeSet, "Verb::whole_set"),
        (verb.effects == Effects::Outside, "Verb::side_effects"),
        (verb.view == View::FactsAndRaw, "View::FactsAndRaw"),
        (info.raw_pod, "Info::raw_pod"),
    ];
    let found = excluded.into_iter().filter(|(found, _)| *found);
    found.map(|(_, with)| format!("{name} is pure and has {with}; remove one")).collect()
}

fn scale_mistakes(scale: &Scale) -> Vec<String> {
    let mut mistakes = Vec::new();
    let bounds = scale.bounds.as_ref();
    if let Some(empty) = bounds.filter(|bounds| bounds.is_empty()) {
        mistakes.push(format!("the scale {}..={} is empty; expected min..=max", empty.start(), empty.end()));
    }
    if scale.normalization == Normalization::Range
        && bounds.is_none_or(|bounds| bounds.start() == bounds.end())
    {
        mistakes.push("Normalization::Range needs Scale::between with two different bounds".to_owned());
    }
    if scale.best == Best::Least && scale.normalization == Normalization::None {
        mistakes.push("a reversed scale requires a normalization, such as Normalization::MinMax".to_owned());
    }
    mistakes
}

fn response(info: Info) -> api::GetInfoResponse {
    let services = services(&info);
    let Info { name, version, revision, filter, score, preempt, binds, annotations, raw_pod, table: _ } =
        info;
    let filter = filter.map(|verb| verb_info(api::Verb::Filter, verb));
    let score = score.map(|(verb, scale)| scored(verb_info(api::Verb::Score, verb), &scale));
    let preempt = preempt.map(|verb| verb_info(api::Verb::Preempt, verb));
    let bind = binds.then(|| api::VerbInfo { verb: api::Verb::Bind.into(), ..api::VerbInfo::default() });
    api::GetInfoResponse {
        name,
        revision: revision.unwrap_or_else(|| version.clone()),
        version,
        api_version: API_VERSION.to_owned(),
        requires: Vec::new(),
        services,
        verbs: filter.into_iter().chain(score).chain(preempt).chain(bind).collect(),
        pod_raw: raw_pod,
        annotation_prefixes: annotations,
        max_request_bytes: MAX_MESSAGE_BYTES as u64,
    }
}

/// Tables are worth filling only if rows hold more than names.
fn services(info: &Info) -> Vec<String> {
    let verbs = info.filter.into_iter().chain(info.score.as_ref().map(|(verb, _)| *verb)).chain(info.preempt);
    let wants_facts = verbs.map(terms).any(Terms::needs_facts);
    let keeps = wants_facts && info.table == Table::Kept;
    keeps.then(|| node_table_service_server::SERVICE_NAME.to_owned()).into_iter().collect()
}

fn verb_info(name: api::Verb, verb: Verb) -> api::VerbInfo {
    let node_view = match verb.view {
        View::Name => api::NodeView::Name,
        View::Facts => api::NodeView::Facts,
        View::FactsAndRaw => api::NodeView::FactsAndRaw,
    };
    let scope = match verb.scope {
        Scope::Node => api::Scope::Node,
        Scope::WholeSet => api::Scope::WholeSet,
    };
    api::VerbInfo {
        verb: name.into(),
        node_view: node_view.into(),
        scope: scope.into(),
        side_effects: verb.effects == Effects::Outside,
        pure: verb.memory == Memory::Pure,
        usage: verb.usage == Usage::Wanted,
        ..api::VerbInfo::default()
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

    fn pure() -> Info {
        Info::new("p", "1").filters(Verb::per_node().pure())
    }

    fn scores(scale: Scale) -> Info {
        Info::new("p", "1").scores(Verb::per_node(), scale)
    }

    #[test]
    fn each_mistake_is_named() {
        let cases = [
            (Info::new("p", "1"), "no verb is declared"),
            (Info::new("", "1").filters(Verb::per_node()), "name has 0 bytes; expected 1 to 63"),
            (Info::new("n".repeat(64), "1").filters(Verb::per_node()), "name has 64 bytes"),
            (Info::new("p", "").filters(Verb::per_node()), "version has 0 bytes"),
            (pure().revision("r".repeat(65)), "revision has 65 bytes; expected 1 to 64"),
            (Info::new("p", "1").preempts(Verb::per_node().pure()), "preempt cannot be pure"),
            (pure().raw_pod(), "filter is pure and has Info::raw_pod"),
            (pure().filters(Verb::whole_set().pure()), "has Verb::whole_set"),
            (pure().filters(Verb::per_node().pure().side_effects()), "has Verb::side_effects"),
            (pure().filters(Verb::per_node().pure().view(View::FactsAndRaw)), "has View::FactsAndRaw"),
            (
                pure().filters(Verb::per_node().view(View::Name).usage()),
                "filter has Verb::usage and View::Name",
            ),
            (pure().preempts(Verb::per_node().usage().view(View::Name)), "preempt has Verb::usage"),
            (scores(Scale::unbounded().reversed()), "a reversed scale requires a normalization"),
            (scores(Scale::unbounded().normalize(Normalization::Range)), "needs Scale::between"),
            (scores(Scale::between(3..=3).normalize(Normalization::Range)), "two different bounds"),
            (scores(Scale::between(RangeInclusive::new(1, 0))), "the scale 1..=0 is empty"),
        ];
        for (info, expected) in cases {
            let error = Declaration::new(info).unwrap_err().to_string();
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        }
    }

    #[test]
    fn all_mistakes_come_together() {
        let info = Info::new("", "1").scores(Verb::whole_set().pure(), Scale::unbounded().reversed());
        assert_eq!(Declaration::new(info).unwrap_err().mistakes().len(), 3);
    }

    #[test]
    fn a_verb_that_is_not_declared_is_not_listed() {
        let verbs = |info| Declaration::new(info).unwrap().response.verbs;
        let [filter] = verbs(pure()).try_into().unwrap();
        assert_eq!((filter.verb(), filter.pure, filter.usage), (api::Verb::Filter, true, false));
        let [filter] = verbs(pure().filters(Verb::per_node().pure().usage())).try_into().unwrap();
        assert_eq!((filter.pure, filter.usage), (true, true));
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
        assert_eq!((&*response.name, &*response.revision), ("p", "1.2.3"));
        assert_eq!((response.pod_raw, &*response.annotation_prefixes), (true, &["acme.io/".to_owned()][..]));
        let [filter, score] = &response.verbs[..] else { panic!("two verbs: {response:?}") };
        assert_eq!((filter.scope(), filter.node_view()), (api::Scope::WholeSet, api::NodeView::Name));
        assert_eq!((filter.side_effects, score.scope()), (true, api::Scope::Node));
        assert_eq!((score.normalization(), score.reversed), (api::Normalization::MinMax, true));
    }

    #[test]
    fn the_api_version_is_the_package_of_the_service() {
        assert_eq!(api::policy_service_server::SERVICE_NAME.rsplit_once('.').unwrap().0, API_VERSION);
    }

    use std::ops::RangeInclusive;
}
