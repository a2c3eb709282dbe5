//! The answer to Bind, the one verb whose policy may wait.

use std::sync::Arc;

use extender_policy_api::{limits::BIND_MESSAGE_BYTES, v1beta1 as api};

use super::{guarded, policy_for, question, unpanicking};
use crate::{Backend, Bind, BindAsk, backend::Prepared, error::CallError};

/// Binds the pod, or declines.
pub(crate) async fn bind(
    backend: &Backend,
    request: &api::BindRequest,
) -> Result<api::BindResponse, CallError> {
    let prepared = guarded("Bind", || policy(backend, request))?;
    let ask = guarded("Bind", || asked(&prepared, request))?;
    let bound = unpanicking("Bind", async { Ok(prepared.policy.bind(ask).await?) }).await?;
    Ok(response(bound))
}

fn policy(backend: &Backend, request: &api::BindRequest) -> Result<Arc<Prepared>, CallError> {
    let call = request.call.as_ref().ok_or(CallError::Missing("call"))?;
    policy_for(backend, call, api::Verb::Bind)
}

/// The request as its policy may read it.
fn asked<'a>(prepared: &'a Prepared, request: &'a api::BindRequest) -> Result<BindAsk<'a>, CallError> {
    let terms = prepared.called(api::Verb::Bind)?;
    check_purpose(request.call.as_ref().ok_or(CallError::Missing("call"))?)?;
    if let Some(pod) = &request.pod {
        question::checked(pod, terms)?;
        check_same(pod, request)?;
    }
    let ask = BindAsk::new(request, terms.pod_access()).map_err(CallError::Missing)?;
    prepared.policy.ready()?;
    Ok(ask)
}

/// Rejects facts about another pod: what a policy decides from them would be done to this one.
fn check_same(pod: &api::Pod, request: &api::BindRequest) -> Result<(), CallError> {
    let api::BindRequest { namespace, name, uid, .. } = request;
    let namespaces = pod.facts.iter().map(|facts| ("pod.facts.namespace", &facts.namespace, namespace));
    let identities = pod.identity.iter().flat_map(|identity| {
        [("pod.identity.name", &identity.name, name), ("pod.identity.uid", &identity.uid, uid)]
    });
    // What the verb does not read is left out.
    let mut told = namespaces.chain(identities).filter(|(_, told, _)| !told.is_empty());
    told.find(|(_, told, meant)| told != meant).map_or(Ok(()), |(field, ..)| Err(CallError::OtherPod(field)))
}

fn check_purpose(call: &api::Call) -> Result<(), CallError> {
    match call.purpose() {
        api::Purpose::Decide => Ok(()),
        api::Purpose::Unspecified if call.purpose == 0 => Err(CallError::NoPurpose),
        _ => Err(CallError::OnlyDecides),
    }
}

fn response(bind: Bind) -> api::BindResponse {
    match bind {
        Bind::Bound => {
            api::BindResponse { outcome: api::BindOutcome::Bound.into(), ..api::BindResponse::default() }
        }
        Bind::Declined(why) => because(api::BindOutcome::Declined, why),
        Bind::NotBound(why) => because(api::BindOutcome::NotBound, why),
    }
}

