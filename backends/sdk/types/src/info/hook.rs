//! The hooks that a policy declares.

use std::collections::BTreeSet;

use super::{DeclaredVerb, Scope, Verb};
use crate::{ChangedPart, Reads};

/// A hook: a policy changes what the policies of a call are told about the pod and the nodes. How it is called is as for
/// a [`Verb`]; it must have no side effects. The default: about each node on its own, and again for each call.
///
/// ```
/// use extender_policy_sdk::{ChangedPart, Hook, Info, Node, NodeChange, Pod, Policy, Reads, Resources};
///
/// /// Keeps a CPU of each node in the pool free for its agent.
/// struct Agents;
///
/// impl Policy for Agents {
///     fn info(&self) -> Info {
///         let mut reads = Reads::new();
///         reads.node_label("pool");
///         let hook = Hook::changes([ChangedPart::NodeAllocatable]).pure().reads(&reads);
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
    changes: BTreeSet<ChangedPart>,
}

impl Hook {
    /// A hook that may change these parts, and no others. Which ones it can change is said where it is declared, such as
    /// at [`Info::before_filter`](super::Info::before_filter).
    pub fn changes(parts: impl IntoIterator<Item = ChangedPart>) -> Self {
        Self { verb: Verb::per_node(), changes: parts.into_iter().collect() }
    }

    /// The change of a node depends on other nodes of the call; as [`Verb::whole_set`]. For hooks about nodes.
    pub fn whole_set(self) -> Self {
        Self { verb: Verb { scope: Scope::WholeSet, ..self.verb }, ..self }
    }

    /// The change is a function of args, the pod's facts and, of a node, that node: it may be cached; as [`Verb::pure`].
    pub fn pure(self) -> Self {
        Self { verb: self.verb.pure(), ..self }
    }

    /// What the hook reads of the pod and of nodes; as [`Verb::reads`]. What it changes it need not read. The hook before filter
    /// has no nodes.
    pub fn reads(self, reads: &Reads) -> Self {
        Self { verb: self.verb.reads(reads), ..self }
    }

    /// The policy waits for something outside: the hook is answered by the method of
    /// [`Policy`](crate::Policy) whose name ends with `_later`, such as
    /// [`before_filter_later`](crate::Policy::before_filter_later); as [`Verb::waits`].
    pub fn waits(self) -> Self {
        Self { verb: self.verb.waits(), ..self }
    }

    pub(super) fn declared(self) -> DeclaredVerb {
        DeclaredVerb { verb: self.verb, scale: None, changes: self.changes }
    }
}

#[cfg(test)]
mod tests {
    use extender_policy_api::v1beta1::{self as api, hook_service_server::SERVICE_NAME};

    use super::{
        super::{Info, declaration::Declaration},
        *,
    };
    use crate::{NodePart, PodsBy};

    fn info() -> Info {
        Info::new("p", "1")
    }

    fn labels() -> Hook {
        Hook::changes([ChangedPart::NodeLabels])
    }

    fn pod_labels() -> Hook {
        Hook::changes([ChangedPart::PodLabels])
    }

    fn reading(declare: impl FnOnce(&mut Reads)) -> Reads {
        let mut reads = Reads::new();
        declare(&mut reads);
        reads
    }

