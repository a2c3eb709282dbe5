//! One gateway with several backends decides like as many separate extenders.
//!
//! Generated cases ([`generate`]) go to the reference (`extender-reference`, which knows nothing of the
//! gateway) and to the running gateway ([`subject`]): its real door on a socket, a configuration text of the
//! case, and a real gRPC server for each backend that answers by the case's tables. [`compare`] finds what
//! differs, [`search`] shrinks the first difference and keeps it, [`situation`] counts what the cases were
//! about, so that a generator that has become tame is noticed.

pub mod case;
pub mod compare;
pub mod generate;
pub mod kept;
pub mod search;
pub mod situation;
pub mod subject;
