//! Which pods own a reservation: rules of its spec.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use extender_policy_sdk::{OwnerReference, Pod, Resources};
use serde::Deserialize;

use super::{affinity::Affinity, amounts};

/// The most rules of a reservation, requirements of a rule, and namespaces of a rule or values of a requirement.
const MAX_RULES: usize = 16;
pub(super) const MAX_REQUIREMENTS: usize = 32;
const MAX_VALUES: usize = 64;

/// A pod as reservations see it.
#[derive(Clone, Debug, Default)]
pub(super) struct Asking<'p> {
    /// Empty if the pod has none yet.
    pub(super) uid: &'p str,
    pub(super) namespace: &'p str,
    pub(super) controller: Option<&'p OwnerReference>,
    pub(super) labels: BTreeMap<&'p str, &'p str>,
    /// Which reservations it may have.
    pub(super) affinity: Option<Arc<Affinity>>,
    /// Without pods.
    pub(super) requests: Resources,
}

impl<'p> Asking<'p> {
    /// What the policy declares to read.
    pub(super) fn new(pod: &Pod<'p>) -> Self {
        Self {
            uid: pod.uid().unwrap_or_default(),
            namespace: pod.namespace(),
            controller: pod.owner(),
            labels: pod.labels().collect(),
            affinity: Affinity::of(pod),
            requests: amounts::counted(pod.requests()),
        }
    }
}

/// The same as [`Asking`], for longer than the call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OwnedAsking {
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) controller: Option<OwnerReference>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) affinity: Option<Arc<Affinity>>,
    pub(super) requests: Resources,
}

impl OwnedAsking {
    pub(super) fn new(asking: &Asking<'_>) -> Self {
        let Asking { uid, namespace, controller, labels, affinity, requests } = asking;
        Self {
            uid: (*uid).to_owned(),
            namespace: (*namespace).to_owned(),
            controller: controller.cloned(),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            affinity: affinity.clone(),
            requests: requests.clone(),
        }
    }

    pub(super) fn asking(&self) -> Asking<'_> {
        let Self { uid, namespace, controller, labels, affinity, requests } = self;
        let labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let (affinity, requests) = (affinity.clone(), requests.clone());
        Asking { uid, namespace, controller: controller.as_ref(), labels, affinity, requests }
    }
}

/// Rules that can be matched: a pod is an owner if one of them holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners {
    rules: Vec<Rule>,
}

/// A rule as the user wrote it: everything that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Rule {
    controller: Option<OwnerController>,
    label_selector: Option<LabelSelector>,
    namespaces: BTreeSet<String>,
}

/// The object that controls a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", rename = "Controller")]
struct OwnerController {
    /// Any if it is not given.
    api_version: Option<String>,
    kind: String,
    name: String,
    namespace: String,
}

/// Mirrors `metav1.LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LabelSelector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Requirement>,
}

/// Mirrors `metav1.LabelSelectorRequirement`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Requirement {
    pub(super) key: String,
    operator: String,
    values: BTreeSet<String>,
}

impl Owners {
    /// # Errors
    /// A rule says nothing, or something that cannot be matched; the text names it.
    pub(super) fn new(rules: Vec<Rule>) -> Result<Self, String> {
        if rules.is_empty() || rules.len() > MAX_RULES {
            return Err(format!("spec.owners has {} rules; expected 1 to {MAX_RULES}", rules.len()));
        }
        for (at, rule) in rules.iter().enumerate() {
            rule.check().map_err(|wrong| format!("spec.owners[{at}]{wrong}"))?;
        }
        Ok(Self { rules })
    }

