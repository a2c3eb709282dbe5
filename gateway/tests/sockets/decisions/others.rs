//! Calls to preempt and bind.

use extender_gateway_api::NodeVerdict;
use extender_policy_api::v1beta1::BindOutcome;
use serde_json::json;

use super::{node, part, rejected, verdict};
use crate::support::{
    Gateway,
    admin::Seen,
    apiserver::Apiserver,
    backend::configured,
    binding::{TO_A, binder, binding_to, bound, says},
    preempting::{REQUEST, call, gateway, keeping, kept, left, sparing},
    reading,
};

fn victims(count: u32) -> NodeVerdict {
    NodeVerdict { victims: Some(count), ..NodeVerdict::default() }
}

#[tokio::test]
async fn preempt_has_who_left_which_candidate_with_how_many_victims() {
    let first = sparing(&["n2"], &[]).await;
    let second = sparing(&[], &["u2"]).await;
    let gateway = gateway(REQUEST, &[("first", &first, ""), ("second", &second, "")]).await;
    let seen = Seen::with(gateway).await;
    let reply = seen.gateway.post("/preempt", call()).await.json();
    assert_eq!(reply, left(&[("n1", &["u1"], 1)]));
    let call = seen.call(1).await;
    assert_eq!((call.verb.as_str(), call.offered, call.left, call.node_form), ("preempt", 2, Some(1), None));
    assert_eq!(verdict(&call, "n1", "first"), Some(&victims(2)));
    assert_eq!(verdict(&call, "n1", "second"), Some(&victims(1)));
    assert_eq!(verdict(&call, "n2", "first"), Some(&rejected("left out")));
    assert_eq!(verdict(&call, "n2", "second"), None, "it was not asked about it");
    assert_eq!(node(&call, "n2").rejected_by.as_deref(), Some("first"));
    let asked = [part(&call, "first"), part(&call, "second")].map(|part| (part.asked, part.rejected));
    assert_eq!(asked, [(2, 1), (1, 0)]);
}

#[tokio::test]
async fn preempt_that_fails_says_why() {
    let bad = keeping(reading::names(), vec![kept(7, &[0])]).await;
    let seen = Seen::with(gateway(REQUEST, &[("bad", &bad, "")]).await).await;
    assert_eq!(seen.gateway.post("/preempt", call()).await.status, 502);
    let call = seen.call(1).await;
    assert_eq!((call.outcome.as_str(), call.left), ("backend", None));
    assert!(call.message.as_ref().unwrap().contains("bad"), "{call:?}");
    let failure = part(&call, "bad").failure.as_ref().unwrap();
    assert_eq!((failure.kind.as_str(), failure.policy.as_str()), ("malformed", "fail"));
}

#[tokio::test]
async fn bind_has_what_each_binder_said() {
    let apiserver = Apiserver::start().await;
    let declining = binder(says(BindOutcome::Declined)).await;
    let binding = binding_to(&apiserver, "a", says(BindOutcome::Bound)).await;
    let backends =
        configured("declining", &declining, "bind: {}") + &configured("binding", &binding, "bind: {}");
    let gateway =
        Gateway::start(&format!("{}backends:\n{backends}", apiserver.configuration("declining"))).await;
    let seen = Seen::with(gateway).await;
    bound(&seen.gateway.post("/bind", TO_A).await);
    let call = seen.call(1).await;
    assert_eq!((call.verb.as_str(), call.outcome.as_str(), call.left), ("bind", "ok", None));
    assert_eq!((call.pod.name.as_str(), call.pod.uid.as_str(), call.offered), ("web-0", "u-1", 1));
    assert_eq!(part(&call, "declining").answer.as_deref(), Some("declined: so I say"));
    assert_eq!(part(&call, "binding").answer.as_deref(), Some("bound"));
    assert_eq!(json!(node(&call, "a")), json!({"name": "a"}));
}
