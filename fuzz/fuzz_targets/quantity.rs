//! See `extender_gateway_fuzzing::quantity::quantity`.

#![no_main]

use extender_gateway_fuzzing::quantity;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quantity::quantity(bytes));
