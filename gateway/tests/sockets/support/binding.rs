//! Common parts of tests of bind: scripted binders, gateways that bind, and the two kinds of answer.

use extender_policy_api::v1beta1::{BindOutcome, BindResponse, GetInfoResponse, Verb, VerbInfo};
use prost::Message;

use super::{
    Gateway,
    apiserver::Apiserver,
    backend::{Act, Scripted, configured as backend},
    http::Answer,
    reading,
};

pub(crate) const TO_A: &str = r#"{"PodName":"web-0","PodNamespace":"shop","PodUID":"u-1","Node":"a"}"#;

pub(crate) fn info() -> GetInfoResponse {
    let bind = VerbInfo { verb: Verb::Bind as i32, reads: Some(reading::pods()), ..VerbInfo::default() };
    GetInfoResponse { verbs: vec![bind], ..super::backend::info(reading::pods()) }
}

pub(crate) fn says(outcome: BindOutcome) -> Act {
    Act::Message(BindResponse { outcome: outcome as i32, message: "so I say".into() }.encode_to_vec())
}

/// A backend that handles every Bind in this way.
pub(crate) async fn binder(act: Act) -> Scripted {
    Scripted::start(info(), move |_, _| act.clone()).await
}

/// A backend that binds to this node, whatever the request, and then does this.
pub(crate) async fn binding_to(apiserver: &Apiserver, node: &'static str, act: Act) -> Scripted {
    let apiserver = apiserver.clone();
    Scripted::start(info(), move |_, _| {
        apiserver.set("web-0", "u-1", Some(node));
        act.clone()
    })
    .await
}

pub(crate) async fn built_in(apiserver: &Apiserver) -> Gateway {
    let unrelated = Scripted::refusing(&[], "", 0).await;
    let rest = apiserver.configuration("BuiltIn");
    Gateway::start(&format!("{rest}backends:\n{}", backend("unrelated", &unrelated, "filter: {}"))).await
}

/// A gateway with one backend that binds.
pub(crate) async fn with(apiserver: &Apiserver, bind: &Scripted, settings: &str) -> Gateway {
    let rest = apiserver.configuration("only");
    Gateway::start(&format!("{rest}backends:\n{}", backend("only", bind, &format!("bind: {settings}")))).await
}

#[track_caller]
pub(crate) fn bound(answer: &Answer) {
    assert_eq!((answer.status, &*answer.body), (200, &br#"{"Error":""}"#[..]), "{answer:?}");
}

#[track_caller]
pub(crate) fn refused(answer: &Answer, text: &str) {
    let error = answer.error();
    assert_eq!((answer.status, error.as_str()), (200, text), "{answer:?}");
    assert_eq!(answer.json().as_object().unwrap().len(), 1);
}
