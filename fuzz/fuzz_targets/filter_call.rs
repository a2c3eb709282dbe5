//! See `extender_gateway::fuzzing::calls::filter`.

#![no_main]

use extender_gateway::fuzzing::calls;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| calls::filter(bytes));
