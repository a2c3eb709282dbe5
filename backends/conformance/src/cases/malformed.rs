//! Requests that break the contract: refused with a code and a text, at no other call's expense.

use bytes::Bytes;
use extender_policy_api::v1beta1 as api;
use prost::Message as _;
use tonic::Code;

use crate::{
    case::{self, Case, Stop, failed, skipped},
    declared::{ABOUT_NODES, ALL_BUT_BIND, POD_ALONE, TOLD_TOPOLOGY, Terms, VERBS, Verb},
    question::{Question, args_sha256, number},
    suite::{Suite, reasoned},
};

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for ABOUT_NODES: "no-call" Must ["10.1"] "a request without `call` is refused" => no_call;
        for ABOUT_NODES: "no-pod" Must ["10.1"] "a request without `pod` is refused" => no_pod;
        for POD_ALONE: "no-call" Must ["59.2"] "a request without `call` is refused" => no_call;
        for POD_ALONE: "no-pod" Must ["10.1", "59.2"] "a request without `pod` is refused" => no_pod;
        for ALL_BUT_BIND: "invalid-request-reason" Should ["50.4"] "the status of an invalid request says that it is one" => reason;
        for ABOUT_NODES: "no-nodes" Must ["10.1"] "a request without `nodes` is refused" => no_nodes;
        for ALL_BUT_BIND: "no-facts" Must ["10.1"] "a pod without facts is refused" => no_pod_facts;
        for ABOUT_NODES: "count" Must ["10.1"] "a count that differs from the rows is refused" => count;
        for ABOUT_NODES: "zero-nodes" Must ["10.1"] "a request about no nodes is refused" => zero_nodes;
        for ABOUT_NODES: "row-without-facts" Must ["10.1"] "a row that lacks facts is refused" => row_without_facts;
        for ALL_BUT_BIND: "values" Must ["41.2"] "a wrong number of values is refused" => values;
        for ALL_BUT_BIND: "absent-order" Should ["41.3"] "positions of absent keys in disorder are refused" => absent_order;
        for ABOUT_NODES: "pod-counts" Must ["41.2"] "a wrong number of counts is refused" => pod_counts;
        for ABOUT_NODES: "pod-counts-order" Should ["41.3"] "counts in disorder are refused" => pod_counts_order;
        for TOLD_TOPOLOGY: "topology-counts" Must ["41.2"] "a wrong number of counts is refused" => topology_counts;
        for TOLD_TOPOLOGY: "domains-order" Should ["41.3"] "domains in disorder are refused" => domains_order;
        for VERBS: "not-protobuf" Must ["50.2"] "a message that is not protobuf is refused" => |suite, verb|
            undecodable(suite, verb, Bytes::from_static(&[0xff; 64]), "64 bytes 0xff").await;
        for VERBS: "cut-off" Must ["50.2"] "a message that is cut off is refused" => cut_off;
    }
}

/// A request with which a verb can be asked, whether it is declared or not.
pub(super) fn minimal(suite: &Suite, verb: Verb) -> Bytes {
    // A server may answer a message that is followed by garbage: nothing is bound without a purpose.
    let purpose = if verb == Verb::Bind { api::Purpose::Unspecified } else { api::Purpose::Decide };
    let call = Some(api::Call {
        id: "conformance".to_owned(),
        purpose: purpose.into(),
        args: suite.args.clone(),
        args_sha256: args_sha256(&suite.args),
        ..api::Call::default()
    });
    let facts = api::PodFacts { namespace: "conformance".to_owned(), ..api::PodFacts::default() };
    let pod = Some(api::Pod { facts: Some(facts), ..api::Pod::default() });
    let row = api::NodeRow {
        name: "node".to_owned(),
        facts: Some(api::NodeFacts::default()),
        ..api::NodeRow::default()
    };
    let form = Some(api::nodes::Form::Rows(api::NodeRows { rows: vec![row] }));
    let nodes = Some(api::Nodes { count: 1, form });
    let victims = vec![api::Victim { uid: "uid".to_owned(), pod: None }];
    let candidates = vec![api::Candidate { victims, ..api::Candidate::default() }];
    if verb == Verb::Bind {
        let nobody = || "conformance".to_owned();
        let (namespace, name, uid, node) = (nobody(), nobody(), nobody(), nobody());
        return api::BindRequest { call, namespace, name, uid, node, pod: None }.encode_to_vec().into();
    }
    Question { verb, call, pod, nodes, candidates, want_scores: false }.encode()
}

