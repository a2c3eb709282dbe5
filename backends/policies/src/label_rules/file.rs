//! From the text of a rule file to [`Rules`], with all mistakes reported at once.

use std::sync::Arc;

use extender_config::{
    ConfigErrors, Cursor, Fields, Mistakes, Remedy, Section, Value, echo,
    names::{self, LABEL_KEY, LABEL_VALUE},
    parse,
};
use extender_policy_api::limits::{RULE_BYTES, SHOWN_REASON_BYTES};
use extender_policy_sdk::Normalization;

use super::{
    Rules,
    rule::{LabelCondition, LabelRequirement, PodSelector, Preference, Protection, Refusal},
};

/// The ways to state a condition; a requirement has exactly one of them.
const CONDITIONS: [&str; 6] = ["equals", "in", "notIn", "exists", "greaterThan", "lessThan"];

const FILE: Fields = Fields::new("a mapping with rules", &["rules", "normalize"]);
const RULE: Fields = Fields::new(
    "a mapping such as {prefer: [{key: disk, equals: ssd}], score: 10}",
    &["name", "pods", "require", "reason", "prefer", "score", "protect"],
);
const PODS: Fields =
    Fields::new("a mapping such as {namespaces: [shop]}, {} for all pods", &["namespaces", "labels"]);
const REQUIREMENT: Fields = Fields::new(
    "a mapping such as {key: disk, equals: ssd}",
    &["key", "equals", "in", "notIn", "exists", "greaterThan", "lessThan"],
);

const RULES: &str = "a list of rules";
const REQUIREMENTS: &str = "a list with at least one requirement such as [{key: disk, equals: ssd}]";
const VALUES: &str = "a list with at least one value such as [ssd]";
const REASON: &str = "the reason of rejections, at most 200 bytes on one line, without %";
const NAME: &str = "the name of the rule, 1 to 63 bytes on one line";
const SCORE: &str = "the score of a node that meets all requirements, a whole number other than 0";

/// Reads a rule file.
///
/// # Errors
///
/// Every mistake in the file, or the one that makes it unreadable as YAML.
pub fn read(text: &str) -> Result<Rules, ConfigErrors> {
    let document = parse(text).map_err(ConfigErrors::one)?;
    let mistakes = Mistakes::default();
    let rules = rules(Cursor::root(&document, &mistakes), fnv1a(text.as_bytes()));
    mistakes.settle(rules)
}

/// FNV-1a, 64 bits: fixed for all time, so that replicas with the same file have the same revision.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// `None` here and below: a mistake has been recorded.
fn rules(document: Cursor<'_>, content_hash: u64) -> Option<Rules> {
    let fields = document.section(&FILE)?;
    let normalization = fields.or("normalize", Normalization::None, normalization);
    let read = fields.required("rules", RULES).and_then(|list| list.list(RULES, rule));
    let mut rules = Rules {
        refusals: vec![],
        preferences: vec![],
        protections: vec![],
        normalization: normalization?,
        content_hash,
    };
    for rule in read? {
        match rule {
            FileRule::Refusal(refusal) => rules.refusals.push(refusal),
            FileRule::Preference(preference) => rules.preferences.push(preference),
            FileRule::Protection(protection) => rules.protections.push(protection),
        }
    }
    Some(rules)
}

fn normalization(field: &Cursor<'_>) -> Option<Normalization> {
    field.parsed("None, Range, Max or MinMax", |text| match text {
        "None" => Ok(Normalization::None),
        "Range" => Ok(Normalization::Range),
        "Max" => Ok(Normalization::Max),
        "MinMax" => Ok(Normalization::MinMax),
        other => Err(format!("unknown value {}", echo(other))),
    })
}

enum FileRule {
    Refusal(Refusal),
    Preference(Preference),
    Protection(Protection),
}

fn rule(item: Cursor<'_>) -> Option<FileRule> {
    let fields = item.section(&RULE)?;
    // All parts are read before the rule is dropped, so that one pass finds all mistakes.
    let name = fields.or("name", None, |name| name.parsed(NAME, rule_name).map(Some));
    let pods = fields.or("pods", PodSelector::default(), pods);
    let kinds: Vec<_> =
        ["require", "prefer", "protect"].into_iter().filter(|kind| fields.has(kind)).collect();
    let rule = match kinds[..] {
        ["require"] => refusal(&fields, pods),
        ["prefer"] => preference(&fields, pods),
        ["protect"] => protection(&fields, pods),
        [] => {
            let remedy = Remedy::Do("add require with a reason, prefer with a score, or protect");
            fields.mistake("has no require, no prefer and no protect", remedy);
            None
        }
        _ => {
            fields.mistake(&format!("has {}", kinds.join(" and ")), "a rule for each");
            None
        }
    };
    match (rule?, name?) {
        (FileRule::Refusal(refusal), name) => Some(FileRule::Refusal(Refusal { name, ..refusal })),
        (other, _) => Some(other),
    }
}

fn refusal(fields: &Section<'_>, pods: Option<PodSelector>) -> Option<FileRule> {
    unwanted(fields, "score", "belongs to prefer");
    let require = fields.required("require", REQUIREMENTS).and_then(|list| requirements(&list));
    let reason = fields.required("reason", REASON).and_then(|field| field.parsed(REASON, reason));
    Some(FileRule::Refusal(Refusal { pods: pods?, require: require?, reason: reason?, name: None }))
}

