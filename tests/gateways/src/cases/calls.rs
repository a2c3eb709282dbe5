//! What every call has, in which order backends are called, and what becomes of their rejections.

use std::{sync::Arc, time::Instant};

use extender_policy_api::{
    limits,
    v1beta1::{self as api, Effects, RejectionKind, Scope, Verb},
};
use prost::Message as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::Barrier;

use crate::{
    answers::{reject, rejecting},
    backend::{Act, Backend, Received},
    case::{Check, Declared, Group, Nodes, Stop, case, ensure, equal, table},
    scene::{about, backend, by_name, fresh, in_full, info, node, pod, verb},
    stage::{CLUSTER, Stage},
    wire,
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const ARGS: &str = r#"{"zone":"a"}"#;
/// Of backend `small`.
const SMALL: u64 = 12_000;

pub(crate) fn group() -> Group {
    let cases = table!(case:
        "calls.id" ["policy.proto: Identifies one call of kube-scheduler"]
            "all backends of a call get one id, which no other call has" => id;
        "calls.fields" ["policy.proto: What the answer is used for.", "policy.proto: The calling replica of the gateway", "policy.proto: The cluster whose kube-scheduler calls"]
            "purpose, gateway, backend and cluster are set" => fields;
        "calls.reads" ["43: `Call.reads` is the SHA-256"]
            "`Call.reads` is the digest of the very bytes that were declared" => digest_of_reads;
        "calls.args" ["61: `Call.args_sha256` names the operator's args", "info.proto: The operator's `args` as one JSON object"]
            "args come with the handshake, and their digest with calls" => args;
        "calls.args-unknown" ["67: once more inline after a miss, and once more with `args`"]
            "args that are not held are sent with the same call" => args_unknown;
        "calls.args-unknown-twice" ["67: once more inline after a miss, and once more with `args`"]
            "args are sent once" => args_unknown_twice;
        "calls.count" ["policy.proto: 3. A request contains its nodes in order", "node.proto: The number of nodes, at least 1"]
            "`Nodes.count` is the number of nodes, each once" => count;
        "calls.timeout" ["39: `grpc-timeout` is the remaining time"]
            "calls say how much time remains, and who asks" => timeout;
        "calls.at-once" ["policy.proto: The gateway calls every backend that the pod concerns, several at once"]
            "filters that judge node by node are called at once" => at_once;
        "calls.whole-set" ["15: Filter with `SCOPE_WHOLE_SET`, or with side effects, is called in turn"]
            "a filter about the whole set is called with what earlier ones left" => |stage| in_turn(stage, "whole");
        "calls.side-effects" ["15: Filter with `SCOPE_WHOLE_SET`, or with side effects, is called in turn"]
            "a filter with side effects is called with what earlier ones left" => |stage| in_turn(stage, "effects");
        "calls.unknown-scope" ["65: an unknown `Scope` is SCOPE_WHOLE_SET"]
            "a filter with an unknown scope is called with what earlier ones left" => |stage| in_turn(stage, "future");
        "calls.canceled" ["17: The gateway resets the stream when it no longer needs the response"]
            "a call is canceled when kube-scheduler disconnects" => canceled;
        "calls.revision" ["5: earlier, up to 20 times a second", "7: The gateway compares them, and repeats the handshake"]
            "another revision in an answer repeats the handshake at once" => |stage| early(stage, None);
        "calls.other-reads" ["5: earlier, up to 20 times a second", "43: The failure policy applies, and the gateway repeats the handshake"]
            "FAILED_PRECONDITION repeats the handshake at once" => |stage| early(stage, Some("ERROR_REASON_OTHER_READS"));
        "calls.miss-inline" ["67: once more inline after a miss"]
            "a miss is answered by rows once, and then a failure" => missed_twice;
        "calls.unknown-fields" ["8: It ignores unknown verbs and fields"]
            "unknown fields of an answer are ignored" => unknown_fields;
        "calls.too-large" ["info.proto: The gateway does not send a larger one", "Failures: If the nodes of a call exceed `max_request_bytes`"]
            "no request is larger than `max_request_bytes`, and large nodes are left out" => too_large;
        "rejections.reasons" ["13: `Filter` lists only the rejected nodes"]
            "nodes that a backend rejects are rejected for its reason" => reasons;
        "rejections.one-line" ["policy.proto: The gateway replaces line breaks by spaces"]
            "reasons are one short line without `%`" => one_line;
        "rejections.empty" ["policy.proto: Empty: \"rejected\""] "an empty reason is \"rejected\"" => empty_reason;
        "rejections.unresolvable" ["13: `REJECTION_KIND_UNRESOLVABLE` says that no eviction"]
            "what no eviction helps is in FailedAndUnresolvableNodes" => |stage| kind(stage, RejectionKind::Unresolvable as i32, false);
        "rejections.unschedulable" ["13: without it kube-scheduler may try some, if the operator allows that"]
            "other rejections are in FailedNodes if the operator allows evictions, and only then" => |stage| kind(stage, RejectionKind::Unschedulable as i32, true);
        "rejections.unknown-kind" ["65: A value of `Miss` that the gateway does not know is a miss"]
            "an unknown kind is the unspecified one" => |stage| kind(stage, 63, true);
        "http.names" ["policy.proto: Mirrors the filter verb of a kube-scheduler extender"]
            "names are answered by names" => names;
        "http.nodes" ["policy.proto: Mirrors the filter verb of a kube-scheduler extender"]
            "objects are answered by the same objects" => objects;
        "http.older" ["policy.proto: Mirrors the filter verb of a kube-scheduler extender"]
            "keys in lower case and unknown fields are read" => older;
        "http.captured" ["policy.proto: Mirrors the filter verb of a kube-scheduler extender"]
            "real bodies of kube-scheduler are answered" => captured;
    );
    Group { nodes: Nodes::Calls, binds: false, backends: backends(), cases }
}

fn backends() -> Vec<Declared> {
    let filter = || verb(Verb::Filter);
    let settings = || json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}});
    let with = |field: &str, value: Value| {
        let mut settings = settings();
        settings[field] = value;
        settings
    };
    let mut named = api::VerbInfo { ..filter() };
    named.reads.get_or_insert_default().node.get_or_insert_default().labels = None;
    let named = info(vec![named]);
    let whole = api::VerbInfo { scope: Scope::WholeSet.into(), ..filter() };
    let effects = api::VerbInfo { effects: Effects::ChangesOutside.into(), ..filter() };
    let future = api::VerbInfo { scope: 63, effects: 63, ..filter() };
    let small = api::GetInfoResponse { max_request_bytes: SMALL, ..info(vec![everything_about_nodes()]) };
    let helps = json!({"timeout": "20s", "failurePolicy": "Fail", "preemptionMayHelp": "Honored"});
    let args = serde_json::from_str(ARGS).unwrap_or_default();
    vec![
        backend("first", settings(), &named),
        backend("second", with("filter", helps), &named),
        Declared { info: unusual(), ..backend("unusual", settings(), &named) },
        backend("args", with("args", args), &named),
        backend("whole", settings(), &info(vec![only_names(whole)])),
        backend("effects", settings(), &info(vec![only_names(effects)])),
        backend("future", settings(), &info(vec![only_names(future)])),
        backend("small", json!({"filter": {"timeout": "20s", "failurePolicy": "Ignore"}}), &small),
    ]
}

