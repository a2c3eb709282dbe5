//! See `extender_gateway_fuzzing::calls::preempt`.

#![no_main]

use extender_gateway_fuzzing::calls;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| calls::preempt(bytes));
