//! From the text of a rule file to [`Rules`], with all mistakes reported at once.

mod label;
mod place;

use std::{fmt, sync::Arc};

use extender_policy_sdk::Normalization;
use serde_saphyr::UserMessageFormatter;

use self::place::{Fields, Notes, Place};
use super::{
    Rules,
    rule::{Condition, PodSelector, Preference, Protection, Refusal, Requirement},
};

/// The gateway cuts reasons after this many bytes.
const MAX_REASON: usize = 200;

/// The ways to state a condition; a requirement has exactly one of them.
const CONDITIONS: [&str; 6] = ["equals", "in", "notIn", "exists", "greaterThan", "lessThan"];

/// Everything that is wrong with a rule file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes(Vec<String>);

impl fmt::Display for Mistakes {
    /// One mistake a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl Mistakes {
    /// One sentence each, beginning with the place in the file.
    pub fn lines(&self) -> &[String] {
        &self.0
    }
}

/// Reads a rule file.
///
/// # Errors
///
/// [`Mistakes`] with every mistake in the file, or the one that makes it unreadable as YAML.
pub fn read(text: &str) -> Result<Rules, Mistakes> {
    let document = serde_saphyr::from_str(text).map_err(|error| {
        Mistakes(vec![format!(
            "the file is not YAML that can be read: {}",
            error.without_snippet().render_with_formatter(&UserMessageFormatter)
        )])
    })?;
    let notes = Notes::default();
    let rules = rules(&Place::document(&document, &notes), fnv1a(text.as_bytes()));
    match (rules, notes.into_lines()) {
        (Some(rules), mistakes) if mistakes.is_empty() => Ok(rules),
        (_, mistakes) => Err(Mistakes(mistakes)),
    }
}

/// FNV-1a, 64 bits: fixed for all time, so that replicas with the same file have the same revision.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// `None` and every other `None` below: a mistake has been noted.
fn rules(document: &Place<'_>, content_hash: u64) -> Option<Rules> {
    let fields = document.fields(&["rules", "normalize"])?;
    let mut rules = Rules {
        refusals: vec![],
        preferences: vec![],
        protections: vec![],
        normalization: Normalization::None,
        content_hash,
    };
    for place in fields.required("rules", "a list of rules")?.elements()? {
        match rule(&place) {
            Some(Rule::Refusal(refusal)) => rules.refusals.push(refusal),
            Some(Rule::Preference(preference)) => rules.preferences.push(preference),
            Some(Rule::Protection(protection)) => rules.protections.push(protection),
            None => {}
        }
    }
    if let Some(place) = fields.optional("normalize") {
        rules.normalization = normalization(&place)?;
    }
    Some(rules)
}

fn normalization(place: &Place<'_>) -> Option<Normalization> {
    match place.text()? {
        "None" => Some(Normalization::None),
        "Range" => Some(Normalization::Range),
        "Max" => Some(Normalization::Max),
        "MinMax" => Some(Normalization::MinMax),
        other => place.note(&format!("is {other:?}; None, Range, Max or MinMax are right")),
    }
}

enum Rule {
    Refusal(Refusal),
    Preference(Preference),
    Protection(Protection),
}

fn rule(place: &Place<'_>) -> Option<Rule> {
    let fields = place.fields(&["name", "pods", "require", "reason", "prefer", "score", "protect"])?;
    // All parts are read before any is given up on, so that one look finds all mistakes.
    let name = fields.optional("name").map(|place| place.text().map(drop));
    let pods = fields.optional("pods").map_or(Some(PodSelector::default()), |place| pods(&place));
    let kinds: Vec<_> =
        ["require", "prefer", "protect"].into_iter().filter(|kind| fields.has(kind)).collect();
    let rule = match kinds[..] {
        ["require"] => refusal(&fields, pods),
        ["prefer"] => preference(&fields, pods),
        ["protect"] => protection(&fields, pods),
        [] => place.note("has no require (with reason), no prefer (with score) and no protect; add one"),
        _ => place.note(&format!("has {}; make a rule of each", kinds.join(" and "))),
    };
    rule.filter(|_| name != Some(None))
}

