//! The ceilings: what each call may cost, in a file of the repository.

use std::{collections::BTreeMap, env, fs, io, path::Path};

use crate::cost::Cost;

/// Set to anything, it makes the test write down what it measures instead of comparing.
pub const RECORD: &str = "EXTENDER_GUARD_RECORD";

/// Where the ceilings are.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ceilings.json");

/// What is allowed on top of a recorded number, in percent: chunks of a large body come in different sizes,
/// and hash tables grow at different times.
const SLACK: u64 = 5;

/// What each call may cost, by the call's name.
pub type Ceilings = BTreeMap<String, Cost>;

/// The recorded costs.
pub fn read() -> io::Result<Ceilings> {
    Ok(serde_json::from_str(&fs::read_to_string(FILE)?)?)
}

/// Writes the measured costs down, if the environment asks for that.
pub fn record(measured: &Ceilings) -> io::Result<bool> {
    if env::var_os(RECORD).is_none() {
        return Ok(false);
    }
    let text = serde_json::to_string_pretty(measured)?;
    fs::write(Path::new(FILE), text + "\n")?;
    Ok(true)
}

/// What is above its ceiling, in words; empty when nothing is.
pub fn complaints(measured: &Ceilings, ceilings: &Ceilings) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (call, cost) in measured {
        match ceilings.get(call) {
            Some(ceiling) => lines.extend(above(call, cost, ceiling)),
            None => lines.push(format!("{call}: no ceiling is recorded")),
        }
    }
    if !lines.is_empty() {
        lines.push(
            "If this is meant, record it with `make guard-record`, and say why in the commit.".to_owned(),
        );
    }
    lines.join("\n")
}

fn above(call: &str, cost: &Cost, ceiling: &Cost) -> impl Iterator<Item = String> {
    let parts = [
        ("allocations", cost.allocations, ceiling.allocations),
        ("bytes allocated", cost.bytes, ceiling.bytes),
        ("wake-ups", cost.wakeups, ceiling.wakeups),
    ];
    parts.into_iter().filter_map(move |(what, measured, recorded)| {
        let most = recorded + recorded * SLACK / 100;
        let line = || format!("{call}: {measured} {what} a call, recorded are {recorded}, at most {most}");
        (measured > most).then(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(allocations: u64, wakeups: u64) -> Ceilings {
        [("filter".to_owned(), Cost { allocations, bytes: 1_000, wakeups })].into()
    }

    #[test]
    fn what_is_above_its_ceiling_is_named() {
        assert_eq!(complaints(&one(105, 3), &one(100, 3)), "");
        let text = complaints(&one(106, 4), &one(100, 3));
        assert!(text.contains("filter: 106 allocations a call, recorded are 100, at most 105\n"), "{text}");
        assert!(text.contains("filter: 4 wake-ups a call, recorded are 3, at most 3\n"), "{text}");
        assert!(text.contains("make guard-record"), "{text}");
    }

    #[test]
    fn a_call_without_a_ceiling_is_a_complaint() {
        assert!(complaints(&one(1, 1), &Ceilings::new()).starts_with("filter: no ceiling is recorded\n"));
    }
}
