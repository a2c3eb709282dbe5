//! The nodes that the gateway knows, as rows ready to be sent.
//!
//! Every node has a slot, with a row for each view that a backend needs. A call takes one read lock for all its nodes
//! and keeps the rows of its views as they are then; it never waits for parsing or encoding, because a writer prepares
//! its changes before it takes the write lock, under which only pieces that calls share are copied. The version of a
//! row identifies its state to backends that hold it and to cached answers.
//!
//! A source adds the nodes of a list to a [`NodeRelist`] and passes it to [`NodeTable::replace`]; later changes go to
//! [`NodeTable::apply`] and [`NodeTable::remove`].

mod absent;
mod columns;
mod entry;
mod labels;
mod order;
mod rows;
mod snapshot;
mod writer;

use std::{
    cell::OnceCell,
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use extender_policy_api::v1beta1::{NodeFacts, NodeUsage};
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
use tokio::{
    sync::{SetOnce, watch},
    task::yield_now,
    time::{Instant, timeout_at},
};

use self::{
    absent::Absent,
    entry::{NodeEntry, NodeNames},
    rows::RowState,
    writer::TableWriter,
};
pub use self::{
    columns::NodeRows,
    entry::{NodeRelist, row_with_pods},
    labels::NodeLabels,
    rows::{Column, NodeRow, RowId, RowKey, ViewId},
    snapshot::{Found, NodeSlots, TableSnapshot},
};
use extender_gateway_contract::row::RowView;
use extender_gateway_object::{ObjectError, counted::CountedBy, limits::EntryLimits, node};
use extender_gateway_wire::KnownObjects;

use super::{
    SourceHealth,
    unreadable::{ObjectName, Unreadable},
    usage::UsageChange,
};

/// The kind of the objects of a table.
const NODE: &str = "Node";

/// The number of nodes whose rows are written at once, while other writers wait: less than a millisecond.
const FILLED_AT_ONCE: usize = 32;

/// The node table, shared between the calls and one source.
#[derive(Debug, Default)]
pub struct NodeTable {
    /// What calls read.
    snapshot: RwLock<TableSnapshot>,
    /// Locked before `snapshot`, never while holding it. Calls lock it only if they send nodes.
    writer: Mutex<TableWriter>,
    /// Locked last.
    absent: Mutex<Absent>,
    /// Of a table of calls none. Locked last for writing.
    labels: RwLock<NodeLabels>,
    /// Reports each change of `snapshot`.
    changes: watch::Sender<()>,
    synced: SetOnce<()>,
    raw_wanted: watch::Sender<bool>,
    /// The health of the source.
    pub source_health: SourceHealth,
    /// The nodes that cannot be read; of a table of calls also pods.
    pub unreadable: Unreadable,
    /// Whether a source provides all nodes of the cluster.
    has_source: bool,
    first_snapshot: FirstSnapshot,
}

/// The number of the state without nodes: random, so that a replica that was restarted has others.
#[derive(Debug)]
struct FirstSnapshot(u64);

impl Default for FirstSnapshot {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

/// The JSON that a table keeps of its nodes. Blocks writers from the first use on: calls with names do not lock the table.
#[derive(Debug)]
pub struct KnownJson<'t> {
    table: &'t NodeTable,
    writer: OnceCell<MutexGuard<'t, TableWriter>>,
}

impl KnownObjects for KnownJson<'_> {
    fn json(&self, name: &str) -> Option<&[u8]> {
        self.writer.get_or_init(|| self.table.lock_writer()).entry(name)?.raw.as_deref()
    }
}

impl NodeTable {
    /// An empty table, not synced.
    pub fn new() -> Self {
        Self { has_source: true, ..Self::default() }
    }

    /// An empty table for nodes that calls send. A node that is sent again byte for byte is neither parsed nor encoded.
    pub fn of_calls() -> Self {
        Self { writer: Mutex::new(TableWriter::of_calls()), ..Self::default() }
    }

    /// Keeps rows of this view while the column exists. Known nodes get theirs in [`NodeTable::fill`], or when a call
    /// sends them. After the first view with JSON, the source must list the nodes again: see [`NodeTable::complete`].
    pub fn register(&self, view: RowView) -> Column {
        let mut writer = self.lock_writer();
        let wants_raw = view.needs_json();
        let column = writer.register(view);
        drop(writer);
        self.raw_wanted.send_if_modified(|wanted| wants_raw && !std::mem::replace(wanted, true));
        column
    }

    /// Writes the missing rows of a view, a few nodes at a time, so that neither calls nor other writers wait long.
    pub async fn fill(&self, view: ViewId) {
        let names = self.lock_writer().without_row(view);
        for names in names.chunks(FILLED_AT_ONCE) {
            {
                let mut writer = self.lock_writer();
                let filled = writer.fill(names, view);
                writer.pack(&filled, view);
                self.publish(&writer, &filled);
            }
            yield_now().await;
        }
    }

