//! Certificates, keys and what TLS needs of them, on either side.

pub mod pem;