fn because(outcome: api::BindOutcome, mut why: String) -> api::BindResponse {
    why.truncate(why.floor_char_boundary(BIND_MESSAGE_BYTES));
    api::BindResponse { outcome: outcome.into(), message: why }
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};

    use super::*;
    use crate::{BindFailed, BoxFuture, CannotAnswer, Info, Policy, Unanswered, Verb, digest::sha256};

    /// Does what the pod's name says.
    struct Binder;

    impl Policy for Binder {
        fn info(&self) -> Info {
            Info::new("binder", "1").binds()
        }

        fn bind<'a>(&'a self, ask: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
            assert_ne!(ask.name(), "panic at once", "as asked");
            Box::pin(async move {
                tokio::task::yield_now().await;
                match ask.name() {
                    "bound" => Ok(Bind::Bound),
                    "declined" => Ok(Bind::Declined("ä".repeat(600))),
                    "not bound" => Ok(Bind::NotBound("ö".repeat(600))),
                    "failed" => Err(BindFailed("the apiserver is away".into()).into()),
                    "locked" => Err(CannotAnswer("node locked".into()).into()),
                    name => panic!("no {name}"),
                }
            })
        }
    }

    /// Leaves everything to the trait's defaults.
    struct Silent(Info);

    impl Policy for Silent {
        fn info(&self) -> Info {
            self.0.clone()
        }
    }

    fn request(name: &str) -> api::BindRequest {
        let purpose = api::Purpose::Decide.into();
        api::BindRequest {
            call: Some(api::Call { purpose, reads: sha256(b"").to_vec().into(), ..api::Call::default() }),
            namespace: "shop".into(),
            name: name.into(),
            uid: "u-1".into(),
            node: "a".into(),
            pod: None,
        }
    }

    async fn answered(
        backend: impl Into<Backend>,
        request: api::BindRequest,
    ) -> Result<(i32, usize), Status> {
        let answer = bind(&backend.into(), &request).await?;
        Ok((answer.outcome, answer.message.len()))
    }

    #[tokio::test]
    async fn the_policys_word_is_the_answer() {
        assert_eq!(answered(Binder, request("bound")).await.unwrap(), (1, 0));
        assert_eq!(answered(Binder, request("declined")).await.unwrap(), (2, 1024));
        assert_eq!(answered(Binder, request("not bound")).await.unwrap(), (3, 1024));
        for (name, code, text) in [
            ("failed", Code::Unavailable, "the apiserver is away"),
            ("locked", Code::Aborted, "node locked"),
            ("panic at once", Code::Internal, "bind failed; see the policy's log"),
            ("panic later", Code::Internal, "bind failed; see the policy's log"),
        ] {
            let status = answered(Binder, request(name)).await.unwrap_err();
            assert_eq!(status.code(), code, "{name}: {status}");
            assert!(status.message().contains(text), "{name}: {status}");
        }
    }

    fn pod_of(namespace: &str, name: &str, uid: &str) -> api::Pod {
        let facts = api::PodFacts { namespace: namespace.into(), ..api::PodFacts::default() };
        let identity = api::PodIdentity { name: name.into(), uid: uid.into(), ..api::PodIdentity::default() };
        api::Pod { facts: Some(facts), identity: Some(identity), ..api::Pod::default() }
    }

    #[tokio::test]
    async fn the_facts_are_those_of_the_pod_as_far_as_they_are_told() {
        for pod in [pod_of("shop", "bound", "u-1"), pod_of("", "", "")] {
            let request = api::BindRequest { pod: Some(pod), ..request("bound") };
            assert_eq!(answered(Binder, request).await.unwrap().0, 1);
        }
    }

    #[tokio::test]
    async fn a_request_that_is_not_whole_or_not_a_decision_never_reaches_the_policy() {
        let change = |change: fn(&mut api::BindRequest)| {
            let mut request = request("panic at once");
            change(&mut request);
            request
        };
        for (request, text) in [
            (change(|request| request.call = None), "call is missing"),
            (change(|request| request.uid.clear()), "uid is missing"),
            (change(|request| request.node.clear()), "node is missing"),
            (change(|request| request.pod = Some(api::Pod::default())), "pod.facts is missing"),
            (
                change(|request| request.pod = Some(pod_of("mall", "", ""))),
                "pod.facts.namespace is that of another",
            ),
            (
                change(|request| request.pod = Some(pod_of("shop", "b", ""))),
                "pod.identity.name is that of another",
            ),
            (
                change(|request| request.pod = Some(pod_of("", "", "u-2"))),
                "pod.identity.uid is that of another",
            ),
            (change(|request| request.call.as_mut().unwrap().purpose = 0), "call.purpose is missing"),
            (change(|request| request.call.as_mut().unwrap().purpose = 3), "only answers PURPOSE_DECIDE"),
            (change(|request| request.call.as_mut().unwrap().purpose = 77), "only answers PURPOSE_DECIDE"),
        ] {
            let status = answered(Binder, request).await.unwrap_err();
            assert!(status.message().contains(text), "{status}");
        }
    }

    #[tokio::test]
    async fn a_policy_that_does_not_declare_it_does_not_bind() {
        let status = answered(Silent(Info::new("filters", "1").filters(Verb::per_node())), request("bound"))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
    }
}
