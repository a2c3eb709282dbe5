//! The fields of `match`: the pods that a backend is asked about.

use std::collections::BTreeSet;

use extender_gateway_core::interest::{Interest, Namespaces, Operator, Requirement};

use super::super::Words;
use super::super::cursor::{Cursor, Fields, Section};
use super::super::mistake::echo;
use super::value::{choice, field_or, texts};

const MATCH: Fields = Fields {
    right: "a mapping such as {podSelector: {matchLabels: {tier: batch}}}",
    known: &["managedResources", "namespaces", "excludedNamespaces", "podSelector"],
    unsupported: &[],
};
const RESOURCE: Fields = Fields {
    right: "a mapping such as {name: example.com/gpu}",
    known: &["name", "ignoredByScheduler"],
    unsupported: &[],
};
const SELECTOR: Fields = Fields {
    right: "a mapping with matchLabels or matchExpressions",
    known: &["matchLabels", "matchExpressions"],
    unsupported: &[],
};
const EXPRESSION: Fields = Fields {
    right: "a mapping such as {key: tier, operator: In, values: [batch]}",
    known: &["key", "operator", "values"],
    unsupported: &[],
};

const RESOURCES: &str = "a list such as [{name: example.com/gpu}]";
const RESOURCE_NAME: &str = "an extended resource such as example.com/gpu";
const NAMESPACES: &str = "a list of namespaces such as [shop, search]";

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

/// Names of resources, and whether kube-scheduler ignores them.
fn managed_resources(field: &Cursor<'_>) -> Option<Vec<(String, bool)>> {
    let resources: Vec<_> = field.items(RESOURCES)?.into_iter().map(managed_resource).collect();
    resources.into_iter().collect()
}

fn managed_resource(item: Cursor<'_>) -> Option<(String, bool)> {
    let fields = item.section(&RESOURCE)?;
    let name = fields.required("name", RESOURCE_NAME)?.parsed(RESOURCE_NAME, extended_resource);
    let ignored = field_or(&fields, "ignoredByScheduler", false, |field| field.boolean());
    name.zip(ignored)
}

/// Mirrors `validateExtendedResourceName` of kube-scheduler: no native resource, none of kubernetes.io.
fn extended_resource(name: &str) -> Result<String, String> {
    match name.split_once('/') {
        None => Err(format!("{} is a resource of Kubernetes itself", echo(name))),
        Some((domain, _)) if domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") => {
            Err(format!("{} is a resource of Kubernetes itself", echo(name)))
        }
        Some((domain, rest)) if domain.is_empty() || rest.is_empty() || rest.contains('/') => {
            Err(format!("{} is not a resource", echo(name)))
        }
        Some(_) => Ok(name.to_owned()),
    }
}

fn namespaces(fields: &Section<'_>) -> Option<Namespaces> {
    let set = |name| field_or(fields, name, None, |field| set(field, NAMESPACES).map(Some));
    match (set("namespaces")?, set("excludedNamespaces")?) {
        (None, None) => Some(Namespaces::All),
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
        let read: Vec<_> = field.items("a list of expressions")?.into_iter().map(match_expression).collect();
        read.into_iter().collect()
    });
    let mut requirements: Vec<Requirement> = labels?;
    requirements.extend::<Vec<_>>(expressions?);
    Some(requirements)
}

fn match_labels(field: &Cursor<'_>) -> Option<Vec<Requirement>> {
    let labels = field.pairs("a mapping of labels such as {tier: batch}")?;
    let label = |(key, value): (&str, Cursor<'_>)| {
        let value = value.parsed("a label's value in quotes", |text| Ok(text.to_owned()))?;
        Some(Requirement { key: key.to_owned(), operator: Operator::In(BTreeSet::from([value])) })
    };
    let read: Vec<_> = labels.into_iter().map(label).collect();
    read.into_iter().collect()
}

fn match_expression(item: Cursor<'_>) -> Option<Requirement> {
    let fields = item.section(&EXPRESSION)?;
    let key = fields.required("key", "a label")?.parsed("a label", |text| Ok(text.to_owned()));
    let operator: Option<Word> = choice(&fields.required("operator", "In, NotIn, Exists or DoesNotExist")?);
    let values = field_or(&fields, "values", BTreeSet::new(), |field| set(field, "a list of values"));
    let (operator, values) = (operator?, values?);
    let wants_values = matches!(operator, Word::In | Word::NotIn);
    if wants_values == values.is_empty() {
        let (wrong, right) = if wants_values {
            ("must name at least one value", "a list of values such as [batch]")
        } else {
            ("has no meaning with Exists and DoesNotExist", "leave it out")
        };
        fields.mistake_of("values", wrong, right);
        return None;
    }
    let operator = match operator {
        Word::In => Operator::In(values),
        Word::NotIn => Operator::NotIn(values),
        Word::Exists => Operator::Exists,
        Word::DoesNotExist => Operator::DoesNotExist,
    };
    Some(Requirement { key: key?, operator })
}

fn set(field: &Cursor<'_>, right: &str) -> Option<BTreeSet<String>> {
    texts(field, right).map(|texts| texts.into_iter().collect())
}
