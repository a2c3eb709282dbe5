//! See `extender_gateway_fuzzing::objects::node`.

#![no_main]

use extender_gateway_fuzzing::objects;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| objects::node(bytes));
