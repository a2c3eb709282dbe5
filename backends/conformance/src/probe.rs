//! One question, ready to be asked again and again: what the times of calls are measured with.

use bytes::Bytes;

use crate::{
    case::{Stop, skipped},
    client::Extras,
    declared::Verb,
    question::Question,
    suite::{Suite, not_answered},
    table::{Table, by_table, filled, ids},
};

/// How the nodes come with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the request.
    Rows,
    /// By their ids in a table that the backend holds.
    Table,
}

/// A question to a backend.
pub struct Probe<'a> {
    suite: &'a Suite,
    question: Question,
    message: Bytes,
    table: Option<Table>,
}

impl<'a> Probe<'a> {
    /// Filter about this many nodes, or score if filter is not declared.
    ///
    /// # Errors
    ///
    /// Why it cannot be asked: the backend has no such verb, or no tables.
    pub async fn new(suite: &'a Suite, mode: Mode, nodes: usize) -> Result<Self, String> {
        let declared = |verb: &Verb| suite.declared.verb(*verb).is_some();
        match [Verb::Filter, Verb::Score].into_iter().find(declared) {
            Some(verb) => Self::of(suite, verb, mode, nodes).await.map_err(Stop::text),
            None => Err("neither filter nor score is declared".to_owned()),
        }
    }

    /// The verb about this many nodes.
    pub(crate) async fn of(suite: &'a Suite, verb: Verb, mode: Mode, nodes: usize) -> Result<Self, Stop> {
        let (terms, scene) = (suite.terms(verb)?, suite.scene(nodes));
        if mode == Mode::Rows {
            let question = suite.question(verb, &scene)?;
            return Ok(Self { suite, message: question.encode(), question, table: None });
        }
        if !suite.declared.holds_tables() || !terms.has_facts() {
            return skipped("the backend holds no tables for this verb");
        }
        let table = filled(suite, terms, &scene).await?;
        let question = by_table(suite, terms, &scene, table.refer(&ids(&scene)));
        // The answer is checked once, before it is only counted.
        suite.ask(&question).await?;
        Ok(Self { suite, message: question.encode(), question, table: Some(table) })
    }

    /// Whether the backend reads a request of this size.
    pub(crate) fn fits(&self) -> bool {
        u64::try_from(self.message.len()).unwrap_or(u64::MAX) <= self.suite.declared.max_request_bytes()
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    ///
    /// Why there was none.
    pub async fn call(&self) -> Result<(), String> {
        self.answered().await.map_err(Stop::text)
    }

    pub(crate) async fn answered(&self) -> Result<(), Stop> {
        let extras = Extras { nodes: self.question.count(), ..Extras::default() };
        let answered = self.suite.client.verb(self.question.verb, self.message.clone(), extras).await?;
        answered.map(drop).map_err(|status| not_answered(&self.question, &status))
    }

    /// Ends its table.
    ///
    /// # Errors
    ///
    /// The stream does not end.
    pub async fn close(self) -> Result<(), String> {
        match self.table {
            Some(table) => table.close().await.map_err(Stop::text),
            None => Ok(()),
        }
    }
}