/// Also called with nodes of which the gateway knows nothing but the name.
fn only_names(mut verb: api::VerbInfo) -> api::VerbInfo {
    verb.reads.get_or_insert_default().node.get_or_insert_default().labels = None;
    verb
}

fn everything_about_nodes() -> api::VerbInfo {
    let node = Some(api::NodeReads { everything: true, ..Default::default() });
    api::VerbInfo { reads: Some(api::Reads { pod: None, node }), ..verb(Verb::Filter) }
}

/// A declaration as no library writes it: the parts of nodes are not packed.
const UNPACKED: [u8; 4] = [0x1a, 2, 0x08, 6];

fn unusual() -> Vec<u8> {
    let verb = api::VerbInfo { reads: None, ..verb(Verb::Filter) }.encode_to_vec();
    let verb = [verb, wire::with_length(11, &UNPACKED)].concat();
    [info(Vec::new()).encode_to_vec(), wire::with_length(7, &verb)].concat()
}

/// The request of each backend for one call.
async fn one_call<'s>(stage: &'s Stage, names: &[&'s str]) -> Check<Vec<Received>> {
    let backends = names.iter().map(|name| stage.backend(name)).collect::<Check<Vec<_>>>()?;
    let marks: Vec<_> = backends.iter().map(|backend| backend.mark()).collect();
    stage.filter_ok(&about(&NODES)).await?;
    let last = |(backend, mark): (&&Backend, u64)| {
        backend
            .since(mark, "Filter")
            .pop()
            .ok_or_else(|| Stop::Failed(format!("{} is not called", backend.name())))
    };
    backends.iter().zip(marks).map(last).collect()
}

