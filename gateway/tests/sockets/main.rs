//! The gateway on real sockets: its HTTP server on port 0 in front of scripted backends, its programs between
//! scripted servers. One program, because linking takes longer than the tests.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod addresses;
mod ask;
mod attacks;
mod authorized;
mod backend_tls;
mod bind;
mod bind_truth;
mod breaker;
mod call_failures;
mod calls;
mod decisions;
mod door_limits;
mod explain;
mod fits_nowhere;
mod flags;
mod handshake;
mod health;
mod hooks;
mod http2;
mod introspection;
mod large_nodes;
mod log;
mod malicious;
mod matrix;
mod metrics;
mod misused_http2;
mod old_callers;
mod one_round;
mod overload;
mod overrides;
mod page;
mod pod_counts;
mod preempt;
mod probes;
mod reads;
mod reload;
mod remembered;
mod retries;
mod revisions;
mod shadow;
mod silent;
mod simulate;
mod stalls;
mod standard_input;
mod status;
mod stopping;
mod support;
mod tables;
mod tables_of_calls;
mod tls;
mod traces;
mod unread_log;
mod usage;
