//! See `extender_gateway::fuzzing::objects::pod`.

#![no_main]

use extender_gateway::fuzzing::objects;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| objects::pod(bytes));
