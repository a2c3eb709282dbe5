//! See `extender_gateway_fuzzing::answers::preempt`.

#![no_main]

use extender_gateway_fuzzing::answers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| answers::preempt(bytes));
