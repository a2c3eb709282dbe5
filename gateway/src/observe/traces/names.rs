//! The names of attributes outside the semantic conventions.

/// A call's id, which backends receive.
pub(super) const CALL_ID: &str = "extender.call.id";
/// The verb of the extender's protocol.
pub(super) const VERB: &str = "extender.verb";
/// `ok`, or the kind of error.
pub(super) const OUTCOME: &str = "extender.outcome";
/// `names` or `objects`.
pub(super) const NODE_FORM: &str = "extender.node_form";
/// The number of nodes that kube-scheduler offered.
pub(super) const OFFERED: &str = "extender.nodes.offered";
/// The number of remaining nodes.
pub(super) const LEFT: &str = "extender.nodes.left";
/// The number of rejected nodes.
pub(super) const REJECTED: &str = "extender.nodes.rejected";
/// The number of nodes with a cached or prefetched answer.
pub(super) const KNOWN: &str = "extender.nodes.known";
/// The number of nodes that were sent to the backend.
pub(super) const ASKED: &str = "extender.nodes.asked";
/// The form of the nodes: `rows`, `ids` or `name`.
pub(super) const NODES_AS: &str = "extender.nodes.form";
/// The generation of the configuration, starting at 1.
pub(super) const GENERATION: &str = "extender.configuration.generation";
/// A backend's configured name.
pub(super) const BACKEND: &str = "extender.backend.name";
/// `Enforce` or `Shadow`.
pub(super) const MODE: &str = "extender.mode";
/// The applied failure policy: `fail`, `ignore` or `next`.
pub(super) const POLICY: &str = "extender.failure.policy";
/// Whether a backend in shadow mode agrees with the decision.
pub(super) const OPINION: &str = "extender.opinion";
/// The kind of a link: `previous call` or `pod annotation`.
pub(super) const LINK: &str = "extender.link";

#[cfg(test)]
mod tests;
