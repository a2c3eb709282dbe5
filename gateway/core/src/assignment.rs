//! The assignment of a bind call.

/// A pod and the node to bind it to. Mirrors `ExtenderBindingArgs` (`k8s.io/kube-scheduler/extender/v1`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The pod's `metadata.namespace`.
    pub namespace: String,
    /// Its `metadata.name`.
    pub name: String,
    /// Its `metadata.uid`.
    pub uid: String,
    /// The node's name.
    pub node: String,
}
