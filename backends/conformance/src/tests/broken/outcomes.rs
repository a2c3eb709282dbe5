//! Backends that take outcomes in another way than the rules say.

use std::time::Duration;

use bytes::Bytes;
use extender_policy_api::v1beta1 as api;
use prost::Message as _;
use tonic::Code;

use super::{
    changes::{after, before, has, info, is_report, pauses},
    faults::careless_args,
    proxy::{Ask, Fault, status},
};

pub(super) fn fault(case: &str) -> Fault {
    match case {
        "listed" => info(|info, _| info.services.retain(|service| !service.contains("Outcome"))),
        "served" => refuses_outcomes(Code::Unimplemented, |_, _| true),
        "again" => refuses_outcomes(Code::AlreadyExists, |ask, _| ask.number > 0),
        "time" => pauses(|ask, _| is_report(&ask.method).then_some(Duration::from_millis(500))),
        "invalid" => after(|ask, _, answered| match answered {
            Err(_) if is_report(&ask.method) => Ok(Bytes::new()),
            answered => answered,
        }),
        "unknown-pod" => refuses_outcomes(Code::NotFound, |_, _| true),
        "later-gateway" => refuses_outcomes(Code::InvalidArgument, |ask, _| has(&ask.message, b"later")),
        "args-unknown" | "args-digest" => careless_args(),
        other => panic!("no fault for {other}"),
    }
}

/// Refuses requests with outcomes for which this holds.
pub(super) fn refuses_outcomes(
    code: Code,
    when: impl Fn(&Ask, &api::ReportRequest) -> bool + Send + Sync + 'static,
) -> Fault {
    before(move |ask, _| match reported(ask) {
        Some(request) if when(ask, &request) => Err(status(code)),
        _ => Ok(ask.message.clone()),
    })
}

/// Takes requests with this change for what they say.
pub(super) fn takes_as(change: impl Fn(&mut api::ReportRequest) + Send + Sync + 'static) -> Fault {
    before(move |ask, _| {
        let Some(mut request) = reported(ask) else { return Ok(ask.message.clone()) };
        change(&mut request);
        Ok(request.encode_to_vec().into())
    })
}

fn reported(ask: &Ask) -> Option<api::ReportRequest> {
    is_report(&ask.method).then(|| api::ReportRequest::decode(ask.message.clone()).unwrap())
}
