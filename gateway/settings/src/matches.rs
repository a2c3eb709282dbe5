//! `match`: the pods for which a backend is called.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use extender_config::names::{self, EXTENDED_RESOURCE, LABEL_KEY, LABEL_VALUE};
use extender_config::{Cursor, Remedy, Section, echo};
use extender_gateway_core::interest::{Interest, Namespaces, Operator, Requirement};

use super::setting::{Setting, Yaml, fields, list, scalar, word};
use super::values::namespaces;

/// The pods for which a backend is called, and which of their resources only it counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Match {
    /// The pods. Default: all.
    pub interest: Interest,
    /// Which of the resources in `interest` kube-scheduler does not count itself.
    pub ignored_by_scheduler: Vec<String>,
}

fields! {
    Match: "a mapping such as {podSelector: {matchLabels: {tier: batch}}}";
    /// A container or init container of the pod must have one of these resources in its requests or limits, an amount of 0 included.
    "managedResources": Vec<ManagedResource>, absent("not required");
    /// The pod must be in one of these.
    "namespaces" as (SOME_NAMESPACES): Vec<String>, absent("all");
    /// The pod must not be in one of these. Not together with `namespaces`.
    "excludedNamespaces" as (SOME_NAMESPACES): Vec<String>, absent("none");
    /// Conditions on the pod's labels.
    "podSelector": Selector, absent("every pod");
}

/// An item of `managedResources`.
enum ManagedResource {}

fields! {
    ManagedResource: "a mapping such as {name: example.com/gpu}";
    /// As in kube-scheduler, only extended resources such as `example.com/gpu`. Several backends may name the same one.
    "name" as (EXTENDED_RESOURCE): String, required;
    /// `true`: kube-scheduler does not count the resource, the policy does. For pods of exempt namespaces nothing counts it.
    /// kube-scheduler needs an entry for this: [scheduler-config](scheduler-config.md) prints it.
    "ignoredByScheduler": bool, default(false);
}

/// The value of `podSelector`.
enum Selector {}

fields! {
    Selector: "a mapping with matchLabels or matchExpressions";
    /// The pod must have all of these labels with these values.
    "matchLabels" as (LABELS): String, absent("none");
    /// All of these conditions must hold.
    "matchExpressions": Vec<Expression>, absent("none");
}

/// An item of `matchExpressions`.
enum Expression {}

fields! {
    Expression: "a mapping such as {key: tier, operator: In, values: [batch]}";
    /// The key of the label.
    "key" as (TEXT): String, required;
    /// `In`: the label exists with one of the values. `NotIn`: it does not exist, or has none of them. `Exists`, `DoesNotExist`.
    "operator" as (OPERATOR): String, required;
    /// With `In` and `NotIn`, at least one.
    "values" as (TEXTS): Vec<String>, absent("none");
}

const RESOURCES: &str = "a list such as [{name: example.com/gpu}]";
const NAMESPACES: &str = "a list of namespaces such as [shop, search]";
const LABELS: &str = "a mapping of labels such as {tier: batch}";
const EXPRESSIONS: &str = "a list such as [{key: tier, operator: In, values: [batch, web]}]";
pub(super) const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];
const OPERATOR: &str = "In, NotIn, Exists or DoesNotExist";
const VALUES: &str = "a list of values such as [batch]";

/// In words: `all`, or `namespaces shop, search; tier in (batch)`. Conditions on labels are written as in `kubectl -l`.
impl Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Interest { resources, namespaces, selector } = &self.interest;
        let joined =
            |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let mut parts = Vec::new();
        match namespaces {
            Namespaces::All => {}
            Namespaces::Only(names) => parts.push(format!("namespaces {}", joined(names))),
            Namespaces::Except(names) => parts.push(format!("not namespaces {}", joined(names))),
        }
        parts.extend(selector.iter().map(|Requirement { key, operator }| match operator {
            Operator::In(values) => format!("{key} in ({})", joined(values)),
            Operator::NotIn(values) => format!("{key} notin ({})", joined(values)),
            Operator::Exists => key.clone(),
            Operator::DoesNotExist => format!("!{key}"),
        }));
        if !resources.is_empty() {
            parts.push(format!("requests {}", resources.join(" or ")));
        }
        f.write_str(if parts.is_empty() { "all" } else { "" })?;
        f.write_str(&parts.join("; "))
    }
}

