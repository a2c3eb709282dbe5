//! What holds for all messages of a stream, compared with a table that a few lines describe.

#![expect(clippy::panic, reason = "a property that does not hold is a panic")]

use std::{
    collections::BTreeMap,
    task::{Context, Poll, Waker},
};

use prost::bytes::Bytes;
use tonic::{Code, Status};

use super::{Tables, filling::Filling, mistake::Mistake};
use crate::{codec::decode, node::row::Row, request::SyncNodesRequest};

/// The longest text of a mistake, in bytes.
const LONGEST_MISTAKE: usize = 4 << 10;
/// Rows of more bytes are refused, in all tables.
const MOST_BYTES: usize = 1 << 20;

/// Messages, each behind its length in two bytes, fill a table as they say, one after the other, until one is refused; that
/// one changes nothing.
pub fn sync_nodes(bytes: &[u8]) {
    let tables = Tables::limited(2, MOST_BYTES);
    let mut stream = ModelStream::default();
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let (message, behind) = behind.split_at(behind.len().min(usize::from(u16::from_le_bytes(*length))));
        rest = behind;
        let Ok(message) = decode::<SyncNodesRequest>(Bytes::copy_from_slice(message)) else { break };
        let applied = stream.apply(&tables, message);
        stream.is_as_expected(&tables);
        if let Err(mistake) = applied {
            explained(mistake);
            break;
        }
    }
    let name = std::mem::take(&mut stream.name);
    drop(stream);
    assert!(tables.find(&name).is_none(), "a table ends with its stream");
    assert!(tables.shared.budget.take(MOST_BYTES).is_some(), "all memory is released");
}

#[derive(Default)]
struct ModelStream {
    filling: Option<Filling>,
    name: String,
    version: u64,
    /// The names of the rows.
    expected: BTreeMap<u32, String>,
    /// All ids that a message had.
    seen: Vec<u32>,
}

impl ModelStream {
    fn apply(&mut self, tables: &Tables, message: SyncNodesRequest) -> Result<(), Mistake> {
        let filling = if let Some(filling) = &mut self.filling {
            filling
        } else {
            let begun = Filling::begin(tables, &message)?;
            self.name.clone_from(&message.table);
            self.filling.insert(begun)
        };
        let (version, removed) = (message.version, message.removed.clone());
        let named = message.upserts.iter().map(|entry| (entry.id, entry.row.as_ref().and_then(name)));
        let named: Vec<(u32, Option<String>)> = named.collect();
        self.seen.extend(named.iter().map(|(id, _)| *id).chain(removed.iter().copied()));
        let applied = at_once(filling.apply(message))?;
        assert!(applied == version && version > self.version);
        self.version = version;
        for (id, name) in named {
            self.expected.insert(id, name.unwrap_or_else(|| panic!("an accepted row cannot be read")));
        }
        self.expected.retain(|id, _| !removed.contains(id));
        Ok(())
    }

    /// The table has the expected rows and no others.
    fn is_as_expected(&self, tables: &Tables) {
        let Some(table) = self.filling.as_ref().and_then(|_| tables.find(&self.name)) else { return };
        let rows = table.at_least(self.version).unwrap_or_else(|| panic!("older than acknowledged"));
        assert!(self.version == u64::MAX || table.at_least(self.version + 1).is_none());
        for id in &self.seen {
            let name = rows.row(*id).map(|row| &**row.name);
            assert_eq!(name, self.expected.get(id).map(String::as_str), "{id}");
        }
    }
}

fn name(row: &Bytes) -> Option<String> {
    let (name, _) = Row::read(row).ok()?.into_parts();
    Some(name.to_string())
}

/// The result of work that only yields to other tasks.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

fn explained(mistake: Mistake) {
    let status = Status::from(mistake);
    assert!(matches!(status.code(), Code::InvalidArgument | Code::ResourceExhausted), "{status}");
    let text = status.message();
    assert!(!text.is_empty() && text.len() <= LONGEST_MISTAKE, "{} bytes", text.len());
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    /// The inputs that cargo-fuzz has found to reach different code, and those that once failed.
    #[test]
    fn the_corpus_holds() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sync_nodes");
        let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty(), "{} has no files", folder.display());
        for file in files {
            // Shown only if it fails.
            println!("{}", file.display());
            super::sync_nodes(&fs::read(&file).unwrap());
        }
    }
}
