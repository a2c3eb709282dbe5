//! The revision of a policy that sets none: another build has another one, also with the same version. Replicas of one build
//! have the same one.

use std::{
    env,
    fs::File,
    io::{self, Read as _},
    sync::LazyLock,
};

use extender_policy_api::limits::REVISION_BYTES;

/// As much is read at a time.
const PART_BYTES: usize = 1 << 20;

/// The version and the program's digest; the version alone if the program cannot be read.
pub(super) fn revision(version: &str) -> String {
    static DIGEST: LazyLock<String> = LazyLock::new(|| {
        program().and_then(digest).map(|digest| format!("+{digest:016x}")).unwrap_or_default()
    });
    let most = version.floor_char_boundary(REVISION_BYTES - DIGEST.len());
    format!("{}{}", &version[..most], *DIGEST)
}

fn program() -> io::Result<File> {
    File::open(env::current_exe()?)
}

fn digest(mut program: impl io::Read) -> io::Result<u64> {
    let (mut part, mut digest) = (Vec::new(), 0);
    while program.by_ref().take(PART_BYTES as u64).read_to_end(&mut part)? > 0 {
        digest = part.chunks(8).fold(digest, added);
        part.clear();
    }
    Ok(digest)
}

/// A step is a bijection, and cheap also where it is not optimized: debug builds have 150 MB.
fn added(digest: u64, bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    (digest.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_the_version_and_a_digest_of_each_byte() {
        let long = revision(&"1".repeat(REVISION_BYTES));
        let (version, digest) = long.split_once('+').unwrap();
        assert_eq!((version.len(), digest.len()), (REVISION_BYTES - 17, 16));
        assert_eq!(revision("1.0"), format!("1.0+{digest}"));
        assert_eq!(program().and_then(super::digest).unwrap(), u64::from_str_radix(digest, 16).unwrap());
        let of = |bytes: &[u8]| super::digest(bytes).unwrap();
        let mut bytes = vec![0; PART_BYTES + 19];
        let first = of(&bytes);
        for at in (0..19).chain(PART_BYTES - 1..PART_BYTES + 19) {
            bytes[at] = 77;
            assert_ne!(of(&bytes), first, "{at}");
            bytes[at] = 0;
        }
        assert_eq!(of(&bytes), first);
    }
}
