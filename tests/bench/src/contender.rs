//! The contenders: extenders over HTTP, and three empty gRPC calls.

use std::{error::Error, net::SocketAddr};

use extender_harness::{
    http::{Connection, HttpError},
    request::Verb,
};

use crate::{
    case::{Case, Offers, Question, Tail},
    pods::Pods,
};

pub use self::empty_calls::EmptyCalls;

mod check;
mod empty_calls;

/// An error of a contender ends the benchmark.
pub type Failure = Box<dyn Error>;

/// A contender whose calls are timed.
pub trait Contender {
    /// Makes the call, and waits for the answer.
    fn call(&mut self, verb: Verb, question: &Question<'_>) -> Result<(), Failure>;

    /// Makes enough calls to cover every body once, and checks the answers in full.
    fn warm_up(&mut self, case: &Case, offers: &Offers, pods: &Pods) -> Result<(), Failure>;
}

/// Which nodes an extender is expected to keep.
#[derive(Debug, Clone, Copy)]
pub enum Keeps {
    /// Those that the policies leave.
    Survivors,
    /// Everything.
    All,
}

/// An extender on one kept connection.
#[derive(Debug)]
pub struct Extender {
    connection: Connection,
    keeps: Keeps,
    /// The length of the answer to each selection of nodes, which does not depend on the pod: a timed answer of
    /// another length is not the answer that was checked.
    lengths: Vec<usize>,
}

/// An unexpected answer.
#[derive(Debug, thiserror::Error)]
pub enum WrongAnswer {
    /// A status or a length that no correct answer to this body has.
    #[error(
        "{address}{path}: status {status} and {length} bytes, where 200 and {expected} were right: {beginning}"
    )]
    Outside {
        /// The contender.
        address: SocketAddr,
        /// The path.
        path: &'static str,
        /// The status of the answer.
        status: u16,
        /// Its length, in bytes.
        length: usize,
        /// The length of the checked answer, in bytes.
        expected: usize,
        /// The first bytes of the answer.
        beginning: String,
    },
    /// A number of nodes that differs from what the policies leave.
    #[error("{address}{path}: {found} nodes in the answer, where {expected} were right: {beginning}")]
    Nodes {
        /// The contender.
        address: SocketAddr,
        /// The path.
        path: &'static str,
        /// How many nodes the answer holds.
        found: usize,
        /// The expected number.
        expected: usize,
        /// The first bytes of the answer.
        beginning: String,
    },
}

impl Extender {
    /// Connects.
    pub fn open(address: SocketAddr, keeps: Keeps) -> Result<Self, HttpError> {
        Ok(Self { connection: Connection::open(address)?, keeps, lengths: Vec::new() })
    }

    fn expected_nodes(&self, verb: Verb, tail: &Tail) -> usize {
        match (verb, self.keeps) {
            (Verb::Filter, Keeps::Survivors) => tail.survivors,
            (Verb::Filter, Keeps::All) | (Verb::Prioritize, _) => tail.nodes,
        }
    }

    /// One call whose answer is read in full. Returns its length.
    fn checked_call(&mut self, verb: Verb, question: &Question<'_>) -> Result<usize, Failure> {
        let (address, expected) = (self.connection.peer(), self.expected_nodes(verb, question.tail));
        let answer = self.connection.post(verb.path(), &question.body())?;
        let found = check::nodes_in(verb, answer.body)?;
        if found != expected {
            let beginning = beginning(answer.body);
            return Err(WrongAnswer::Nodes { address, path: verb.path(), found, expected, beginning }.into());
        }
        Ok(answer.body.len())
    }
}

impl Contender for Extender {
    fn call(&mut self, verb: Verb, question: &Question<'_>) -> Result<(), Failure> {
        let address = self.connection.peer();
        let expected = self.lengths[question.variant];
        let answer = self.connection.post(verb.path(), &question.body())?;
        let (status, length) = (answer.status, answer.body.len());
        if status == 200 && length == expected {
            return Ok(());
        }
        let (path, beginning) = (verb.path(), beginning(answer.body));
        Err(WrongAnswer::Outside { address, path, status, length, expected, beginning }.into())
    }

    fn warm_up(&mut self, case: &Case, offers: &Offers, pods: &Pods) -> Result<(), Failure> {
        let variants = 0..offers.variants();
        let lengths = variants.map(|number| self.checked_call(case.verb, &offers.question(pods, number)));
        self.lengths = lengths.collect::<Result<_, _>>()?;
        (0..case.calls / 4).try_for_each(|number| self.call(case.verb, &offers.question(pods, number)))
    }
}

/// As much of an answer as an error message needs.
fn beginning(answer: &[u8]) -> String {
    String::from_utf8_lossy(&answer[..answer.len().min(300)]).into_owned()
}
