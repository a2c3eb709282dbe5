//! How one backend is asked about nodes in one call: what filter and prioritize do alike.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use extender_policy_api::v1alpha1::Purpose;
use tokio::time::Instant;

use super::case::{Case, Told, Views};
use crate::{
    backend::{
        Backend,
        held::Named,
        info::NodesView,
        link::Link,
        question::{Nodes, Question, Scores},
        tables::Source,
    },
    cluster::table::Line,
};

/// A backend, and what it is told in this call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) link: &'a Arc<Link>,
    /// In which view it is told about nodes.
    pub(super) view: &'a NodesView,
    pub(super) case: &'a Case<'a>,
    pub(super) views: Views,
    /// How long it may take for an answer.
    pub(super) timeout: Duration,
    /// Until when it has to have answered, however often it is asked.
    pub(super) until: Instant,
}

impl<'a> Asking<'a> {
    /// The same, to be asked once more in the time that is left.
    pub(super) fn again(self) -> Self {
        Self { timeout: self.until.duration_since(Instant::now()), ..self }
    }

    /// What it is told about the pod.
    pub(super) fn pod(&self) -> &'a Bytes {
        self.case.pod(self.views)
    }

    /// What it is told about nodes.
    pub(super) fn told(&self) -> &'a Told {
        self.case.nodes(self.views)
    }

    /// These nodes by the ids of the table that it holds; `None` when they have to come with their rows.
    pub(super) fn by_reference(&self, lines: &[&Line]) -> Option<(Nodes, Named)> {
        let source = self.told().source;
        let named = self.link.tables.named(source, self.view)?;
        let nodes = match source {
            Source::Cluster => named.nodes(lines, |_| false),
            Source::Calls => {
                let current = self.certain(lines);
                named.nodes(lines, |at| !current[at])
            }
        };
        Some((nodes, named))
    }

    /// These nodes with their rows.
    pub(super) fn inline(&self, lines: &[&Line]) -> Nodes {
        self.told().part(lines)
    }

    /// The question, and how long it may take.
    pub(super) fn question<'q>(&'q self, nodes: &'q Nodes, scores: Scores) -> (Question<'q>, Duration) {
        let (call, pod) = (&self.case.id, self.pod());
        let within = self.timeout;
        (Question { call, purpose: Purpose::Decide, pod, nodes, scores }, within)
    }

    /// Which of these lines an answer is certainly about. One may be about a later row of a node than was meant, where
    /// the backend has that from its table; what is still as it was cannot have been another in between.
    pub(super) fn certain(&self, lines: &[&Line]) -> Vec<bool> {
        self.case.are_current(lines, self.view, self.told())
    }
}

/// A backend did not hold the nodes that a question named.
pub(super) fn missed(named: &Named, backend: &Backend) {
    backend.meters.filter.missed();
    named.missed(backend.settings.name.as_str());
}

/// The answers that are certainly about these lines.
pub(super) fn only<'l, A>(
    certain: &[bool],
    lines: &[&'l Line],
    answers: impl IntoIterator<Item = A>,
) -> impl Iterator<Item = (&'l Line, A)> {
    let answered = lines.iter().copied().zip(answers).zip(certain);
    answered.filter(|(_, certain)| **certain).map(|(answered, _)| answered)
}

/// How long a backend with this timeout may take that is asked now, and until when that is.
pub(super) fn patience(timeout: Duration, deadline: Instant) -> (Duration, Instant) {
    let now = Instant::now();
    let timeout = timeout.min(deadline.duration_since(now));
    (timeout, now + timeout)
}
