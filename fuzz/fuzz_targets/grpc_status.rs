//! See `extender_gateway_fuzzing::statuses::status`.

#![no_main]

use extender_gateway_fuzzing::statuses;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| statuses::status(bytes));
