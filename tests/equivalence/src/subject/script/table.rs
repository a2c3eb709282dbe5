//! The tables of nodes that a backend holds, with all their earlier states.

use std::collections::{BTreeMap, HashMap};

use extender_policy_api::v1beta1::{NodeRef, NodeRow, SyncNodesRequest, SyncNodesResponse};

/// Tables by name.
#[derive(Debug, Default)]
pub(super) struct Held(HashMap<String, Table>);

/// What a table held after each message.
#[derive(Debug, Default)]
struct Table {
    complete: bool,
    states: BTreeMap<u64, HashMap<u32, NodeRow>>,
}

impl Held {
    /// Takes a message of a stream.
    pub(super) fn apply(&mut self, message: SyncNodesRequest) -> Result<SyncNodesResponse, String> {
        let SyncNodesRequest { table, version, upserts, removed, complete, reads: _ } = message;
        let table = self.0.entry(table).or_default();
        let latest = table.states.last_key_value();
        if latest.is_some_and(|(earlier, _)| *earlier >= version) {
            return Err(format!("version {version} after {latest:?}"));
        }
        let mut rows = latest.map(|(_, rows)| rows.clone()).unwrap_or_default();
        for id in removed {
            rows.remove(&id).ok_or_else(|| format!("id {id} goes, and is not held"))?;
        }
        for entry in upserts {
            rows.insert(entry.id, entry.row.ok_or("an entry without row")?);
        }
        table.complete |= complete;
        table.states.insert(version, rows);
        Ok(SyncNodesResponse { applied: version })
    }

    /// The nodes that a call names, in exactly the intended state: a later state would be valid, too, but the
    /// answer would depend on timing.
    pub(super) fn rows(&self, named: NodeRef) -> Result<Vec<NodeRow>, String> {
        let NodeRef { table, at_least, ids, rows } = named;
        let table = self.0.get(&table).filter(|table| table.complete).ok_or("a table that is not held")?;
        let held = table.states.get(&at_least).ok_or_else(|| format!("a version {at_least}"))?;
        let rows = in_order((ids, rows), held)?;
        let missing = rows.iter().find_map(|row| row.as_ref().err());
        if let Some(id) = missing {
            return Err(format!("an id {id}"));
        }
        Ok(rows.into_iter().flatten().collect())
    }

    /// The nodes that a call names, in their current state; `None` if one of them no longer exists.
    pub(super) fn latest_rows(&self, named: NodeRef) -> Result<Option<Vec<NodeRow>>, String> {
        let NodeRef { table, at_least, ids, rows } = named;
        let table = self.0.get(&table).filter(|table| table.complete).ok_or("a table that is not held")?;
        let latest = table.states.last_key_value().filter(|(version, _)| **version >= at_least);
        let (_, held) = latest.ok_or_else(|| format!("a version {at_least}"))?;
        Ok(in_order((ids, rows), held)?.into_iter().collect::<Result<_, _>>().ok())
    }
}

/// The rows of a call in its order; the id of those that are not held.
fn in_order(
    (ids, rows): (Vec<u32>, Vec<NodeRow>),
    held: &HashMap<u32, NodeRow>,
) -> Result<Vec<Result<NodeRow, u32>>, String> {
    let mut rows = rows.into_iter();
    let mut row = |id: u32| match id {
        0 => rows.next().map(Ok).ok_or_else(|| "fewer rows than zeros".to_owned()),
        id => Ok(held.get(&id).cloned().ok_or(id)),
    };
    let named = ids.into_iter().map(&mut row).collect::<Result<_, _>>()?;
    if rows.next().is_some() {
        return Err("more rows than zeros".to_owned());
    }
    Ok(named)
}
