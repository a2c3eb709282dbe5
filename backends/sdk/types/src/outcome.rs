//! How an attempt to place a pod ended, as a policy observes it.

use extender_policy_api::v1beta1 as api;

use crate::pod::given;

/// How an attempt to place a pod ended: what [`Policy::observe`](crate::Policy::observe) gets.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    message: &'a api::Outcome,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeKind {
    /// The pod is bound to [`Outcome::node`].
    Bound,
    /// The pod is not bound, and certainly will not be by this attempt.
    NotBound,
    /// Another attempt has begun before it was known how this one ended: this one has no effect any more. The outcome of the other
    /// one follows.
    Superseded,
    /// The pod does not exist any more, or has ended, whether it was bound or not.
    Deleted,
}

impl<'a> Outcome<'a> {
    /// A view of an outcome of the contract; the error names the field that is missing.
    #[doc(hidden)]
    pub fn new(message: &'a api::Outcome) -> Result<Self, &'static str> {
        let api::Outcome { call, namespace, name, uid, kind, node } = message;
        let has_kind = *kind != i32::from(api::OutcomeKind::Unspecified);
        let has_node = *kind != i32::from(api::OutcomeKind::Bound) || !node.is_empty();
        let texts = [("call", call), ("namespace", namespace), ("name", name), ("uid", uid)];
        let texts = texts.map(|(field, text)| (field, !text.is_empty()));
        let mut fields = texts.into_iter().chain([("kind", has_kind), ("node", has_node)]);
        fields.find(|(_, is_given)| !is_given).map_or(Ok(Self { message }), |(field, _)| Err(field))
    }

    /// The id of the latest call of filter or bind about the pod, as [`Pod::call_id`](crate::Pod::call_id) and
    /// [`BindAsk::call_id`](crate::BindAsk::call_id) tell it, and as in the gateway's log and in traces.
    pub fn call(&self) -> &'a str {
        &self.message.call
    }

    /// metadata.namespace of the pod.
    pub fn namespace(&self) -> &'a str {
        &self.message.namespace
    }

    /// metadata.name of the pod.
    pub fn name(&self) -> &'a str {
        &self.message.name
    }

    /// metadata.uid of the pod.
    pub fn uid(&self) -> &'a str {
        &self.message.uid
    }

    /// How the attempt ended. A kind of a later version of the contract is [`OutcomeKind::Superseded`].
    pub fn kind(&self) -> OutcomeKind {
        match api::OutcomeKind::try_from(self.message.kind) {
            Ok(api::OutcomeKind::Bound) => OutcomeKind::Bound,
            Ok(api::OutcomeKind::NotBound) => OutcomeKind::NotBound,
            Ok(api::OutcomeKind::Deleted) => OutcomeKind::Deleted,
            Ok(api::OutcomeKind::Superseded | api::OutcomeKind::Unspecified) | Err(_) => {
                OutcomeKind::Superseded
            }
        }
    }

    /// The name of the node to which the pod is bound, whoever chose it; `None` if it is not bound.
    pub fn node(&self) -> Option<&'a str> {
        given(&self.message.node)
    }
}
