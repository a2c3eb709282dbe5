//! Reads files that other processes may replace: bounded, and without waiting for a writer.

use std::{
    fs::OpenOptions,
    io::{self, ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The first `most` bytes of a file; blocks while it is read.
///
/// # Errors
/// It cannot be read, or is no regular file: a FIFO or a device may never end.
pub fn read_regular_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Opening a FIFO without a writer returns at once.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{fs, process::Command};

    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        for path in [&*fifo, Path::new("/dev/zero")] {
            let error = read_regular_file(path, 8).unwrap_err();
            assert_eq!(error.to_string(), "not a regular file");
        }
        assert_eq!(read_regular_file(folder.path(), 8).unwrap_err().kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn so_many_bytes_of_a_file_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "0123456789").unwrap();
        assert_eq!(read_regular_file(file.path(), 4).unwrap(), b"0123");
        assert_eq!(read_regular_file(file.path(), 99).unwrap(), b"0123456789");
    }
}