    pub(super) fn include(&self, pod: &Asking<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(pod))
    }

    /// How much the widest of the rules asks for. A controller is one object, and asks for more than any labels.
    pub(super) fn specificity(&self) -> usize {
        self.rules.iter().map(Rule::specificity).min().unwrap_or(0) * MAX_RULES + MAX_RULES - self.rules.len()
    }
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        let Self { controller, label_selector, namespaces } = self;
        if namespaces.len() > MAX_VALUES {
            return Err(format!(
                ".namespaces has {} entries; expected at most {MAX_VALUES}",
                namespaces.len()
            ));
        }
        if controller.is_none() && label_selector.is_none() {
            return Err(" has neither controller nor labelSelector".to_owned());
        }
        match controller {
            Some(OwnerController { kind, name, namespace, .. })
                if [kind, name, namespace].into_iter().any(String::is_empty) =>
            {
                return Err(".controller needs kind, name and namespace".to_owned());
            }
            // Otherwise every tenant could label pods so that they own it.
            None if namespaces.is_empty() => {
                return Err(" has a labelSelector without namespaces".to_owned());
            }
            _ => {}
        }
        label_selector.as_ref().map_or(Ok(()), LabelSelector::check)
    }

    fn specificity(&self) -> usize {
        let controller = if self.controller.is_some() { MAX_REQUIREMENTS + 1 } else { 0 };
        controller + self.label_selector.as_ref().map_or(0, LabelSelector::len)
    }

    fn matches(&self, pod: &Asking<'_>) -> bool {
        let Self { controller, label_selector, namespaces } = self;
        (namespaces.is_empty() || namespaces.contains(pod.namespace))
            && controller.as_ref().is_none_or(|controller| controller.controls(pod))
            && label_selector.as_ref().is_none_or(|selector| selector.matches(pod))
    }
}

impl OwnerController {
    fn controls(&self, pod: &Asking<'_>) -> bool {
        let Self { api_version, kind, name, namespace } = self;
        pod.controller.is_some_and(|controller| {
            api_version.as_ref().is_none_or(|given| *given == controller.api_version)
                && (kind, name) == (&controller.kind, &controller.name)
                && namespace == pod.namespace
        })
    }
}

impl LabelSelector {
    fn len(&self) -> usize {
        self.match_labels.len() + self.match_expressions.len()
    }

    fn check(&self) -> Result<(), String> {
        let count = self.len();
        if count > MAX_REQUIREMENTS {
            return Err(format!(
                ".labelSelector has {count} requirements; expected at most {MAX_REQUIREMENTS}"
            ));
        }
        for (at, requirement) in self.match_expressions.iter().enumerate() {
            requirement.check().map_err(|wrong| format!(".labelSelector.matchExpressions[{at}] {wrong}"))?;
        }
        Ok(())
    }

    fn matches(&self, pod: &Asking<'_>) -> bool {
        let label = |key: &String| pod.labels.get(key.as_str()).copied();
        let has = |(key, value): (&String, &String)| label(key) == Some(value);
        self.match_labels.iter().all(has)
            && self.match_expressions.iter().all(|requirement| requirement.holds(label(&requirement.key)))
    }
}