fn refusal(fields: &Fields<'_>, pods: Option<PodSelector>) -> Option<Rule> {
    fields.unwanted("score", "belongs to prefer; a rule with require has a reason");
    let require = requirements(&fields.required("require", "a list of requirements")?);
    let reason =
        fields.required("reason", "why nodes are refused, for people").and_then(|place| reason(&place));
    Some(Rule::Refusal(Refusal { pods: pods?, require: require?, reason: reason? }))
}

fn preference(fields: &Fields<'_>, pods: Option<PodSelector>) -> Option<Rule> {
    fields.unwanted("reason", "belongs to require; a rule with prefer has a score");
    let prefer = requirements(&fields.required("prefer", "a list of requirements")?);
    let score = fields.required("score", "what a node that meets all gets, such as 10");
    let score = score.and_then(|place| score_of(&place));
    Some(Rule::Preference(Preference { pods: pods?, prefer: prefer?, score: score? }))
}

fn protection(fields: &Fields<'_>, whom: Option<PodSelector>) -> Option<Rule> {
    fields.unwanted("reason", "belongs to require; kube-scheduler shows none for protected pods");
    fields.unwanted("score", "belongs to prefer; a rule with protect has none");
    let protect = pods(&fields.required("protect", "which pods are not evicted")?);
    Some(Rule::Protection(Protection { pods: whom?, protect: protect? }))
}

/// What the gateway would have to change on its way to the pod is refused here, where somebody can fix it.
fn reason(place: &Place<'_>) -> Option<Arc<str>> {
    let text = place.text()?.trim();
    match text {
        "" => place.note("is empty; say why nodes are refused"),
        _ if text.len() > MAX_REASON => {
            place.note(&format!("has {} bytes; at most {MAX_REASON} reach the pod", text.len()))
        }
        _ if text.contains(['%', '\n', '\r']) => place.note("holds % or a line break, which mangles events"),
        _ => Some(text.into()),
    }
}

fn score_of(place: &Place<'_>) -> Option<i32> {
    match i32::try_from(place.integer()?) {
        Ok(0) => place.note("is 0, which changes nothing; any other whole number is right"),
        Ok(score) => Some(score),
        Err(_) => place.note("is too large; -2147483648 to 2147483647 are right"),
    }
}

fn pods(place: &Place<'_>) -> Option<PodSelector> {
    let fields = place.fields(&["namespaces", "labels"])?;
    let namespaces =
        fields.optional("namespaces").map_or(Some(vec![]), |place| place.texts("at least one namespace"));
    let labels = fields.optional("labels").map_or(Some(vec![]), |place| requirements(&place));
    Some(PodSelector { namespaces: namespaces?, labels: labels? })
}

/// `None` only when a mistake was noted; the others are read all the same.
fn requirements(place: &Place<'_>) -> Option<Vec<Requirement>> {
    let read: Vec<_> = place.list("at least one requirement")?.iter().map(requirement).collect();
    read.into_iter().collect()
}

fn requirement(place: &Place<'_>) -> Option<Requirement> {
    let known = ["key"].into_iter().chain(CONDITIONS).collect::<Vec<_>>();
    let fields = place.fields(&known)?;
    let key = fields.required("key", "a label's key").and_then(|place| label::key(&place));
    let given: Vec<_> = CONDITIONS.into_iter().filter(|condition| fields.has(condition)).collect();
    let condition = match given[..] {
        [one] => fields.optional(one).and_then(|place| condition(one, &place)),
        [] => place.note(&format!("has no condition; one of {} is right", CONDITIONS.join(", "))),
        _ => place.note(&format!("has {}; one condition a requirement is right", given.join(" and "))),
    };
    Some(Requirement { key: key?, condition: condition? })
}

fn condition(name: &str, place: &Place<'_>) -> Option<Condition> {
    Some(match name {
        "equals" => Condition::In(vec![label::value(place)?]),
        "in" => Condition::In(label::values(place)?),
        "notIn" => Condition::NotIn(label::values(place)?),
        "greaterThan" => Condition::GreaterThan(place.integer()?),
        "lessThan" => Condition::LessThan(place.integer()?),
        _ if place.boolean()? => Condition::Exists,
        _ => Condition::Absent,
    })
}

#[cfg(test)]
mod tests;
