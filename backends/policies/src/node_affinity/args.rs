//! The operator's args: those of `NodeAffinityArgs` in kube-scheduler's configuration. All mistakes are reported at
//! once, one for each term.

use extender_policy_sdk::{
    Args, ArgsError, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PreferredSchedulingTerm,
};
use serde::Deserialize;

use super::{preferred::Preferred, term::ParsedTerm};

/// An affinity as Kubernetes objects write it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct AffinityArgs {
    added_affinity: AffinityFields,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct AffinityFields {
    required_during_scheduling_ignored_during_execution: Option<SelectorFields>,
    preferred_during_scheduling_ignored_during_execution: Vec<PreferredFields>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SelectorFields {
    node_selector_terms: Vec<TermFields>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PreferredFields {
    weight: i32,
    preference: TermFields,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct TermFields {
    match_expressions: Vec<RequirementFields>,
    match_fields: Vec<RequirementFields>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequirementFields {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

/// The affinity that every pod has in addition to its own.
pub(super) fn read(args: &Args) -> Result<NodeAffinity, ArgsError> {
    let AffinityArgs { added_affinity } = args.parse()?;
    let added = affinity(added_affinity);
    let mistakes: Vec<_> = required_mistakes(&added).into_iter().chain(preferred_mistakes(&added)).collect();
    if mistakes.is_empty() { Ok(added) } else { Err(ArgsError::new(mistakes.join("; "))) }
}

fn required_mistakes(added: &NodeAffinity) -> Vec<String> {
    let place = "args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let terms = added.required.iter().flat_map(|selector| &selector.terms).enumerate();
    let wrong = terms.filter_map(|(at, term)| Some((at, ParsedTerm::read(term).err()?)));
    wrong.map(|(at, wrong)| format!("{place}[{at}].{wrong}")).collect()
}

fn preferred_mistakes(added: &NodeAffinity) -> Vec<String> {
    let place = "args.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution";
    let weights = added.preferred.iter().map(|term| term.weight).enumerate();
    let weights = weights.filter(|(_, weight)| !(1..=100).contains(weight));
    let weights = weights.map(|(at, weight)| format!("{place}[{at}].weight is {weight}; expected 1 to 100"));
    let terms = Preferred::of(&added.preferred).err().unwrap_or_default();
    let terms = terms.into_iter().map(|(at, wrong)| format!("{place}[{at}].preference.{wrong}"));
    weights.chain(terms).collect()
}

fn affinity(fields: AffinityFields) -> NodeAffinity {
    let AffinityFields {
        required_during_scheduling_ignored_during_execution: required,
        preferred_during_scheduling_ignored_during_execution: preferred,
    } = fields;
    let selector = |SelectorFields { node_selector_terms }| NodeSelector {
        terms: node_selector_terms.into_iter().map(term).collect(),
    };
    let preference = |PreferredFields { weight, preference }| PreferredSchedulingTerm {
        weight,
        preference: Some(term(preference)),
    };
    NodeAffinity {
        required: required.map(selector),
        preferred: preferred.into_iter().map(preference).collect(),
    }
}

fn term(fields: TermFields) -> NodeSelectorTerm {
    let requirement =
        |RequirementFields { key, operator, values }| NodeSelectorRequirement { key, operator, values };
    let requirements = |fields: Vec<_>| fields.into_iter().map(requirement).collect();
    let TermFields { match_expressions, match_fields } = fields;
    NodeSelectorTerm {
        match_expressions: requirements(match_expressions),
        match_fields: requirements(match_fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_json(json: &str) -> Result<NodeAffinity, ArgsError> {
        read(&Args::new(json.as_bytes())?)
    }

    #[test]
    fn nothing_adds_nothing() {
        for args in ["", "{}", r#"{"addedAffinity": {}}"#] {
            assert_eq!(read_json(args).unwrap(), NodeAffinity::default());
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let required = |term: &str| {
            let place = "requiredDuringSchedulingIgnoredDuringExecution";
            format!(r#"{{"addedAffinity": {{"{place}": {{"nodeSelectorTerms": [{term}]}}}}}}"#)
        };
        let preferred = |term: &str| {
            let place = "preferredDuringSchedulingIgnoredDuringExecution";
            format!(r#"{{"addedAffinity": {{"{place}": [{term}]}}}}"#)
        };
        let wrong = r#"{"matchExpressions": [{"key": "k", "operator": "Is"}]}"#;
        for (args, expected) in [
            (
                r#"{"affinity": {}}"#.to_owned(),
                "args.affinity: unknown field `affinity`, expected `addedAffinity`",
            ),
            (
                r#"{"addedAffinity": {"required": {}}}"#.to_owned(),
                "args.addedAffinity.required: unknown field `required`",
            ),
            (
                required(r#"{}, {"matchLabels": {}}"#),
                "IgnoredDuringExecution.nodeSelectorTerms[1].matchLabels: unknown field `matchLabels`, expected",
            ),
            (
                preferred(r#"{"weight": "1", "preference": {}}"#),
                "IgnoredDuringExecution[0].weight: invalid type: string \"1\", expected i32",
            ),
            (
                required(&format!("{{}}, {wrong}")),
                "nodeSelectorTerms[1].matchExpressions[0].operator is \"Is\"",
            ),
            (
                preferred(&format!(r#"{{"weight": 1, "preference": {wrong}}}"#)),
                "IgnoredDuringExecution[0].preference.matchExpressions[0].operator is \"Is\"",
            ),
            (preferred(r#"{"weight": 101, "preference": {}}"#), "[0].weight is 101; expected 1 to 100"),
            (preferred(r#"{"weight": 0, "preference": {}}"#), "[0].weight is 0; expected 1 to 100"),
        ] {
            let error = read_json(&args).unwrap_err().to_string();
            assert!(error.contains(expected), "{args}: {error}");
        }
    }
}
