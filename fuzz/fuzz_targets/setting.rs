//! See `extender_gateway_fuzzing::values::setting`.

#![no_main]

use extender_gateway_fuzzing::values;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| values::setting(bytes));
