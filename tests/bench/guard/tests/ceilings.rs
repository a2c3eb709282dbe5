//! No call costs more than what is written down. One test: counting is for one thread at a time.

use extender_guard::{
    calls::Call,
    ceilings::{self, Ceilings},
    subject,
};

#[test]
fn no_call_is_above_its_ceiling() {
    let measured: Ceilings =
        Call::ALL.iter().map(|call| (call.name.to_owned(), subject::cost_of(call))).collect();
    for (call, cost) in &measured {
        println!("{call}: {cost:?}");
    }
    if ceilings::record(&measured).unwrap() {
        return;
    }
    let complaints = ceilings::complaints(&measured, &ceilings::read().unwrap());
    assert!(complaints.is_empty(), "\n{complaints}");
}
