//! See `extender_gateway_fuzzing::configuration::scheduler`.

#![no_main]

use extender_gateway_fuzzing::configuration;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| configuration::scheduler(bytes));
