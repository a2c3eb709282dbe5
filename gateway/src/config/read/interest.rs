//! The fields of `match`: the pods that a backend is asked about.

use std::collections::BTreeSet;

use extender_gateway_core::interest::{Interest, Namespaces, Operator, Requirement};

use super::super::Words;
use super::super::cursor::{Cursor, Fields, Section};
use super::super::kubernetes::{self, EXTENDED_RESOURCE, LABEL_KEY, LABEL_VALUE};
use super::super::mistake::echo;
use super::value::{choice, field_or, list, namespaces as set_of_namespaces};

pub(super) const MATCH: Fields = Fields {
    right: "a mapping such as {podSelector: {matchLabels: {tier: batch}}}",
    known: &["managedResources", "namespaces", "excludedNamespaces", "podSelector"],
    unsupported: &[],
};
pub(super) const RESOURCE: Fields = Fields {
    right: "a mapping such as {name: example.com/gpu}",
    known: &["name", "ignoredByScheduler"],
    unsupported: &[],
};
pub(super) const SELECTOR: Fields = Fields {
    right: "a mapping with matchLabels or matchExpressions",
    known: &["matchLabels", "matchExpressions"],
    unsupported: &[],
};
pub(super) const EXPRESSION: Fields = Fields {
    right: "a mapping such as {key: tier, operator: In, values: [batch]}",
    known: &["key", "operator", "values"],
    unsupported: &[],
};

const RESOURCES: &str = "a list such as [{name: example.com/gpu}]";
const NAMESPACES: &str = "a list of namespaces such as [shop, search]";
const LABELS: &str = "a mapping of labels such as {tier: batch}";
const EXPRESSIONS: &str = "a list such as [{key: tier, operator: In, values: [batch, web]}]";
const OPERATOR: &str = "In, NotIn, Exists or DoesNotExist";
const VALUES: &str = "a list of values such as [batch]";

/// The words of `operator`.
#[derive(Clone, Copy, PartialEq)]
enum Word {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Words for Word {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("In", Self::In),
        ("NotIn", Self::NotIn),
        ("Exists", Self::Exists),
        ("DoesNotExist", Self::DoesNotExist),
    ];
}

/// The interest of a backend, and which of its resources kube-scheduler does not count itself.
pub(super) fn interest(field: Cursor<'_>) -> Option<(Interest, Vec<String>)> {
    let fields = field.section(&MATCH)?;
    let resources = field_or(&fields, "managedResources", Vec::new(), managed_resources);
    let namespaces = namespaces(&fields);
    let selector = field_or(&fields, "podSelector", Vec::new(), |field| selector(field.clone()));
    let resources = resources?;
    let ignored = resources.iter().filter(|(_, ignored)| *ignored).map(|(name, _)| name.clone()).collect();
    let resources = resources.into_iter().map(|(name, _)| name).collect();
    Some((Interest { resources, namespaces: namespaces?, selector: selector? }, ignored))
}

/// Names of resources, each once, and whether kube-scheduler ignores them.
fn managed_resources(field: &Cursor<'_>) -> Option<Vec<(String, bool)>> {
    let mut names = BTreeSet::new();
    let resource = |item| managed_resource(item, &mut names);
    let resources: Vec<_> = field.items(RESOURCES)?.into_iter().map(resource).collect();
    resources.into_iter().collect()
}

fn managed_resource(item: Cursor<'_>, earlier: &mut BTreeSet<String>) -> Option<(String, bool)> {
    let fields = item.section(&RESOURCE)?;
    let name = fields.required("name", EXTENDED_RESOURCE).and_then(|field| {
        let name = field.parsed(EXTENDED_RESOURCE, kubernetes::extended_resource)?;
        let new = earlier.insert(name.clone());
        let fresh = if new { Ok(name) } else { Err(format!("{} is there already", echo(&name))) };
        field.accepted(fresh, "each resource once")
    });
    let ignored = fields.optional("ignoredByScheduler").map_or(Some(false), |field| field.boolean());
    name.zip(ignored)
}

fn namespaces(fields: &Section<'_>) -> Option<Namespaces> {
    let set = |name| field_or(fields, name, None, |field| set_of_namespaces(field, NAMESPACES).map(Some));
    match (set("namespaces")?, set("excludedNamespaces")?) {
        (None, None) => Some(Namespaces::All),
        (Some(only), None) if only.is_empty() => {
            let right = "at least one namespace, or leave it out for all of them";
            fields.mistake_of("namespaces", "is an empty list", right);
            None
        }
        (Some(only), None) => Some(Namespaces::Only(only)),
        (None, Some(except)) => Some(Namespaces::Except(except)),
        (Some(_), Some(_)) => {
            fields.mistake_of("excludedNamespaces", "does not go with namespaces", "one of the two");
            None
        }
    }
}

/// Mirrors `metav1.LabelSelectorAsSelector`.
fn selector(field: Cursor<'_>) -> Option<Vec<Requirement>> {
    let fields = field.section(&SELECTOR)?;
    let labels = field_or(&fields, "matchLabels", Vec::new(), match_labels);
    let expressions = field_or(&fields, "matchExpressions", Vec::new(), |field| {
        let read: Vec<_> = field.items(EXPRESSIONS)?.into_iter().map(match_expression).collect();
        read.into_iter().collect()
    });
    Some([labels?, expressions?].concat())
}

fn match_labels(field: &Cursor<'_>) -> Option<Vec<Requirement>> {
    let label = |(key, value): (&str, Cursor<'_>)| {
        let key = value.accepted(kubernetes::label_key(key), LABEL_KEY);
        let value = value.parsed(LABEL_VALUE, kubernetes::label_value);
        Some(Requirement { key: key?, operator: Operator::In(BTreeSet::from([value?])) })
    };
    let read: Vec<_> = field.pairs(LABELS)?.into_iter().map(label).collect();
    read.into_iter().collect()
}

fn match_expression(item: Cursor<'_>) -> Option<Requirement> {
    let fields = item.section(&EXPRESSION)?;
    let key = fields.required("key", LABEL_KEY).and_then(|key| key.parsed(LABEL_KEY, kubernetes::label_key));
    let word = fields.required("operator", OPERATOR).and_then(|field| choice(&field));
    let values = field_or(&fields, "values", BTreeSet::new(), |field| {
        list(field, VALUES, (LABEL_VALUE, kubernetes::label_value)).map(|values| values.into_iter().collect())
    });
    let operator = operator(&fields, word?, values?);
    Some(Requirement { key: key?, operator: operator? })
}

/// The operator with its values, which some need and the others cannot have.
fn operator(fields: &Section<'_>, word: Word, values: BTreeSet<String>) -> Option<Operator> {
    match (word, values.is_empty()) {
        (Word::In, false) => return Some(Operator::In(values)),
        (Word::NotIn, false) => return Some(Operator::NotIn(values)),
        (Word::Exists, true) => return Some(Operator::Exists),
        (Word::DoesNotExist, true) => return Some(Operator::DoesNotExist),
        (Word::In | Word::NotIn, true) => fields.mistake_of("values", "must name at least one value", VALUES),
        (Word::Exists | Word::DoesNotExist, false) => {
            fields.mistake_of(
                "values",
                format!("does not go with operator: {}", word.word()),
                "leave it out",
            );
        }
    }
    None
}
