//! Concurrent callers.

use proptest::{array::uniform10, collection::vec, prelude::*};

use super::{offered, pod};
use crate::case::{Caller, Crowd, Sibling};

/// Two to four callers in every third case.
pub(super) fn crowd() -> impl Strategy<Value = Crowd> {
    let crowd =
        (vec(caller(), 2..=4), vec(any::<u8>(), 25)).prop_map(|(callers, ranks)| Crowd { callers, ranks });
    prop_oneof![2 => Just(Crowd::default()), 1 => crowd]
}

fn caller() -> impl Strategy<Value = Caller> {
    let sibling = prop_oneof![
        4 => Just(Sibling::Same),
        1 => pod::namespace().prop_map(Sibling::Elsewhere),
        1 => pod::labels(0..=2).prop_map(Sibling::Labelled),
    ];
    (sibling, offered(), uniform10(0..3_usize)).prop_map(|(sibling, offered, ahead)| Caller {
        sibling,
        offered,
        ahead,
    })
}