async fn id(stage: Stage) -> Check {
    let calls = one_call(&stage, &["first", "second", "whole"]).await?;
    let ids: Vec<_> = calls.iter().map(|received| received.call().id).collect();
    ensure(ids.iter().all(|id| *id == ids[0]), || format!("the ids of one call differ: {ids:?}"))?;
    let is_short = (1..=64).contains(&ids[0].len())
        && ids[0].bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    ensure(is_short, || format!("the id {:?} is not 1 to 64 printable characters of ASCII", ids[0]))?;
    let other = one_call(&stage, &["first"]).await?[0].call().id;
    ensure(other != ids[0], || format!("two calls have the id {other:?}"))
}

async fn fields(stage: Stage) -> Check {
    for (received, name) in one_call(&stage, &["first", "second"]).await?.iter().zip(["first", "second"]) {
        let call = received.call();
        equal("purpose", &call.purpose(), &api::Purpose::Decide)?;
        equal("backend", &call.backend, &name)?;
        equal("cluster", &call.cluster, &CLUSTER)?;
        ensure((1..=253).contains(&call.gateway.len()), || format!("gateway: {:?}", call.gateway))?;
    }
    Ok(())
}

async fn digest_of_reads(stage: Stage) -> Check {
    let declared = stage.backend("first")?.info().verbs[0].reads.clone().unwrap_or_default().encode_to_vec();
    let calls = one_call(&stage, &["first", "unusual"]).await?;
    for (received, declared) in calls.iter().zip([&declared[..], &UNPACKED]) {
        equal("the digest", &received.call().reads, &Sha256::digest(declared).to_vec())?;
    }
    Ok(())
}

async fn args(stage: Stage) -> Check {
    let asked =
        stage.backend("args")?.received("GetInfo").pop().map(|asked| asked.decode::<api::GetInfoRequest>());
    let asked = asked.unwrap_or_default();
    equal("the name in the handshake", &asked.backend, &"args")?;
    let given: Value = serde_json::from_slice(&asked.args).unwrap_or_default();
    equal("the args in the handshake", &given.to_string(), &ARGS)?;
    let calls = one_call(&stage, &["args", "first"]).await?;
    equal("the digest of args", &calls[0].call().args_sha256, &Sha256::digest(&asked.args).to_vec())?;
    equal("the digest without args", &calls[1].call().args_sha256, &Vec::<u8>::new())?;
    ensure(calls.iter().all(|received| received.call().args.is_empty()), || {
        "args are sent with each call".into()
    })
}

fn lacks_args(received: &Received) -> Act {
    if received.call().args.is_empty() {
        return Act::Status(9, "which?", "ERROR_REASON_ARGS_UNKNOWN");
    }
    reject(received, &["n1"], "by args", RejectionKind::Unspecified)
}

