//! The query for calls of the log.

use extender_gateway_core::Verb;
use serde::{Deserialize, Deserializer, de::Error as _};

use crate::{api::Decision, record::PodRef};

/// The default number of calls.
const USUAL: usize = 100;
/// The most calls.
const MOST: usize = 5_000;

/// The parameters of `GET /debug/decisions`. Omitted parameters do not restrict.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Query {
    /// A pod's name.
    pub pod: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its UID.
    pub uid: Option<String>,
    /// Calls that offered this node, with only the answers for this node.
    pub node: Option<String>,
    /// Calls in which this backend had a part.
    pub backend: Option<String>,
    /// `accepted`, `rejected`, `scored` or `failed`: calls in which a backend (`backend`, if given) had this
    /// verdict, for `node` if that is given.
    pub verdict: Option<Verdict>,
    /// `filter`, `prioritize`, `preempt` or `bind`.
    #[serde(deserialize_with = "verb")]
    pub verb: Option<Verb>,
    /// The most calls; 100 by default.
    pub limit: Option<usize>,
}

/// The verdict of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Filter: a node is accepted.
    Accepted,
    /// Filter and preempt: a node is rejected.
    Rejected,
    /// Prioritize: a node has a score.
    Scored,
    /// No usable answer.
    Failed,
}

/// A verb by its name.
fn verb<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Verb>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let names = || Verb::ALL.map(Verb::name).join(", ");
    let unknown = || D::Error::custom(format!("unknown verb {name:?}; known are {}", names()));
    Verb::named(&name).map(Some).ok_or_else(unknown)
}

impl Query {
    /// The most calls to return.
    pub(super) fn limit(&self) -> usize {
        self.limit.unwrap_or(USUAL).min(MOST)
    }

    /// Whether calls for this pod match.
    pub(super) fn wants_pod(&self, pod: &PodRef) -> bool {
        let is =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        is(&self.pod, &pod.name) && is(&self.namespace, &pod.namespace) && is(&self.uid, &pod.uid)
    }

    /// Whether calls of this verb match.
    pub(super) fn wants_verb(&self, verb: Verb) -> bool {
        self.verb.is_none_or(|wanted| wanted == verb)
    }

    /// The matching part of a call; `None` if nothing matches.
    pub(super) fn of(&self, mut decision: Decision) -> Option<Decision> {
        if let Some(node) = &self.node {
            decision.nodes.retain(|part| part.name == *node);
            if decision.nodes.is_empty() {
                return None;
            }
        }
        let by = |name: &str| self.backend.as_deref().is_none_or(|wanted| wanted == name);
        let said = match self.verdict {
            None => true,
            Some(Verdict::Failed) => {
                decision.backends.iter().any(|part| by(&part.name) && part.failure.is_some())
            }
            Some(verdict) => decision.nodes.iter().flat_map(|node| &node.backends).any(|(name, said)| {
                by(name)
                    && match verdict {
                        Verdict::Accepted => said.accepted,
                        Verdict::Rejected => said.rejected.is_some(),
                        Verdict::Scored | Verdict::Failed => said.raw.is_some(),
                    }
            }),
        };
        said.then_some(decision)
    }
}
