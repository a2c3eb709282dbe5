//! Binding as a policy sees it: the request and the possible answers. It is the one verb that waits for something
//! outside, so a future answers it.

use std::pin::Pin;

use extender_policy_api::v1beta1 as api;

use crate::{Pod, reads::access::Access};

/// A future on the heap, so that [`Policy`](crate::Policy) can be a trait object: `Box::pin(async move { … })`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Which pod is to be bound to which node.
#[derive(Clone, Copy, Debug)]
pub struct BindAsk<'a> {
    request: &'a api::BindRequest,
    pod: Option<Pod<'a>>,
}

impl<'a> BindAsk<'a> {
    /// A view of a request of the contract; the error names the field that is missing.
    #[doc(hidden)]
    pub fn new(request: &'a api::BindRequest, access: Access<'a>) -> Result<Self, &'static str> {
        let api::BindRequest { call, namespace, name, uid, node, pod } = request;
        let required = [("namespace", namespace), ("name", name), ("uid", uid), ("node", node)];
        if let Some((missing, _)) = required.into_iter().find(|(_, given)| given.is_empty()) {
            return Err(missing);
        }
        let pod = pod.as_ref().map(|pod| Pod::new(pod, access).ok_or("pod.facts")).transpose()?;
        Ok(Self { request, pod: pod.map(|pod| pod.of(call.as_ref())) })
    }

    /// The id of the call, as [`Outcome::call`](crate::Outcome::call) names it.
    pub fn call_id(&self) -> &'a str {
        self.request.call.as_ref().map_or("", |call| &call.id)
    }

    /// metadata.namespace of the pod.
    pub fn namespace(&self) -> &'a str {
        &self.request.namespace
    }

    /// metadata.name of the pod.
    pub fn name(&self) -> &'a str {
        &self.request.name
    }

    /// metadata.uid of the pod. A pod of that name with another UID must not be bound: put the UID into the
    /// Binding's metadata, and the apiserver checks it.
    pub fn uid(&self) -> &'a str {
        &self.request.uid
    }

    /// Name of the node.
    pub fn node(&self) -> &'a str {
        &self.request.node
    }

    /// The pod; `None` if the gateway knows only its name.
    pub fn pod(&self) -> Option<Pod<'a>> {
        self.pod
    }
}

/// How a bind ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// The Binding exists: this pod, this node. Also if it existed before.
    Bound,
    /// The policy does not bind this pod, and has not tried to. The text says why, for people, at most 1024 bytes.
    /// The next binder is called.
    Declined(String),
    /// The policy binds this pod, and has not: it is certain that this call made no Binding and that none will come, because none was
    /// requested, or the apiserver refused it. The text says why, for people, at most 1024 bytes. A failure as
    /// [`BindFailed`] is, after which the pod does not count on the node.
    NotBound(String),
}

/// Why it is not known whether a pod is bound: one sentence for operators. The gateway finds out whether the pod was bound
/// nevertheless, and otherwise applies the failure policy that the operator chose, and counts the pod on the node until the end
/// is known. Where there is certainly no Binding, return [`Bind::NotBound`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BindFailed(pub String);