    /// Sets a node. Returns whether it has changed: a heartbeat changes nodes only if their JSON is kept.
    pub fn apply(&self, json: &[u8]) -> Result<bool, ObjectError> {
        let object = node::parse(json)?;
        self.unreadable.remove(NODE, "", object.name());
        let mut writer = self.lock_writer();
        let entry = NodeEntry::new(&object, writer.wants_raw().then_some(json));
        let changed = writer.put(object.name(), entry);
        if let Some(name) = &changed {
            self.absent.lock().appear(name);
            if let Some(entry) = writer.entry(name) {
                self.labels.write().set(name, entry);
            }
            self.publish(&writer, std::slice::from_ref(name));
        }
        Ok(changed.is_some())
    }

    /// Removes a node; false if it is unknown.
    pub fn remove(&self, name: &str) -> bool {
        let is_removed = self.remove_row(name);
        if is_removed || self.unreadable.has_node(name) {
            self.absent.lock().delete(name);
        }
        self.unreadable.remove(NODE, "", name);
        is_removed
    }

    /// A node has changed and cannot be read any more: calls reject it, because its earlier state may be wrong.
    pub fn reject(&self, node: ObjectName, error: &str) {
        let name = node.name.clone();
        self.unreadable.add(node, error);
        self.remove_row(&name);
    }

    fn remove_row(&self, name: &str) -> bool {
        let mut writer = self.lock_writer();
        let is_removed = writer.remove(name);
        if is_removed {
            self.labels.write().remove(name);
            drop(self.write(&writer, |snapshot| snapshot.remove(name)));
        }
        is_removed
    }

