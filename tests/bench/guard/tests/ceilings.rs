//! No call costs more than recorded. One test: counting is for one thread at a time.

use extender_guard::{
    calls::Call,
    ceilings::{self, Ceilings},
    cost::Unit,
    subject,
};

/// A busy machine splits what arrived together, so that the gateway wakes more often: then wake-ups are counted again.
const TRIES: usize = 5;

#[test]
fn no_call_is_above_its_ceiling() {
    let mut measured = measured();
    let mut complaints = complaints(&measured);
    for _ in 1..TRIES {
        if complaints.is_empty() {
            break;
        }
        keep_least_wakeups(&mut measured, &self::measured());
        complaints = self::complaints(&measured);
    }
    assert!(complaints.is_empty(), "\n{complaints}");
}

fn measured() -> Ceilings {
    let cost = |call: &'static Call| (call.name.to_owned(), subject::cost_of(call).by_unit());
    let measured: Ceilings = Call::ALL.iter().map(cost).collect();
    for (call, cost) in &measured {
        println!("{call}: {cost:?}");
    }
    measured
}

fn keep_least_wakeups(measured: &mut Ceilings, again: &Ceilings) {
    for (call, costs) in measured {
        if let Some(wakeups) = costs.get_mut(&Unit::Wakeups) {
            *wakeups = again[call][&Unit::Wakeups].min(*wakeups);
        }
    }
}

fn complaints(measured: &Ceilings) -> String {
    ceilings::judge(measured).expect("the recorded ceilings can be read")
}
