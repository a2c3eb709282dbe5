//! See `extender_gateway::fuzzing::quantity::quantity`.

#![no_main]

use extender_gateway::fuzzing::quantity;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quantity::quantity(bytes));