fn preference(fields: &Section<'_>, pods: Option<PodSelector>) -> Option<FileRule> {
    unwanted(fields, "reason", "belongs to require");
    let prefer = fields.required("prefer", REQUIREMENTS).and_then(|list| requirements(&list));
    let score = fields.required("score", SCORE).and_then(|field| score(&field));
    Some(FileRule::Preference(Preference { pods: pods?, prefer: prefer?, score: score? }))
}

fn protection(fields: &Section<'_>, selector: Option<PodSelector>) -> Option<FileRule> {
    unwanted(fields, "reason", "belongs to require");
    unwanted(fields, "score", "belongs to prefer");
    let protect = fields.required("protect", PODS.right).and_then(|field| pods(&field));
    Some(FileRule::Protection(Protection { pods: selector?, protect: protect? }))
}

/// Records a mistake where a rule has a field of another kind of rule.
fn unwanted(fields: &Section<'_>, name: &str, wrong: &str) {
    if fields.has(name) {
        fields.mistake_of(name, wrong, Remedy::Do("remove it"));
    }
}

/// Texts that the gateway would have to change are rejected here, where they can be corrected.
fn reason(text: &str) -> Result<Arc<str>, String> {
    match text.trim() {
        "" => Err("is empty".to_owned()),
        text if text.len() > SHOWN_REASON_BYTES => Err(format!("has {} bytes", text.len())),
        text if text.contains(['%', '\n', '\r']) => {
            Err("contains % or a line break, which corrupts events".to_owned())
        }
        text => Ok(text.into()),
    }
}

fn rule_name(text: &str) -> Result<Arc<str>, String> {
    match text.trim() {
        "" => Err("is empty".to_owned()),
        text if text.len() > RULE_BYTES => Err(format!("has {} bytes", text.len())),
        text if text.contains(['\n', '\r']) => Err("contains a line break".to_owned()),
        text => Ok(text.into()),
    }
}

fn score(field: &Cursor<'_>) -> Option<i32> {
    let score = integer(field, SCORE)?;
    match i32::try_from(score) {
        Ok(0) => field.accepted(Err("is 0, which changes nothing".to_owned()), SCORE),
        Ok(score) => Some(score),
        Err(_) => field.accepted(Err(format!("{score} is out of range")), "-2147483648 to 2147483647"),
    }
}

fn pods(field: &Cursor<'_>) -> Option<PodSelector> {
    let right = "a list with at least one namespace such as [shop]";
    let fields = field.clone().section(&PODS)?;
    let namespaces = fields.or("namespaces", vec![], |list| {
        not_empty(list, right)?.list(right, |name| name.parsed(names::NAMESPACE, names::namespace))
    });
    let labels = fields.or("labels", vec![], requirements);
    Some(PodSelector { namespaces: namespaces?, labels: labels? })
}

/// A list with at least one item.
fn not_empty<'c>(list: &'c Cursor<'_>, right: &str) -> Option<&'c Cursor<'c>> {
    if matches!(list.value(), Value::List(items) if items.is_empty()) {
        list.mistake("is an empty list", right);
        return None;
    }
    Some(list)
}

fn requirements(field: &Cursor<'_>) -> Option<Vec<LabelRequirement>> {
    not_empty(field, REQUIREMENTS)?.list(REQUIREMENTS, requirement)
}

fn requirement(item: Cursor<'_>) -> Option<LabelRequirement> {
    let fields = item.section(&REQUIREMENT)?;
    let key = fields.required("key", LABEL_KEY).and_then(|key| key.parsed(LABEL_KEY, names::label_key));
    let given: Vec<_> = CONDITIONS.into_iter().filter(|condition| fields.has(condition)).collect();
    let condition = match given[..] {
        [one] => fields.optional(one).and_then(|field| condition(one, &field)),
        [] => {
            fields.mistake("has no condition", &format!("one of {}", CONDITIONS.join(", ")));
            None
        }
        _ => {
            fields.mistake(&format!("has {}", given.join(" and ")), "one condition in each requirement");
            None
        }
    };
    Some(LabelRequirement { key: key?, condition: condition? })
}

fn condition(name: &str, field: &Cursor<'_>) -> Option<LabelCondition> {
    let value = |field: Cursor<'_>| field.parsed(LABEL_VALUE, names::label_value);
    let values = || not_empty(field, VALUES)?.list(VALUES, value);
    let number = || integer(field, "a whole number");
    Some(match name {
        "equals" => LabelCondition::In(vec![value(field.clone())?]),
        "in" => LabelCondition::In(values()?),
        "notIn" => LabelCondition::NotIn(values()?),
        "greaterThan" => LabelCondition::GreaterThan(number()?),
        "lessThan" => LabelCondition::LessThan(number()?),
        _ if field.boolean()? => LabelCondition::Exists,
        _ => LabelCondition::Absent,
    })
}

/// A whole number of 64 bits.
fn integer(field: &Cursor<'_>, right: &str) -> Option<i64> {
    match field.value() {
        Value::Integer(number) => {
            field.accepted(i64::try_from(*number).map_err(|_| format!("{number} is out of range")), right)
        }
        Value::Fraction(number) => field.accepted(Err(format!("{number} is not a whole number")), right),
        _ => {
            field.wrong_kind(right);
            None
        }
    }
}

#[cfg(test)]
mod tests;