    /// Sets the nodes of a call and returns their rows in a view, in one step: the rows are those of this call, even if
    /// other calls send other states of the nodes. `object` returns a node's JSON by its position, or `None` if the
    /// call only names it. For a node that is known byte for byte this costs a comparison.
    ///
    /// A node that cannot be read is not set.
    ///
    /// # Errors
    /// The position of the first node with which the new nodes exceed the limit of entries of a call. The nodes before
    /// it are set.
    pub fn import<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str> + Clone,
        object: impl Fn(u32) -> Option<&'n [u8]>,
        view: ViewId,
    ) -> Result<Found, (u32, ObjectError)> {
        let limits = EntryLimits::of_all_nodes();
        let mut writer = self.lock_writer();
        let (mut changed, mut unreadable) = (Vec::new(), Vec::new());
        let (mut outcome, mut is_removed) = (Ok(()), false);
        for (position, name) in (0..).zip(names.clone()) {
            match writer.import(name, object(position), view) {
                Ok(Some(name)) => {
                    self.unreadable.remove(NODE, "", &name);
                    changed.push(name);
                }
                Ok(None) => {}
                Err(error) if limits.are_reached() => {
                    outcome = Err((position, error));
                    break;
                }
                Err(error) => {
                    self.unreadable.add_of_call(ObjectName::node(name), &error.to_string());
                    unreadable.push(position);
                    is_removed |= writer.remove(name);
                }
            }
        }
        if is_removed {
            self.swap(&writer);
        } else {
            self.publish(&writer, &changed);
        }
        outcome?;
        // Still under the lock of `writer`.
        Ok(Found { unreadable, ..self.look_up(names, view, &mut None) })
    }

    /// The JSON that is kept of nodes. Do not hold it across an await.
    pub fn known_json(&self) -> KnownJson<'_> {
        KnownJson { table: self, writer: OnceCell::new() }
    }

    /// Removes all nodes if there are more than `bytes` of JSON or more than `nodes` nodes: calls do not report deleted
    /// nodes.
    pub fn limit(&self, bytes: usize, nodes: usize) {
        let mut writer = self.lock_writer();
        if writer.raw_bytes > bytes || writer.nodes.len() > nodes {
            writer.clear();
            self.swap(&writer);
        }
    }

    /// Follows exactly these labels of nodes, for [`NodeTable::node_labels`].
    pub fn follow_labels(&self, keys: &BTreeSet<&str>) {
        // A table of calls is not complete.
        if self.has_source && !self.labels.read().follows(keys) {
            let writer = self.lock_writer();
            self.labels.write().follow(keys, writer.entries());
        }
    }

    /// The followed labels. Blocks writers: do not hold it for long, and never across an await.
    pub fn node_labels(&self) -> RwLockReadGuard<'_, NodeLabels> {
        self.labels.read()
    }

    /// Those of these labels that no node has; none while there are no nodes.
    pub fn labels_of_no_node(&self, keys: &[String]) -> Vec<String> {
        let writer = self.lock_writer();
        let is_missing = |key: &&String| writer.entries().all(|(_, entry)| entry.label(key).is_none());
        let has_nodes = writer.entries().next().is_some();
        keys.iter().filter(|_| has_nodes).filter(is_missing).cloned().collect()
    }

    /// By what the registered views count pods.
    pub fn counted_by(&self) -> BTreeSet<CountedBy> {
        self.lock_writer().counted_by().cloned().collect()
    }

    /// Sets what has changed about the pods on nodes. After the first call, other nodes have no pods.
    pub fn apply_usage(&self, change: &UsageChange) {
        let mut writer = self.lock_writer();
        let nodes = writer.apply_usage(change);
        self.publish(&writer, &nodes);
    }

    /// The facts about a node with all annotations, and the requests of the pods on it; `None` if there is no such node.
    pub fn known(&self, name: &str) -> Option<(Option<NodeFacts>, Option<NodeUsage>)> {
        self.lock_writer().known(name)
    }

    /// The extended resources that a node reports; `None` if its facts are unknown.
    pub fn reported_resources(&self, name: &str) -> Option<Vec<String>> {
        self.lock_writer().reported_resources(name)
    }

    /// An empty list for [`NodeTable::replace`].
    pub fn relist(&self) -> NodeRelist {
        self.lock_writer().relist()
    }

    /// Replaces all nodes by those of the list, in one step for calls. The table is synced afterwards.
    pub fn replace(&self, relist: NodeRelist) {
        let mut writer = self.lock_writer();
        if let Some(gone) = writer.replace(relist) {
            let mut absent = self.absent.lock();
            absent.retain(|name| !writer.nodes.contains_key(name));
            for name in &gone {
                absent.delete(name);
            }
            drop(absent);
            self.labels.write().replace(writer.entries());
            self.swap(&writer);
        }
        drop(writer);
        // Already set after an earlier list.
        let _ = self.synced.set(());
    }

    /// The rows of these nodes in this view, for one call. Waits until the instant for missing ones, but not for
    /// deleted nodes, nor for unknown names that an earlier call has waited for. `slots` are those of the nodes: the next
    /// view of a call finds them there.
    pub async fn rows<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str> + Clone,
        view: ViewId,
        slots: &mut Option<NodeSlots>,
        until: Instant,
    ) -> Found {
        let found = self.look_up(names.clone(), view, slots);
        if found.unknown.is_empty() {
            return found;
        }
        self.wait_for(found.unknown_names(names.clone()), &[view], until).await;
        let found = self.look_up(names.clone(), view, slots);
        self.with_causes(found, names)
    }

    /// The same in several views, all of one version.
    pub async fn rows_together<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str> + Clone,
        views: &[ViewId],
        slots: &mut Option<NodeSlots>,
        until: Instant,
    ) -> Vec<Found> {
        let all = self.look_up_together(names.clone(), views, slots);
        if all.iter().all(|found| found.unknown.is_empty()) {
            return all;
        }
        let unknown = all.iter().flat_map(|found| found.unknown_names(names.clone()));
        self.wait_for(unknown, views, until).await;
        let all = self.look_up_together(names.clone(), views, slots);
        all.into_iter().map(|found| self.with_causes(found, names.clone())).collect()
    }

    /// Waits until the instant for those of these nodes that are worth it, until they have rows in all of these views.
    async fn wait_for<'n>(
        &self,
        unknown: impl Iterator<Item = (u32, &'n str)>,
        views: &[ViewId],
        until: Instant,
    ) {
        let (missing, until) = self.worth_waiting(unknown, until);
        let is_missing = |read: &TableSnapshot| {
            missing.iter().any(|name| views.iter().any(|view| read.row(name, *view).is_none()))
        };
        // Subscribed before the rows are read again, so that no change is missed.
        let mut changes = self.changes();
        while is_missing(&self.read()) && timeout_at(until, changes.changed()).await.is_ok() {}
    }

    /// Adds why nodes are unknown.
    fn with_causes<'n>(&self, mut found: Found, names: impl Iterator<Item = &'n str>) -> Found {
        if found.unknown.is_empty() {
            return found;
        }
        let absent = self.absent.lock();
        let (mut unreadable, mut deleted) = (Vec::new(), Vec::new());
        for (position, name) in found.unknown_names(names) {
            if self.unreadable.has_node(name) {
                unreadable.push(position);
            } else if absent.is_deleted(name) {
                deleted.push(position);
            }
        }
        (found.unreadable, found.deleted) = (unreadable, deleted);
        found
    }

    /// Those of these names that a call waits for, and the end of the wait.
    fn worth_waiting<'n>(
        &self,
        names: impl Iterator<Item = (u32, &'n str)>,
        until: Instant,
    ) -> (Vec<&'n str>, Instant) {
        let (mut worth, mut latest) = (Vec::new(), None);
        let read = self.read();
        let mut absent = self.absent.lock();
        for (_, name) in names.filter(|(_, name)| !self.unreadable.has_node(name)) {
            // What a known node lacks, such as its usage, is expected soon.
            let wait = if read.knows(name) { Some(until) } else { absent.wait(name, until) };
            worth.extend(wait.map(|_| name));
            latest = latest.max(wait);
        }
        (worth, latest.unwrap_or(until))
    }

    /// Like [`NodeTable::rows`], without waiting.
    pub fn look_up<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str> + Clone,
        view: ViewId,
        slots: &mut Option<NodeSlots>,
    ) -> Found {
        let read = self.read();
        read.found(read.current_slots(names, slots), view)
    }

    /// The same in several views, all of one version.
    fn look_up_together<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str> + Clone,
        views: &[ViewId],
        slots: &mut Option<NodeSlots>,
    ) -> Vec<Found> {
        let read = self.read();
        let slots = read.current_slots(names, slots);
        views.iter().map(|view| read.found(slots, *view)).collect()
    }

    /// The number of the table's state at this version: `Call.snapshot`. Never 0.
    pub fn snapshot_number(&self, version: u64) -> u64 {
        self.first_snapshot.0.wrapping_add(version).max(1)
    }

    /// Which of the rows in these slots are still the current rows of their nodes; `None` if all of them.
    pub fn current(&self, rows: &NodeRows, slots: &[u32], view: ViewId) -> Option<Vec<bool>> {
        let now = self.read().column(view);
        rows.current(slots, &now)
    }

    /// The rows, for one call. Blocks writers: do not hold it for long, and never across an await.
    pub fn read(&self) -> RwLockReadGuard<'_, TableSnapshot> {
        self.snapshot.read()
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.lock_writer().nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a source has provided a complete list.
    pub fn is_synced(&self) -> bool {
        self.synced.initialized()
    }

    /// Waits until a source has provided a complete list. Works on any runtime.
    pub async fn synced(&self) {
        self.synced.wait().await;
    }

    /// Waits until the table is synced and every node has its row in this view.
    pub async fn complete(&self, view: ViewId) {
        self.synced().await;
        let mut changes = self.changes();
        // The sender is in `self`, so waiting cannot fail.
        while !self.lock_writer().is_complete(view) && changes.changed().await.is_ok() {}
    }

    /// Reports changes from now on; several at once count as one. Works on any runtime.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Becomes true when a view needs JSON. The source must then list the nodes again, because the table has not kept
    /// their JSON.
    pub fn raw_wanted(&self) -> watch::Receiver<bool> {
        self.raw_wanted.subscribe()
    }

    fn lock_writer(&self) -> MutexGuard<'_, TableWriter> {
        let mut writer = self.writer.lock();
        if writer.drop_unused_views() {
            let wants_raw = writer.wants_raw();
            // Not a change for receivers, which wait until JSON is wanted.
            self.raw_wanted.send_if_modified(|wanted| {
                *wanted &= wants_raw;
                false
            });
            self.swap(&writer);
        }
        writer
    }

    /// Updates the rows of these nodes for calls.
    fn publish(&self, writer: &TableWriter, names: &[Arc<str>]) {
        if self.read().generation() != writer.rows.generation {
            return self.swap(writer);
        }
        if names.is_empty() {
            // Usage with the same sums may be that of other pods.
            self.snapshot.write().pods_number = writer.pods_number;
            return;
        }
        let slots: Vec<_> = names.iter().filter_map(|name| Some((name, writer.slot_of(name)?))).collect();
        drop(self.write(writer, |snapshot| {
            let put = |(name, (position, slot)): (_, (u32, &_))| snapshot.put(name, position, slot);
            slots.into_iter().map(put).collect::<Vec<_>>()
        }));
    }

    /// Replaces everything that calls read.
    fn swap(&self, writer: &TableWriter) {
        let fresh = writer.snapshot();
        drop(self.write(writer, |snapshot| std::mem::replace(snapshot, fresh)));
    }

    /// Changes what calls read. Returns the old rows, so that they are freed after the lock.
    fn write<T>(&self, writer: &TableWriter, change: impl FnOnce(&mut TableSnapshot) -> T) -> T {
        let mut snapshot = self.snapshot.write();
        debug_assert!(
            snapshot.version < writer.rows.version,
            "readers of this version would miss the change"
        );
        snapshot.version = writer.rows.version;
        let old = change(&mut snapshot);
        snapshot.pods_number = writer.pods_number;
        drop(snapshot);
        self.changes.send_replace(());
        old
    }
}

#[cfg(any(test, feature = "testing"))]
mod samples;
#[cfg(test)]
mod tests;
