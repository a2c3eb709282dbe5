//! TLS of the HTTP server: which clients are accepted, and changes of the files.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::support::{
    backend::{Act, Scripted},
    by_name,
    certificates::{Authority, Identity},
    secured::{HTTP_1, NAME, Secured, accepted, connect, http, open},
    until,
};
use tokio::net::TcpStream;

#[tokio::test]
async fn without_a_client_authority_everybody_is_served() {
    let secured = Secured::start("").await;
    assert_eq!(secured.filter(&secured.client(None, HTTP_1)).await, Ok(accepted()));
    assert_eq!(secured.filter(&secured.client(None, &[])).await, Ok(accepted()), "without ALPN");
    let stranger = Authority::new("strangers");
    let error = secured.filter(&stranger.client(None, HTTP_1)).await.unwrap_err();
    assert!(error.contains("UnknownIssuer"), "{error}");
}

#[tokio::test]
async fn a_required_certificate_has_to_be_there_signed_and_named() {
    let names = ", clientCAFile: CALLERS, allowedNames: ['system:kube-scheduler', scheduler.test]";
    let secured = Secured::start(names).await;
    let shown = async |identity: Option<&Identity>| secured.filter(&secured.client(identity, HTTP_1)).await;
    let issue = |common: &str, names: &[&str]| secured.callers.issue(common, names);
    assert_eq!(shown(Some(&issue("system:kube-scheduler", &[]))).await, Ok(accepted()));
    assert_eq!(shown(Some(&issue("other", &["x.test", "Scheduler.test"]))).await, Ok(accepted()));
    for (refused, text) in [
        (None, "CertificateRequired"),
        (Some(Authority::new("strangers").issue("system:kube-scheduler", &[])), "UnknownCA"),
        (Some(secured.servers.issue("system:kube-scheduler", &[])), "UnknownCA"),
        (Some(issue("system:kube-proxy", &["x.test"])), "CertificateUnknown"),
        (Some(issue("System:kube-scheduler", &[])), "CertificateUnknown"),
        (Some(issue("", &["a.scheduler.test"])), "CertificateUnknown"),
    ] {
        let error = shown(refused.as_ref()).await.unwrap_err();
        assert!(error.contains(text), "{text}: {error}");
    }
}

#[tokio::test]
async fn any_certificate_of_the_authority_will_do_without_names() {
    let secured = Secured::start(", clientCAFile: CALLERS").await;
    let anybody = secured.callers.issue("anybody", &[]);
    assert_eq!(secured.filter(&secured.client(Some(&anybody), HTTP_1)).await, Ok(accepted()));
    secured.filter(&secured.client(None, HTTP_1)).await.unwrap_err();
}

#[tokio::test]
async fn an_optional_certificate_has_to_be_right_if_it_is_there() {
    let fields = ", clientCAFile: CALLERS, clientCertificate: Optional, allowedNames: [scheduler]";
    let secured = Secured::start(fields).await;
    let shown = async |identity: Option<&Identity>| secured.filter(&secured.client(identity, HTTP_1)).await;
    assert_eq!(shown(None).await, Ok(accepted()));
    assert_eq!(shown(Some(&secured.callers.issue("scheduler", &[]))).await, Ok(accepted()));
    shown(Some(&secured.callers.issue("other", &[]))).await.unwrap_err();
    shown(Some(&Authority::new("strangers").issue("scheduler", &[]))).await.unwrap_err();
}

#[tokio::test]
async fn plain_http_is_told_that_tls_is_spoken() {
    let secured = Secured::start("").await;
    let answer = secured.gateway.post("/filter", by_name(&["a"])).await;
    assert_eq!(answer.status, 400);
    let said = answer.header("x-extender-gateway-error");
    assert_eq!(said, Some("extender-gateway: this address requires TLS"));
}

#[tokio::test]
async fn a_caller_that_says_nothing_keeps_nobody_out() {
    let secured = Secured::start("").await;
    let _silent = TcpStream::connect(secured.gateway.address).await.unwrap();
    assert_eq!(secured.filter(&secured.client(None, HTTP_1)).await, Ok(accepted()));
}

#[tokio::test]
async fn a_caller_who_hangs_up_takes_the_questions_with_it() {
    let secured = Secured::start_before("", Scripted::always(Act::Hang).await).await;
    let client = secured.client(None, HTTP_1);
    let mut client = connect(secured.gateway.address, &client).await.unwrap();
    client.write(&http(&by_name(&["a"]))).await;
    until("it is not asked", || !secured.backend.asked("Filter").is_empty()).await;
    drop(client);
    secured.backend.canceled().await;
}

#[tokio::test]
async fn a_new_certificate_is_shown_without_a_failed_call() {
    let secured = Arc::new(Secured::start("").await);
    let client = secured.client(None, HTTP_1);
    let mut old = connect(secured.gateway.address, &client).await.unwrap();
    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = tokio::spawn({
        let (secured, client) = (Arc::clone(&secured), Arc::clone(&client));
        let (over, calls) = (Arc::clone(&over), Arc::clone(&calls));
        async move {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(secured.filter(&client).await, Ok(accepted()));
                calls.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let next = secured.servers.issue("next", &[NAME]);
    secured.folder.identity("tls", &next);
    loop {
        let stream = open(secured.gateway.address, &client).await.unwrap();
        let is_new = stream.get_ref().1.peer_certificates() == Some(&next.chain()[..]);
        if is_new && calls.load(Ordering::Relaxed) > 0 {
            break;
        }
        let answer = old.post("/filter", by_name(&["a", "b"]).as_bytes()).await;
        assert_eq!(answer.json(), accepted(), "old connections stay");
    }
    over.store(true, Ordering::Relaxed);
    load.await.unwrap();
    assert_eq!(old.post("/filter", by_name(&["a", "b"]).as_bytes()).await.json(), accepted());
}