impl Setting for Match {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        let fields = field.clone().section(&Self::FIELDS)?;
        let resources = fields.or("managedResources", Vec::new(), managed_resources);
        let namespaces = namespaces_of(&fields);
        let selector = fields.or("podSelector", Vec::new(), selector);
        let resources = resources?;
        let ignored = resources.iter().filter(|(_, is_ignored)| *is_ignored);
        let ignored_by_scheduler = ignored.map(|(name, _)| name.clone()).collect();
        let resources = resources.into_iter().map(|(name, _)| name).collect();
        let interest = Interest { resources, namespaces: namespaces?, selector: selector? };
        Some(Self { interest, ignored_by_scheduler })
    }

    fn write(&self, out: &mut Yaml) {
        let Self { interest: Interest { resources, namespaces, selector }, ignored_by_scheduler } = self;
        out.mapping(|out| {
            if !resources.is_empty() {
                let item = |name| {
                    let ignored = ignored_by_scheduler.contains(name);
                    format!("{{name: {}, ignoredByScheduler: {ignored}}}", scalar(name))
                };
                out.field("managedResources", |out| out.list(resources.iter().map(item)));
            }
            match namespaces {
                Namespaces::All => {}
                Namespaces::Only(names) => out.field("namespaces", |out| out.inline(&list(names))),
                Namespaces::Except(names) => out.field("excludedNamespaces", |out| out.inline(&list(names))),
            }
            if !selector.is_empty() {
                out.field("podSelector", |out| {
                    // `matchLabels` is written as equivalent expressions.
                    let expressions = |out: &mut Yaml| out.list(selector.iter().map(expression));
                    out.mapping(|out| out.field("matchExpressions", expressions));
                });
            }
        });
    }
}

fn expression(Requirement { key, operator }: &Requirement) -> String {
    let (name, values) = match operator {
        Operator::In(values) => ("In", Some(values)),
        Operator::NotIn(values) => ("NotIn", Some(values)),
        Operator::Exists => ("Exists", None),
        Operator::DoesNotExist => ("DoesNotExist", None),
    };
    let values = values.map_or_else(String::new, |values| format!(", values: {}", list(values)));
    format!("{{key: {}, operator: {name}{values}}}", scalar(key))
}

/// Resources, each once, and whether kube-scheduler ignores them.
fn managed_resources(field: &Cursor<'_>) -> Option<Vec<(String, bool)>> {
    let mut names = BTreeSet::new();
    field.list(RESOURCES, |item| managed_resource(item, &mut names))
}

fn managed_resource(item: Cursor<'_>, earlier: &mut BTreeSet<String>) -> Option<(String, bool)> {
    let fields = item.section(&ManagedResource::FIELDS)?;
    let name = fields.required("name", EXTENDED_RESOURCE).and_then(|field| {
        let name = field.parsed(EXTENDED_RESOURCE, names::extended_resource)?;
        let new = earlier.insert(name.clone());
        let fresh = if new { Ok(name) } else { Err(format!("{} is listed twice", echo(&name))) };
        field.accepted(fresh, "each resource once")
    });
    let is_ignored = fields.or("ignoredByScheduler", false, Setting::read);
    Some((name?, is_ignored?))
}