    #[test]
    fn the_handshake_says_what_was_declared() {
        let changes = [ChangedPart::NodeUsage, ChangedPart::PodLabels, ChangedPart::NodeUsage];
        let zone = reading(|reads| drop(reads.node_label("zone")));
        let usage = reading(|reads| _ = reads.node(NodePart::Usage));
        let declared = info()
            .before_filter(pod_labels().pure())
            .before_filter_nodes(labels().whole_set().reads(&usage))
            .before_score(Hook::changes(changes).reads(&zone));
        let response = Declaration::new(declared).unwrap().response;
        assert!(response.services.iter().any(|service| service == SERVICE_NAME), "{:?}", response.services);
        let [pod, nodes, score] = response.verbs.try_into().unwrap();
        assert_eq!(
            (pod.verb(), pod.scope(), pod.effects()),
            (api::Verb::BeforeFilter, api::Scope::Node, api::Effects::Pure)
        );
        assert_eq!(
            (pod.changes, pod.reads),
            (vec![api::ChangedPart::PodLabels.into()], Some(api::Reads::default()))
        );
        assert_eq!(
            (nodes.verb(), nodes.scope(), nodes.effects()),
            (api::Verb::BeforeFilterNodes, api::Scope::WholeSet, api::Effects::ReadsOutside)
        );
        assert_eq!(nodes.reads.unwrap().node.unwrap().parts, [i32::from(api::NodePart::Usage)]);
        assert_eq!(score.verb(), api::Verb::BeforeScore);
        assert_eq!(
            score.changes,
            [i32::from(api::ChangedPart::PodLabels), i32::from(api::ChangedPart::NodeUsage)]
        );
        assert_eq!(score.reads.unwrap().node.unwrap().labels.unwrap().keys, ["zone"]);
    }

    #[test]
    fn hooks_ask_for_a_table_of_nodes_as_verbs_do() {
        let services = |info: Info| Declaration::new(info).unwrap().response.services.len();
        let everything = &Reads::everything();
        assert_eq!(services(info().before_filter(pod_labels().reads(everything))), 1);
        assert_eq!(services(info().before_filter_nodes(labels().reads(everything))), 2);
        assert_eq!(services(info().before_filter_nodes(labels().reads(everything)).without_node_table()), 1);
        let name = reading(|reads| _ = reads.node(NodePart::Name));
        assert_eq!(services(info().before_score(labels().reads(&name))), 1);
        assert_eq!(services(info().before_score(labels())), 1);
    }

    #[test]
    fn whatever_is_declared_everything_can_be_read() {
        let zone = reading(|reads| drop(reads.node_label("zone")));
        let pods = reading(|reads| drop(reads.pods_by(PodsBy::Owner)));
        let declared = info()
            .before_filter(pod_labels())
            .before_filter_nodes(labels().pure().reads(&zone))
            .before_score(labels().reads(&pods))
            .reading_everything();
        let verbs = Declaration::new(declared).unwrap().response.verbs;
        let reads: Vec<_> = verbs.into_iter().filter_map(|verb| verb.reads).collect();
        let [of_pod, of_nodes, of_both] = reads.try_into().unwrap();
        let all = api::MapReads { prefixes: vec![String::new()], ..api::MapReads::default() };
        let pod = |parts: &[api::PodPart]| {
            let parts = parts.iter().map(|part| i32::from(*part)).collect();
            let annotations = Some(all.clone());
            Some(api::PodReads { parts, annotations, everything: true, ..api::PodReads::default() })
        };
        let node = |parts: &[api::NodePart]| {
            let parts = parts.iter().map(|part| i32::from(*part)).collect();
            let annotations = Some(all.clone());
            api::NodeReads { parts, annotations, everything: true, ..api::NodeReads::default() }
        };
        let parts = [api::PodPart::Identity, api::PodPart::RawJson];
        assert_eq!(of_pod, api::Reads { pod: pod(&parts), node: None });
        assert_eq!(
            of_nodes,
            api::Reads {
                pod: pod(&[]),
                node: Some(node(&[api::NodePart::Usage, api::NodePart::Images, api::NodePart::Nominated]))
            }
        );
        assert_eq!(of_both.pod, pod(&parts));
        let mut counted = of_both.node.unwrap();
        assert_eq!(std::mem::take(&mut counted.pod_counts).len(), 1);
        let besides =
            [api::NodePart::Usage, api::NodePart::RawJson, api::NodePart::Images, api::NodePart::Nominated];
        assert_eq!(counted, node(&besides));
    }
}