async fn args_unknown(stage: Stage) -> Check {
    let backend = stage.backend("args")?;
    backend.on("Filter", lacks_args);
    let mark = backend.mark();
    let filtered = stage.filter_ok(&about(&NODES)).await?;
    equal("the nodes that are left", &filtered.kept, &["n2", "n3"])?;
    let calls: Vec<_> = backend.since(mark, "Filter").iter().map(Received::call).collect();
    equal("the calls", &calls.len(), &2)?;
    equal("the id of the second", &calls[1].id, &calls[0].id)?;
    equal("the digest of the second", &Sha256::digest(&calls[1].args).to_vec(), &calls[1].args_sha256)
}

async fn args_unknown_twice(stage: Stage) -> Check {
    let backend = stage.backend("args")?;
    backend.always("Filter", Act::Status(9, "which?", "ERROR_REASON_ARGS_UNKNOWN"));
    let mark = backend.mark();
    let filtered = stage.filter(&about(&NODES)).await?;
    ensure(!filtered.error.is_empty(), || format!("no error: {}", filtered.body))?;
    equal("the calls", &backend.since(mark, "Filter").len(), &2)
}

async fn count(stage: Stage) -> Check {
    for received in one_call(&stage, &["first", "whole"]).await? {
        equal("the count", &received.nodes().count, &3)?;
        let mut names = received.names();
        names.sort_unstable();
        equal("the nodes", &names, &NODES)?;
    }
    Ok(())
}

async fn timeout(stage: Stage) -> Check {
    let received = &one_call(&stage, &["first"]).await?[0];
    let header = received.header("grpc-timeout");
    let (number, unit) = header.split_at(header.len().saturating_sub(1));
    let factor = match unit {
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "S" => 1.0,
        "M" => 60.0,
        "H" => 3_600.0,
        _ => f64::NAN,
    };
    let seconds = number.parse::<f64>().unwrap_or(f64::NAN) * factor;
    ensure(seconds > 0.0 && seconds <= 20.0, || {
        format!("grpc-timeout is {header:?}; expected at most 20 seconds")
    })?;
    ensure(!received.header("user-agent").is_empty(), || "there is no user-agent".into())
}

async fn at_once(stage: Stage) -> Check {
    let barrier = Arc::new(Barrier::new(2));
    for name in ["first", "second"] {
        let barrier = Arc::clone(&barrier);
        let fits = |received: &Received| Box::new(reject(received, &[], "", RejectionKind::Unspecified));
        stage
            .backend(name)?
            .on("Filter", move |received| Act::Together(Arc::clone(&barrier), fits(received)));
    }
    stage.filter_ok(&about(&NODES)).await.map(drop)
}

async fn in_turn(stage: Stage, name: &'static str) -> Check {
    stage.backend("first")?.on("Filter", rejecting(&["n1"], "no"));
    let backend = stage.backend(name)?;
    backend.on("Filter", rejecting(&["n2"], "no"));
    let mark = backend.mark();
    let filtered = stage.filter_ok(&about(&NODES)).await?;
    equal("the nodes that are left", &filtered.kept, &["n3"])?;
    let calls = backend.since(mark, "Filter");
    let asked: Vec<_> = calls.iter().map(Received::names).collect();
    equal("the nodes of its calls", &asked, &[["n2", "n3"]])
}

async fn canceled(stage: Stage) -> Check {
    let backend = stage.backend("first")?;
    backend.always("Filter", Act::Hang);
    let mark = backend.mark();
    let body = about(&NODES);
    tokio::select! {
        answered = stage.filter(&body) => return Err(format!("a call that hangs is answered: {answered:?}").into()),
        called = backend.until("Filter is called", "Filter", |calls| calls.last().filter(|call| call.stream > mark).map(drop)) => called?,
    }
    let is_reset = |calls: &[Received]| calls.last().and_then(|call| call.reset).map(drop);
    backend.until("the stream is reset after kube-scheduler has disconnected", "Filter", is_reset).await
}

