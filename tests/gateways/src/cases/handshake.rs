//! What a gateway asks in the handshake, and which declarations it rejects.

use std::time::{Duration, Instant};

use extender_policy_api::{
    limits,
    v1beta1::{
        self as api, ChangedPart, Effects, GetInfoRequest, GetInfoResponse, MapReads, NodePart, PodCountBy,
        PodPart, Scope, Verb,
    },
};
use prost::Message as _;
use serde_json::{Value, json};

use crate::{
    answers::rejecting,
    backend::Received,
    case::{Case, Check, Declared, Group, Nodes, case, ensure, equal, table},
    scene::{PACKAGE, about, backend, by_name, fresh, info, pod, strings, verb},
    stage::Stage,
    wire,
};

const OLD: &str = "extender.policy.v1alpha1";
const HOOKS: &str = "extender.policy.v1beta1.HookService";

/// A declaration: its name, its rules, the title, what it changes in a good one, and whether the gateway must then not call filter
/// or the hook.
struct Row(&'static str, &'static [&'static str], &'static str, fn(&mut GetInfoResponse), bool);

pub(crate) fn groups() -> Vec<Group> {
    vec![declarations(), packages(), missing()]
}

fn declarations() -> Group {
    let mut cases = table!(case:
        "handshake.first" ["5: The gateway calls `GetInfo` after connecting"]
            "the first call on a connection is GetInfo" => first;
        "handshake.known" ["info.proto: What a gateway knows of what a backend can declare", "5: `GetInfoRequest.known` lists what the gateway knows"]
            "lists of what is known are complete and in order" => known;
        "handshake.periodic" ["5: It calls `GetInfo` again once a second"]
            "GetInfo is called again and again, and not all the time" => periodic;
    );
    let mut backends = Vec::new();
    for row in verbs().into_iter().chain(hooks()) {
        let Row(name, rules, title, change, is_rejected) = row;
        let is_hook = name.starts_with("hook-");
        let mut declared = info(vec![verb(Verb::Filter)]);
        let mut settings = json!({"filter": {"timeout": "20s", "failurePolicy": "Ignore"}});
        if is_hook {
            let changes = vec![ChangedPart::PodLabels.into()];
            declared.services = strings(&[HOOKS]);
            declared.verbs = vec![api::VerbInfo { changes, ..verb(Verb::BeforeFilter) }];
            settings = json!({"beforeFilter": {"timeout": "20s", "failurePolicy": "Ignore"}});
        }
        change(&mut declared);
        backends.push(backend(name, settings, &declared));
        let method = if is_hook { "BeforeFilter" } else { "Filter" };
        cases.push(declaration(name, rules, title, method, is_rejected));
    }
    Group { nodes: Nodes::Calls, binds: false, backends, cases }
}

fn declaration(
    name: &'static str,
    rules: &'static [&'static str],
    title: &'static str,
    method: &'static str,
    is_rejected: bool,
) -> Case {
    case(format!("handshake.{name}"), rules, title, move |stage| async move {
        let backend = stage.backend(name)?;
        let mark = backend.mark();
        stage.filter_ok(&about(&["n1", "n2"])).await?;
        equal("calls after the handshake", &backend.since(mark, method).len(), &usize::from(!is_rejected))
    })
}

const BACKEND: &str = "8.1";
const PARTS: &str = "8.2";
const LIMITS: &str = "8: The gateway rejects a handshake that exceeds one of these limits";
const READS: &str = "42: The gateway rejects a verb with a message if `reads` has an unknown part";
const PURE: &str = "29: The gateway rejects such a verb with a message";
const HOOK: &str = "57: The gateway rejects a hook that is not so";

fn node_reads(info: &mut GetInfoResponse) -> &mut api::NodeReads {
    info.verbs[0].reads.get_or_insert_default().node.get_or_insert_default()
}

fn pod_reads(info: &mut GetInfoResponse) -> &mut api::PodReads {
    info.verbs[0].reads.get_or_insert_default().pod.get_or_insert_default()
}

fn labels(keys: &[&str], prefixes: &[&str]) -> MapReads {
    MapReads { keys: strings(keys), prefixes: strings(prefixes) }
}

fn counts(by: i32) -> Vec<api::PodCountReads> {
    vec![api::PodCountReads { by, ..Default::default() }]
}

