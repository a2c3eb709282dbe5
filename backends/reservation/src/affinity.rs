//! What decides besides `owners` which reservations a pod can have: the pod's reservation affinity, and labels, taints and
//! `unschedulable` of the reservation.
//!
//! The affinity has the form of Koordinator's annotation `scheduling.koordinator.sh/reservation-affinity`.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use extender_policy_sdk::Pod;
use serde::Deserialize;

use super::{
    object::Reservation,
    owners::{Asking, MAX_REQUIREMENTS, Requirement},
};

/// The annotation of pods.
pub(super) const ANNOTATION: &str = "scheduling.extender-gateway.io/reservation-affinity";
/// The label of Reservations whose value is their order: of two on a node, the one with the smaller number is used first.
const ORDER: &str = "scheduling.extender-gateway.io/reservation-order";

/// The most terms and tolerations of an affinity, and taints of a reservation.
const MAX_ENTRIES: usize = 16;
/// The field of a Reservation that terms can match.
const NAME_FIELD: &str = "metadata.name";

/// A pod's affinity to reservations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Affinity {
    /// The annotation cannot be used, for this reason: no reservation matches.
    Invalid(String),
    Valid(AffinityRules),
}

/// As the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields, rename = "Rules")]
pub(super) struct AffinityRules {
    /// If it is not empty, selector and terms are ignored.
    name: String,
    reservation_selector: BTreeMap<String, String>,
    required_during_scheduling_ignored_during_execution: Option<Required>,
    tolerations: Vec<Toleration>,
}

/// One of the terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Required {
    reservation_selector_terms: Vec<Term>,
}

/// All must hold; an empty term matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Term {
    match_expressions: Vec<Requirement>,
    match_fields: Vec<Requirement>,
}

/// Mirrors `corev1.Toleration`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Toleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
}

/// Mirrors `corev1.Taint`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Taint {
    key: String,
    value: String,
    effect: String,
}

/// Whom a reservation takes among its owners, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Admission {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    /// It takes no owners for now.
    pub(super) unschedulable: bool,
}

/// The place of a reservation among those of its node: the first that fits is used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// One that is over only counts for the pods that have a part of it.
    pub(super) is_over: bool,
    order: u64,
    specificity: Reverse<usize>,
    pub(super) name: String,
}

impl Affinity {
    /// That of the pod, which the policy declares to read.
    pub(super) fn of(pod: &Pod<'_>) -> Option<Arc<Self>> {
        pod.annotation(ANNOTATION).map(|text| Arc::new(Self::new(text)))
    }

    pub(super) fn new(text: &str) -> Self {
        let rules: Result<AffinityRules, _> = serde_json::from_str(text);
        let checked = rules.map_err(|error| error.to_string()).and_then(AffinityRules::checked);
        match checked {
            Ok(rules) => Self::Valid(rules),
            Err(wrong) => Self::Invalid(format!("the annotation {ANNOTATION} is invalid: {wrong}")),
        }
    }
}

impl AffinityRules {
    fn checked(self) -> Result<Self, String> {
        let terms = self.terms();
        if terms.len() > MAX_ENTRIES || self.tolerations.len() > MAX_ENTRIES {
            return Err(format!("it has more than {MAX_ENTRIES} terms or tolerations"));
        }
        for term in terms {
            let all = term.match_expressions.iter().chain(&term.match_fields);
            if all.clone().count() > MAX_REQUIREMENTS {
                return Err(format!("a term has more than {MAX_REQUIREMENTS} requirements"));
            }
            if let Some(wrong) = all.clone().find_map(|requirement| requirement.check().err()) {
                return Err(format!("a requirement of a term {wrong}"));
            }
            if term.match_fields.iter().any(|requirement| requirement.key != NAME_FIELD) {
                return Err(format!("matchFields has a key other than {NAME_FIELD}"));
            }
        }
        Ok(self)
    }

    fn terms(&self) -> &[Term] {
        let required = self.required_during_scheduling_ignored_during_execution.as_ref();
        required.map_or(&[], |required| &required.reservation_selector_terms)
    }

    /// Whether the pod must have a reservation.
    fn require_one(&self) -> bool {
        let required = self.required_during_scheduling_ignored_during_execution.is_some();
        required || !self.name.is_empty() || !self.reservation_selector.is_empty()
    }

    fn match_reservation(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        if !self.name.is_empty() {
            return self.name == name;
        }
        let selected = self.reservation_selector.iter().all(|(key, value)| labels.get(key) == Some(value));
        let required = self.required_during_scheduling_ignored_during_execution.is_some();
        selected && (!required || self.terms().iter().any(|term| term.matches(name, labels)))
    }
}

