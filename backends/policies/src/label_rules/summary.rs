//! What a rule file does and reads, in words.

use std::{collections::BTreeSet, fmt};

use extender_policy_sdk::{Normalization, Reads};

use super::{
    Rules,
    rule::{LabelCondition, LabelRequirement, PodSelector, bounds},
};

/// The rules in words, one line for each, and what they read. Every line begins with two blanks.
#[derive(Debug)]
pub struct Summary<'r>(pub &'r Rules);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rules { refusals, preferences, protections, normalization, content_hash: _ } = self.0;
        for rule in refusals {
            let name = rule.name.as_ref().map(|name| format!(" (rule {name})")).unwrap_or_default();
            let (require, pods) = (all(&rule.require), for_pods(&rule.pods));
            writeln!(out, "  require {require}{pods}; otherwise rejected: {}{name}", rule.reason)?;
        }
        for rule in preferences {
            writeln!(out, "  prefer {}{}; score {:+}", all(&rule.prefer), for_pods(&rule.pods), rule.score)?;
        }
        for rule in protections {
            let in_favor = for_pods(&rule.pods).replacen(", for", " in favor of", 1);
            writeln!(out, "  protect {} from eviction{in_favor}", described(&rule.protect))?;
        }
        if refusals.is_empty() && preferences.is_empty() && protections.is_empty() {
            writeln!(out, "  no rules: every node is accepted with the score 0, and every eviction allowed")?;
        }
        if !preferences.is_empty() {
            let range = bounds(preferences);
            let normalized = match normalization {
                Normalization::None => "as they are".to_owned(),
                other => format!("normalized to 0 to 10 ({other:?})"),
            };
            writeln!(out, "  scores from {} to {}, {normalized}", range.start(), range.end())?;
        }
        self.write_reads(out)
    }
}

impl Summary<'_> {
    fn write_reads(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rules { refusals, preferences, protections, .. } = self.0;
        let requirements = refusals.iter().flat_map(|rule| &rule.require);
        let of_nodes: BTreeSet<_> =
            keys(requirements.chain(preferences.iter().flat_map(|rule| &rule.prefer)));
        let placed = refusals.iter().map(|rule| &rule.pods).chain(preferences.iter().map(|rule| &rule.pods));
        let selectors = placed.chain(protections.iter().flat_map(|rule| [&rule.pods, &rule.protect]));
        let of_pods = keys(selectors.clone().flat_map(|selector| &selector.labels));
        let namespaces = selectors.clone().any(|selector| !selector.namespaces.is_empty());
        let namespace = if namespaces { Some("namespace".to_owned()) } else { None };
        writeln!(out, "  reads of nodes: {}", listed(labels(&of_nodes).into_iter()))?;
        writeln!(out, "  reads of pods: {}", listed(namespace.into_iter().chain(labels(&of_pods))))
    }
}

fn keys<'r>(requirements: impl Iterator<Item = &'r LabelRequirement>) -> BTreeSet<&'r str> {
    requirements.map(|requirement| requirement.key.as_str()).collect()
}

/// With more keys than a declaration may have, all labels are read.
fn labels(keys: &BTreeSet<&str>) -> Option<String> {
    match keys.len() {
        0 => None,
        1 => Some(format!("label {}", keys.iter().copied().collect::<String>())),
        2..=Reads::MAX_KEYS => {
            Some(format!("labels {}", keys.iter().copied().collect::<Vec<_>>().join(", ")))
        }
        _ => Some("all labels".to_owned()),
    }
}

fn listed(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

/// The end of a sentence about a rule that is not for all pods.
fn for_pods(pods: &PodSelector) -> String {
    if *pods == PodSelector::default() { String::new() } else { format!(", for {}", described(pods)) }
}

fn described(PodSelector { namespaces, labels }: &PodSelector) -> String {
    let namespaces = match namespaces.as_slice() {
        [] => String::new(),
        [only] => format!(" in namespace {only}"),
        several => format!(" in the namespaces {}", several.join(", ")),
    };
    let labels = if labels.is_empty() { String::new() } else { format!(" with {}", all(labels)) };
    let every = if namespaces.is_empty() && labels.is_empty() { "all " } else { "" };
    format!("{every}pods{namespaces}{labels}")
}

fn all(requirements: &[LabelRequirement]) -> String {
    requirements.iter().map(selector).collect::<Vec<_>>().join(" and ")
}

/// A requirement as a label selector of kubectl, which has no comparisons.
fn selector(LabelRequirement { key, condition }: &LabelRequirement) -> String {
    match condition {
        LabelCondition::In(values) => match values.as_slice() {
            [only] => format!("{key}={only}"),
            several => format!("{key} in ({})", several.join(", ")),
        },
        LabelCondition::NotIn(values) => match values.as_slice() {
            [only] => format!("{key}!={only}"),
            several => format!("{key} notin ({})", several.join(", ")),
        },
        LabelCondition::Exists => format!("a label {key}"),
        LabelCondition::Absent => format!("no label {key}"),
        LabelCondition::GreaterThan(limit) => format!("{key} > {limit}"),
        LabelCondition::LessThan(limit) => format!("{key} < {limit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::label_rules::file;

    fn summary(text: &str) -> String {
        Summary(&file::read(text).unwrap()).to_string()
    }

    #[test]
    fn every_kind_of_rule_is_described() {
        let text = "normalize: MinMax\nrules:\n\
            - {name: rack drain, require: [{key: rack, notIn: [r1, r2]}, {key: arch, equals: arm}], reason: is being drained}\n\
            - {pods: {namespaces: [shop]}, require: [{key: gpu, exists: false}], reason: no GPUs}\n\
            - {prefer: [{key: cores, greaterThan: 4}], score: 10}\n\
            - {pods: {namespaces: [a, b], labels: [{key: tier, notIn: [x]}]}, prefer: [{key: disk, exists: true}], score: -5}\n\
            - {protect: {labels: [{key: app, in: [db, mq]}]}}\n\
            - {pods: {namespaces: [low]}, protect: {}}\n";
        let expected = "  require rack notin (r1, r2) and arch=arm; otherwise rejected: is being drained (rule rack drain)\n\
            \x20 require no label gpu, for pods in namespace shop; otherwise rejected: no GPUs\n\
            \x20 prefer cores > 4; score +10\n\
            \x20 prefer a label disk, for pods in the namespaces a, b with tier!=x; score -5\n\
            \x20 protect pods with app in (db, mq) from eviction\n\
            \x20 protect all pods from eviction in favor of pods in namespace low\n\
            \x20 scores from -5 to 10, normalized to 0 to 10 (MinMax)\n\
            \x20 reads of nodes: labels arch, cores, disk, gpu, rack\n\
            \x20 reads of pods: namespace, labels app, tier\n";
        assert_eq!(summary(text), expected);
    }

    #[test]
    fn a_file_without_rules_and_one_with_many_keys_are_described() {
        let nothing = "  reads of nodes: nothing\n  reads of pods: nothing\n";
        assert!(summary("rules: []").starts_with("  no rules: ") && summary("rules: []").ends_with(nothing));
        let rules = (0..=Reads::MAX_KEYS)
            .map(|key| format!("- {{prefer: [{{key: k{key}, equals: a}}], score: 1}}\n"));
        let text = summary(&format!("rules:\n{}", rules.collect::<String>()));
        assert!(
            text.contains("scores from 0 to 1001, as they are\n  reads of nodes: all labels\n"),
            "{text}"
        );
    }
}
