//! The policy API: requests assembled from encoded parts, and responses parsed within limits. Nothing here depends on
//! a connection, a table or a decision. [`pod`], [`facts`] and [`row`] encode views, [`nodes`] and [`question`] assemble
//! requests, [`answer`], [`preempt`], [`bind`] and [`hook`] check responses, and [`change`] applies what hooks change.

pub mod answer;
pub mod api;
pub mod bind;
pub mod change;
pub mod facts;
pub mod hook;
pub mod nodes;
pub mod pod;
pub mod preempt;
pub mod protobuf;
pub mod question;
pub mod row;
pub mod scores;
pub mod v1alpha1;
