//! Large requests.

use bytes::Bytes;
use tonic::Code;

use crate::{
    case::{self, Case, Stop, failed, skipped},
    client::shown,
    declared::{ABOUT_NODES, ALL_BUT_BIND, Terms, Verb},
    question::{LARGE, Question, Scene},
    suite::Suite,
};

/// The candidates for preemption there: kube-scheduler looks for a tenth of the nodes.
const CANDIDATES: usize = LARGE / 10;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for ABOUT_NODES: "huge" Must ["11.1", "4.1"] "15,000 nodes or 1,500 candidates, as far as max_request_bytes allows" => huge;
        for ALL_BUT_BIND: "too-large" Must ["4.1", "51.1"] "a request beyond max_request_bytes" => too_large;
        "sizes.promised" Must ["4.1"] "a request of max_request_bytes is read" => promised;
    }
}

async fn huge(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let nodes = if verb == Verb::Preempt { CANDIDATES } else { LARGE };
    let (_, question) = fitting(suite, verb, nodes)?;
    suite.ask(&question).await.map(drop)
}

/// As many of these nodes as a request may have, and the question about them.
pub(super) fn fitting(suite: &Suite, verb: Verb, mut nodes: usize) -> Result<(Scene, Question), Stop> {
    loop {
        let random = if verb == Verb::Preempt { Scene::random } else { Scene::without_victims };
        let scene = random(&mut suite.objects(), nodes);
        let question = suite.question(verb, &scene)?;
        let bytes = question.encode().len();
        if u64::try_from(bytes).unwrap_or(u64::MAX) <= suite.declared.max_request_bytes() {
            return Ok((scene, question));
        }
        if nodes == 1 {
            let limit = suite.declared.max_request_bytes();
            return failed(format!(
                "`max_request_bytes` is {limit}, too small for one node; expected some megabytes"
            ));
        }
        nodes /= 2;
    }
}

/// The largest message that the suite sends.
const MOST: u64 = 80 << 20;

async fn too_large(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    suite.terms(verb)?;
    let limit = suite.declared.max_request_bytes();
    let Some(length) = limit.checked_add(1 << 20).filter(|length| *length <= MOST) else {
        return skipped("max_request_bytes is larger than what the suite sends");
    };
    let message = Bytes::from(vec![0xff; usize::try_from(length).unwrap_or_default()]);
    match suite.send(verb, message).await? {
        Ok(_) => failed(format!("a message of {length} bytes that is not protobuf: OK")),
        Err(status) if status.code() == Code::Unavailable => {
            // The connection is closed: that is one way to refuse, and costs the other calls on it.
            failed(format!("a message of {length} bytes: {}; expected RESOURCE_EXHAUSTED", shown(&status)))
        }
        Err(_) => suite.still_serves("a message that is too large").await,
    }
}

async fn promised(suite: &Suite) -> Result<(), Stop> {
    let Some(Terms { verb, .. }) = suite.askable().next() else {
        return skipped("no verb but bind is declared and answered");
    };
    let limit = usize::try_from(suite.declared.max_request_bytes().min(MOST)).unwrap_or_default();
    let question = suite.random_question(verb, 3)?;
    // One unknown field fills the message up; its tag and length take at most ten bytes.
    let encoded = question.encode();
    let filler = Bytes::from(vec![0_u8; limit.saturating_sub(encoded.len() + 10)]);
    let mut message = bytes::BytesMut::from(&*encoded);
    prost::encoding::bytes::encode(15_000, &filler, &mut message);
    let length = message.len();
    match suite.send(verb, message.freeze()).await? {
        Ok(bytes) => crate::suite::answer(&question, &bytes).map(drop),
        Err(status) => {
            failed(format!("a message of {length} bytes; `max_request_bytes` allows it: {}", shown(&status)))
        }
    }
}
