//! Calls that take too long.

use extender_policy_api::v1beta1::Verb;
use serde_json::json;

use crate::{
    answers::rejecting,
    backend::{Act, Received},
    case::{Check, Group, Nodes, case, ensure, equal, table},
    scene::{about, backend, info, verb},
    stage::Stage,
};

const LATE: &str = "Failures: no complete response in time, or DEADLINE_EXCEEDED";

pub(crate) fn group() -> Group {
    let info = info(vec![verb(Verb::Filter)]);
    let settings = |policy: &str| json!({"filter": {"timeout": "2s", "failurePolicy": policy}});
    let cases = table!(case:
        "late.fail" [LATE, "policy.proto: 5. The remaining time is sent as grpc-timeout"]
            "a late backend is an error with failure policy Fail, and its stream is reset" => |stage| late(stage, Act::Hang, "strict");
        "late.ignore" [LATE] "a late backend is left out with failure policy Ignore" => |stage| {
            late(stage, Act::Hang, "lenient")
        };
        "late.status" [LATE] "DEADLINE_EXCEEDED is a failure" => |stage| {
            late(stage, Act::Status(4, "", ""), "strict")
        };
    );
    let backends =
        vec![backend("strict", settings("Fail"), &info), backend("lenient", settings("Ignore"), &info)];
    Group { nodes: Nodes::Calls, binds: false, backends, cases }
}

async fn late(stage: Stage, act: Act, name: &'static str) -> Check {
    let hangs = matches!(act, Act::Hang);
    let backend = stage.backend(name)?;
    let other = stage.backend(if name == "strict" { "lenient" } else { "strict" })?;
    backend.always("Filter", act);
    other.on("Filter", rejecting(&["n2"], "no"));
    let mark = backend.mark();
    let filtered = stage.filter(&about(&["n1", "n2"])).await?;
    if name == "strict" {
        ensure(filtered.error.contains(name), || format!("{}; expected an error", filtered.body))?;
    } else {
        equal("the nodes that are left", &filtered.kept, &["n1"])?;
    }
    let is_over = |calls: &[Received]| calls.iter().find(|call| call.stream > mark)?.reset.map(drop);
    if hangs { backend.until("the stream is reset", "Filter", is_over).await } else { Ok(()) }
}
