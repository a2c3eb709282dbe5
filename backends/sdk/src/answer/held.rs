//! The nodes of a request, read and checked: rows in the request, and rows of a table that it names.

use std::sync::Arc;

use extender_policy_api::v1beta1 as api;
use prost::bytes::Bytes;

use crate::{
    error::CallError,
    info::declaration::Terms,
    node::row::{Row, RowRef},
    request::{Form, NodeList, NodeRef},
    table::{Tables, rows::Rows},
};

/// In [`NodeRef::ids`], the place of the next inline row.
const INLINE: u32 = 0;

/// The rows that a question about nodes borrows.
pub(super) enum Held<'a> {
    /// Rows of the request.
    Inline(Vec<Row<'a>>),
    /// Rows of one version of a table, and inline rows for the nodes that it may not have.
    Named { ids: &'a [u32], inline: Vec<Row<'a>>, table: Arc<Rows> },
    /// Nodes that cannot be read here.
    Missed(api::Miss),
}

impl<'a> Held<'a> {
    /// Reads the nodes of a request. Whether the request is valid does not depend on which tables exist here.
    pub(super) fn read(nodes: &'a NodeList, terms: &Terms, tables: &Tables) -> Result<Self, CallError> {
        match &nodes.form {
            None => Ok(Self::Missed(api::Miss::FormUnknown)),
            Some(Form::Rows(form)) => {
                check_count(nodes.count, form.rows.len())?;
                Ok(Self::Inline(inline("rows", &form.rows, terms)?))
            }
            Some(Form::Table(form)) => {
                check_count(nodes.count, form.ids.len())?;
                check_zeros(form)?;
                let inline = inline("table", &form.rows, terms)?;
                Ok(match find(form, terms, tables) {
                    Ok(table) => Self::Named { ids: &form.ids, inline, table },
                    Err(miss) => Self::Missed(miss),
                })
            }
        }
    }

    /// The rows in the order of the request.
    pub(super) fn rows(&self) -> Result<Vec<RowRef<'_>>, api::Miss> {
        match self {
            Self::Missed(miss) => Err(*miss),
            Self::Inline(rows) => Ok(rows.iter().map(Row::as_ref).collect()),
            Self::Named { ids, inline, table } => {
                let mut inline = inline.iter().map(Row::as_ref);
                let mut row = |id: u32| if id == INLINE { inline.next() } else { table.row(id) };
                ids.iter().map(|id| row(*id).ok_or(api::Miss::TableBehind)).collect()
            }
        }
    }
}

fn check_count(count: u32, rows: usize) -> Result<(), CallError> {
    let right = count > 0 && usize::try_from(count) == Ok(rows);
    if right { Ok(()) } else { Err(CallError::Count { count, rows }) }
}

fn check_zeros(form: &NodeRef) -> Result<(), CallError> {
    let (zeros, rows) = (form.ids.iter().filter(|id| **id == INLINE).count(), form.rows.len());
    if zeros == rows { Ok(()) } else { Err(CallError::Zeros { zeros, rows }) }
}

/// The rows, if they hold what the policy was promised: a node without facts would look like a node without labels.
fn inline<'a>(form: &'static str, rows: &'a [Bytes], terms: &Terms) -> Result<Vec<Row<'a>>, CallError> {
    let (parts, counts) = (terms.row_parts(), terms.reads().node.counts());
    let read = |(position, encoded): (usize, &'a Bytes)| {
        let row = Row::read(encoded).map_err(|source| CallError::Broken { form, position, source })?;
        if let Some(field) = row.lacks(parts) {
            return Err(CallError::Row { form, position, field });
        }
        row.check(counts).map_err(|source| CallError::RowValues { form, position, source })?;
        Ok(row)
    };
    rows.iter().enumerate().map(read).collect()
}

/// The rows of the table. One that contains something else is none of these: its values could stand for other keys.
fn find(form: &NodeRef, terms: &Terms, tables: &Tables) -> Result<Arc<Rows>, api::Miss> {
    let table = tables.find(&form.table).filter(|table| *table.reads() == terms.reads().rows);
    table.ok_or(api::Miss::TableUnknown)?.at_least(form.at_least).ok_or(api::Miss::TableBehind)
}