/// Six handshakes because of answers take much less than the six seconds of those that come anyway.
async fn early(stage: Stage, reason: Option<&'static str>) -> Check {
    const ROUNDS: u32 = 6;
    let backend = stage.backend("first")?;
    if let Some(reason) = reason {
        backend.always("Filter", Act::Status(9, "", reason));
    }
    let begun = Instant::now();
    for round in 0..ROUNDS {
        if reason.is_none() {
            backend.declare(&api::GetInfoResponse { revision: format!("round-{round}"), ..backend.info() });
        }
        let mark = backend.mark();
        stage.filter(&about(&NODES)).await?;
        let is_new = |calls: &[Received]| calls.last().filter(|call| call.stream > mark).map(drop);
        backend.until("GetInfo is called again", "GetInfo", is_new).await?;
    }
    let took = begun.elapsed().as_secs_f64();
    ensure(took < f64::from(ROUNDS) * 0.6, || format!("{ROUNDS} handshakes after answers took {took:.1} s"))
}

async fn missed_twice(stage: Stage) -> Check {
    let backend = stage.backend("first")?;
    let result = Some(api::Result::missed(api::Miss::FormUnknown));
    backend.always("Filter", Act::answer(&api::FilterResponse { result, ..Default::default() }));
    let mark = backend.mark();
    let filtered = stage.filter(&about(&NODES)).await?;
    ensure(!filtered.error.is_empty(), || format!("no error: {}", filtered.body))?;
    let calls = backend.since(mark, "Filter").len();
    ensure(calls <= 2, || format!("{calls} calls; expected at most one more"))
}

async fn unknown_fields(stage: Stage) -> Check {
    stage.backend("first")?.on("Filter", |received| {
        match reject(received, &["n2"], "no", RejectionKind::Unspecified) {
            Act::Message(message) => Act::Message([message, wire::with_length(99, b"later")].concat()),
            act => act,
        }
    });
    equal("the nodes that are left", &stage.filter_ok(&about(&NODES)).await?.kept, &["n1", "n3"])
}

async fn too_large(stage: Stage) -> Check {
    let labelled = |name: &str, bytes: usize| {
        let mut node = node(name);
        node["metadata"]["labels"]["long"] = "l".repeat(bytes).into();
        node
    };
    let mut nodes = vec![labelled("large", 20_000)];
    nodes.extend(NODES.iter().map(|name| labelled(name, 500)));
    let backend = stage.backend("small")?;
    let mark = backend.mark();
    let filtered = stage.filter_ok(&in_full(&pod(&fresh()), &nodes)).await?;
    let sent = backend.since(mark, "Filter");
    ensure(sent.iter().all(|call| call.message.len() as u64 <= SMALL), || {
        format!("more than {SMALL} bytes are sent")
    })?;
    let names: Vec<_> = sent.iter().map(Received::names).collect();
    equal("the nodes of its calls", &names, &[NODES])?;
    equal("the nodes that are left", &filtered.kept, &NODES)
}

async fn reasons(stage: Stage) -> Check {
    stage.backend("first")?.on("Filter", rejecting(&["n1"], "no licence"));
    stage.backend("second")?.on("Filter", rejecting(&["n2"], "no disk"));
    let filtered = stage.filter_ok(&about(&NODES)).await?;
    equal("the nodes that are left", &filtered.kept, &["n3"])?;
    let all: Vec<_> = filtered.unresolvable.iter().chain(&filtered.failed).collect();
    equal("the rejected nodes", &all.len(), &2)?;
    for (name, reason) in [("n1", "no licence"), ("n2", "no disk")] {
        let found = all.iter().any(|(node, text)| *node == name && text.contains(reason));
        ensure(found, || format!("{name} is not rejected for {reason:?}: {}", filtered.body))?;
    }
    Ok(())
}

/// The reason that kube-scheduler gets for one that a backend gives.
async fn reason(stage: &Stage, given: &'static str) -> Check<String> {
    stage.backend("first")?.on("Filter", rejecting(&["n1"], given));
    let filtered = stage.filter_ok(&about(&NODES)).await?;
    let body = filtered.body;
    filtered
        .unresolvable
        .get("n1")
        .cloned()
        .ok_or_else(|| Stop::Failed(format!("n1 is not rejected: {body}")))
}

