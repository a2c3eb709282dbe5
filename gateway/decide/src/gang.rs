//! Binds the pods of a gang together, or none of them.
//!
//! Only a pod that may be rejected at its Binding waits for others, so this is for the namespaces in which filters are asked again
//! ([`reserve`](super::reserve)). A Binding that the apiserver rejects afterwards cannot be undone.

use std::sync::Arc;

use extender_gateway_cluster::{
    binder::BindingState,
    gangs::{Gangs, Member},
    pods::{PodTable, group_of},
};
use extender_gateway_object::pod::ObjectPod;
use tokio::select;

use super::{
    CallError,
    bind::{BindCall, BindEnd},
    reserve::AssumedPod,
};

/// The pod of a call that waits for others. It is certainly not bound if the call ends meanwhile.
struct AssumedMember(Option<AssumedPod>);

impl Drop for AssumedMember {
    fn drop(&mut self) {
        if let Some(assumed) = self.0.take() {
            assumed.end(BindEnd::NotBound);
        }
    }
}

impl BindCall<'_> {
    /// The part of this call in the binding of its gang; `None` if the pod is in none that may be rejected in part.
    pub(super) async fn enter_gang(
        &self,
        pods: &Arc<PodTable>,
        pod: &ObjectPod<'_>,
    ) -> Result<Option<Member>, CallError> {
        let Some(key) = group_of(pod) else { return Ok(None) };
        let settings = &self.decider.settings;
        let is_asked_again = settings.tables.table.is_some() && self.decider.has_limits();
        if !is_asked_again || settings.exempt.contains(&key.namespace) {
            return Ok(None);
        }
        let member =
            Gangs::enter(pods, key.clone(), pod.uid()).map_err(|why| not_in_part(&key.name, &why))?;
        let read = async || self.binders.apiserver.min_count(&key, self.ask_until).await;
        match member.min_count(read).await {
            Ok(Some(_)) => Ok(Some(member)),
            Ok(None) => Ok(None),
            Err(error) => Err(BindingState::Unknown(error).into()),
        }
    }

    /// Reserves room for the pod, and waits until there is room for enough others.
    pub(super) async fn with_others(
        &self,
        member: &mut Member,
        reserving: impl Future<Output = Result<Option<AssumedPod>, CallError>>,
    ) -> Result<Option<AssumedPod>, CallError> {
        let group = member.group().to_owned();
        let reserved = select! {
            biased;
            failed = member.answer() => failed.map(|()| None).map_err(|why| not_in_part(&group, &why)),
            reserved = reserving => reserved,
        };
        let mut held = match reserved {
            Ok(assumed) => AssumedMember(assumed),
            Err(error) => {
                member.refused(&error.reason());
                return Err(error);
            }
        };
        // The rest is for the Bindings of all of them.
        let until = self.ask_until - self.decider.settings.timeouts.bind / 4;
        member.accepted(until).await.map_err(|why| not_in_part(&group, &why))?;
        Ok(held.0.take())
    }
}

fn not_in_part(group: &str, why: &str) -> CallError {
    CallError::NoLongerFits(format!("pod group {group} is not bound in part, and {why}"))
}