impl Term {
    fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        let Self { match_expressions, match_fields } = self;
        let label = |requirement: &Requirement| labels.get(&requirement.key).map(String::as_str);
        !(match_expressions.is_empty() && match_fields.is_empty())
            && match_expressions.iter().all(|requirement| requirement.holds(label(requirement)))
            && match_fields.iter().all(|requirement| requirement.holds(Some(name)))
    }
}

impl Toleration {
    /// Mirrors `ToleratesTaint` of k8s.io/api/core/v1.
    fn tolerates(&self, taint: &Taint) -> bool {
        let same_value = match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            _ => false,
        };
        let same_key = self.key.is_empty() || self.key == taint.key;
        same_value && same_key && (self.effect.is_empty() || self.effect == taint.effect)
    }
}

impl Admission {
    /// # Errors
    /// There are too many taints.
    pub(super) fn check(&self) -> Result<(), String> {
        let taints = self.taints.len();
        if taints > MAX_ENTRIES {
            return Err(format!("spec.taints has {taints} entries; expected at most {MAX_ENTRIES}"));
        }
        Ok(())
    }

    /// Whether none of the taints keeps out a pod with these tolerations.
    fn is_tolerated(&self, tolerations: &[Toleration]) -> bool {
        let mut taints = self.taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
        taints.all(|taint| tolerations.iter().any(|toleration| toleration.tolerates(taint)))
    }

    fn order(&self) -> u64 {
        let order = self.labels.get(ORDER).and_then(|order| order.parse().ok());
        // As in Koordinator, 0 is none.
        order.filter(|order| *order > 0).unwrap_or(u64::MAX)
    }
}

impl Asking<'_> {
    /// Why the pod can have no reservation at all, whatever there is.
    pub(super) fn wrong_affinity(&self) -> Option<&str> {
        match self.affinity.as_deref()? {
            Affinity::Invalid(wrong) => Some(wrong),
            Affinity::Valid(_) => None,
        }
    }

    /// Whether the pod may only be where it has a reservation.
    pub(super) fn needs_reservation(&self) -> bool {
        match self.affinity.as_deref() {
            None => false,
            Some(Affinity::Invalid(_)) => true,
            Some(Affinity::Valid(rules)) => rules.require_one(),
        }
    }
}

impl Reservation {
    /// Whether the pod is an owner whom the reservation takes now, if it has room.
    pub(super) fn admits(&self, pod: &Asking<'_>) -> bool {
        let Ok(terms) = &self.terms else { return false };
        let admission = &terms.admission;
        let (matches, tolerations) = match pod.affinity.as_deref() {
            None => (true, &[][..]),
            Some(Affinity::Invalid(_)) => (false, &[][..]),
            Some(Affinity::Valid(rules)) => {
                (rules.match_reservation(&self.name, &admission.labels), &rules.tolerations[..])
            }
        };
        matches
            && !admission.unschedulable
            && terms.owners.include(pod)
            && admission.is_tolerated(tolerations)
    }