async fn refused(suite: &Suite, question: &Question, what: &str) -> Result<(), Stop> {
    suite.refused(question, Code::InvalidArgument, what).await
}

async fn no_call(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 2)?;
    // The message may be about the args, which are missing with the call.
    refused(suite, &Question { call: None, ..question }, "a request without `call`").await
}

async fn no_pod(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 2)?;
    suite.refused_naming(&Question { pod: None, ..question }, "pod", "a request without `pod`").await
}

async fn reason(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 2)?;
    let answered = suite.send(verb, Question { pod: None, ..question }.encode()).await?;
    reasoned(answered, api::ErrorReason::InvalidRequest, "a request without `pod`")
}

async fn no_nodes(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 2)?;
    suite.refused_naming(&Question { nodes: None, ..question }, "nodes", "a request without `nodes`").await
}

async fn no_pod_facts(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let mut question = suite.random_question(verb, 2)?;
    if let Some(pod) = &mut question.pod {
        pod.facts = None;
    }
    suite.refused_naming(&question, "facts", "a request whose pod has no `facts`").await
}

async fn count(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    for count in [2, 4, 1_000_000_000, u32::MAX] {
        let mut question = suite.random_question(verb, 3)?;
        if let Some(nodes) = &mut question.nodes {
            nodes.count = count;
        }
        suite.refused_naming(&question, "count", &format!("`nodes.count` {count} with 3 rows")).await?;
    }
    Ok(())
}

async fn zero_nodes(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 0)?;
    suite.refused_naming(&question, "nodes", "a request about 0 nodes").await
}

async fn row_without_facts(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    if !suite.terms(verb)?.has_facts() {
        return skipped("the verb reads at most the names of nodes");
    }
    let mut question = suite.random_question(verb, 3)?;
    if let Some(api::nodes::Form::Rows(rows)) = question.nodes.as_mut().and_then(|nodes| nodes.form.as_mut())
        && let Some(last) = rows.rows.last_mut()
    {
        last.facts = None;
        // Not an empty row, which would be refused for that.
        "node".clone_into(&mut last.name);
    }
    suite.refused_naming(&question, "facts", "a row without `facts`").await
}

/// A map of a request whose values are sent by position.
struct Map {
    name: &'static str,
    keys: usize,
    of: fn(&mut Question) -> Option<&mut Option<api::MapValues>>,
}

/// The maps of a verb, of which one has keys.
fn maps(terms: Terms<'_>) -> Result<[Map; 4], Stop> {
    let keys = |map: Option<&api::MapReads>| map.map_or(0, |map| map.keys.len());
    let (pod, node) = (terms.pod_reads(), terms.node_reads());
    let maps = [
        Map {
            name: "labels of a row",
            keys: keys(node.labels.as_ref()),
            of: |question| Some(&mut row_facts(question)?.labels),
        },
        Map {
            name: "annotations of a row",
            keys: keys(node.annotations.as_ref()),
            of: |question| Some(&mut row_facts(question)?.annotations),
        },
        Map {
            name: "labels of the pod",
            keys: keys(pod.labels.as_ref()),
            of: |question| Some(&mut pod_facts(question)?.labels),
        },
        Map {
            name: "annotations of the pod",
            keys: keys(pod.annotations.as_ref()),
            of: |question| Some(&mut pod_facts(question)?.annotations),
        },
    ];
    if maps.iter().all(|map| map.keys == 0) {
        return skipped("`reads` has no keys");
    }
    Ok(maps)
}

fn pod_facts(question: &mut Question) -> Option<&mut api::PodFacts> {
    question.pod.as_mut()?.facts.as_mut()
}

/// The facts of the first row.
fn row_facts(question: &mut Question) -> Option<&mut api::NodeFacts> {
    match question.nodes.as_mut()?.form.as_mut()? {
        api::nodes::Form::Rows(rows) => rows.rows.first_mut()?.facts.as_mut(),
        api::nodes::Form::Table(_) => None,
    }
}

async fn values(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    for Map { name, keys, of } in maps(suite.terms(verb)?)? {
        let question = suite.random_question(verb, 2)?;
        let mut without = question.clone();
        if let Some(map) = of(&mut without).filter(|_| keys > 0) {
            *map = None;
            refused(suite, &without, &format!("no {name}")).await?;
        }
        let mut empty = question.clone();
        if let Some(map) = of(&mut empty).filter(|_| keys > 0) {
            *map = Some(api::MapValues::default());
            refused(suite, &empty, &format!("{name} without values")).await?;
        }
        let mut more = question;
        if let Some(map) = of(&mut more) {
            map.get_or_insert_default().values.push("one too many".to_owned());
            refused(suite, &more, &format!("one value too many in the {name}")).await?;
        }
    }
    Ok(())
}

