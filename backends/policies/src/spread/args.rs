//! The operator's args: constraints with the fields of a pod's `topologySpreadConstraints` where they mean the same.
//! All mistakes are reported at once.

use std::collections::BTreeMap;

use extender_config::names;
use extender_policy_sdk::{Args, ArgsError, PodPart, PodsBy, Reads};
use serde::Deserialize;

use super::{
    limit::{Limit, MaxRequest},
    preference::SpreadPreference,
    topology::{Sums, Topology},
};
use crate::resource::Resource;

/// The most constraints: the most different counts of one declaration.
const MAX_CONSTRAINTS: usize = 8;
/// The largest number of pods.
const MAX_PODS: i64 = i32::MAX as i64;

const MILLI: i64 = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpreadArgs {
    constraints: Vec<ConstraintFields>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ConstraintFields {
    topology_key: String,
    when_unsatisfiable: WhenUnsatisfiable,
    by: By,
    max_pods: Option<i64>,
    max_requests: Option<BTreeMap<String, i64>>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
enum WhenUnsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
enum By {
    Owner,
    Namespace,
    PriorityClass,
    #[serde(rename = "label")]
    Label(String),
}

/// The constraints, and what they read.
#[derive(Debug)]
pub(super) struct Constraints {
    pub(super) reads: Reads,
    pub(super) limits: Vec<Limit>,
    pub(super) preferences: Vec<SpreadPreference>,
}

/// The constraints, in the order of the args.
pub(super) fn read(args: &Args) -> Result<Constraints, ArgsError> {
    let SpreadArgs { constraints: fields } = args.parse()?;
    let mistakes = mistakes(&fields);
    if !mistakes.is_empty() {
        return Err(ArgsError::new(mistakes.join("; ")));
    }
    let mut constraints = Constraints { reads: Reads::new(), limits: Vec::new(), preferences: Vec::new() };
    for fields in &fields {
        constraints.add(fields);
    }
    Ok(constraints)
}

impl Constraints {
    /// Fields without mistakes.
    fn add(&mut self, fields: &ConstraintFields) {
        let sums = if fields.max_requests.is_some() { Sums::Requests } else { Sums::Unread };
        let topology = Topology::new(&fields.topology_key, fields.by.attribute(), sums, &mut self.reads);
        if fields.when_unsatisfiable == WhenUnsatisfiable::ScheduleAnyway {
            self.preferences.push(SpreadPreference { topology });
            return;
        }
        if sums == Sums::Requests {
            self.reads.pod(PodPart::Requests);
        }
        let max_pods = fields.max_pods.and_then(|pods| u32::try_from(pods).ok());
        let max_requests = fields.max_requests.iter().flatten();
        let max_requests = max_requests.filter_map(|(name, given)| max_request(name, *given)).collect();
        let missing = topology.missing().into();
        self.limits.push(Limit { topology, max_pods, max_requests, missing });
    }
}

impl By {
    fn attribute(&self) -> PodsBy {
        match self {
            Self::Owner => PodsBy::Owner,
            Self::Namespace => PodsBy::Namespace,
            Self::PriorityClass => PodsBy::PriorityClass,
            Self::Label(key) => PodsBy::label(key.as_str()),
        }
    }
}

/// `None` for a resource that is not counted. CPUs are given whole, and counted in thousandths.
fn max_request(name: &str, given: i64) -> Option<MaxRequest> {
    let resource = Resource::named(name)?;
    let unit = if resource == Resource::Cpu { MILLI } else { 1 };
    Some(MaxRequest { resource, name: name.to_owned(), given, amount: given.saturating_mul(unit) })
}

fn mistakes(constraints: &[ConstraintFields]) -> Vec<String> {
    let count = constraints.len();
    let wrong = !(1..=MAX_CONSTRAINTS).contains(&count);
    let number =
        wrong.then(|| format!("args.constraints has {count} constraints; expected 1 to {MAX_CONSTRAINTS}"));
    let each = constraints.iter().enumerate().flat_map(|(at, fields)| {
        let repeated = constraints[..at].iter().any(|earlier| earlier.is_about_the_same(fields));
        let repeated = repeated.then(|| {
            " repeats the topologyKey, by and whenUnsatisfiable of an earlier one; remove one of them"
                .to_owned()
        });
        let mistakes = fields.mistakes().into_iter().chain(repeated);
        mistakes.map(move |mistake| format!("args.constraints[{at}]{mistake}"))
    });
    number.into_iter().chain(each).collect()
}

impl ConstraintFields {
    fn is_about_the_same(&self, other: &Self) -> bool {
        self.topology_key == other.topology_key
            && self.by == other.by
            && self.when_unsatisfiable == other.when_unsatisfiable
    }

    /// Predicates of a sentence about the constraint.
    fn mistakes(&self) -> Vec<String> {
        let Self { topology_key, when_unsatisfiable, by, max_pods, max_requests } = self;
        let mut mistakes = Vec::new();
        if !topology_key.is_empty() && !names::is_qualified_name(topology_key) {
            mistakes.push(format!(
                ".topologyKey {topology_key:?} is not a label key; expected {}, or \"\" for the whole cluster",
                names::LABEL_KEY
            ));
        }
        if let By::Label(key) = by
            && !names::is_qualified_name(key)
        {
            mistakes.push(format!(".by.label {key:?} is not a label key; expected {}", names::LABEL_KEY));
        }
        match when_unsatisfiable {
            WhenUnsatisfiable::DoNotSchedule => mistakes.extend(self.limit_mistakes()),
            WhenUnsatisfiable::ScheduleAnyway => {
                let given = [("maxPods", max_pods.is_some()), ("maxRequests", max_requests.is_some())];
                let given = given.into_iter().filter(|(_, given)| *given);
                mistakes.extend(given.map(|(field, _)| {
                    format!(".{field} belongs to DoNotSchedule; ScheduleAnyway has no limit, it prefers fewer pods")
                }));
                if topology_key.is_empty() {
                    mistakes.push(
                        ".topologyKey is empty; ScheduleAnyway expects a label key, because all nodes are in the \
                         same cluster"
                            .to_owned(),
                    );
                }
            }
        }
        mistakes
    }

    fn limit_mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        match (self.max_pods, &self.max_requests) {
            (None, None) => {
                mistakes.push(" has no limit; DoNotSchedule expects maxPods, maxRequests or both".to_owned());
            }
            (Some(pods), _) if !(1..=MAX_PODS).contains(&pods) => {
                mistakes.push(format!(".maxPods is {pods}; expected 1 to {MAX_PODS}"));
            }
            _ => {}
        }
        if self.max_requests.as_ref().is_some_and(BTreeMap::is_empty) {
            mistakes.push(".maxRequests is empty; expected at least one resource".to_owned());
        }
        for (name, given) in self.max_requests.iter().flatten() {
            if Resource::named(name).is_none() {
                mistakes.push(format!(
                    ".maxRequests has {name:?}, which is not counted; expected cpu, memory, ephemeral-storage, or a name \
                     such as example.com/gpu, and maxPods for pods"
                ));
            }
            if *given < 0 {
                mistakes.push(format!(".maxRequests[{name:?}] is {given}; expected 0 or more"));
            }
        }
        mistakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_json(args: &str) -> Result<Constraints, ArgsError> {
        read(&Args::new(args.as_bytes()).unwrap())
    }

    /// One constraint, with these fields after the first three.
    fn constraint(first: [&str; 3], fields: &str) -> String {
        let [key, when, by] = first;
        format!(r#"{{"topologyKey": "{key}", "whenUnsatisfiable": "{when}", "by": {by}{fields}}}"#)
    }

    fn one(first: [&str; 3], fields: &str) -> String {
        format!(r#"{{"constraints": [{}]}}"#, constraint(first, fields))
    }

    const RACK: [&str; 3] = ["rack", "DoNotSchedule", r#""Owner""#];

    #[test]
    fn constraints_are_limits_and_preferences() {
        let hard = constraint(["acme.io/rack", "DoNotSchedule", r#"{"label": "app"}"#], r#", "maxPods": 2"#);
        let soft = constraint(["zone", "ScheduleAnyway", r#""PriorityClass""#], "");
        let tenant = constraint(
            ["", "DoNotSchedule", r#""Namespace""#],
            r#", "maxRequests": {"cpu": 20, "example.com/gpu": 0}"#,
        );
        let args = format!(r#"{{"constraints": [{hard}, {soft}, {tenant}]}}"#);
        let Constraints { limits, preferences, .. } = read_json(&args).unwrap();
        assert_eq!((limits.len(), preferences.len()), (2, 1));
        assert_eq!((limits[0].max_pods, limits[0].max_requests.len()), (Some(2), 0));
        let amounts: Vec<_> = limits[1].max_requests.iter().map(|max| (&*max.name, max.amount)).collect();
        assert_eq!((limits[1].max_pods, amounts), (None, vec![("cpu", 20_000), ("example.com/gpu", 0)]));
    }

    #[test]
    fn each_mistake_names_its_field() {
        let rack = |fields: &str| one(RACK, fields);
        let pods = r#", "maxPods": 2"#;
        for (args, expected) in [
            (String::new(), "args: missing field `constraints`"),
            (r#"{"constraints": []}"#.to_owned(), "args.constraints has 0 constraints; expected 1 to 8"),
            (rack(r#", "maxpods": 2"#), "args.constraints[0].maxpods: unknown field `maxpods`"),
            (
                r#"{"constraints": [{"by": "Owner"}]}"#.to_owned(),
                "args.constraints[0]: missing field `topologyKey`",
            ),
            (
                rack(""),
                "args.constraints[0] has no limit; DoNotSchedule expects maxPods, maxRequests or both",
            ),
            (rack(r#", "maxPods": 0"#), "args.constraints[0].maxPods is 0; expected 1 to 2147483647"),
            (rack(r#", "maxPods": 1.5"#), "args.constraints[0].maxPods: invalid type: floating point `1.5`"),
            (rack(r#", "maxRequests": {}"#), "args.constraints[0].maxRequests is empty"),
            (rack(r#", "maxRequests": {"gpu": 1}"#), ".maxRequests has \"gpu\", which is not counted"),
            (rack(r#", "maxRequests": {"cpu": -1}"#), ".maxRequests[\"cpu\"] is -1; expected 0 or more"),
            (
                rack(r#", "maxRequests": {"cpu": "1"}"#),
                "args.constraints[0].maxRequests.cpu: invalid type: string",
            ),
            (
                one(["a b", "DoNotSchedule", r#""Owner""#], pods),
                "args.constraints[0].topologyKey \"a b\" is not a label key; expected a label key such as",
            ),
            (
                one(["rack", "DoNotSchedule", r#"{"label": ""}"#], pods),
                "args.constraints[0].by.label \"\" is not a label key",
            ),
            (
                one(["rack", "DoNotSchedule", r#""owner""#], pods),
                "args.constraints[0].by: unknown variant `owner`, expected one of `Owner`, `Namespace`",
            ),
            (
                one(["rack", "Never", r#""Owner""#], pods),
                "args.constraints[0].whenUnsatisfiable: unknown variant `Never`, expected `DoNotSchedule` or",
            ),
            (
                one(["rack", "ScheduleAnyway", r#""Owner""#], pods),
                "args.constraints[0].maxPods belongs to DoNotSchedule",
            ),
            (
                one(["", "ScheduleAnyway", r#""Owner""#], ""),
                "args.constraints[0].topologyKey is empty; ScheduleAnyway expects a label key",
            ),
        ] {
            let error = read_json(&args).unwrap_err().to_string();
            assert!(error.contains(expected), "{args}: {error}");
        }
    }

    #[test]
    fn a_constraint_is_given_once() {
        let twice = |second: [&str; 3], fields: &str| {
            let (first, second) = (constraint(RACK, r#", "maxPods": 2"#), constraint(second, fields));
            read_json(&format!(r#"{{"constraints": [{first}, {second}]}}"#))
        };
        let error = twice(RACK, r#", "maxPods": 3"#).unwrap_err().to_string();
        assert!(error.starts_with("args.constraints[1] repeats the topologyKey"), "{error}");
        assert!(twice(["rack", "ScheduleAnyway", r#""Owner""#], "").is_ok());
        assert!(twice(["rack", "DoNotSchedule", r#""Namespace""#], r#", "maxPods": 2"#).is_ok());
    }

    #[test]
    fn there_are_at_most_eight_constraints() {
        let many = |count: usize| {
            let fields = r#", "maxPods": 2"#;
            let key = |number: usize| format!("rack-{number}");
            let each = (0..count).map(|number| constraint([&key(number), RACK[1], RACK[2]], fields));
            read_json(&format!(r#"{{"constraints": [{}]}}"#, each.collect::<Vec<_>>().join(", ")))
        };
        assert!(many(8).is_ok());
        let error = many(9).unwrap_err().to_string();
        assert_eq!(error, "args.constraints has 9 constraints; expected 1 to 8");
    }
}
