//! What callers can bring into the log, and how much of it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use support::{
    Gateway,
    backend::{Scripted, configured, info},
    by_name,
    written::Written,
};
use tokio::time::Instant;

#[tokio::test]
async fn refused_calls_bring_a_line_a_second_for_each_kind() {
    let (written, _written_here) = Written::here();
    let facts = Scripted::start(info(extender_policy_api::v1alpha1::NodeView::Facts), |_, _| {
        panic!("no node is known")
    })
    .await;
    let rest = "nodes: {source: Watch}\ntimeouts: {decision: 10ms}\nbackends:\n".to_owned()
        + &configured("facts", &facts, "filter: {timeout: 10ms}");
    let gateway = Gateway::start(&rest).await;
    let began = Instant::now();
    for _ in 0..30 {
        assert!(gateway.post("/filter", "{").await.error().contains("bad request"));
        assert!(gateway.post("/filter", by_name(&["a"])).await.error().contains("not yet known"));
        assert_eq!(gateway.post("/prioritize", "{").await.status, 400);
    }
    let most = 1 + began.elapsed().as_secs();
    for kind in [
        ["verb=\"filter\"", "outcome=\"request\"", "call refused: extender-gateway: bad request"],
        ["verb=\"filter\"", "outcome=\"unknown_nodes\"", "call refused: extender-gateway: no node is left"],
        ["verb=\"prioritize\"", "outcome=\"request\"", "call refused: extender-gateway: bad request"],
    ] {
        let lines = written.with(&kind);
        assert!((1..=most).contains(&(lines.len() as u64)), "{kind:?}: {lines:#?}");
        assert!(lines[0].contains("similar=0"), "{lines:#?}");
    }
}
