//! Requests that break the contract: refused with a code and a text, at no other call's expense.

use bytes::Bytes;
use extender_policy_api::v1alpha1 as api;
use prost::Message as _;
use tonic::Code;

use crate::{
    case::{self, Case, Stop, failed, skipped},
    declared::{ABOUT_NODES, ALL_BUT_BIND, POD_ALONE, VERBS, Verb},
    question::Question,
    suite::Suite,
};

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for ABOUT_NODES: "no-call" Must ["10.2"] "a request without `call` is refused" => no_call;
        for ABOUT_NODES: "no-pod" Must ["10.2"] "a request without `pod` is refused" => no_pod;
        for POD_ALONE: "no-call" Must ["59.2"] "a request without `call` is refused" => no_call;
        for POD_ALONE: "no-pod" Must ["59.2"] "a request without `pod` is refused" => no_pod;
        for ABOUT_NODES: "no-nodes" Must ["10.2"] "a request without `nodes` is refused" => no_nodes;
        for ALL_BUT_BIND: "no-facts" Must ["10.2"] "a pod without facts is refused" => no_pod_facts;
        for ABOUT_NODES: "count" Must ["10.2"] "a count that differs from the rows is refused" => count;
        for ABOUT_NODES: "zero-nodes" Must ["10.2"] "a request about no nodes is refused" => zero_nodes;
        for ABOUT_NODES: "row-without-facts" Must ["10.2"] "a row that lacks facts is refused" => row_without_facts;
        for ALL_BUT_BIND: "values" Must ["41.2"] "a wrong number of values is refused" => values;
        for ABOUT_NODES: "pod-counts" Must ["41.2"] "a wrong number of counts is refused" => pod_counts;
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
    refused(suite, &Question { call: None, ..question }, "a request without `call`").await
}

async fn no_pod(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 2)?;
    refused(suite, &Question { pod: None, ..question }, "a request without `pod`").await
}

async fn no_nodes(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 2)?;
    refused(suite, &Question { nodes: None, ..question }, "a request without `nodes`").await
}

async fn no_pod_facts(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let mut question = suite.random_question(verb, 2)?;
    if let Some(pod) = &mut question.pod {
        pod.facts = None;
    }
    refused(suite, &question, "a request whose pod has no `facts`").await
}

async fn count(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    for count in [2, 4, 1_000_000_000, u32::MAX] {
        let mut question = suite.random_question(verb, 3)?;
        if let Some(nodes) = &mut question.nodes {
            nodes.count = count;
        }
        refused(suite, &question, &format!("`nodes.count` {count} with 3 rows")).await?;
    }
    Ok(())
}

async fn zero_nodes(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 0)?;
    refused(suite, &question, "a request about 0 nodes").await
}

async fn row_without_facts(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    if !suite.terms(verb)?.has_facts() {
        return skipped("the verb wants names of nodes alone");
    }
    let mut question = suite.random_question(verb, 3)?;
    if let Some(api::nodes::Form::Rows(rows)) = question.nodes.as_mut().and_then(|nodes| nodes.form.as_mut())
        && let Some(last) = rows.rows.last_mut()
    {
        last.facts = None;
    }
    refused(suite, &question, "a row without `facts`").await
}

async fn values(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let terms = suite.terms(verb)?;
    let Some(reads) = terms.reads() else { return skipped("the verb has no `reads`") };
    let keys = |map: Option<&api::MapReads>| map.is_some_and(|map| !map.keys.is_empty());
    let (pod, node) = (reads.pod.clone().unwrap_or_default(), reads.node.clone().unwrap_or_default());
    let maps: [(&str, bool, Values); 4] = [
        ("label_values of a row", keys(node.labels.as_ref()), |question| {
            Some(&mut row_facts(question)?.label_values)
        }),
        ("annotation_values of a row", keys(node.annotations.as_ref()), |question| {
            Some(&mut row_facts(question)?.annotation_values)
        }),
        ("label_values of the pod", keys(pod.labels.as_ref()), |question| {
            Some(&mut question.pod.as_mut()?.facts.as_mut()?.label_values)
        }),
        ("annotation_values of the pod", keys(pod.annotations.as_ref()), |question| {
            Some(&mut question.pod.as_mut()?.facts.as_mut()?.annotation_values)
        }),
    ];
    if !maps.iter().any(|(_, declared, _)| *declared) {
        return skipped("`reads` has no keys");
    }
    for (what, declared, of) in maps {
        let question = suite.random_question(verb, 2)?;
        if declared {
            let mut without = question.clone();
            of(&mut without).map(Vec::clear);
            refused(suite, &without, &format!("no {what}")).await?;
        }
        let mut more = question;
        if let Some(values) = of(&mut more) {
            values.push("one too many".to_owned());
            refused(suite, &more, &format!("one too many {what}")).await?;
        }
    }
    Ok(())
}

/// One of the lists of values of a request.
type Values = fn(&mut Question) -> Option<&mut Vec<String>>;

/// The facts of the first row.
fn row_facts(question: &mut Question) -> Option<&mut api::NodeFacts> {
    match question.nodes.as_mut()?.form.as_mut()? {
        api::nodes::Form::Rows(rows) => rows.rows.first_mut()?.facts.as_mut(),
        api::nodes::Form::Table(_) => None,
    }
}

async fn pod_counts(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let terms = suite.terms(verb)?;
    let declared =
        terms.reads().and_then(|reads| reads.node.as_ref()).is_some_and(|node| !node.pod_counts.is_empty());
    if !declared {
        return skipped("`reads.node.pod_counts` is not declared");
    }
    let question = suite.random_question(verb, 2)?;
    refused(suite, &question.clone().rows(|row| row.pod_counts.clear()), "a row without `pod_counts`")
        .await?;
    let more = question.rows(|row| row.pod_counts.push(api::PodCounts::default()));
    refused(suite, &more, "a row with one entry of `pod_counts` too many").await
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
