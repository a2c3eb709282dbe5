//! See `extender_gateway_fuzzing::answers::filter`.

#![no_main]

use extender_gateway_fuzzing::answers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| answers::filter(bytes));
