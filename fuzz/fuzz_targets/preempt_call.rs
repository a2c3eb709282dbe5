//! See `extender_gateway::fuzzing::calls::preempt`.

#![no_main]

use extender_gateway::fuzzing::calls;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| calls::preempt(bytes));
