//! Changes that a backend announces.

use std::time::{Duration, Instant};

use extender_policy_api::v1beta1::{GetInfoRequest, Verb, WatchRequest};
use serde_json::json;

use crate::{
    backend::{Backend, Received},
    case::{Check, Group, Nodes, Stop, case, ensure, equal, table},
    scene::{backend, info, strings, verb},
    stage::Stage,
};

const SERVICE: &str = "extender.policy.v1beta1.WatchService";

pub(crate) fn group() -> Group {
    let mut info = info(vec![verb(Verb::Filter)]);
    info.services = strings(&[SERVICE]);
    let backends =
        vec![backend("watched", json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}}), &info)];
    let cases = table!(case:
        "watch.opened" ["68.1", "68: While it is open, the gateway calls `GetInfo`"]
            "Watch is called where it is listed" => opened;
        "watch.message" ["68: While it is open, the gateway calls `GetInfo`"]
            "a message is followed by GetInfo" => message;
        "watch.quiet" ["68: While it is open, the gateway calls `GetInfo`"]
            "GetInfo is called less often while Watch is open" => quiet;
    );
    Group { nodes: Nodes::Calls, binds: false, backends, cases }
}

/// Skips unless the gateway knows the service.
fn is_known(stage: &Stage) -> Check {
    let asked = stage.backend("watched")?.received("GetInfo");
    let known = asked.first().and_then(|asked| asked.decode::<GetInfoRequest>().known).unwrap_or_default();
    let is_known = known.services.iter().any(|service| service == SERVICE);
    if is_known { Ok(()) } else { Err(Stop::Skipped("the gateway does not know WatchService".into())) }
}

async fn opened(stage: Stage) -> Check {
    is_known(&stage)?;
    let first = |calls: &[Received]| calls.first().cloned();
    let watch = stage.backend("watched")?.until("Watch is called", "Watch", first).await?;
    equal("the backend", &watch.decode::<WatchRequest>().backend, &"watched")
}

/// When `GetInfo` is called next.
async fn next(backend: &Backend, mark: u64) -> Check {
    let is_new = |calls: &[Received]| calls.last().filter(|call| call.stream > mark).map(drop);
    backend.until("GetInfo is called again", "GetInfo", is_new).await
}

/// Four handshakes because of messages take much less than the seconds that they take otherwise.
async fn message(stage: Stage) -> Check {
    is_known(&stage)?;
    let backend = stage.backend("watched")?;
    backend.until("Watch is called", "Watch", |calls| calls.first().map(drop)).await?;
    let begun = Instant::now();
    for _ in 0..4 {
        let mark = backend.mark();
        backend.announce();
        next(backend, mark).await?;
    }
    let took = begun.elapsed();
    ensure(took < Duration::from_millis(2_500), || format!("four handshakes after messages took {took:?}"))
}

async fn quiet(stage: Stage) -> Check {
    is_known(&stage)?;
    let backend = stage.backend("watched")?;
    backend.until("Watch is called", "Watch", |calls| calls.first().map(drop)).await?;
    // Whatever the messages before have caused comes first.
    for _ in 0..2 {
        let begun = Instant::now();
        // None within ten seconds is as rare as it may be.
        if next(backend, backend.mark()).await.is_err() || begun.elapsed() > Duration::from_millis(1_500) {
            return Ok(());
        }
    }
    Err("GetInfo is called twice within 3 seconds, without a message".into())
}