    pub(super) fn rank(&self) -> Rank {
        let terms = self.terms.as_ref().ok();
        Rank {
            is_over: self.status.phase.is_over(),
            order: terms.map_or(u64::MAX, |terms| terms.admission.order()),
            specificity: Reverse(terms.map_or(0, |terms| terms.owners.specificity())),
            name: self.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::parse;

    fn reservation(labels: &Value, spec: &Value) -> Reservation {
        let mut object = json!({
            "metadata": {"name": "one", "uid": "r", "resourceVersion": "1", "labels": labels},
            "spec": {"owners": [{"labelSelector": {}, "namespaces": ["shop"]}]},
        });
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        parse(object.to_string().as_bytes()).unwrap().unwrap()
    }

    fn pod(affinity: Option<&Value>) -> Asking<'static> {
        let affinity = affinity.map(|affinity| Arc::new(Affinity::new(&affinity.to_string())));
        Asking { namespace: "shop", affinity, ..Asking::default() }
    }

    fn terms(terms: &Value) -> Value {
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": terms}})
    }

    #[test]
    fn a_pod_requires_a_reservation_by_name_or_labels() {
        let one = reservation(&json!({"tier": "gold"}), &json!({}));
        let gold = |operator: &str| json!({"key": "tier", "operator": operator, "values": ["gold"]});
        for (affinity, matches) in [
            (json!({"name": "one"}), true),
            (json!({"name": "one", "reservationSelector": {"tier": "none"}}), true),
            (json!({"name": "two"}), false),
            (json!({"reservationSelector": {"tier": "gold"}}), true),
            (json!({"reservationSelector": {"tier": "gold", "more": ""}}), false),
            (terms(&json!([{"matchExpressions": [gold("In")]}])), true),
            (terms(&json!([{"matchExpressions": [gold("NotIn")]}])), false),
            (
                terms(&json!([{"matchExpressions": [gold("NotIn")]}, {"matchExpressions": [gold("In")]}])),
                true,
            ),
            (
                terms(&json!([{"matchFields": [{"key": NAME_FIELD, "operator": "In", "values": ["one"]}]}])),
                true,
            ),
            (
                terms(
                    &json!([{"matchFields": [{"key": NAME_FIELD, "operator": "NotIn", "values": ["one"]}]}]),
                ),
                false,
            ),
            (terms(&json!([{}])), false),
            (terms(&json!([])), false),
        ] {
            let pod = pod(Some(&affinity));
            assert!(pod.needs_reservation() && pod.wrong_affinity().is_none(), "{affinity}");
            assert_eq!(one.admits(&pod), matches, "{affinity}");
        }
        assert!(!pod(None).needs_reservation() && one.admits(&pod(None)));
        let other = Asking { namespace: "mall", ..pod(Some(&json!({"name": "one"}))) };
        assert!(!one.admits(&other), "an affinity makes no owner");
    }

    #[test]
    fn what_cannot_be_used_matches_nothing_and_is_told() {
        let requirement = |requirement: Value| terms(&json!([{"matchExpressions": [requirement]}]));
        for (affinity, expected) in [
            (json!("one"), "invalid type"),
            (json!({"nome": "one"}), "unknown field"),
            (requirement(json!({"key": "a", "operator": "Gt", "values": ["1"]})), "has an unknown operator"),
            (requirement(json!({"key": "a", "operator": "In"})), "has no values"),
            (
                terms(&json!([{"matchFields": [{"key": "b", "operator": "Exists"}]}])),
                "other than metadata.name",
            ),
            (terms(&json!(vec![json!({}); 17])), "more than 16 terms"),
        ] {
            let pod = pod(Some(&affinity));
            assert!(
                pod.wrong_affinity().is_some_and(|wrong| wrong.contains(expected)),
                "{affinity}: {pod:?}"
            );
            assert!(pod.needs_reservation() && !reservation(&json!({}), &json!({})).admits(&pod));
        }
    }

    #[test]
    fn taints_need_tolerations_and_an_unschedulable_one_takes_nobody() {
        let taint = |effect: &str| json!({"taints": [{"key": "k", "value": "v", "effect": effect}]});
        let tolerates = |toleration: Value| json!({"tolerations": [toleration]});
        for (spec, affinity, admits) in [
            (taint("NoSchedule"), None, false),
            (taint("PreferNoSchedule"), None, true),
            (taint("NoSchedule"), Some(tolerates(json!({"operator": "Exists"}))), true),
            (taint("NoSchedule"), Some(tolerates(json!({"key": "k", "value": "v"}))), true),
            (taint("NoSchedule"), Some(tolerates(json!({"key": "k", "value": "w"}))), false),
            (
                taint("NoSchedule"),
                Some(tolerates(json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}))),
                false,
            ),
            (json!({"unschedulable": true}), None, false),
        ] {
            let pod = pod(affinity.as_ref());
            assert!(!pod.needs_reservation());
            assert_eq!(reservation(&json!({}), &spec).admits(&pod), admits, "{spec} {affinity:?}");
        }
        let many = reservation(&json!({}), &json!({"taints": vec![json!({"key": "k"}); 17]}));
        assert!(many.terms.unwrap_err().contains("spec.taints has 17"));
    }

    #[test]
    fn an_order_and_then_the_narrower_owners_come_first() {
        let wide = json!({"owners": [{"labelSelector": {}, "namespaces": ["shop"]}, {"labelSelector": {}, "namespaces": ["mall"]}]});
        let exact =
            json!({"owners": [{"labelSelector": {"matchLabels": {"app": "web"}}, "namespaces": ["shop"]}]});
        let order = |order: &str| json!({ORDER: order});
        let ranks = [
            reservation(&order("1"), &wide),
            reservation(&order("2"), &exact),
            reservation(&order("0"), &exact),
            reservation(&order("x"), &wide),
        ]
        .map(|reservation| reservation.rank());
        assert!(ranks.is_sorted_by(|one, next| one < next), "{ranks:?}");
        let mut over = reservation(&order("1"), &exact);
        over.status.phase = crate::room::Phase::Failed;
        assert!(over.rank() > ranks[3]);
    }
}
