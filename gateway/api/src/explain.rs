//! Why a pod is where it is, or not scheduled: the data of the command `explain`, and of `GET /debug/explain`.
//!
//! What the apiserver knows about the pod and what the replicas decided about it are combined into [`Evidence`]. The
//! summary and the notes follow from it without further queries, so the command and the page at the admin address
//! draw the same conclusions.

pub mod evidence;
pub mod group;
pub mod notes;
pub mod pod;
pub mod replicas;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
mod summary;

use serde::Serialize;

use self::evidence::Evidence;

/// How many calls of each replica are read: more than a log keeps for one pod.
pub const MAX_CALLS: u32 = 1000;

/// The evidence about a pod, and what follows from it.
#[derive(Debug, Serialize)]
pub struct Explanation<'a> {
    /// What is known.
    #[serde(flatten)]
    pub evidence: &'a Evidence,
    /// Where the pod is, its latest call and the result.
    pub summary: Vec<String>,
    /// What the calls do not show, and what the gateway cannot know.
    pub notes: Vec<String>,
}

impl<'a> Explanation<'a> {
    /// Explains this evidence.
    pub fn of(evidence: &'a Evidence) -> Self {
        Self { summary: summary::of(evidence), notes: notes::of(evidence), evidence }
    }
}
