//! See `extender_gateway::fuzzing::answers::hook`.

#![no_main]

use extender_gateway::fuzzing::answers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| answers::hook(bytes));
