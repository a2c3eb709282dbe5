//! What a bind call asks for.

/// Which pod is to run on which node. Mirrors `ExtenderBindingArgs` (`k8s.io/kube-scheduler/extender/v1`).
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
