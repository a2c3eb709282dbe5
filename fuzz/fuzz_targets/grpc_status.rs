//! See `extender_gateway::fuzzing::statuses::status`.

#![no_main]

use extender_gateway::fuzzing::statuses;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| statuses::status(bytes));
