//! The policy API: requests assembled from encoded parts, and responses parsed within limits.
//!
//! Nothing here knows a connection, a table or a decision. [`pod`] and [`row`] encode what a view asks for,
//! [`nodes`] and
//! [`question`] put requests together, [`answer`], [`preempt`] and [`bind`] check responses before use.

pub mod answer;
pub mod bind;
mod field;
pub mod frame;
pub(crate) mod malformed;
pub mod nodes;
pub mod pod;
pub mod preempt;
pub mod question;
pub mod row;
pub mod scan;
