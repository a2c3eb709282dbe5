//! The latest spans of pods, and `docs/traces.md`, which has a table for each span with the attributes that the code
//! of that span writes.

use std::collections::BTreeSet;

use opentelemetry_semantic_conventions::attribute as conventions;

use super::{names::*, *};

const DOCUMENT: &str = include_str!("../../../../docs/traces.md");

/// The spans: their headings in the document, and their code.
const SPANS: [(&str, &str); 3] = [
    ("### The request", include_str!("request.rs")),
    ("### The decision", include_str!("decision.rs")),
    ("### A request to a backend", include_str!("rpc.rs")),
];

/// The attribute that a constant of the code stands for.
fn attribute(constant: &str) -> &'static str {
    match constant {
        "CLIENT_ADDRESS" => conventions::CLIENT_ADDRESS,
        "CLIENT_PORT" => conventions::CLIENT_PORT,
        "ERROR_TYPE" => conventions::ERROR_TYPE,
        "HTTP_REQUEST_BODY_SIZE" => conventions::HTTP_REQUEST_BODY_SIZE,
        "HTTP_REQUEST_METHOD" => conventions::HTTP_REQUEST_METHOD,
        "HTTP_RESPONSE_BODY_SIZE" => conventions::HTTP_RESPONSE_BODY_SIZE,
        "HTTP_RESPONSE_STATUS_CODE" => conventions::HTTP_RESPONSE_STATUS_CODE,
        "HTTP_ROUTE" => conventions::HTTP_ROUTE,
        "K8S_NAMESPACE_NAME" => conventions::K8S_NAMESPACE_NAME,
        "K8S_NODE_NAME" => conventions::K8S_NODE_NAME,
        "K8S_POD_NAME" => conventions::K8S_POD_NAME,
        "K8S_POD_UID" => conventions::K8S_POD_UID,
        "NETWORK_PROTOCOL_VERSION" => conventions::NETWORK_PROTOCOL_VERSION,
        "RPC_METHOD" => conventions::RPC_METHOD,
        "RPC_RESPONSE_STATUS_CODE" => conventions::RPC_RESPONSE_STATUS_CODE,
        "RPC_SYSTEM_NAME" => conventions::RPC_SYSTEM_NAME,
        "SERVER_ADDRESS" => conventions::SERVER_ADDRESS,
        "SERVER_PORT" => conventions::SERVER_PORT,
        "URL_PATH" => conventions::URL_PATH,
        "URL_SCHEME" => conventions::URL_SCHEME,
        "names::ASKED" => ASKED,
        "names::BACKEND" => BACKEND,
        "names::BACKEND_VERB" => BACKEND_VERB,
        "names::CALL_ID" => CALL_ID,
        "names::CHANGED" => CHANGED,
        "names::GENERATION" => GENERATION,
        "names::KNOWN" => KNOWN,
        "names::LEFT" => LEFT,
        "names::LINK" => LINK,
        "names::MODE" => MODE,
        "names::NODES_AS" => NODES_AS,
        "names::NODE_FORM" => NODE_FORM,
        "names::OFFERED" => OFFERED,
        "names::OPINION" => OPINION,
        "names::OUTCOME" => OUTCOME,
        "names::POD_CHANGE" => POD_CHANGE,
        "names::HOOK" => HOOK,
        "names::POLICY" => POLICY,
        "names::QUEUE_DURATION" => QUEUE_DURATION,
        "names::READS_OF_PODS" => READS_OF_PODS,
        "names::ROLE" => ROLE,
        "names::REJECTED" => REJECTED,
        "names::VERB" => VERB,
        new => panic!("{new} is new here and in docs/traces.md"),
    }
}

/// The attributes that the code writes.
fn written(code: &str) -> BTreeSet<&str> {
    let constants = code.split("KeyValue::new(").skip(1).filter_map(|call| call.split(',').next());
    constants.map(|constant| attribute(constant.trim())).collect()
}

/// The first column of the table below a heading.
fn documented(heading: &str) -> BTreeSet<&'static str> {
    let section = DOCUMENT.split_once(&format!("{heading}\n")).expect("a heading").1;
    let section = section.split("\n### ").next().unwrap_or_default();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    cells.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`')).collect()
}

#[test]
fn the_documentation_has_the_attributes_of_each_span() {
    for (heading, code) in SPANS {
        assert_eq!(documented(heading), written(code), "docs/traces.md, {heading}: documented, written");
    }
}

#[test]
fn the_span_of_a_pod_is_kept_for_a_while() {
    let latest = LatestSpans::default();
    let (one, two) = (TraceContext::root(), TraceContext::root());
    assert_eq!(latest.replace("a", one), None);
    assert_eq!(latest.replace("a", two), Some(one));
    for pod in 0..MAX_PODS {
        latest.replace(&format!("b-{pod}"), one);
    }
    assert_eq!(latest.replace("a", one), Some(two));
    for pod in 0..2 * MAX_PODS {
        latest.replace(&format!("c-{pod}"), one);
    }
    assert_eq!(latest.replace("a", one), None);
    assert_eq!(latest.replace("", one), None);
    assert_eq!(latest.replace("", one), None);
}
