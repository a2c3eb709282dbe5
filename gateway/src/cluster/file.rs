//! Keeps the node table fed from a file, for trying things out without a cluster.
//!
//! The file is what `kubectl get nodes -o yaml` or `-o json` writes, or nodes as YAML documents or as a
//! JSON array. It is checked twice a second and reloaded when it has changed: rewritten, renamed
//! over, or behind another symlink. It is read when it has rested for one look, so that a file is not
//! caught half written. An invalid file is logged and otherwise ignored.

mod content;

use std::{
    convert::Infallible,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use extender_config::{Follower, read_regular_file};
use tokio::{sync::watch, task::spawn_blocking, time::timeout};

pub use self::content::ContentError;
use super::table::NodeTable;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// A read that takes longer is logged: a file system may hang.
const SLOW: Duration = Duration::from_secs(30);

/// The most bytes that are read: more than 100,000 nodes take.
const LARGEST: u64 = 2 << 30;

/// Why a node file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read at all.
    #[error(
        "the node file {path} cannot be read: {source}; name a readable file, such as one written by \
         `kubectl get nodes -o yaml`"
    )]
    Unreadable {
        /// Where it should be.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It was read, but is not a file of nodes.
    #[error("the node file {path}: {problem}")]
    Content {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        problem: ContentError,
    },
}

/// A file of nodes, and which state of it the table holds.
#[derive(Debug)]
pub struct NodeFile {
    path: PathBuf,
    loaded: Option<FileVersion>,
    raw_wanted: watch::Receiver<bool>,
}

/// What tells one state of a file from another without reading it; that of a symlink's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    file: (u64, u64),
    modified: (i64, i64),
    length: u64,
}

impl NodeFile {
    /// Reads the file into the table for the first time; blocks while it does.
    pub fn open(path: PathBuf, table: &NodeTable) -> Result<Self, FileError> {
        // Both before reading: what changes meanwhile is noticed afterwards.
        let raw_wanted = table.raw_wanted();
        let loaded = FileVersion::at(&path);
        load(&path, table)?;
        Ok(Self { path, loaded, raw_wanted })
    }

    /// Keeps the table up to date with the file.
    pub async fn follow(mut self, table: Arc<NodeTable>) -> Infallible {
        let path = self.path.clone();
        let mut versions = Follower::new(self.loaded, LOOK, move || FileVersion::at(&path));
        loop {
            tokio::select! {
                _ = versions.changed() => {}
                Ok(()) = self.raw_wanted.changed() => {}
            }
            self.reload(&table).await;
        }
    }

    /// Reads the file on a thread that may block.
    async fn reload(&self, table: &Arc<NodeTable>) {
        let (path, target) = (self.path.clone(), Arc::clone(table));
        let mut read = spawn_blocking(move || load(&path, &target));
        let read = if let Ok(read) = timeout(SLOW, &mut read).await {
            read
        } else {
            tracing::warn!(path = %self.path.display(), "reading the node file takes more than {SLOW:?}; check its file system");
            read.await
        };
        match read {
            Ok(Ok(())) => tracing::info!(nodes = table.len(), "node file reloaded"),
            Ok(Err(error)) => tracing::warn!(%error, "node file rejected; the previous nodes stay in use"),
            Err(error) => {
                tracing::error!(%error, "cannot read the node file; the previous nodes stay in use");
            }
        }
    }
}

impl FileVersion {
    /// `None` when there is no such file.
    fn at(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            file: (metadata.dev(), metadata.ino()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            length: metadata.len(),
        })
    }
}

fn load(path: &Path, table: &NodeTable) -> Result<(), FileError> {
    let text = text(path).map_err(|source| FileError::Unreadable { path: path.to_owned(), source })?;
    let relist = content::read(&text, table.relist())
        .map_err(|problem| FileError::Content { path: path.to_owned(), problem })?;
    table.replace(relist);
    Ok(())
}

fn text(path: &Path) -> io::Result<String> {
    let bytes = read_regular_file(path, LARGEST + 1)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it has more than 2 GiB"));
    }
    String::from_utf8(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
