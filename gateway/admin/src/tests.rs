use std::collections::BTreeSet;

use axum::body::to_bytes;
use extender_gateway_observe::{Health, Metrics};
use extender_gateway_settings::NodeSource;
use tokio::sync::oneshot;

use super::*;

use crate::status::StatusSources;

const MIB: usize = 1 << 20;

fn admin() -> Arc<AdminState> {
    let status = GatewayStatus::new(StatusSources {
        gateway: "test".into(),
        file: "gateway.yaml".to_owned(),
        source: NodeSource::NamesOnly,
        table: None,
        pods: Arc::default(),
        health: Arc::new(Health::default()),
        exempt: BTreeSet::new(),
        certificates: Arc::default(),
    });
    let observer = Arc::new(Observer::new(Arc::new(Metrics::new()), 0));
    Arc::new(AdminState::new(observer, Arc::new(status), BTreeSet::new()))
}

async fn response(admin: &Arc<AdminState>, size: usize) -> Response {
    let query: Result<_, QueryRejection> = Ok(Parameters(size));
    Arc::clone(admin).from_log(query, |_, size| vec![b' '; *size].into_response()).await
}

#[tokio::test]
async fn a_caller_that_does_not_read_its_response_keeps_nobody_from_another() {
    let admin = admin();
    let unread = response(&admin, 80 * MIB).await;
    assert_eq!(response(&admin, 10 * MIB).await.status(), StatusCode::OK);
    let second = response(&admin, 40 * MIB).await;
    assert_eq!(second.status(), StatusCode::OK);
    // Together they have as many bytes as allowed.
    let refused = response(&admin, MIB).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let text = to_bytes(refused.into_body(), MIB).await.unwrap();
    assert!(text.starts_with(br#"{"error":"busy: callers have not read earlier"#), "{text:?}");
    assert_eq!(response(&admin, 200 << 10).await.status(), StatusCode::OK, "a small one");
    assert_eq!(to_bytes(second.into_body(), 40 * MIB).await.unwrap().len(), 40 * MIB);
    assert_eq!(response(&admin, 30 * MIB).await.status(), StatusCode::OK);
    drop(unread);
}

#[tokio::test(start_paused = true)]
async fn a_query_that_takes_long_makes_the_next_one_busy_and_not_late() {
    let admin = admin();
    let (release, wait) = oneshot::channel::<()>();
    let slow = Arc::clone(&admin).from_log(Ok::<_, QueryRejection>(Parameters(())), move |_, ()| {
        let _ = wait.blocking_recv();
        StatusCode::OK.into_response()
    });
    let slow = tokio::spawn(slow);
    let second = Arc::clone(&admin);
    let busy = tokio::spawn(async move { response(&second, 1).await });
    // Both have begun.
    tokio::task::yield_now().await;
    tokio::time::advance(LONGEST_TURN).await;
    assert_eq!(busy.await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    release.send(()).unwrap();
    assert_eq!(slow.await.unwrap().status(), StatusCode::OK);
    assert_eq!(response(&admin, 1).await.status(), StatusCode::OK);
}
