//! See `extender_gateway_fuzzing::pem::pem`.

#![no_main]

use extender_gateway_fuzzing::pem;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pem::pem(bytes));
