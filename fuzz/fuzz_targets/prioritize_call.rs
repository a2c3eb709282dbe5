//! See `extender_gateway::fuzzing::calls::prioritize`.

#![no_main]

use extender_gateway::fuzzing::calls;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| calls::prioritize(bytes));
