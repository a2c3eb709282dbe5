//! Binding. What is bound is bound, so most cases ask nothing that a backend may do.

use bytes::Bytes;
use extender_policy_api::{limits::BIND_MESSAGE_BYTES, v1beta1 as api};
use prost::Message as _;
use tonic::{Code, Status};

use crate::{
    answer::at_most,
    case::{self, Case, Stop, failed, skipped},
    client::decoded,
    declared::{Terms, Verb},
    objects::Pod,
    question::call,
    sent::Extent,
    suite::Suite,
};

/// The cases that bind a pod.
pub(crate) const BINDING: [&str; 4] = ["bind.outcome", "bind.again", "bind.other-uid", "bind.message"];

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "bind.no-call" Must ["48.1"] "a request without `call` is refused" => no_call;
        "bind.no-purpose" Must ["48.1"] "a request without a purpose is refused" => no_purpose;
        "bind.no-pod" Must ["48.1"] "a request without namespace, name, UID or node is refused" => no_pod;
        "bind.only-decides" Must ["48.2"] "only PURPOSE_DECIDE binds" => only_decides;
        "bind.other-reads" Must ["43.2"] "another declaration in `call.reads` is refused" => other_reads;
        "bind.outcome" Must ["48.3"] "the outcome is BOUND, DECLINED or NOT_BOUND" => outcome;
        "bind.again" Must ["48.4"] "what is bound is BOUND again" => again;
        "bind.other-uid" Must ["48.5"] "a pod with another UID is not bound" => other_uid;
        "bind.other-pod" Must ["48.6"] "facts about another pod are refused" => other_pod;
        "bind.message" Should ["48.7"] "the message is not longer than the gateway reads" => message;
    }
}

/// A pod that no cluster has: to be refused for another reason.
fn request(terms: Terms<'_>, args: &Bytes, pod: &Pod) -> api::BindRequest {
    let nobody = || "conformance".to_owned();
    own(api::BindRequest {
        call: Some(call(terms, args)),
        namespace: nobody(),
        name: nobody(),
        uid: nobody(),
        node: nobody(),
        pod: Some(terms.victim(pod, Extent::Declared)),
    })
}

/// With the facts of the pod that is to be bound, as far as they are sent.
fn own(mut request: api::BindRequest) -> api::BindRequest {
    let api::BindRequest { namespace, name, uid, pod, .. } = &mut request;
    let told = |told: &mut String, meant: &String| {
        if !told.is_empty() {
            told.clone_from(meant);
        }
    };
    for facts in pod.iter_mut().filter_map(|pod| pod.facts.as_mut()) {
        told(&mut facts.namespace, namespace);
    }
    for identity in pod.iter_mut().filter_map(|pod| pod.identity.as_mut()) {
        told(&mut identity.name, name);
        told(&mut identity.uid, uid);
    }
    request
}

async fn other_pod(suite: &Suite) -> Result<(), Stop> {
    let mut request = of_nobody(suite)?;
    let facts = request.pod.as_mut().and_then(|pod| pod.facts.as_mut());
    let Some(facts) = facts.filter(|facts| !facts.namespace.is_empty()) else {
        return skipped("the verb is not told the namespace of the pod");
    };
    "another".clone_into(&mut facts.namespace);
    refused(suite, &request, Code::InvalidArgument, "a pod of another namespace than the request's").await
}

fn of_nobody(suite: &Suite) -> Result<api::BindRequest, Stop> {
    Ok(request(suite.terms(Verb::Bind)?, &suite.args, &suite.objects().pod()))
}

async fn refused(suite: &Suite, request: &api::BindRequest, code: Code, what: &str) -> Result<(), Stop> {
    suite.refused_message(Verb::Bind, request.encode_to_vec().into(), &[code], what).await
}

/// A call with these args, and this change of it. It is about a pod that no cluster has.
pub(super) fn message_with_args(
    suite: &Suite,
    terms: Terms<'_>,
    args: &Bytes,
    change: impl FnOnce(&mut api::Call),
) -> Bytes {
    let mut request = request(terms, args, &suite.objects().pod());
    request.call.as_mut().map(change);
    request.encode_to_vec().into()
}

