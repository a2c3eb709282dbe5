//! The nodes that the gateway knows, as rows ready to be sent.
//!
//! Every node has a slot, and in it a row for every view that some backend asked for. A call takes one read lock
//! for all its nodes and takes rows out; it never waits for parsing or encoding, because a writer prepares
//! everything beside the slots and only swaps it in under the write lock. Writers are serialised among themselves
//! by a lock that calls see only where they bring nodes. A row's version says which state of it is meant: what
//! backends hold and what was remembered of their answers goes by it.
//!
//! A source keeps the table like this: what it lists goes into a [`NodeRelist`] and from there, all at once, into
//! [`NodeTable::replace`]; what changes after that into [`NodeTable::apply`] and [`NodeTable::remove`].

mod absent;
mod change;
mod column;
mod ids;
mod log;
mod lookups;
mod snapshot;
mod writer;

use std::sync::Arc;

use extender_policy_api::v1alpha1::NodeUsage;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::{
    sync::watch,
    task::yield_now,
    time::{Instant, timeout_at},
};

use self::{
    absent::Absent,
    lookups::LatestLookups,
    snapshot::TableSnapshot,
    writer::{NodeEntry, NodeNames, Replaced, TableWriter},
};
pub use self::{
    change::{Change, TableChanges},
    column::{Column, ViewId},
    ids::RowId,
    lookups::NodeRows,
    snapshot::{Found, NodeRow, RowState, TableRead},
    writer::NodeRelist,
};
use super::source_health::SourceHealth;
use crate::{
    contract::row::RowView,
    object::{ObjectError, limits::EntryLimits, node},
};

/// Of how many nodes rows are written while writers wait: less than a millisecond.
const FILLED_AT_ONCE: usize = 32;

/// The node table, shared between the calls and one source.
#[derive(Debug, Default)]
pub struct NodeTable {
    /// What calls read.
    snapshot: RwLock<TableSnapshot>,
    /// What writers know. Locked before `snapshot`, never while holding it.
    writer: Mutex<TableWriter>,
    /// Names that have no node. Locked last.
    absent: Mutex<Absent>,
    /// Counts the changes of `snapshot`.
    changes: watch::Sender<u64>,
    synced: watch::Sender<bool>,
    raw_wanted: watch::Sender<bool>,
    /// What is known of the source.
    pub source_health: SourceHealth,
    /// `None` where calls bring the nodes: their rows are too much to be kept beside those of the next call.
    latest: Option<LatestLookups>,
}

impl NodeTable {
    /// An empty table, not synced.
    pub fn new() -> Self {
        Self { latest: Some(LatestLookups::default()), ..Self::default() }
    }

    /// An empty table for nodes that calls bring, which keeps what they brought: a node that comes again byte for
    /// byte is neither parsed nor encoded.
    pub fn of_calls() -> Self {
        Self { writer: Mutex::new(TableWriter::of_calls()), ..Self::default() }
    }

    /// Has rows of this view kept while the column is held. It costs nothing yet: nodes that are known already get
    /// their rows in [`NodeTable::fill`], or when a call brings them. Only the first view with JSON has to wait until
    /// the source has brought the nodes once more: [`NodeTable::complete`].
    pub fn register(&self, view: RowView) -> Column {
        let mut writer = self.lock_writer();
        let wants_raw = view.wants_raw();
        let column = writer.register(view);
        drop(writer);
        self.raw_wanted.send_if_modified(|wanted| wants_raw && !std::mem::replace(wanted, true));
        column
    }

    /// Writes the rows of nodes that were known before the view was registered, some at a time, so that neither calls
    /// nor writers wait long.
    pub async fn fill(&self, view: ViewId) {
        let names = self.lock_writer().without_row(view);
        for names in names.chunks(FILLED_AT_ONCE) {
            self.fill_some(names, view);
            yield_now().await;
        }
    }

    fn fill_some(&self, names: &[Arc<str>], view: ViewId) {
        let mut writer = self.lock_writer();
        let filled: Vec<_> = names.iter().filter_map(|name| writer.fill(name, view)).collect();
        self.publish(&writer, &filled);
    }

    /// How many views it keeps rows of.
    pub fn columns(&self) -> usize {
        self.lock_writer().columns()
    }

    /// Takes a node as it is now. Calls notice nothing unless its rows change: a heartbeat changes the rows
    /// of views with JSON alone.
    pub fn apply(&self, json: &[u8]) -> Result<Change, ObjectError> {
        let object = node::parse(json)?;
        let mut writer = self.lock_writer();
        let known = NodeEntry::new(&object, writer.wants_raw().then_some(json));
        let (name, change) = writer.put(object.name(), known);
        if change == Change::Added {
            self.absent.lock().appear(&name);
        }
        if change != Change::Unchanged {
            self.publish(&writer, &[name]);
        }
        Ok(change)
    }

