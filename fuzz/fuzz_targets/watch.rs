//! See `extender_gateway_fuzzing::watch::watch`.

#![no_main]

use extender_gateway_fuzzing::watch;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| watch::watch(bytes));
