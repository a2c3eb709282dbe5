//! PEM files: certificates, authorities and keys.

use std::{fs, io::Write, path::Path};

use extender_gateway_settings::KeyPair;
use extender_gateway_tls::{IdentityFiles, PemError, PemFile};

/// The longest text of a problem, in bytes.
const LONGEST_PROBLEM: usize = 4 << 10;

/// A file is refused with its name and a remedy, or has at least one certificate; a key is never shown.
pub fn pem(bytes: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let path = file.path();
    let read = PemFile::read("caFile", path).unwrap_or_else(|error| panic!("{error}"));
    assert!(!format!("{read:?}").contains("content"));
    match read.authorities() {
        Ok(authorities) => assert!(!authorities.is_empty()),
        Err(error) => explained(&error, path),
    }
    for validity in [read.chain_validity(), read.authorities_validity()] {
        if let Err(error) = validity {
            explained(&error, path);
        }
    }
    let pair = KeyPair { cert_file: path.to_owned(), key_file: path.to_owned() };
    let mistakes = IdentityFiles::mistakes(&pair);
    for error in &mistakes {
        explained(error, path);
    }
    let files = IdentityFiles::read(&pair).unwrap_or_else(|error| panic!("{error}"));
    let built = files.build(|chain, key| Ok((chain, key)));
    assert!(built.is_ok() || !mistakes.is_empty(), "a mistake is not listed");
    assert_eq!(fs::read(path).unwrap(), bytes);
}

fn explained(error: &PemError, path: &Path) {
    assert_eq!(error.path, path);
    assert!(!error.field.is_empty() && !error.problem.is_empty() && !error.remedy.is_empty());
    assert!(error.problem.len() <= LONGEST_PROBLEM && !error.problem.contains('\n'), "{}", error.problem);
}
