//! See `extender_gateway::fuzzing::handshake::handshake`.

#![no_main]

use extender_gateway::fuzzing::handshake;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| handshake::handshake(bytes));
