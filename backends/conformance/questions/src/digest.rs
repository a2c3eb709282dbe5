//! SHA-256, by which a call names args and declarations.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

/// The SHA-256 of these bytes.
pub fn sha256(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&Sha256::digest(bytes))
}
