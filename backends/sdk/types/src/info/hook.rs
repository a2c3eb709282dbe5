//! The hooks that a policy declares.

use std::collections::BTreeSet;

use extender_policy_api::v1beta1 as api;

use super::{DeclaredVerb, Scope, Verb, View};
use crate::{Change, Reads};

/// A hook: a policy changes what the policies of a call are told about the pod and the nodes. How it is called is as for
/// a [`Verb`]; it must have no side effects. The default: each node on its own, with the node's facts, and again for
/// each call.
///
/// ```
/// use extender_policy_sdk::{Change, Hook, Info, Node, NodeChange, Pod, Policy, Reads, Resources};
///
/// /// Keeps a CPU of each node in the pool free for its agent.
/// struct Agents;
///
/// impl Policy for Agents {
///     fn info(&self) -> Info {
///         let mut reads = Reads::new();
///         reads.node_label("pool");
///         let hook = Hook::changing([Change::NodeAllocatable]).pure().reads(&reads);
///         Info::new("agents", "1.0.0").before_filter_nodes(hook)
///     }
///
///     fn before_filter_node(&self, _pod: &Pod, node: &Node) -> NodeChange {
///         match node.label("pool") {
///             Some("agents") => NodeChange::none()
///                 .add_allocatable(Resources { milli_cpu: -1_000, ..Resources::default() })
///                 .reason("kept free for the agent"),
///             _ => NodeChange::none(),
///         }
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Hook {
    verb: Verb,
    changes: BTreeSet<Change>,
}

impl Hook {
    /// A hook that may change these parts, and no others. Which ones it can change is said where it is declared, such as
    /// at [`Info::before_filter`](super::Info::before_filter).
    pub fn changing(parts: impl IntoIterator<Item = Change>) -> Self {
        Self { verb: Verb::per_node(), changes: parts.into_iter().collect() }
    }

    /// The change of a node depends on other nodes of the call; as [`Verb::whole_set`]. For hooks about nodes.
    pub fn whole_set(self) -> Self {
        Self { verb: Verb { scope: Scope::WholeSet, ..self.verb }, ..self }
    }

    /// What to send about each node. Default: [`View::Facts`]. For hooks about nodes.
    pub fn view(self, view: View) -> Self {
        Self { verb: self.verb.view(view), ..self }
    }

    /// Requests [`Node::usage`](crate::Node::usage) too; as [`Verb::usage`]. For hooks about nodes. A hook that changes the
    /// usage need not request it.
    pub fn usage(self) -> Self {
        Self { verb: self.verb.usage(), ..self }
    }

    /// The change is a function of args, the pod's facts and, of a node, that node: it may be cached, and the pod's name
    /// and UID are not sent; as [`Verb::pure`].
    pub fn pure(self) -> Self {
        Self { verb: self.verb.pure(), ..self }
    }

    /// What the hook reads of the pod and of nodes; as [`Verb::reads`]. What it changes it need not read.
    pub fn reads(self, reads: &Reads) -> Self {
        Self { verb: self.verb.reads(reads), ..self }
    }

    /// The policy waits for something outside: the hook is answered by the method of
    /// [`Policy`](crate::Policy) whose name ends with `_later`, such as
    /// [`before_filter_later`](crate::Policy::before_filter_later); as [`Verb::waits`].
    pub fn waits(self) -> Self {
        Self { verb: self.verb.waits(), ..self }
    }

    /// As this kind of hook: the one before filter has no nodes.
    pub(super) fn declared(self, kind: api::Verb) -> DeclaredVerb {
        let verb = if kind == api::Verb::BeforeFilter { self.verb.view(View::Name) } else { self.verb };
        DeclaredVerb { verb, scale: None, changes: self.changes }
    }
}

#[cfg(test)]
mod tests {
    use extender_policy_api::v1beta1::hook_service_server::SERVICE_NAME;

    use super::{
        super::{Info, declaration::Declaration},
        *,
    };
    use crate::{NodePart, PodsBy};

    fn info() -> Info {
        Info::new("p", "1")
    }

    fn labels() -> Hook {
        Hook::changing([Change::NodeLabels])
    }

    fn pod_labels() -> Hook {
        Hook::changing([Change::PodLabels])
    }

    fn reading(declare: impl FnOnce(&mut Reads)) -> Reads {
        let mut reads = Reads::new();
        declare(&mut reads);
        reads
    }

    #[test]
    fn the_handshake_says_what_was_declared() {
        let changes = [Change::NodeUsage, Change::PodLabels, Change::NodeUsage];
        let zone = reading(|reads| drop(reads.node_label("zone")));
        let declared = info()
            .before_filter(pod_labels().pure())
            .before_filter_nodes(labels().usage().whole_set().view(View::FactsAndRaw))
            .before_score(Hook::changing(changes).reads(&zone));
        let response = Declaration::new(declared).unwrap().response;
        assert!(response.services.iter().any(|service| service == SERVICE_NAME), "{:?}", response.services);
        let [pod, nodes, score] = response.verbs.try_into().unwrap();
        assert_eq!(
            (pod.verb(), pod.node_view(), pod.scope()),
            (api::Verb::BeforeFilter, api::NodeView::Unspecified, api::Scope::Node)
        );
        assert_eq!((pod.effects(), pod.usage, pod.reads), (api::Effects::Pure, false, None));
        assert_eq!(pod.changes, [i32::from(api::ChangedPart::PodLabels)]);
        assert_eq!(
            (nodes.verb(), nodes.node_view(), nodes.scope()),
            (api::Verb::BeforeFilterNodes, api::NodeView::FactsAndRaw, api::Scope::WholeSet)
        );
        assert_eq!((nodes.effects(), nodes.usage), (api::Effects::ReadsOutside, true));
        assert_eq!((score.verb(), score.node_view()), (api::Verb::BeforeScore, api::NodeView::Facts));
        assert_eq!(
            score.changes,
            [i32::from(api::ChangedPart::PodLabels), i32::from(api::ChangedPart::NodeUsage)]
        );
        assert_eq!(score.reads.unwrap().node.unwrap().labels.unwrap().keys, ["zone"]);
    }

    #[test]
    fn hooks_ask_for_a_table_of_nodes_as_verbs_do() {
        let services = |info: Info| Declaration::new(info).unwrap().response.services.len();
        assert_eq!(services(info().before_filter(pod_labels())), 1);
        assert_eq!(services(info().before_filter_nodes(labels())), 2);
        assert_eq!(services(info().before_filter_nodes(labels()).without_node_table()), 1);
        let name = reading(|reads| {
            reads.node(NodePart::Name);
        });
        assert_eq!(services(info().before_score(labels().reads(&name))), 1);
        assert_eq!(services(info().filters(Verb::per_node().view(View::Name))), 0);
    }

    #[test]
    fn everything_is_sent_of_what_is_not_declared() {
        let zone = reading(|reads| drop(reads.node_label("zone")));
        let pods = reading(|reads| drop(reads.pods_by(PodsBy::Owner)));
        let declared = info()
            .before_filter_nodes(labels().reads(&zone))
            .before_score(labels().reads(&pods))
            .reading_everything();
        let [nodes, score] = Declaration::new(declared).unwrap().response.verbs.try_into().unwrap();
        assert_eq!((nodes.reads, nodes.usage), (None, true));
        let labels = score.reads.unwrap().node.unwrap().labels.unwrap();
        assert_eq!((&*labels.prefixes, score.usage), (&[String::new()][..], true));
    }
}
