//! Addresses that report their health (`grpc.health.v1.Health`).

use serde_json::json;

use crate::{
    addresses::{Hosts, before, calls, filter, resolving, status},
    support::{Gateway, admin::Admin, backend::Scripted, ended, until},
};

const SERVING: u8 = 1;
const NOT_SERVING: u8 = 2;

/// Waits until this many addresses are reported as not serving.
async fn not_serving(admin: Admin, count: usize) {
    let all = async {
        loop {
            let addresses = status(admin).await.backends.remove(0).addresses;
            let why = addresses.iter().filter_map(|address| address.failure.as_deref());
            if why.filter(|why| *why == "UNAVAILABLE: its health service reports NOT_SERVING").count()
                == count
            {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    ended("the health is not as expected", all).await;
}

/// The calls that each backend gets of twenty pods.
async fn shares(gateway: &Gateway, backends: [&Scripted; 2]) -> [usize; 2] {
    let before = backends.map(calls);
    for pod in 0..20 {
        assert_eq!(filter(gateway, pod).await["NodeNames"], json!(["b"]));
    }
    [0, 1].map(|at| calls(backends[at]) - before[at])
}

#[tokio::test]
async fn an_address_that_does_not_serve_is_left_out_while_another_does() {
    let backends = [&Scripted::refusing(&["a"], "no", 0).await, &Scripted::refusing(&["a"], "no", 0).await];
    for backend in backends {
        backend.report_health(SERVING);
    }
    let (gateway, admin) = before(&Hosts::of(&backends), resolving(), "filter: {}").await;
    backends[0].report_health(NOT_SERVING);
    not_serving(admin, 1).await;
    assert_eq!(shares(&gateway, backends).await, [0, 20]);
    backends[1].report_health(NOT_SERVING);
    not_serving(admin, 2).await;
    assert!(shares(&gateway, backends).await.iter().all(|share| *share > 0), "none is better than another");
    for backend in backends {
        backend.report_health(SERVING);
    }
    not_serving(admin, 0).await;
    assert!(shares(&gateway, backends).await.iter().all(|share| *share > 0));
}

#[tokio::test]
async fn a_backend_without_health_service_is_asked_once_and_a_single_address_never() {
    let backends = [&Scripted::refusing(&["a"], "no", 0).await, &Scripted::refusing(&["a"], "no", 0).await];
    let (gateway, _) = before(&Hosts::of(&backends), resolving(), "filter: {}").await;
    let handshakes = backends[0].messages("GetInfo").len();
    until("handshakes", || backends[0].messages("GetInfo").len() > handshakes + 5).await;
    assert_eq!(backends[0].messages("Check").len(), 1);
    assert!(shares(&gateway, backends).await.iter().all(|share| *share > 0));
    let single = Scripted::refusing(&["a"], "no", 0).await;
    let (_gateway, _) = before(&Hosts::of(&[&single]), resolving(), "filter: {}").await;
    until("handshakes", || single.messages("GetInfo").len() > 5).await;
    assert!(single.messages("Check").is_empty());
}