fn verbs() -> Vec<Row> {
    table!(Row:
        "good" ["6.1"] "a backend that keeps the rules is called" => |_| {}, false;
        "later" ["8: It ignores unknown verbs and fields"] "unknown verbs and services are ignored" => |info| {
                info.verbs.push(api::VerbInfo { verb: 99, ..verb(Verb::Filter) });
                info.services.push("extender.policy.v1beta1.LaterService".into());
            }, false;
        "requires" [BACKEND]
            "a backend that requires an unknown feature is rejected" => |info| info.requires = strings(&["later"]), true;
        "pod-part" [PARTS, READS]
            "an unknown part of pods is rejected" => |info| pod_reads(info).parts = vec![99], true;
        "node-part" [PARTS, READS]
            "an unknown part of nodes is rejected" => |info| node_reads(info).parts = vec![99], true;
        "repeated-part" [READS]
            "a repeated part is rejected" => |info| node_reads(info).parts = vec![NodePart::Name.into(); 2], true;
        "empty-key" [READS]
            "an empty key is rejected" => |info| node_reads(info).labels = Some(labels(&[""], &[])), true;
        "unordered-keys" [READS]
            "keys that are not in order are rejected" => |info| node_reads(info).labels = Some(labels(&["b", "a"], &[])), true;
        "key-of-prefix" [READS]
            "a key that begins with a prefix is rejected" => |info| node_reads(info).labels = Some(labels(&["ab"], &["a"])), true;
        "everything-and-labels" [READS]
            "everything beside labels is rejected" => |info| node_reads(info).everything = true, true;
        "no-reads" ["40.2"] "a verb without `reads` is rejected" => |info| info.verbs[0].reads = None, true;
        "too-many-keys" [LIMITS] "too many keys are rejected" => |info| {
                let keys = (0..=limits::READ_KEYS).map(|number| format!("k{number:05}")).collect();
                node_reads(info).labels = Some(MapReads { keys, prefixes: Vec::new() });
            }, true;
        "long-name" [LIMITS]
            "a long name is rejected" => |info| info.name = "n".repeat(limits::HANDSHAKE_TEXT_BYTES + 1), true;
        "too-many-services" [LIMITS]
            "too many services are rejected" => |info| info.services = vec!["a.B".into(); limits::HANDSHAKE_ENTRIES + 1], true;
        "counts-without-pods" ["info.proto: A gateway that does not watch pods rejects the verb"]
            "pod counts are rejected by a gateway that does not watch pods" => |info| node_reads(info).pod_counts = counts(PodCountBy::Namespace.into()), true;
        "unknown-count" ["42: The same holds for `pod_counts` that are more than `READ_COUNTS`"]
            "counts by something unknown are rejected" => |info| node_reads(info).pod_counts = counts(99), true;
        "pure-whole-set" ["29.1", PURE] "a pure verb about the whole set is rejected" => |info| {
                info.verbs[0].set_effects(Effects::Pure);
                info.verbs[0].set_scope(Scope::WholeSet);
            }, true;
        "pure-identity" ["29.1", READS] "a pure verb that reads the identity is rejected" => |info| {
                info.verbs[0].set_effects(Effects::Pure);
                pod_reads(info).parts = vec![PodPart::Identity.into()];
            }, true;
        "pure-json" ["29.1", READS] "a pure verb that reads JSON is rejected" => |info| {
                info.verbs[0].set_effects(Effects::Pure);
                node_reads(info).parts = vec![NodePart::RawJson.into()];
            }, true;
    )
}

fn hooks() -> Vec<Row> {
    table!(Row:
        "hook-good" ["57: Its method `Change` is called for all hooks"]
            "a hook that keeps the rules is called" => |_| {}, false;
        "hook-no-changes" ["57.2", HOOK]
            "a hook without changes is rejected" => |info| info.verbs[0].changes.clear(), true;
        "hook-repeated-change" ["57.2", HOOK]
            "a hook with a repeated change is rejected" => |info| info.verbs[0].changes.push(ChangedPart::PodLabels.into()), true;
        "hook-node-change" ["57.2", HOOK]
            "a change of nodes before filter is rejected" => |info| info.verbs[0].changes = vec![ChangedPart::NodeLabels.into()], true;
        "hook-unknown-change" ["info.proto: If the gateway does not know one of them, it rejects the hook"]
            "an unknown change is rejected" => |info| info.verbs[0].changes = vec![99], true;
        "hook-side-effects" ["57.2", HOOK]
            "a hook with side effects is rejected" => |info| info.verbs[0].set_effects(Effects::ChangesOutside), true;
        "hook-node-reads" ["57.2", HOOK]
            "a hook before filter that reads nodes is rejected" => |info| node_reads(info).parts = vec![NodePart::Name.into()], true;
    )
}

async fn first(stage: Stage) -> Check {
    let backend = stage.backend("good")?;
    stage.filter_ok(&about(&["n1"])).await?;
    let calls = backend.received("Filter");
    let before = |call: &Received| {
        let infos = backend.received("GetInfo");
        infos.iter().any(|info| info.connection == call.connection && info.stream < call.stream)
    };
    ensure(calls.iter().all(before), || "Filter is called on a connection before GetInfo".into())
}

