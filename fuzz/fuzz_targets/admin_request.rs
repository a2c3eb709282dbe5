//! See `extender_gateway_fuzzing::admin::request`.

#![no_main]

use extender_gateway_fuzzing::admin;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| admin::request(bytes));
