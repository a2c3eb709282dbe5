//! The mistakes in a message of a stream, and their status codes.

use extender_policy_api::{
    limits::{KEY_BYTES, READ_COUNTS, READ_KEYS, READ_PARTS, TABLE_BYTES},
    v1beta1::ErrorReason,
};
use tonic::{Code, Status};

use crate::{error::with_reason, node::row::Unreadable, reads::values::RowMismatch};

/// Why a stream is ended.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Mistake {
    #[error("table is missing; it is a random text, the same in all messages of a stream")]
    Nameless,
    #[error("table is no text of at most {TABLE_BYTES} bytes of printable ASCII")]
    Name,
    #[error("table {0:?} already has a stream; names of tables must be random")]
    Taken(String),
    #[error("table is no longer {0:?}; it is the same in all messages of a stream")]
    Renamed(String),
    #[error("version is {is} and was {was}; it grows with each message")]
    Version { is: u64, was: u64 },
    #[error("reads is missing; the first message says what the rows contain")]
    NoReads,
    #[error("upserts[{position}].{field} is missing; every entry has an id of at least 1 and a row")]
    Entry { position: usize, field: &'static str },
    #[error("upserts[{position}].row.{field} is missing; the table's reads has it")]
    Row { position: usize, field: &'static str },
    #[error("upserts[{position}].row.{source}")]
    Values { position: usize, source: RowMismatch },
    #[error("reads has {0} keys and prefixes; expected at most {READ_KEYS}")]
    TooManyKeys(usize),
    #[error("reads has {0} parts; expected at most {READ_PARTS}")]
    TooManyParts(usize),
    #[error("reads has {0} pod_counts; expected at most {READ_COUNTS}")]
    TooManyPodCounts(usize),
    #[error("reads has a key or prefix of {0} bytes; expected at most {KEY_BYTES}")]
    LongKey(usize),
    #[error("upserts[{position}].row is not a NodeRow: {source}")]
    Broken { position: usize, source: Unreadable },
    #[error("complete is set twice; set it in one message of a stream")]
    CompleteAgain,
    #[error("this backend already holds {0} tables, the maximum")]
    TooManyTables(usize),
    #[error("the rows of all tables would need more than {0} bytes; more are refused")]
    TooLarge(usize),
}

impl Mistake {
    fn code(&self) -> Code {
        match self {
            Self::TooManyTables(_) | Self::TooLarge(_) => Code::ResourceExhausted,
            Self::Nameless
            | Self::Name
            | Self::Taken(_)
            | Self::Renamed(_)
            | Self::Version { .. }
            | Self::NoReads
            | Self::Entry { .. }
            | Self::Row { .. }
            | Self::Values { .. }
            | Self::TooManyKeys(_)
            | Self::TooManyParts(_)
            | Self::TooManyPodCounts(_)
            | Self::LongKey(_)
            | Self::Broken { .. }
            | Self::CompleteAgain => Code::InvalidArgument,
        }
    }
}

impl From<Mistake> for Status {
    fn from(mistake: Mistake) -> Self {
        let reason = match mistake.code() {
            Code::ResourceExhausted => ErrorReason::Overloaded,
            _ => ErrorReason::InvalidRequest,
        };
        with_reason(Self::new(mistake.code(), mistake.to_string()), reason)
    }
}
