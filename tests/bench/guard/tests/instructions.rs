//! No call takes the built gateway more instructions than recorded.

use std::path::Path;

use extender_guard::{
    calls::Call,
    ceilings::{self, Ceilings},
    cost::Unit,
    instructions,
};

/// Where callgrind's counts stay, for `callgrind_annotate`.
const COUNTS: &str = env!("CARGO_TARGET_TMPDIR");

#[test]
#[ignore = "needs valgrind and the release build, which make guard sees to"]
fn no_call_takes_more_instructions_than_its_ceiling() {
    let count = |call: &'static Call| match instructions::of(call, Path::new(COUNTS)) {
        Ok(instructions) => (call.name.to_owned(), [(Unit::Instructions, instructions)].into()),
        Err(error) => panic!("{}: {error}", call.name),
    };
    let measured: Ceilings = Call::ALL.iter().map(count).collect();
    for (call, cost) in &measured {
        println!("{call}: {cost:?}");
    }
    let complaints = ceilings::judge(&measured).unwrap();
    let hint = format!("What takes them: callgrind_annotate {COUNTS}/callgrind.out.…");
    assert!(complaints.is_empty(), "\n{complaints}\n{hint}");
}
