//! See `extender_gateway::fuzzing::answers::filter`.

#![no_main]

use extender_gateway::fuzzing::answers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| answers::filter(bytes));