async fn known(stage: Stage) -> Check {
    fn all<E: TryFrom<i32>>() -> Vec<i32> {
        (1..200).filter(|number| E::try_from(*number).is_ok()).collect()
    }
    let asked = stage.backend("good")?.received("GetInfo");
    let asked: GetInfoRequest = asked.first().map(Received::decode).unwrap_or_default();
    ensure(!asked.gateway_version.is_empty(), || "`gateway_version` is empty".into())?;
    let known = asked.known.unwrap_or_default();
    for (what, listed, all) in [
        ("verbs", known.verbs, all::<Verb>()),
        ("pod_parts", known.pod_parts, all::<PodPart>()),
        ("node_parts", known.node_parts, all::<NodePart>()),
        ("pod_counts", known.pod_counts, all::<PodCountBy>()),
        ("changes", known.changes, all::<ChangedPart>()),
        ("normalizations", known.normalizations, all::<api::Normalization>()),
    ] {
        equal(&format!("`known.{what}`"), &listed, &all)?;
    }
    let services = known.services;
    ensure(services.is_sorted() && services.iter().any(|name| name == HOOKS), || {
        format!("`known.services`: {services:?}")
    })
}

async fn periodic(stage: Stage) -> Check {
    let backend = stage.backend("good")?;
    let mark = backend.mark();
    let begun = Instant::now();
    let times = |calls: &[Received]| {
        let times: Vec<_> = calls.iter().filter(|call| call.stream > mark).map(|call| call.at).collect();
        (times.len() >= 3).then_some(times)
    };
    let times = backend.until("GetInfo is called three times more", "GetInfo", times).await?;
    let took = times.last().copied().unwrap_or(begun).duration_since(begun);
    ensure(took > Duration::from_secs(1), || format!("three handshakes within {} ms", took.as_millis()))
}

/// A backend that implements the package before, which has an older form of the handshake.
fn packages() -> Group {
    let name_alone = [0x10, 1];
    let verb = api::VerbInfo { scope: Scope::Node.into(), verb: Verb::Filter.into(), ..Default::default() };
    let verb = [verb.encode_to_vec(), name_alone.to_vec()].concat();
    let head = GetInfoResponse { name: "old".into(), api_version: OLD.into(), ..Default::default() };
    let settings = json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}});
    let old = Declared {
        name: "old",
        settings,
        info: [head.encode_to_vec(), wire::with_length(7, &verb)].concat(),
        package: OLD,
    };
    let cases = table!(case:
        "packages.order" ["5: If the answer is UNIMPLEMENTED, it calls that of the next older one", "info.proto: The API packages that the gateway supports"]
            "the newest package is asked first, then the one before" => order;
        "packages.stays" ["5: If the answer is UNIMPLEMENTED, it calls that of the next older one"]
            "the gateway stays with the package that was answered" => stays;
        "packages.calls" ["5: A backend implements one package"]
            "a backend of the package before is called in it" => old_calls;
    );
    Group { nodes: Nodes::Calls, binds: false, backends: vec![old], cases }
}

fn is_of(package: &str, received: &Received) -> bool {
    received.path.starts_with(&format!("/{package}."))
}

async fn order(stage: Stage) -> Check {
    let infos = stage.backend("old")?.received("GetInfo");
    let paths: Vec<_> = infos.iter().take(2).map(|info| info.path.as_str()).collect();
    let expected = [PACKAGE, OLD].map(|package| format!("/{package}.PolicyService/GetInfo"));
    equal("the first handshakes", &paths, &expected)?;
    equal("`api_versions`", &infos[0].decode::<GetInfoRequest>().api_versions, &[PACKAGE, OLD])
}

async fn stays(stage: Stage) -> Check {
    let backend = stage.backend("old")?;
    let mark = backend.mark();
    let next = |calls: &[Received]| calls.iter().find(|call| call.stream > mark).cloned();
    let next = backend.until("GetInfo is called again", "GetInfo", next).await?;
    ensure(is_of(OLD, &next), || format!("it is {}", next.path))
}

async fn old_calls(stage: Stage) -> Check {
    let backend = stage.backend("old")?;
    backend.on("Filter", rejecting(&["n1"], "no"));
    let filtered = stage.filter_ok(&by_name(&pod(&fresh()), &["n1", "n2"])).await?;
    equal("the nodes that are left", &filtered.kept, &["n2"])?;
    let calls = backend.received("Filter");
    ensure(calls.iter().all(|call| is_of(OLD, call)), || {
        format!("called as {:?}", calls.last().map(|call| &call.path))
    })
}

/// A backend whose handshake does not list the verb that is configured.
fn missing() -> Group {
    let settings: Value = json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}});
    let missing = backend("missing", settings, &info(vec![verb(Verb::Score)]));
    let cases = table!(case:
        "handshake.missing-verb" ["6: If the configuration uses a verb that the handshake does not list"]
            "the failure policy applies to a verb that the handshake does not list" => |stage| async move {
            let filtered = stage.filter(&about(&["n1"])).await?;
            ensure(filtered.error.contains("missing"), || format!("{}; expected an error", filtered.body))?;
            equal("calls", &stage.backend("missing")?.received("Filter").len(), &0)
        };
    );
    Group { nodes: Nodes::Calls, binds: false, backends: vec![missing], cases }
}
