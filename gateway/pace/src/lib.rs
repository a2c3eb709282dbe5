//! When something happens again: intervals that are not configurable, pauses between attempts,
//! the order of those who wait, and how often something may happen.

pub mod backoff;
pub mod cadences;
pub mod fair_queue;
pub mod rate_limited_log;
pub mod token_bucket;
