//! See `extender_gateway_fuzzing::handshake::handshake`.

#![no_main]

use extender_gateway_fuzzing::handshake;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| handshake::handshake(bytes));
