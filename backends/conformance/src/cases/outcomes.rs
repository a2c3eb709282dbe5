//! How the backend takes the outcomes of attempts to place pods.

use bytes::Bytes;
use extender_policy_api::limits::OUTCOMES;
use extender_policy_api::v1beta1::{self as api, OutcomeKind, outcome_service_server::SERVICE_NAME};
use http::uri::PathAndQuery;
use prost::Message as _;
use tonic::Status;

use super::{args, calls::with_unknown_fields, time::empty_call};
use crate::{
    case::{self, Case, Stop, failed, skipped},
    client::{Extras, decoded},
    declared::Verb,
    question::args_sha256,
    suite::{Suite, is_args_unknown, refused_naming},
    timing::{EMPTY_CALLS, in_turn, median},
};

/// All that are sent.
const KINDS: [OutcomeKind; 4] =
    [OutcomeKind::Bound, OutcomeKind::NotBound, OutcomeKind::Superseded, OutcomeKind::Deleted];

/// The most requests of which the time is taken.
const TIMED: usize = 50;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "outcomes.listed" Must ["62.1"] "a backend that takes outcomes lists the service" => listed;
        "outcomes.served" Must ["62.1"] "a listed service acknowledges outcomes" => served;
        "outcomes.again" Must ["62.2"] "an outcome that comes again is acknowledged again" => again;
        "outcomes.time" Should ["62.2"] "outcomes are acknowledged within the gateway's timeout" => time;
        "outcomes.invalid" Must ["62.3"] "a request that lacks a field is refused, and the field is named" => invalid;
        "outcomes.unknown-pod" Must ["62.4"] "outcomes of pods that nobody knows are acknowledged" => unknown_pod;
        "outcomes.later-gateway" Must ["8.4"] "unknown kinds and fields are acknowledged" => later_gateway;
        "outcomes.args-unknown" Must ["61.1", "61.2"] "args that the backend does not hold are asked for" => args_unknown;
        "outcomes.args-digest" Must ["61.3"] "args that are not those of their digest are refused" => args_digest;
    }
}

/// A case about outcomes is skipped if the service is not listed.
fn declared(suite: &Suite) -> Result<(), Stop> {
    if suite.declared.lists(SERVICE_NAME) { Ok(()) } else { skipped("OutcomeService is not listed") }
}

/// The outcome of a pod that no cluster has.
fn of_nobody(kind: OutcomeKind) -> api::Outcome {
    let nobody = || "conformance".to_owned();
    let of_kind = api::Outcome {
        call: nobody(),
        namespace: nobody(),
        name: nobody(),
        uid: nobody(),
        ..api::Outcome::default()
    };
    ended(&of_kind, kind)
}

/// The same attempt with another end.
fn ended(outcome: &api::Outcome, kind: OutcomeKind) -> api::Outcome {
    let node = if kind == OutcomeKind::Bound { "conformance" } else { "" };
    api::Outcome { kind: kind.into(), node: node.to_owned(), ..outcome.clone() }
}

/// What a gateway would send once it knows that the backend does not hold the args.
fn request(args: &Bytes, outcomes: &[api::Outcome]) -> api::ReportRequest {
    let call = api::Call {
        id: "conformance".to_owned(),
        purpose: api::Purpose::Decide.into(),
        backend: "conformance".to_owned(),
        args: args.clone(),
        args_sha256: args_sha256(args),
        ..api::Call::default()
    };
    api::ReportRequest { call: Some(call), outcomes: outcomes.to_vec() }
}

/// The same before that.
fn by_digest(mut request: api::ReportRequest) -> api::ReportRequest {
    request.call.iter_mut().for_each(|call| call.args = Bytes::new());
    request
}

async fn send(suite: &Suite, message: Bytes) -> Result<Result<(), Status>, Stop> {
    let path = PathAndQuery::from_static("/extender.policy.v1beta1.OutcomeService/Report");
    let answered = suite.client.unary_at(path, message, Extras::default()).await?;
    let answered = answered.inspect_err(|status| suite.saw("Report", status));
    Ok(decoded::<api::ReportResponse>("Report", answered)?.map(drop))
}

async fn sent(suite: &Suite, request: &api::ReportRequest) -> Result<Result<(), Status>, Stop> {
    send(suite, request.encode_to_vec().into()).await
}

/// As a gateway sends outcomes: first with the digest of the args.
async fn reported(suite: &Suite, outcomes: &[api::Outcome]) -> Result<Result<(), Status>, Stop> {
    let request = request(&suite.args, outcomes);
    match sent(suite, &by_digest(request.clone())).await? {
        Err(status) if is_args_unknown(&status) => sent(suite, &request).await,
        answered => Ok(answered),
    }
}

async fn acknowledged(suite: &Suite, outcomes: &[api::Outcome], what: &str) -> Result<(), Stop> {
    reported(suite, outcomes).await?.map_err(|status| Stop::refused(what, &status))
}

async fn listed(suite: &Suite) -> Result<(), Stop> {
    if !suite.declared.lists(SERVICE_NAME)
        && reported(suite, &[of_nobody(OutcomeKind::NotBound)]).await?.is_ok()
    {
        return failed(format!("Report is answered, but `services` does not list {SERVICE_NAME}"));
    }
    Ok(())
}

async fn served(suite: &Suite) -> Result<(), Stop> {
    declared(suite)?;
    acknowledged(suite, &[of_nobody(OutcomeKind::NotBound)], "an outcome").await
}

