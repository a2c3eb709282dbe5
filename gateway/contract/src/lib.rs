//! The policy API: requests assembled from encoded parts, and responses parsed within limits. Nothing here depends on
//! a connection, a table or a decision. [`pod`], [`facts`] and [`row`] encode views, [`nodes`] and [`question`] assemble
//! requests, [`answer`], [`preempt`], [`bind`] and [`hook`] check responses, and [`change`] applies what hooks change.

use extender_gateway_core::reason;
use extender_policy_api::limits::SHOWN_REASON_BYTES;

pub mod answer;
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

const _: () =
    assert!(reason::LONGEST == SHOWN_REASON_BYTES, "the core, which has no dependencies, repeats this limit");