async fn absent_order(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    for Map { name, keys, of } in maps(suite.terms(verb)?)? {
        let lists = [(0, vec![number(keys)]), (1, vec![0, 0]), (2, vec![1, 0])];
        for (_, positions) in lists.into_iter().filter(|(least, _)| keys >= *least) {
            let mut question = suite.random_question(verb, 2)?;
            let what = format!("positions {positions:?} of absent keys in the {name}, which have {keys}");
            if let Some(map) = of(&mut question) {
                let map = map.get_or_insert_default();
                map.values.iter_mut().for_each(String::clear);
                map.absent = positions;
                refused(suite, &question, &what).await?;
            }
        }
    }
    Ok(())
}

/// A question whose rows have `pod_counts`.
fn counted(suite: &Suite, verb: Verb) -> Result<Question, Stop> {
    if suite.terms(verb)?.node_reads().pod_counts.is_empty() {
        return skipped("`reads.node.pod_counts` is not declared");
    }
    suite.random_question(verb, 2)
}

async fn pod_counts(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = counted(suite, verb)?;
    refused(suite, &question.clone().rows(|row| row.pod_counts.clear()), "a row without `pod_counts`")
        .await?;
    let more = question.rows(|row| row.pod_counts.push(api::PodCounts::default()));
    refused(suite, &more, "a row with one entry of `pod_counts` too many").await
}

async fn pod_counts_order(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = counted(suite, verb)?;
    for pairs in [[("a", "b"), ("a", "a")], [("b", "a"), ("a", "b")], [("a", "a"), ("a", "a")]] {
        let counts = pairs.map(|(namespace, value)| api::PodCount {
            namespace: namespace.to_owned(),
            value: value.to_owned(),
            pods: 1,
            ..api::PodCount::default()
        });
        let unordered =
            question.clone().rows(|row| row.pod_counts.iter_mut().for_each(|by| by.counts = counts.to_vec()));
        refused(suite, &unordered, &format!("`pod_counts` of {pairs:?} in this order")).await?;
    }
    Ok(())
}

/// A question whose pod has `topology_counts`, with this change of them.
fn told_topology(
    suite: &Suite,
    verb: Verb,
    change: impl FnOnce(&mut Vec<api::TopologyCounts>),
) -> Result<Question, Stop> {
    if suite.terms(verb)?.pod_reads().topology_counts.is_empty() {
        return skipped("`reads.pod.topology_counts` is not declared");
    }
    let mut question = suite.random_question(verb, 2)?;
    if let Some(pod) = &mut question.pod {
        change(&mut pod.topology_counts);
    }
    Ok(question)
}

async fn topology_counts(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let without = told_topology(suite, verb, Vec::clear)?;
    refused(suite, &without, "a pod without `topology_counts`").await?;
    let more = told_topology(suite, verb, |counts| counts.push(api::TopologyCounts::default()))?;
    refused(suite, &more, "a pod with one entry of `topology_counts` too many").await
}

async fn domains_order(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    for values in [["b", "a"], ["a", "a"]] {
        let domain =
            |value: &str| api::DomainCount { value: value.to_owned(), pods: 1, ..Default::default() };
        let domains = values.map(domain).to_vec();
        let question = told_topology(suite, verb, |counts| {
            for by in counts {
                by.domains.clone_from(&domains);
            }
        })?;
        refused(suite, &question, &format!("`domains` {values:?} in this order")).await?;
    }
    Ok(())
}

/// Codes for a message that cannot be decoded: libraries that decode before the policy is asked use their own.
const UNDECODABLE: [Code; 3] = [Code::InvalidArgument, Code::Internal, Code::Unknown];

/// The message of the status is the library's as well.
async fn undecodable(suite: &Suite, verb: Verb, message: Bytes, what: &str) -> Result<(), Stop> {
    suite.terms(verb)?;
    match suite.send(verb, message).await? {
        Err(status) if UNDECODABLE.contains(&status.code()) => suite.still_serves(what).await,
        Err(status) => {
            failed(format!("{what}: {}; expected INVALID_ARGUMENT", crate::client::shown(&status)))
        }
        Ok(_) => failed(format!("{what}: OK; expected INVALID_ARGUMENT")),
    }
}

async fn cut_off(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let whole = minimal(suite, verb);
    undecodable(suite, verb, whole.slice(..whole.len() - 3), "a message that is cut off").await
}