fn namespaces_of(fields: &Section<'_>) -> Option<Namespaces> {
    let set = |name| fields.or(name, None, |field| namespaces(field, NAMESPACES).map(Some));
    match (set("namespaces")?, set("excludedNamespaces")?) {
        (None, None) => Some(Namespaces::All),
        (Some(only), None) if only.is_empty() => {
            let remedy = Remedy::Do("list at least one namespace, or remove it to select all");
            fields.mistake_of("namespaces", "is an empty list", remedy);
            None
        }
        (Some(only), None) => Some(Namespaces::Only(only)),
        (None, Some(except)) => Some(Namespaces::Except(except)),
        (Some(_), Some(_)) => {
            fields.mistake_of("excludedNamespaces", "cannot be combined with namespaces", "one of the two");
            None
        }
    }
}

/// Mirrors `metav1.LabelSelectorAsSelector`.
fn selector(field: &Cursor<'_>) -> Option<Vec<Requirement>> {
    let fields = field.clone().section(&Selector::FIELDS)?;
    let labels = fields.or("matchLabels", Vec::new(), match_labels);
    let expressions =
        fields.or("matchExpressions", Vec::new(), |field| field.list(EXPRESSIONS, match_expression));
    Some([labels?, expressions?].concat())
}

fn match_labels(field: &Cursor<'_>) -> Option<Vec<Requirement>> {
    let label = |(key, value): (&str, Cursor<'_>)| {
        let key = value.accepted(names::label_key(key), LABEL_KEY);
        let value = value.parsed(LABEL_VALUE, names::label_value);
        Some(Requirement { key: key?, operator: Operator::In(BTreeSet::from([value?])) })
    };
    let read: Vec<_> = field.pairs(LABELS)?.into_iter().map(label).collect();
    read.into_iter().collect()
}

fn match_expression(item: Cursor<'_>) -> Option<Requirement> {
    let fields = item.section(&Expression::FIELDS)?;
    let key = fields.required("key", LABEL_KEY).and_then(|key| key.parsed(LABEL_KEY, names::label_key));
    let name = fields.required("operator", OPERATOR).and_then(|field| word(&field, &OPERATORS));
    let values = fields.or("values", BTreeSet::new(), |field| {
        field.list(VALUES, |value| value.parsed(LABEL_VALUE, names::label_value)).map(BTreeSet::from_iter)
    });
    let operator = operator(&fields, name?, values?);
    Some(Requirement { key: key?, operator: operator? })
}

/// The operator with its values, which some require and others forbid.
fn operator(fields: &Section<'_>, name: &str, values: BTreeSet<String>) -> Option<Operator> {
    match (name, values.is_empty()) {
        ("In", false) => return Some(Operator::In(values)),
        ("NotIn", false) => return Some(Operator::NotIn(values)),
        ("Exists", true) => return Some(Operator::Exists),
        ("DoesNotExist", true) => return Some(Operator::DoesNotExist),
        (_, true) => fields.mistake_of("values", "must contain at least one value", VALUES),
        (name, false) => {
            let wrong = format!("cannot be combined with operator: {name}");
            fields.mistake_of("values", wrong, Remedy::Do("remove it"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_in_words() {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
        let with = |namespaces, operators: Vec<Operator>, resources: &[&str]| {
            let requirement = |operator| Requirement { key: "tier".to_owned(), operator };
            let selector = operators.into_iter().map(requirement).collect();
            let resources = resources.iter().map(|&name| name.to_owned()).collect();
            Match { interest: Interest { resources, namespaces, selector }, ..Match::default() }.to_string()
        };
        assert_eq!(with(Namespaces::All, vec![], &[]), "all");
        let only = Namespaces::Only(set(&["shop", "search"]));
        assert_eq!(
            with(only, vec![Operator::In(set(&["batch", "web"]))], &[]),
            "namespaces search, shop; tier in (batch, web)"
        );
        let operators = vec![Operator::NotIn(set(&["batch"])), Operator::Exists, Operator::DoesNotExist];
        assert_eq!(
            with(Namespaces::Except(set(&["shop"])), operators, &["a/gpu", "b/gpu"]),
            "not namespaces shop; tier notin (batch); tier; !tier; requests a/gpu or b/gpu"
        );
    }
}
