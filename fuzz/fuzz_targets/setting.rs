//! See `extender_gateway::fuzzing::values::setting`.

#![no_main]

use extender_gateway::fuzzing::values;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| values::setting(bytes));