async fn no_call(suite: &Suite) -> Result<(), Stop> {
    let request = api::BindRequest { call: None, ..of_nobody(suite)? };
    refused(suite, &request, Code::InvalidArgument, "a request without `call`").await
}

async fn no_purpose(suite: &Suite) -> Result<(), Stop> {
    let mut request = of_nobody(suite)?;
    request.call.iter_mut().for_each(|call| call.purpose = 0);
    refused(suite, &request, Code::InvalidArgument, "a request with PURPOSE_UNSPECIFIED").await
}

async fn no_pod(suite: &Suite) -> Result<(), Stop> {
    let request = of_nobody(suite)?;
    for (missing, without) in [
        ("namespace", api::BindRequest { namespace: String::new(), ..request.clone() }),
        ("name", api::BindRequest { name: String::new(), ..request.clone() }),
        ("uid", api::BindRequest { uid: String::new(), ..request.clone() }),
        ("node", api::BindRequest { node: String::new(), ..request }),
    ] {
        refused(suite, &without, Code::InvalidArgument, &format!("a request without `{missing}`")).await?;
    }
    Ok(())
}

async fn only_decides(suite: &Suite) -> Result<(), Stop> {
    let mut request = of_nobody(suite)?;
    for (purpose, name) in super::purpose::OTHERS {
        request.call.iter_mut().for_each(|call| call.purpose = purpose);
        refused(suite, &request, Code::FailedPrecondition, name).await?;
    }
    Ok(())
}

async fn other_reads(suite: &Suite) -> Result<(), Stop> {
    let terms = suite.terms(Verb::Bind)?;
    let mut request = of_nobody(suite)?;
    for (what, reads) in super::reads::others(terms) {
        request.call.iter_mut().for_each(|call| call.reads.clone_from(&reads));
        refused(suite, &request, Code::FailedPrecondition, what).await?;
    }
    Ok(())
}

/// Binds the pod that the command line allows to be bound.
async fn bind(suite: &Suite) -> Result<api::BindResponse, Stop> {
    bound(suite, None).await?.map_err(|status| Stop::refused("Bind", &status))
}

/// With the UID of another pod, if one is given.
async fn bound(suite: &Suite, other_uid: Option<&str>) -> Result<Result<api::BindResponse, Status>, Stop> {
    let terms = suite.terms(Verb::Bind)?;
    let Some(bindable) = suite.bindable.clone() else {
        return skipped("this would bind a pod: allow one with --bind NAMESPACE/NAME/UID/NODE");
    };
    let crate::options::Bindable { namespace, name, uid, node } = bindable;
    let uid = other_uid.map_or(uid, str::to_owned);
    let pod = suite.objects().pod();
    let request = own(api::BindRequest { namespace, name, uid, node, ..request(terms, &suite.args, &pod) });
    decoded("Bind", suite.send(Verb::Bind, request.encode_to_vec().into()).await?)
}

async fn outcome(suite: &Suite) -> Result<(), Stop> {
    let response = bind(suite).await?;
    match api::BindOutcome::try_from(response.outcome) {
        Ok(api::BindOutcome::Bound | api::BindOutcome::Declined | api::BindOutcome::NotBound) => Ok(()),
        _ => failed(format!("`outcome` is {}; expected BOUND, DECLINED or NOT_BOUND", response.outcome)),
    }
}

async fn again(suite: &Suite) -> Result<(), Stop> {
    let first = bind(suite).await?;
    if first.outcome() != api::BindOutcome::Bound {
        return skipped(format!("the pod of --bind was not bound: {}", first.message));
    }
    let second = bind(suite).await?;
    if second.outcome() == api::BindOutcome::Bound {
        return Ok(());
    }
    failed(format!("the same Bind again: {} ({})", second.outcome().as_str_name(), second.message))
}

async fn other_uid(suite: &Suite) -> Result<(), Stop> {
    if bind(suite).await?.outcome() != api::BindOutcome::Bound {
        return skipped("the pod of --bind was not bound");
    }
    match bound(suite, Some("of-a-pod-that-is-gone")).await? {
        Ok(response) if response.outcome() == api::BindOutcome::Bound => {
            failed("a pod with another UID than that of the request is BOUND")
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

async fn message(suite: &Suite) -> Result<(), Stop> {
    Ok(at_most("`message`", &bind(suite).await?.message, BIND_MESSAGE_BYTES)?)
}
