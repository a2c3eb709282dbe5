//! Certificates and keys for TLS, of servers and clients.

pub mod pem;
