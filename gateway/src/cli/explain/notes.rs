//! Notes about a pod beyond the tables: what happened, and what the gateway cannot know.

mod asked;
mod offered;
mod replicas;
mod scores;

pub(super) use self::{
    asked::{refused, tried_again, words},
    offered::offered,
};
use super::case::Evidence;

/// All sentences, in reading order.
pub(super) fn of(case: &Evidence) -> Vec<String> {
    let mut notes = Vec::new();
    asked::note(case, &mut notes);
    offered::note(case, &mut notes);
    scores::note(case, &mut notes);
    replicas::note(case, &mut notes);
    notes
}

#[cfg(test)]
mod tests;
