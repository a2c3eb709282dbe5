//! See `extender_gateway::fuzzing::admin::request`.

#![no_main]

use extender_gateway::fuzzing::admin;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| admin::request(bytes));