impl Requirement {
    /// # Errors
    /// The operator is unknown, or does not go with the values.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let values = &self.values;
        Err(match self.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => "has no values",
            "In" | "NotIn" if values.len() > MAX_VALUES => "has too many values",
            "In" | "NotIn" => return Ok(()),
            "Exists" | "DoesNotExist" if values.is_empty() => return Ok(()),
            "Exists" | "DoesNotExist" => "has values, which its operator does not take",
            _ => "has an unknown operator; expected In, NotIn, Exists or DoesNotExist",
        })
    }

    /// Whether it holds for the value of its key.
    pub(super) fn holds(&self, value: Option<&str>) -> bool {
        match self.operator.as_str() {
            "In" => value.is_some_and(|value| self.values.contains(value)),
            "NotIn" => value.is_none_or(|value| !self.values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            // Such rules are rejected.
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn owners(rules: Value) -> Result<Owners, String> {
        Owners::new(serde_json::from_value(rules).unwrap())
    }

    fn pod<'p>(
        namespace: &'p str,
        labels: &[(&'p str, &'p str)],
        controller: &'p OwnerReference,
    ) -> Asking<'p> {
        let labels = labels.iter().copied().collect();
        Asking { uid: "u", namespace, controller: Some(controller), labels, ..Asking::default() }
    }

    #[test]
    fn a_pod_is_an_owner_if_all_of_one_rule_holds() {
        let replica_set = OwnerReference {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "web".into(),
            uid: "r".into(),
        };
        let by_controller = json!({"kind": "ReplicaSet", "name": "web", "namespace": "shop"});
        let by_version =
            json!({"apiVersion": "apps/v2", "kind": "ReplicaSet", "name": "web", "namespace": "shop"});
        let by_label = json!({"matchLabels": {"app": "web"}});
        let expressions = |expressions: Value| json!([{"namespaces": ["shop"], "labelSelector": {"matchExpressions": expressions}}]);
        for (rules, in_shop, elsewhere) in [
            (json!([{"controller": by_controller}]), true, false),
            (json!([{"controller": by_version}]), false, false),
            (
                json!([{"controller": by_controller, "labelSelector": {"matchLabels": {"app": "db"}}}]),
                false,
                false,
            ),
            (json!([{"labelSelector": by_label, "namespaces": ["shop"]}]), true, false),
            (json!([{"labelSelector": by_label, "namespaces": ["shop", "mall"]}]), true, true),
            (json!([{"labelSelector": {}, "namespaces": ["mall"]}]), false, true),
            (json!([{"labelSelector": {}, "namespaces": ["x"]}, {"controller": by_controller}]), true, false),
            (expressions(json!([{"key": "app", "operator": "In", "values": ["web", "db"]}])), true, false),
            (expressions(json!([{"key": "app", "operator": "NotIn", "values": ["web"]}])), false, false),
            (expressions(json!([{"key": "tier", "operator": "NotIn", "values": ["web"]}])), true, false),
            (expressions(json!([{"key": "app", "operator": "Exists"}])), true, false),
            (expressions(json!([{"key": "app", "operator": "DoesNotExist"}])), false, false),
        ] {
            let owners = owners(rules.clone()).unwrap();
            let matches = ["shop", "mall"]
                .map(|namespace| owners.include(&pod(namespace, &[("app", "web")], &replica_set)));
            assert_eq!(matches, [in_shop, elsewhere], "{rules}");
        }
    }

    #[test]
    fn rules_that_cannot_be_matched_are_rejected() {
        let many: Vec<_> = (0..33).map(|n| json!({"key": n.to_string(), "operator": "Exists"})).collect();
        let names: Vec<_> = (0..65).map(|n| n.to_string()).collect();
        let requirement = |requirement: Value| json!([{"namespaces": ["shop"], "labelSelector": {"matchExpressions": [requirement]}}]);
        for (rules, expected) in [
            (json!([]), "spec.owners has 0 rules; expected 1 to 16"),
            (json!(vec![json!({}); 17]), "spec.owners has 17 rules"),
            (json!([{"namespaces": ["shop"]}]), "spec.owners[0] has neither controller nor labelSelector"),
            (json!([{"labelSelector": {}}]), "spec.owners[0] has a labelSelector without namespaces"),
            (
                json!([{"controller": {"kind": "Job", "name": "a"}}]),
                "spec.owners[0].controller needs kind, name",
            ),
            (json!([{"labelSelector": {}, "namespaces": names}]), "spec.owners[0].namespaces has 65 entries"),
            (
                json!([{"labelSelector": {"matchExpressions": many}, "namespaces": ["shop"]}]),
                "spec.owners[0].labelSelector has 33 requirements",
            ),
            (requirement(json!({"key": "a", "operator": "In"})), "matchExpressions[0] has no values"),
            (requirement(json!({"key": "a", "operator": "In", "values": names})), "has too many values"),
            (requirement(json!({"key": "a", "operator": "Exists", "values": ["b"]})), "has values, which"),
            (requirement(json!({"key": "a", "operator": "Gt", "values": ["1"]})), "has an unknown operator"),
        ] {
            let error = owners(rules.clone()).unwrap_err();
            assert!(error.contains(expected), "{rules}: {error}");
        }
    }
}
