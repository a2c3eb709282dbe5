//! The answer to Report: how attempts to place pods ended.

use extender_policy_api::v1beta1 as api;

use crate::{Backend, Outcome, backend::NamedArgs, error::CallError};

/// Lets the policy observe all outcomes of a valid request, in their order.
pub(crate) fn report(
    backend: &Backend,
    request: &api::ReportRequest,
) -> Result<api::ReportResponse, CallError> {
    let call = request.call.as_ref().ok_or(CallError::Missing("call"))?;
    let prepared = backend.policy_for(NamedArgs::of(call)?)?;
    if !prepared.declaration.observes_outcomes() {
        return Err(CallError::NotObserved);
    }
    if call.purpose == i32::from(api::Purpose::Unspecified) {
        return Err(CallError::NoPurpose);
    }
    if request.outcomes.is_empty() {
        return Err(CallError::Missing("outcomes"));
    }
    let checked =
        |(position, outcome)| Outcome::new(outcome).map_err(|field| CallError::Outcome { position, field });
    let outcomes = request.outcomes.iter().enumerate().map(checked).collect::<Result<Vec<_>, _>>()?;
    prepared.policy.ready()?;
    for outcome in &outcomes {
        prepared.policy.observe(outcome)?;
    }
    Ok(api::ReportResponse {})
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tonic::{Code, Status};

    use super::{super::at_once, *};
    use crate::{Info, NotReady, OutcomeKind, Policy, Verb, digest::sha256, tests::Filters};

    /// The texts, the kind and the node.
    type Seen = (String, OutcomeKind, Option<String>);

    /// Records what it observes, and fails for some names.
    #[derive(Default)]
    struct Observer(Arc<Mutex<Vec<Seen>>>);

    impl Policy for Observer {
        fn info(&self) -> Info {
            Info::new("observer", "1").filters(Verb::per_node().side_effects()).observes_outcomes()
        }

        fn observe(&self, outcome: &Outcome<'_>) -> Result<(), NotReady> {
            assert_ne!(outcome.name(), "panic", "secret");
            if outcome.name() == "away" {
                return Err(NotReady("the database is away".to_owned()));
            }
            let seen = [outcome.call(), outcome.namespace(), outcome.name(), outcome.uid()].join("/");
            self.0.lock().unwrap().push((seen, outcome.kind(), outcome.node().map(str::to_owned)));
            Ok(())
        }
    }

    /// Declares it alone.
    struct Unwritten;

    impl Policy for Unwritten {
        fn info(&self) -> Info {
            Observer::default().info()
        }
    }

    fn outcome(name: &str, kind: i32, node: &str) -> api::Outcome {
        let [call, namespace, uid] = ["c", "shop", "u"].map(str::to_owned);
        api::Outcome { call, namespace, name: name.to_owned(), uid, kind, node: node.to_owned() }
    }

    fn request(outcomes: Vec<api::Outcome>) -> api::ReportRequest {
        let call = api::Call { purpose: api::Purpose::Decide.into(), ..api::Call::default() };
        api::ReportRequest { call: Some(call), outcomes }
    }

    fn reported(backend: &Backend, request: &api::ReportRequest) -> Result<(), Status> {
        Ok(at_once("Report", async { report(backend, request) }).unwrap().map(drop)?)
    }

    #[test]
    fn all_outcomes_are_observed_in_their_order() {
        let observer = Observer::default();
        let seen = Arc::clone(&observer.0);
        let outcomes = [(1, "a"), (2, ""), (3, ""), (4, ""), (77, "")];
        let outcomes = outcomes.map(|(kind, node)| outcome("web", kind, node)).into();
        assert_eq!(
            reported(&observer.into(), &request(outcomes)).map_err(|status| status.to_string()),
            Ok(())
        );
        let expected = [
            (OutcomeKind::Bound, Some("a")),
            (OutcomeKind::NotBound, None),
            (OutcomeKind::Superseded, None),
            (OutcomeKind::Deleted, None),
            (OutcomeKind::Superseded, None),
        ];
        let expected =
            expected.map(|(kind, node)| ("c/shop/web/u".to_owned(), kind, node.map(str::to_owned)));
        assert_eq!(*seen.lock().unwrap(), expected);
    }

    #[test]
    fn an_invalid_request_has_no_effect() {
        let observer = Observer::default();
        let seen = Arc::clone(&observer.0);
        let backend = Backend::from(observer);
        let changed = |change: fn(&mut api::ReportRequest)| {
            let mut request = request(vec![outcome("web", 2, ""), outcome("web", 1, "a")]);
            change(&mut request);
            request
        };
        for (request, field) in [
            (changed(|request| request.call = None), "call"),
            (changed(|request| request.call.as_mut().unwrap().purpose = 0), "call.purpose"),
            (changed(|request| request.outcomes.clear()), "outcomes"),
            (changed(|request| request.outcomes[1].call.clear()), "outcomes[1].call"),
            (changed(|request| request.outcomes[1].namespace.clear()), "outcomes[1].namespace"),
            (changed(|request| request.outcomes[1].name.clear()), "outcomes[1].name"),
            (changed(|request| request.outcomes[1].uid.clear()), "outcomes[1].uid"),
            (changed(|request| request.outcomes[1].kind = 0), "outcomes[1].kind"),
            (changed(|request| request.outcomes[1].node.clear()), "outcomes[1].node"),
        ] {
            let status = reported(&backend, &request).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            assert!(status.message().starts_with(&format!("{field} is missing")), "{status}");
        }
        assert!(seen.lock().unwrap().is_empty());
    }

    #[test]
    fn what_is_not_observed_has_the_status_of_its_cause() {
        let mut unknown = request(vec![outcome("web", 2, "")]);
        unknown.call.as_mut().unwrap().args_sha256 = sha256(b"{\"a\":1}").to_vec().into();
        let of = |name| request(vec![outcome(name, 2, "")]);
        let observer = || Observer::default().into();
        for (backend, request, code, text) in [
            (observer(), of("panic"), Code::Internal, "report failed; see the policy's log"),
            (observer(), of("away"), Code::Unavailable, "the database is away"),
            (
                observer(),
                unknown,
                Code::FailedPrecondition,
                "the args of this call are not known here; send them",
            ),
            (
                Unwritten.into(),
                of("web"),
                Code::Internal,
                "report failed: it declares Info::observes_outcomes and has no method for it; write observe, or remove the \
                 declaration",
            ),
            (
                Filters.into(),
                of("web"),
                Code::Unimplemented,
                "this policy does not observe outcomes; its GetInfo does not list the service",
            ),
        ] {
            let status = reported(&backend, &request).unwrap_err();
            assert_eq!((status.code(), status.message()), (code, text));
        }
    }
}
