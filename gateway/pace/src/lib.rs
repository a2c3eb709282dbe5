//! When something happens again: intervals that are not configurable, the order of those who wait, and how often a line is logged.

pub mod cadences;
pub mod fair_queue;
pub mod rate_limited_log;
