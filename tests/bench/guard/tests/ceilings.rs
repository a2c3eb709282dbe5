//! No call costs more than recorded. One test: counting is for one thread at a time.

use extender_guard::{
    calls::Call,
    ceilings::{self, Ceilings},
    subject,
};

#[test]
fn no_call_is_above_its_ceiling() {
    let cost = |call: &'static Call| (call.name.to_owned(), subject::cost_of(call).by_unit());
    let measured: Ceilings = Call::ALL.iter().map(cost).collect();
    for (call, cost) in &measured {
        println!("{call}: {cost:?}");
    }
    let complaints = ceilings::judge(&measured).unwrap();
    assert!(complaints.is_empty(), "\n{complaints}");
}