async fn one_line(stage: Stage) -> Check {
    let text = reason(&stage, "50% full\nof disks").await?;
    let is_clean = text.contains("50 percent full of disks") && !text.contains(['\n', '%']);
    ensure(is_clean, || format!("{text:?}; expected \"50 percent full of disks\""))?;
    let text = reason(&stage, const { str_of_500() }).await?;
    let most = limits::SHOWN_REASON_BYTES + limits::NAME_BYTES + 8;
    ensure(text.len() <= most, || {
        format!("a reason of 500 bytes is shown with {}; expected at most {most}", text.len())
    })
}

const fn str_of_500() -> &'static str {
    const TEXT: [u8; 500] = [b'r'; 500];
    match std::str::from_utf8(&TEXT) {
        Ok(text) => text,
        Err(_) => "",
    }
}

async fn empty_reason(stage: Stage) -> Check {
    let text = reason(&stage, "").await?;
    ensure(text.contains("rejected"), || format!("{text:?}; expected \"rejected\""))
}

/// `second` may have evictions, `first` may not.
async fn kind(stage: Stage, kind: i32, helps: bool) -> Check {
    for (name, node) in [("first", "n1"), ("second", "n2")] {
        stage.backend(name)?.on("Filter", move |received| {
            let positions =
                (0..).zip(received.names()).filter(|(_, name)| *name == node).map(|(at, _)| at).collect();
            let rejection = api::Rejection { reason: "no".into(), kind, positions, ..Default::default() };
            let result = Some(api::Result::answered(received.nodes().count, ""));
            Act::answer(&api::FilterResponse { result, rejections: vec![rejection], scores: None })
        });
    }
    let filtered = stage.filter_ok(&about(&NODES)).await?;
    equal("n1 is in FailedAndUnresolvableNodes", &filtered.unresolvable.contains_key("n1"), &true)?;
    equal("n2 is in FailedNodes", &filtered.failed.contains_key("n2"), &helps)?;
    equal("n2 is in FailedAndUnresolvableNodes", &filtered.unresolvable.contains_key("n2"), &!helps)
}

async fn names(stage: Stage) -> Check {
    stage.backend("first")?.on("Filter", rejecting(&["n2"], "no"));
    // Backends that need more than names reject nodes that only have these.
    let filtered = stage.filter(&by_name(&pod(&fresh()), &NODES)).await?;
    ensure(filtered.body["NodeNames"].is_array() && filtered.body["Nodes"].is_null(), || {
        format!("{}; expected NodeNames and no Nodes", filtered.body)
    })?;
    ensure(!filtered.kept.iter().any(|name| name == "n2"), || "n2 is left".into())
}

async fn objects(stage: Stage) -> Check {
    stage.backend("first")?.on("Filter", rejecting(&["n2"], "no"));
    let body = stage.filter_ok(&about(&NODES)).await?.body;
    ensure(body["NodeNames"].is_null(), || format!("{body}; expected Nodes and no NodeNames"))?;
    equal("the objects", &body["Nodes"]["items"], &json!([node("n1"), node("n3")]))
}

async fn older(stage: Stage) -> Check {
    stage.backend("first")?.on("Filter", rejecting(&["n2"], "no"));
    let mut body = about(&NODES);
    let (pod, nodes) = (body["Pod"].take(), body["Nodes"].take());
    let body = json!({"pod": pod, "nodes": nodes, "later": {"deep": [1, null]}});
    equal("the nodes that are left", &stage.filter_ok(&body).await?.kept, &["n1", "n3"])
}

/// What kube-scheduler has sent.
const CAPTURED: &str = include_str!("../../../captures/filter-nodes.json");

async fn captured(stage: Stage) -> Check {
    let body: Value = serde_json::from_str(CAPTURED).unwrap_or_default();
    let names = body["Nodes"]["items"].as_array().into_iter().flatten().map(|node| &node["metadata"]["name"]);
    let names: Vec<_> = names.filter_map(Value::as_str).collect();
    let backend = stage.backend("first")?;
    let mark = backend.mark();
    equal("the nodes that are left", &stage.filter_ok(&body).await?.kept, &names)?;
    equal("the calls", &backend.since(mark, "Filter").len(), &1)
}
