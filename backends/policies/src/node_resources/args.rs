//! The operator's args: fields, names and defaults of `NodeResourcesFitArgs` in kube-scheduler's configuration, and
//! one more strategy, `BalancedAllocation`. All mistakes are reported at once.

use extender_config::names;
use extender_policy_sdk::{Args, ArgsError};
use serde::Deserialize;

use super::{
    allocation::{Aim, Strategy, Weighted},
    fit::Ignored,
    shape::{Point, Shape},
};
use crate::resource::Resource;

/// The largest score that an operator can give a point; the largest of a strategy is ten times that.
const MAX_POINT: i64 = 10;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
struct ResourcesArgs {
    ignored_resources: Vec<String>,
    ignored_resource_groups: Vec<String>,
    scoring_strategy: StrategyFields,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct StrategyFields {
    r#type: Type,
    #[serde(default)]
    resources: Vec<ResourceFields>,
    requested_to_capacity_ratio: Option<RatioFields>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
enum Type {
    #[default]
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio,
    BalancedAllocation,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResourceFields {
    name: String,
    #[serde(default)]
    weight: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RatioFields {
    shape: Vec<PointFields>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PointFields {
    utilization: i64,
    score: i64,
}

/// The ignored resources, and how nodes are scored.
pub(super) fn read(args: &Args) -> Result<(Ignored, Strategy), ArgsError> {
    let fields: ResourcesArgs = args.parse()?;
    let mut mistakes = ignored_mistakes(&fields);
    let ResourcesArgs { ignored_resources, ignored_resource_groups, scoring_strategy } = fields;
    let ignored = Ignored {
        resources: ignored_resources.into_iter().collect(),
        groups: ignored_resource_groups.into_iter().collect(),
    };
    let resources = resources(&scoring_strategy, &mut mistakes);
    match aim(&scoring_strategy, &mut mistakes) {
        Some(aim) if mistakes.is_empty() => Ok((ignored, Strategy { aim, resources })),
        _ => Err(ArgsError::new(mistakes.join("; "))),
    }
}

/// Mirrors the checks of `ValidateNodeResourcesFitArgs`.
fn ignored_mistakes(fields: &ResourcesArgs) -> Vec<String> {
    let resources =
        fields.ignored_resources.iter().enumerate().filter(|(_, name)| !names::is_qualified_name(name));
    let resources = resources.map(|(at, name)| {
        format!("args.ignoredResources[{at}] {name:?} is not a resource name; expected a name such as example.com/gpu")
    });
    let wrong = |group: &str| group.contains('/') || !names::is_qualified_name(group);
    let groups = fields.ignored_resource_groups.iter().enumerate().filter(|(_, group)| wrong(group));
    let groups = groups.map(|(at, group)| {
        format!(
            "args.ignoredResourceGroups[{at}] {group:?} is not a resource group; expected a group such as example.com"
        )
    });
    resources.chain(groups).collect()
}

/// CPU and memory if none are set.
fn resources(fields: &StrategyFields, mistakes: &mut Vec<String>) -> Vec<Weighted> {
    if fields.resources.is_empty() {
        return [Resource::Cpu, Resource::Memory].map(|resource| Weighted { resource, weight: 1 }).into();
    }
    let mut weighted: Vec<Weighted> = Vec::new();
    for (at, given) in fields.resources.iter().enumerate() {
        match resource(given, fields.r#type, &weighted) {
            Ok(resource) => weighted.push(resource),
            Err(mistake) => mistakes.push(format!("args.scoringStrategy.resources[{at}]{mistake}")),
        }
    }
    weighted
}

fn resource(given: &ResourceFields, aim: Type, before: &[Weighted]) -> Result<Weighted, String> {
    let ResourceFields { name, weight } = given;
    let known = "expected a name such as cpu, memory, ephemeral-storage, hugepages-2Mi or example.com/gpu";
    let resource = Resource::named(name).ok_or_else(|| format!(".name {name:?} is not scored; {known}"))?;
    if before.iter().any(|weighted| weighted.resource == resource) {
        return Err(format!(".name {name:?} is listed twice; remove one"));
    }
    match (aim, weight) {
        (_, 0) => Ok(Weighted { resource, weight: 1 }),
        (Type::BalancedAllocation, 2..) => {
            Err(format!(".weight is {weight}; BalancedAllocation supports only weight 1"))
        }
        (_, 1..=100) => Ok(Weighted { resource, weight: *weight }),
        _ => Err(format!(".weight is {weight}; expected 1 to 100")),
    }
}

fn aim(fields: &StrategyFields, mistakes: &mut Vec<String>) -> Option<Aim> {
    let place = "args.scoringStrategy.requestedToCapacityRatio";
    match (fields.r#type, &fields.requested_to_capacity_ratio) {
        (Type::RequestedToCapacityRatio, Some(ratio)) => {
            shape(&ratio.shape, mistakes).map(Aim::RequestedToCapacityRatio)
        }
        (Type::RequestedToCapacityRatio, None) => {
            mistakes.push(format!("{place} is missing; expected a shape that maps utilization to scores"));
            None
        }
        (other, Some(_)) => {
            mistakes.push(format!("{place} belongs to the type RequestedToCapacityRatio, not to {other:?}"));
            None
        }
        (Type::LeastAllocated, None) => Some(Aim::LeastAllocated),
        (Type::MostAllocated, None) => Some(Aim::MostAllocated),
        (Type::BalancedAllocation, None) => Some(Aim::BalancedAllocation),
    }
}

fn shape(points: &[PointFields], mistakes: &mut Vec<String>) -> Option<Shape> {
    let place = "args.scoringStrategy.requestedToCapacityRatio.shape";
    for (at, PointFields { utilization, score }) in points.iter().enumerate() {
        if !(0..=100).contains(utilization) {
            mistakes.push(format!("{place}[{at}].utilization is {utilization}; expected 0 to 100"));
        }
        if !(0..=MAX_POINT).contains(score) {
            mistakes.push(format!("{place}[{at}].score is {score}; expected 0 to {MAX_POINT}"));
        }
    }
    let scaled = |point: &PointFields| Point {
        utilization: point.utilization,
        score: point.score.saturating_mul(MAX_POINT),
    };
    if points.is_empty() {
        mistakes.push(format!("{place} is empty; expected at least one point"));
    }
    for (at, pair) in points.windows(2).enumerate().filter(|(_, pair)| !rises(pair)) {
        let [before, point] = [&pair[0], &pair[1]].map(|point| point.utilization);
        mistakes.push(format!(
            "{place}[{}].utilization is {point}; expected more than {before}, that of the previous point",
            at + 1
        ));
    }
    Shape::through(points.iter().map(scaled).collect())
}

fn rises(pair: &[PointFields]) -> bool {
    pair[0].utilization < pair[1].utilization
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_json(json: &str) -> Result<(Ignored, Strategy), ArgsError> {
        read(&Args::new(json.as_bytes())?)
    }

    fn weights(strategy: &Strategy) -> Vec<i64> {
        strategy.resources.iter().map(|weighted| weighted.weight).collect()
    }

    #[test]
    fn nothing_means_kube_schedulers_defaults() {
        let (ignored, strategy) = read_json("").unwrap();
        let resources = [Resource::Cpu, Resource::Memory].map(|resource| Weighted { resource, weight: 1 });
        assert_eq!(ignored, Ignored::default());
        assert_eq!(strategy, Strategy { aim: Aim::LeastAllocated, resources: resources.into() });
    }

    #[test]
    fn what_is_given_is_taken() {
        let (ignored, strategy) = read_json(
            r#"{"ignoredResources": ["a.com/x"], "ignoredResourceGroups": ["b.com"], "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": [{"name": "cpu", "weight": 3}, {"name": "example.com/gpu"}],
                "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0},
                                                       {"utilization": 100, "score": 10}]}}}"#,
        )
        .unwrap();
        assert!(ignored.resources.contains("a.com/x") && ignored.groups.contains("b.com"));
        assert_eq!(weights(&strategy), [3, 1]);
        let Aim::RequestedToCapacityRatio(shape) = strategy.aim else { panic!("{strategy:?}") };
        assert_eq!((shape.at(0), shape.at(42), shape.at(100)), (0, 42, 100));
        let (_, balanced) = read_json(r#"{"scoringStrategy": {"type": "BalancedAllocation"}}"#).unwrap();
        assert_eq!((&balanced.aim, weights(&balanced)), (&Aim::BalancedAllocation, vec![1, 1]));
    }

    fn strategy(inner: &str) -> String {
        format!(r#"{{"scoringStrategy": {{{inner}}}}}"#)
    }

    fn resources(list: &str) -> String {
        strategy(&format!(r#""type": "MostAllocated", "resources": {list}"#))
    }

    fn ratio(shape: &str) -> String {
        let inner = r#""type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": "#;
        strategy(&format!("{inner}{shape}}}"))
    }

    #[test]
    fn mistakes_are_named() {
        for (args, expected) in [
            (
                r#"{"ignoredResource": []}"#.to_owned(),
                "args.ignoredResource: unknown field `ignoredResource`",
            ),
            (
                r#"{"ignoredResources": ["a b"]}"#.to_owned(),
                "args.ignoredResources[0] \"a b\" is not a resource name",
            ),
            (
                r#"{"ignoredResourceGroups": ["a.com/x"]}"#.to_owned(),
                "Groups[0] \"a.com/x\" is not a resource group",
            ),
            (strategy(""), "args.scoringStrategy: missing field `type`"),
            (
                strategy(r#""type": "Least""#),
                "args.scoringStrategy.type: unknown variant `Least`, expected one of `LeastAllocated`",
            ),
            (
                resources(r#"[{"name": "cpu", "wieght": 2}]"#),
                "args.scoringStrategy.resources[0].wieght: unknown field `wieght`, expected `name` or `weight`",
            ),
            (strategy(r#""type": "RequestedToCapacityRatio""#), "requestedToCapacityRatio is missing"),
            (
                strategy(r#""type": "MostAllocated", "requestedToCapacityRatio": {"shape": []}"#),
                "belongs to the type RequestedToCapacityRatio, not to MostAllocated",
            ),
            (
                strategy(r#""type": "BalancedAllocation", "resources": [{"name": "cpu", "weight": 2}]"#),
                "resources[0].weight is 2; BalancedAllocation",
            ),
            (resources(r#"[{"name": "gpu"}]"#), "resources[0].name \"gpu\" is not scored"),
            (resources(r#"[{"name": "cpu"}, {"name": "cpu"}]"#), "resources[1].name \"cpu\" is listed twice"),
            (
                resources(r#"[{"name": "cpu", "weight": 101}]"#),
                "resources[0].weight is 101; expected 1 to 100",
            ),
            (resources(r#"[{"name": "cpu", "weight": -1}]"#), "resources[0].weight is -1; expected 1 to 100"),
            (
                ratio("[]"),
                "args.scoringStrategy.requestedToCapacityRatio.shape is empty; expected at least one point",
            ),
            (
                ratio(r#"[{"utilization": 9, "score": 1}, {"utilization": 8, "score": 2}]"#),
                "shape[1].utilization is 8; expected more than 9, that of the previous point",
            ),
            (
                ratio(r#"[{"utilization": 1.5, "score": 1}]"#),
                "shape[0].utilization: invalid type: floating point `1.5`",
            ),
            (
                ratio(r#"[{"utilization": 101, "score": 1}]"#),
                "shape[0].utilization is 101; expected 0 to 100",
            ),
            (ratio(r#"[{"utilization": 1, "score": 11}]"#), "shape[0].score is 11; expected 0 to 10"),
        ] {
            let error = read_json(&args).unwrap_err().to_string();
            assert!(error.contains(expected), "{args}: {error}");
        }
    }

    #[test]
    fn all_mistakes_come_together() {
        let args = r#"{"ignoredResources": [""], "ignoredResourceGroups": ["/"],
            "scoringStrategy": {"type": "RequestedToCapacityRatio", "resources": [{"name": "x"}]}}"#;
        assert_eq!(read_json(args).unwrap_err().to_string().split("; args.").count(), 4);
    }
}
