//! See `extender_gateway::fuzzing::configuration::scheduler`.

#![no_main]

use extender_gateway::fuzzing::configuration;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| configuration::scheduler(bytes));