    /// Forgets a node.
    pub fn remove(&self, name: &str) -> Change {
        let mut writer = self.lock_writer();
        let change = writer.remove(name);
        if change != Change::Unchanged {
            self.absent.lock().delete(name);
            drop(self.write(&writer, |snapshot| snapshot.remove(name)));
        }
        change
    }

    /// Takes the nodes of a call, and finds their lines in a view. Both are one step, so that the lines are those of
    /// this call, whatever other calls bring. `object` is the JSON of a node by its place among the names; `None` where
    /// the name is all that the call says. A node that is known byte for byte costs a comparison.
    ///
    /// # Errors
    /// The place of a node that cannot be read, or with which the new ones have more entries than one call may
    /// bring. Those before it are taken.
    pub fn import<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str> + Clone,
        object: impl Fn(u32) -> Option<&'n [u8]>,
        view: ViewId,
    ) -> Result<Found, (u32, ObjectError)> {
        let _limits = EntryLimits::of_all_nodes();
        let mut writer = self.lock_writer();
        let mut fresh = Vec::new();
        let mut outcome = Ok(());
        for (place, name) in (0..).zip(names.clone()) {
            match writer.import((name, object(place)), view) {
                Ok(brought) => fresh.extend(brought),
                Err(error) => {
                    outcome = Err((place, error));
                    break;
                }
            }
        }
        self.publish(&writer, &fresh);
        outcome?;
        // Other writers still wait for `writer`.
        Ok(self.read().rows(names, view))
    }

    /// Forgets everything when it holds more than `bytes` of JSON or more than `nodes` nodes: nodes that are gone
    /// are not heard of here.
    pub fn limit(&self, bytes: usize, nodes: usize) {
        let mut writer = self.lock_writer();
        if writer.json_bytes() > bytes || writer.len() > nodes {
            writer.clear();
            self.swap(&writer);
        }
    }

    /// Takes what pods have requested on these nodes. From the first time on, nodes that were never named have no
    /// pods.
    pub fn apply_usage(&self, changed: &[(Arc<str>, NodeUsage)]) {
        let mut writer = self.lock_writer();
        let nodes = writer.use_up(changed);
        self.publish(&writer, &nodes);
    }

    /// The extended resources that a node reports; `None` where it is not known.
    pub fn reported_resources(&self, name: &str) -> Option<Vec<String>> {
        self.lock_writer().reported_resources(name)
    }

    /// Begins to collect the nodes of a new list.
    pub fn relist(&self) -> NodeRelist {
        self.lock_writer().relist()
    }

    /// Replaces the table with this list; nodes not in it are removed, all in one step for the calls.
    /// From now on the table is synced.
    pub fn replace(&self, relist: NodeRelist) {
        let mut writer = self.lock_writer();
        let Replaced { change, gone } = writer.replace(relist);
        if change != Change::Unchanged {
            let mut absent = self.absent.lock();
            absent.retain(|name| !writer.contains(name));
            for name in &gone {
                absent.delete(name);
            }
            drop(absent);
            self.swap(&writer);
        }
        drop(writer);
        self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
    }

    /// The lines of these nodes in this view, for one call. Waits until the instant for those that are not there, but
    /// not for nodes that were deleted, and not for names that calls have waited for before and that are still unknown.
    pub async fn rows<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str> + Clone,
        view: ViewId,
        until: Instant,
    ) -> Found {
        let found = self.look_up(names.clone(), view);
        if found.unknown.is_empty() {
            return found;
        }
        let is_missing = |place: &u32| found.unknown.binary_search(place).is_ok();
        let missing = (0..).zip(names.clone()).filter(|(place, _)| is_missing(place));
        let missing: Vec<&str> = missing.map(|(_, name)| name).collect();
        let (missing, until) = self.worth_waiting(missing, until);
        // Taken before the next look, so that a change between that and the wait is not missed.
        let mut changes = self.changes();
        while !self.read().has(&missing, view) && timeout_at(until, changes.next()).await.is_ok() {}
        let mut found = self.look_up(names.clone(), view);
        if !found.unknown.is_empty() {
            let absent = self.absent.lock();
            let is_deleted = |(place, name)| {
                (found.unknown.binary_search(&place).is_ok() && absent.is_deleted(name)).then_some(place)
            };
            found.deleted = (0..).zip(names).filter_map(is_deleted).collect();
        }
        found
    }

    /// Those of these names for which a call waits, and until when.
    fn worth_waiting<'n>(&self, names: Vec<&'n str>, until: Instant) -> (Vec<&'n str>, Instant) {
        let (mut worth, mut latest) = (Vec::new(), None);
        let read = self.read();
        let mut absent = self.absent.lock();
        for name in names {
            // Of a node that is known something else is missing, which comes soon.
            let wait = if read.knows(name) { Some(until) } else { absent.wait(name, until) };
            worth.extend(wait.map(|_| name));
            latest = latest.max(wait);
        }
        (worth, latest.unwrap_or(until))
    }

    /// The same, without waiting.
    pub fn look_up<'n>(&self, names: impl ExactSizeIterator<Item = &'n str> + Clone, view: ViewId) -> Found {
        // With JSON the version moves with every heartbeat, and rows are large.
        let Some(latest) = self.latest.as_ref().filter(|_| !*self.raw_wanted.borrow()) else {
            return self.read().rows(names, view);
        };
        let version = self.read().version();
        if let Some(lines) = latest.find(names.clone(), (view, version)) {
            return Found { rows: lines, unknown: Vec::new(), deleted: Vec::new(), version };
        }
        let found = self.read().rows(names.clone(), view);
        if found.unknown.is_empty() {
            latest.keep(names, (view, found.version), &found.rows);
        }
        found
    }

    /// The rows, for one call. Writers wait while this is held: copy what is needed and let go, and never
    /// hold it across an await.
    pub fn read(&self) -> TableRead<'_> {
        TableRead { snapshot: self.snapshot.read() }
    }

    /// How many nodes are known.
    pub fn len(&self) -> usize {
        self.lock_writer().len()
    }

    /// Whether no node is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a source has brought a complete list at least once.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until a source has brought a complete list. Any runtime may wait.
    pub async fn synced(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        drop(self.synced.subscribe().wait_for(|synced| *synced).await);
    }

    /// Waits until the table is synced and every node has its row in this view.
    pub async fn complete(&self, view: ViewId) {
        self.synced().await;
        let mut changes = self.changes();
        while !self.lock_writer().is_complete(view) {
            changes.next().await;
        }
    }

    /// The changes from here on. Taken before [`NodeTable::read`], it misses none that the reader has not
    /// seen.
    pub fn changes(&self) -> TableChanges {
        TableChanges::new(self.changes.subscribe())
    }

    /// Becomes true, once, when a view wants JSON. The source then brings the nodes once more, because the
    /// table has not kept it.
    pub fn raw_wanted(&self) -> watch::Receiver<bool> {
        self.raw_wanted.subscribe()
    }

    fn lock_writer(&self) -> MutexGuard<'_, TableWriter> {
        let mut writer = self.writer.lock();
        if writer.drop_unheld() {
            let wants_raw = writer.wants_raw();
            // Nothing is to be done about it: who waits for this waits until JSON is wanted.
            self.raw_wanted.send_if_modified(|wanted| {
                *wanted &= wants_raw;
                false
            });
            self.swap(&writer);
        }
        writer
    }

    /// Lets calls see these nodes as they are now.
    fn publish(&self, writer: &TableWriter, names: &[Arc<str>]) {
        if self.read().generation() != writer.generation() {
            return self.swap(writer);
        }
        if names.is_empty() {
            return;
        }
        let slots: Vec<_> = names.iter().filter_map(|name| Some((name, writer.slot_of(name)?))).collect();
        let put = |snapshot: &mut TableSnapshot| {
            slots.into_iter().map(|(name, (at, slot))| snapshot.put(name, at, slot)).collect::<Vec<_>>()
        };
        // Returned, so that the old rows are freed after the lock.
        drop(self.write(writer, put));
    }

    /// Publishes the table to calls.
    fn swap(&self, writer: &TableWriter) {
        let fresh = writer.snapshot();
        // Returned, so that the old rows are freed after the lock.
        drop(self.write(writer, |snapshot| std::mem::replace(snapshot, fresh)));
    }

    fn write<T>(&self, writer: &TableWriter, change: impl FnOnce(&mut TableSnapshot) -> T) -> T {
        let mut snapshot = self.snapshot.write();
        debug_assert!(snapshot.version < writer.version(), "who has seen this version would not look again");
        snapshot.version = writer.version();
        let told = change(&mut snapshot);
        drop(snapshot);
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
        told
    }
}

#[cfg(test)]
mod tests;
