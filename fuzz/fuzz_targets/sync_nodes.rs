//! See `extender_policy_sdk::fuzzing::sync_nodes`.

#![no_main]

use extender_policy_sdk::fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::sync_nodes(bytes));
