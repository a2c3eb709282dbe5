//! One gateway with several backends decides like the same number of separate extenders.
//!
//! Generated cases ([`generate`]) go to the reference (`extender-reference`, which uses no gateway code) and to the
//! running gateway ([`subject`]): its real HTTP server on a socket, the case's configuration as text, and a real
//! gRPC server for each backend that answers by the case's tables. [`compare`] finds differences, [`search`]
//! shrinks the first one and keeps it, [`situation`] counts the situations of the cases, so that a generator that
//! no longer produces them is noticed.

pub mod case;
pub mod compare;
pub mod generate;
pub mod kept;
pub mod search;
pub mod situation;
pub mod subject;
