//! SHA-256, by which a call names the operator's args and the declaration of what is read.

use sha2::{Digest as _, Sha256};

/// A SHA-256.
pub type Digest = [u8; 32];

/// The SHA-256 of these bytes.
pub fn sha256(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_sha256() {
        for (bytes, digest) in [(&b""[..], [0xe3, 0xb0, 0xc4, 0x42]), (b"abc", [0xba, 0x78, 0x16, 0xbf])] {
            assert_eq!(sha256(bytes)[..4], digest);
        }
    }
}
