//! Cases that once showed a difference. They are replayed before the search.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
};

use crate::case::Case;

/// The kept cases with their files, in the order of the files' names.
///
/// # Errors
/// The folder or a file of it cannot be read, or does not hold a case.
pub fn all() -> io::Result<Vec<(PathBuf, Case)>> {
    let files = fs::read_dir(folder())?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = files.collect::<io::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files.into_iter().map(|file| Ok((file.clone(), read(&file)?))).collect()
}

/// Keeps a case; returns where.
///
/// # Errors
/// The file cannot be written.
pub fn keep(case: &Case) -> io::Result<PathBuf> {
    let text = serde_json::to_string(case)?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let file = folder().join(format!("found-{:016x}.json", hasher.finish()));
    fs::write(&file, text + "\n")?;
    Ok(file)
}

fn read(file: &Path) -> io::Result<Case> {
    let text = fs::read_to_string(file)?;
    serde_json::from_str(&text).map_err(|error| io::Error::other(format!("{}: {error}", file.display())))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}
