//! Outcomes over a real socket.

use extender_policy_api::v1beta1::{
    Call, GetInfoRequest, Outcome as Sent, OutcomeKind as SentKind, Purpose, ReportRequest,
    outcome_service_client::OutcomeServiceClient, outcome_service_server::SERVICE_NAME,
    policy_service_client::PolicyServiceClient,
};
use extender_policy_sdk::{
    Info, NotReady, Outcome, OutcomeKind, Policy, Verb,
    testing::{self, TestPod},
};
use tonic::Code;

use crate::{served, soon};

struct Observer(Info);

impl Policy for Observer {
    fn info(&self) -> Info {
        self.0.clone()
    }

    fn observe(&self, outcome: &Outcome<'_>) -> Result<(), NotReady> {
        match (outcome.kind(), outcome.node(), outcome.uid()) {
            (OutcomeKind::Bound, Some("a"), "u") => Ok(()),
            other => Err(NotReady(format!("{other:?}"))),
        }
    }
}

fn filters() -> Info {
    Info::new("observer", "1").filters(Verb::per_node())
}

/// The status of a report of a pod that is bound, and whether the service is listed.
async fn reported(info: Info) -> (Code, bool) {
    let channel = served(Observer(info)).await;
    let [call, namespace, name, uid, node] = ["c", "shop", "web", "u", "a"].map(str::to_owned);
    let outcome = Sent { call, namespace, name, uid, kind: SentKind::Bound.into(), node };
    let call = Some(Call { purpose: Purpose::Decide.into(), ..Call::default() });
    let request = ReportRequest { call, outcomes: vec![outcome] };
    let report = soon(OutcomeServiceClient::new(channel.clone()).report(request)).await;
    let info = PolicyServiceClient::new(channel).get_info(GetInfoRequest::default()).await.unwrap();
    let is_listed = info.into_inner().services.iter().any(|service| service == SERVICE_NAME);
    (report.map_or_else(|status| status.code(), |_| Code::Ok), is_listed)
}

#[tokio::test]
async fn outcomes_are_observed_where_that_is_declared() {
    assert_eq!(reported(filters().observes_outcomes()).await, (Code::Ok, true));
    assert_eq!(reported(filters()).await, (Code::Unimplemented, false));
}

#[test]
fn outcomes_are_observed_without_a_server() {
    let observe = |pod: TestPod, kind, node| {
        let observer = Observer(filters().observes_outcomes());
        testing::observe(observer, &pod, kind, node).map_err(|error| error.to_string())
    };
    let pod = || TestPod::new("shop").created_seconds(7);
    assert_eq!(observe(pod().identity("web", "u"), OutcomeKind::Bound, "a"), Ok(()));
    let error = observe(pod(), OutcomeKind::NotBound, "").unwrap_err();
    assert_eq!(error, "(NotBound, None, \"uid\")");
    let error = observe(pod(), OutcomeKind::Bound, "").unwrap_err();
    assert!(error.starts_with("outcomes[0].node is missing"), "{error}");
}
