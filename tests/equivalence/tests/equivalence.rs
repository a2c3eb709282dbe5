//! One gateway decides like the same number of separate extenders, in every generated case.
//!
//! `EQUIVALENCE_CASES` is the number of cases (300), `EQUIVALENCE_SEED` the seed (1). With `EQUIVALENCE_FIRST_ONLY`
//! kept cases are not replayed, and the first difference is neither shrunk nor kept: for the deliberate faults.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use std::{
    env,
    io::{Write, stderr},
};

use extender_equivalence::{
    kept,
    search::{Search, Shrinking},
};

/// This many cases cover every situation.
const ENOUGH: u32 = 300;

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    let given = env::var(name).ok().filter(|text| !text.is_empty());
    given.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Prints a text even if the test passes.
fn say(text: &str) {
    writeln!(stderr(), "{text}").expect("stderr is open");
}

fn replay(search: &Search) {
    for (file, case) in kept::all().expect("the kept cases can be read") {
        let differences = search.differences(&case);
        assert!(differences.is_empty(), "{} again: {differences:#?}", file.display());
    }
}

#[test]
fn one_gateway_decides_like_separate_extenders() {
    let cases = u32::try_from(number("EQUIVALENCE_CASES", ENOUGH.into())).expect("fewer cases, please");
    let seed = number("EQUIVALENCE_SEED", 1);
    let first_only = env::var_os("EQUIVALENCE_FIRST_ONLY").is_some();
    let shrinking = if first_only { Shrinking::None } else { Shrinking::Thorough };
    say(&format!("equivalence: {cases} cases, EQUIVALENCE_SEED={seed}"));
    let search = Search::start();
    if !first_only {
        replay(&search);
    }
    if let Err(difference) = search.search(cases, (seed, shrinking)) {
        let kept = if first_only { Ok("nowhere".into()) } else { kept::keep(&difference.case) };
        panic!("{difference}\nEQUIVALENCE_SEED={seed}, kept: {kept:?}");
    }
    let coverage = search.coverage();
    say(&coverage.to_string());
    assert!(cases < ENOUGH || coverage.missing().is_empty(), "no case with: {:#?}", coverage.missing());
}
