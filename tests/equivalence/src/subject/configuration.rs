//! A case as the text of the gateway's configuration. JSON is YAML's flow style.

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::Path,
    sync::{LazyLock, Mutex},
};

use extender_gateway_contract::api::sha256;

use extender_reference::model::{
    Added, Best, Extender, Failing, Filter, Interest, Mode, Namespaces, Normalize, OnFailure, Preempt,
    Preemption, Prefix, Score,
};
use serde_json::{Value, json};

use crate::case::{Backend, Case, Failure, Manner, Memory, Pods, Scale, Source};

/// For backends that answer or fail at once: never reached, however slow the machine is.
const LONG: &str = "30s";
/// For backends that never answer.
const SHORT: &str = "20ms";

/// The arguments of all backends of the case with this number, after this many changes. They identify the case of a
/// call for the server, and make a separate connection for the case.
pub(super) fn args((number, changes): (u64, usize)) -> Value {
    json!({"case": number, "changes": changes})
}

/// The cases of all arguments that were configured, by the digest by which calls name them.
static CASES: LazyLock<Mutex<HashMap<[u8; 32], u64>>> = LazyLock::new(Mutex::default);

/// The case whose arguments have this digest.
pub(super) fn case_of(digest: &[u8]) -> Option<u64> {
    CASES.lock().expect("nothing panics while it is held").get(digest).copied()
}

/// The configuration of a case with these arguments, and with the backends at these addresses.
pub(super) fn text(case: &Case, (args, addresses): (&Value, &[SocketAddr]), folder: &Path) -> String {
    if let Some(number) = args["case"].as_u64() {
        let digest = sha256(args.to_string().as_bytes());
        CASES.lock().expect("nothing panics while it is held").insert(digest, number);
    }
    let backends: Vec<Value> =
        case.backends.iter().zip(addresses).map(|(backend, at)| entry(backend, (args, *at))).collect();
    let prefix = match case.differences.prefix {
        Prefix::Name => "Backend",
        Prefix::None => "None",
    };
    json!({
        "apiVersion": "extender-gateway.io/v1alpha1",
        "kind": "GatewayConfiguration",
        "extender": {"address": "127.0.0.1:0"},
        "metrics": {"address": "127.0.0.1:0"},
        "timeouts": {"decision": "60s"},
        "nodes": nodes(case.source, folder),
        "pods": {"source": if case.pods == Pods::Watched { "Watch" } else { "None" }},
        "exempt": {"namespaces": case.differences.exempt},
        // kube-scheduler takes each text as it is, and retries as often as it likes.
        "reasons": {"prefix": prefix, "changing": "AsGiven", "repeated": "AsGiven"},
        "backends": backends,
    })
    .to_string()
}

fn nodes(source: Source, folder: &Path) -> Value {
    match source {
        Source::File => json!({"source": "File", "file": folder.join("nodes.json")}),
        Source::Request => json!({"source": "Request"}),
        Source::NamesOnly => json!({"source": "NamesOnly"}),
    }
}

fn entry(backend: &Backend, (args, address): (&Value, SocketAddr)) -> Value {
    let Extender { name, mode, interest, filter, score, preempt } = &backend.extender;
    let mode = match mode {
        Mode::Enforce => "Enforce",
        Mode::Shadow => "Shadow",
        Mode::Disabled => "Disabled",
    };
    let mut entry = json!({
        "name": name,
        "url": format!("http://{address}"),
        "mode": mode,
        "pureAnswers": match backend.memory {
            Memory::Remembered => "Remembered",
            Memory::AskedEachTime => "AskedEachTime",
        },
        "args": args,
        "match": interested(interest),
    });
    if let Some(settings) = filter {
        entry["filter"] = filtering(settings, timeout(settings.failing, backend.filter));
    }
    if let Some(settings) = score {
        entry["score"] = scoring(settings, (backend.scale, timeout(settings.failing, backend.score)));
    }
    if let Some(settings) = preempt {
        entry["preempt"] = preempting(settings, timeout(settings.failing, backend.preempt));
    }
    entry
}

fn timeout(failing: Failing, manner: Manner) -> &'static str {
    if (failing, manner.failure) == (Failing::Always, Failure::Hang) { SHORT } else { LONG }
}

fn interested(interest: &Interest) -> Value {
    let resources: Vec<Value> = interest.resources.iter().map(|name| json!({"name": name})).collect();
    let expressions: Vec<Value> = interest
        .selector
        .iter()
        .map(|requirement| {
            let mut expression =
                json!({"key": requirement.key, "operator": format!("{:?}", requirement.operator)});
            if !requirement.values.is_empty() {
                expression["values"] = json!(requirement.values);
            }
            expression
        })
        .collect();
    let mut interested = json!({});
    if !resources.is_empty() {
        interested["managedResources"] = json!(resources);
    }
    if !interest.labels.is_empty() {
        interested["podSelector"]["matchLabels"] = json!(interest.labels);
    }
    if !expressions.is_empty() {
        interested["podSelector"]["matchExpressions"] = json!(expressions);
    }
    match &interest.namespaces {
        Namespaces::All => {}
        Namespaces::Only(names) => interested["namespaces"] = json!(names),
        Namespaces::Except(names) => interested["excludedNamespaces"] = json!(names),
    }
    interested
}

fn policy(on_failure: OnFailure) -> &'static str {
    match on_failure {
        OnFailure::Fail => "Fail",
        OnFailure::Ignore => "Ignore",
    }
}

fn filtering(filter: &Filter, timeout: &str) -> Value {
    let policy = policy(filter.on_failure);
    let preemption = match filter.preemption {
        Preemption::Ignored => "Ignored",
        Preemption::Honored => "Honored",
    };
    json!({"timeout": timeout, "failurePolicy": policy, "preemptionMayHelp": preemption})
}

fn scoring(score: &Score, (scale, timeout): (Scale, &str)) -> Value {
    let mut scoring = json!({"timeout": timeout, "weight": score.weight});
    if scale == Scale::Configured {
        scoring["normalize"] = json!(match score.normalize {
            Normalize::None => "None",
            Normalize::Range => "Range",
            Normalize::Max => "Max",
            Normalize::MinMax => "MinMax",
        });
        scoring["reversed"] = json!(score.best == Best::Least);
    }
    scoring
}

fn preempting(preempt: &Preempt, timeout: &str) -> Value {
    let added = match preempt.added {
        Added::Refused => "Refused",
        Added::Allowed => "Allowed",
    };
    json!({"timeout": timeout, "failurePolicy": policy(preempt.on_failure), "addedVictims": added})
}
