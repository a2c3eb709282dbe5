//! No call costs more than recorded. One test: counting is for one thread at a time.

use extender_guard::{
    calls::Call,
    ceilings::{self, Ceilings},
    subject,
};

/// A busy machine splits what arrived together, so that the gateway wakes more often: then it is counted again.
const TRIES: usize = 5;

#[test]
fn no_call_is_above_its_ceiling() {
    let mut complaints = complaints();
    for _ in 1..TRIES {
        if complaints.is_empty() {
            return;
        }
        complaints = self::complaints();
    }
    assert!(complaints.is_empty(), "\n{complaints}");
}

fn complaints() -> String {
    let cost = |call: &'static Call| (call.name.to_owned(), subject::cost_of(call).by_unit());
    let measured: Ceilings = Call::ALL.iter().map(cost).collect();
    for (call, cost) in &measured {
        println!("{call}: {cost:?}");
    }
    ceilings::judge(&measured).expect("the recorded ceilings can be read")
}