/// An attempt to place a pod about which the backend was just asked, if it serves filter.
async fn attempt(suite: &Suite) -> Result<api::Outcome, Stop> {
    let scene = suite.scene(2);
    let mut outcome = of_nobody(OutcomeKind::Unspecified);
    if let Ok(question) = suite.question(Verb::Filter, &scene) {
        suite.ask(&question).await?;
        outcome.call = question.call.unwrap_or_default().id;
    }
    let api::PodIdentity { name, uid, .. } = scene.pod.identity;
    Ok(api::Outcome { namespace: scene.pod.facts.namespace, name, uid, ..outcome })
}

async fn again(suite: &Suite) -> Result<(), Stop> {
    declared(suite)?;
    let attempt = attempt(suite).await?;
    for kind in KINDS {
        let (outcome, name) = (ended(&attempt, kind), kind.as_str_name());
        let once = [outcome];
        acknowledged(suite, &once, name).await?;
        acknowledged(suite, &once, &format!("{name} in another request")).await?;
        acknowledged(suite, &[&once[..], &once].concat(), &format!("{name} twice in a request")).await?;
    }
    Ok(())
}

async fn time(suite: &Suite) -> Result<(), Stop> {
    declared(suite)?;
    let outcomes = [of_nobody(OutcomeKind::NotBound)];
    let report = async || acknowledged(suite, &outcomes, "an outcome").await;
    let (times, empty) = in_turn(TIMED, report, || empty_call(suite)).await?;
    let (count, median, empty) = (times.len(), median(&times), median(&empty));
    let timeout = suite.target.call_timeout;
    if median > timeout.max(empty * EMPTY_CALLS) {
        return failed(format!(
            "the median of {count} requests with one outcome is {median:.1?}, that of empty calls in between {empty:.1?}; the \
             gateway waits {timeout:?} for a call (--call-timeout)"
        ));
    }
    Ok(())
}

/// Takes a field out of a request.
type Removal = fn(&mut api::ReportRequest);

/// What an outcome lacks, the second of two lacks.
async fn invalid(suite: &Suite) -> Result<(), Stop> {
    declared(suite)?;
    let (request_without, outcome_without) = ("a request without", "an outcome without");
    let lacks: [(&str, &str, Removal); 9] = [
        (request_without, "call", |request| request.call = None),
        (request_without, "purpose", |request| request.call.iter_mut().for_each(|call| call.purpose = 0)),
        (request_without, "outcomes", |request| request.outcomes.clear()),
        (outcome_without, "call", |request| request.outcomes[1].call.clear()),
        (outcome_without, "namespace", |request| request.outcomes[1].namespace.clear()),
        (outcome_without, "name", |request| request.outcomes[1].name.clear()),
        (outcome_without, "uid", |request| request.outcomes[1].uid.clear()),
        (outcome_without, "kind", |request| request.outcomes[1].kind = 0),
        (outcome_without, "node", |request| request.outcomes[1].node.clear()),
    ];
    let outcomes = [of_nobody(OutcomeKind::NotBound), of_nobody(OutcomeKind::Bound)];
    for (what, field, remove) in lacks {
        let mut request = request(&suite.args, &outcomes);
        remove(&mut request);
        refused_naming(sent(suite, &request).await?, field, &format!("{what} `{field}`"))?;
    }
    Ok(())
}

/// As many as a request has at most.
async fn unknown_pod(suite: &Suite) -> Result<(), Stop> {
    declared(suite)?;
    let outcomes: Vec<_> = KINDS
        .into_iter()
        .cycle()
        .map(|kind| api::Outcome { uid: suite.table_name(), ..of_nobody(kind) })
        .take(OUTCOMES)
        .collect();
    acknowledged(suite, &outcomes, &format!("{OUTCOMES} outcomes of unknown pods")).await
}

async fn later_gateway(suite: &Suite) -> Result<(), Stop> {
    declared(suite)?;
    let unknown = api::Outcome { kind: 99, ..of_nobody(OutcomeKind::NotBound) };
    acknowledged(suite, &[unknown], "an outcome of the unknown kind 99").await?;
    let request = request(&suite.args, &[of_nobody(OutcomeKind::NotBound)]);
    let answered = send(suite, with_unknown_fields(&request.encode_to_vec())).await?;
    answered.map_err(|status| Stop::refused("a request with unknown fields", &status))
}

/// The digest of args that were never sent, and then the args.
async fn args_unknown(suite: &Suite) -> Result<(), Stop> {
    declared(suite)?;
    let request = request(&suite.args_never_sent(), &[of_nobody(OutcomeKind::NotBound)]);
    args::asked_for(sent(suite, &by_digest(request.clone())).await?)?;
    sent(suite, &request).await?.map_err(|status| args::not_taken(suite, &status))
}

async fn args_digest(suite: &Suite) -> Result<(), Stop> {
    declared(suite)?;
    let args = suite.args_never_sent();
    for (what, digest) in args::wrong_digests(&args) {
        let mut request = request(&args, &[of_nobody(OutcomeKind::NotBound)]);
        request.call.iter_mut().for_each(|call| call.args_sha256.clone_from(&digest));
        refused_naming(sent(suite, &request).await?, "args_sha256", &format!("a request with {what}"))?;
    }
    Ok(())
}
