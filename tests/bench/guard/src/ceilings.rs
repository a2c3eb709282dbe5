//! The ceilings: the allowed cost of each call, in a file of the repository.

use std::{collections::BTreeMap, env, fs, io};

use crate::cost::{Costs, Unit};

/// If set, the tests record what they measure instead of comparing.
pub const RECORD: &str = "EXTENDER_GUARD_RECORD";

/// The path of the ceilings.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ceilings.json");

/// What each call costs or may cost, by the call's name.
pub type Ceilings = BTreeMap<String, Costs>;

/// Compares with the recorded costs, and returns what is above them. Records instead, and returns nothing, if the
/// environment requests it.
pub fn judge(measured: &Ceilings) -> io::Result<String> {
    let recorded = read()?;
    if env::var_os(RECORD).is_none() {
        return Ok(complaints(measured, &recorded));
    }
    let text = serde_json::to_string_pretty(&merged(recorded, measured))?;
    fs::write(FILE, text + "\n")?;
    Ok(String::new())
}

fn read() -> io::Result<Ceilings> {
    Ok(serde_json::from_str(&fs::read_to_string(FILE)?)?)
}

/// Costs that were not measured stay as recorded, since each test measures a part. Calls that no longer exist are
/// removed.
fn merged(mut recorded: Ceilings, measured: &Ceilings) -> Ceilings {
    recorded.retain(|call, _| measured.contains_key(call));
    for (call, costs) in measured {
        recorded.entry(call.clone()).or_default().extend(costs);
    }
    recorded
}

/// The costs above their ceilings, in words; empty if there are none.
fn complaints(measured: &Ceilings, ceilings: &Ceilings) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (call, costs) in measured {
        let ceiling = |unit| ceilings.get(call).and_then(|costs| costs.get(unit)).copied();
        lines.extend(costs.iter().filter_map(|(unit, cost)| complaint((call, *unit), *cost, ceiling(unit))));
    }
    if !lines.is_empty() {
        lines.push(
            "If this is meant, record it with `make guard-record`, and say why in the commit.".to_owned(),
        );
    }
    lines.join("\n")
}

fn complaint((call, unit): (&str, Unit), measured: u64, recorded: Option<u64>) -> Option<String> {
    let what = unit.words();
    let Some(recorded) = recorded else {
        return Some(format!("{call}: no ceiling of {what} is recorded"));
    };
    let most = recorded + recorded * unit.slack() / 100;
    let line = || format!("{call}: {measured} {what} a call, recorded are {recorded}, at most {most}");
    (measured > most).then(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Unit::{Allocations, Instructions, Wakeups};

    fn one<const N: usize>(costs: [(Unit, u64); N]) -> Ceilings {
        [("filter".to_owned(), costs.into())].into()
    }

    #[test]
    fn what_is_above_its_ceiling_is_named() {
        let ceilings = one([(Allocations, 100), (Instructions, 1_000), (Wakeups, 3)]);
        let measured = one([(Allocations, 105), (Instructions, 1_030), (Wakeups, 3)]);
        assert_eq!(complaints(&measured, &ceilings), "");
        let measured = one([(Allocations, 106), (Instructions, 1_031), (Wakeups, 4)]);
        let text = complaints(&measured, &ceilings);
        assert!(text.contains("filter: 106 allocations a call, recorded are 100, at most 105\n"), "{text}");
        assert!(
            text.contains("filter: 1031 instructions a call, recorded are 1000, at most 1030\n"),
            "{text}"
        );
        assert!(text.contains("filter: 4 wake-ups a call, recorded are 3, at most 3\n"), "{text}");
        assert!(text.contains("make guard-record"), "{text}");
    }

    #[test]
    fn a_cost_without_a_ceiling_is_a_complaint() {
        let measured = one([(Instructions, 1)]);
        for ceilings in [Ceilings::new(), one([(Allocations, 100)])] {
            let text = complaints(&measured, &ceilings);
            assert!(text.starts_with("filter: no ceiling of instructions is recorded\n"), "{text}");
        }
    }

    #[test]
    fn what_one_test_records_leaves_what_the_other_has_recorded() {
        let mut recorded = one([(Allocations, 100), (Instructions, 1_000)]);
        recorded.insert("a call of old".to_owned(), Costs::new());
        let now = merged(recorded, &one([(Instructions, 900)]));
        assert_eq!(now, one([(Allocations, 100), (Instructions, 900)]));
    }
}
