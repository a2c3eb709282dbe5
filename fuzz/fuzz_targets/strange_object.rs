//! See `extender_gateway_fuzzing::strange::object`.

#![no_main]

use extender_gateway_fuzzing::strange;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strange::object(bytes));
