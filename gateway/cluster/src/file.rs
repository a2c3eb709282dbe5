//! Keeps the node table up to date from a file, for experiments without a cluster.
//!
//! The file is the output of `kubectl get nodes -o yaml` or `-o json`, or contains nodes as YAML documents or as a JSON
//! array. It is checked twice a second, and reloaded after it was written or replaced and has then not changed for one
//! period, so that a file that is still being written is not used. An invalid file is logged and otherwise ignored.

pub mod content;

use std::{
    convert::Infallible,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use extender_files::Follower;
use tokio::{sync::watch, task::spawn_blocking, time::timeout};

pub use self::content::ContentError;
use super::{objects, table::NodeTable};

/// The period of checks.
const PERIOD: Duration = Duration::from_millis(500);

/// A longer read is logged: the file system may hang.
const SLOW: Duration = Duration::from_secs(30);

/// Why a node file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error(
        "the node file {path} cannot be read: {source}; name a readable file, such as one written by \
         `kubectl get nodes -o yaml`"
    )]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It is not a file of nodes.
    #[error("the node file {path}: {problem}")]
    Content {
        /// Its path.
        path: PathBuf,
        /// The cause.
        problem: ContentError,
    },
}

/// A file of nodes, with the version that the table contains.
#[derive(Debug)]
pub struct NodeFile {
    path: PathBuf,
    loaded: Option<FileVersion>,
    raw_wanted: watch::Receiver<bool>,
}

/// Identifies a version of a file, or of a symbolic link's target, without reading it: device, inode, modification time
/// in seconds and nanoseconds, and length.
pub type FileVersion = (u64, u64, i64, i64, u64);

impl NodeFile {
    /// Reads the file into the table for the first time. Blocks.
    pub fn open(path: PathBuf, table: &NodeTable) -> Result<Self, FileError> {
        // Both before reading, so that changes in the meantime are noticed.
        let raw_wanted = table.raw_wanted();
        let loaded = version(&path);
        load(&path, table)?;
        Ok(Self { path, loaded, raw_wanted })
    }

    /// Keeps the table up to date with the file.
    pub async fn follow(mut self, table: Arc<NodeTable>) -> Infallible {
        let path = self.path.clone();
        let mut versions = Follower::new(self.loaded, PERIOD, move || version(&path));
        loop {
            tokio::select! {
                _ = versions.changed() => {}
                Ok(()) = self.raw_wanted.changed() => {}
            }
            self.reload(&table).await;
        }
    }

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

/// The current version; `None` if there is no such file.
pub fn version(path: &Path) -> Option<FileVersion> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
}

fn load(path: &Path, table: &NodeTable) -> Result<(), FileError> {
    let text =
        objects::text(path).map_err(|source| FileError::Unreadable { path: path.to_owned(), source })?;
    let relist = content::read(&text, table.relist())
        .map_err(|problem| FileError::Content { path: path.to_owned(), problem })?;
    table.replace(relist);
    Ok(())
}

#[cfg(test)]
mod tests;
