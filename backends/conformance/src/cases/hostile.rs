//! What no gateway sends: it costs nobody else anything.

use bytes::{Bytes, BytesMut};
use extender_policy_api::v1beta1::policy_service_server;
use prost::Message as _;

use super::malformed::minimal;
use crate::{
    case::{self, Case, Stop, skipped},
    client::{Extras, framed},
    declared::VERBS,
    question::Scene,
    suite::Suite,
};

const GRPC: &str = "application/grpc";

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "hostile.length" Must ["51.1", "52.1"] "a prefix that promises 4 GiB" => |suite|
            all_methods(suite, GRPC, |message| framed(0, u32::MAX, message), "a prefix that promises 4 GiB").await;
        "hostile.no-message" Must ["52.1"] "a body without a message" => |suite|
            all_methods(suite, GRPC, |_| Bytes::new(), "a body without a message").await;
        "hostile.cut-prefix" Must ["52.1"] "a body that ends within the prefix" => |suite|
            all_methods(suite, GRPC, |_| Bytes::from_static(&[0, 0, 0]), "a body of three bytes").await;
        "hostile.compressed" Must ["52.1"] "a message that claims to be compressed" => compressed;
        "hostile.two-messages" Must ["52.1"] "two messages where one is expected" => two_messages;
        "hostile.content-type" Must ["52.1"] "a request that is not gRPC" => content_type;
        "hostile.nested" Must ["51.1", "52.1"] "groups nested 100,000 deep" => nested;
        "hostile.empty-entries" Must ["4.2", "52.1"] "a megabyte of empty entries" => empty_entries;
        "hostile.random" Must ["52.1"] "1,000 requests with random changes" => random;
        "hostile.connections" Must ["52.1"] "200 connections that come and go" => connections;
        "hostile.status-messages" Should ["50.3"] "no status message is longer than the gateway reads" => status_messages;
    }
}

/// Each method of the services, on a connection of its own.
async fn all_methods(
    suite: &Suite,
    content_type: &'static str,
    body: impl Fn(&[u8]) -> Bytes,
    what: &str,
) -> Result<(), Stop> {
    let client = suite.connect().await?;
    for verb in VERBS {
        client.raw(verb.service(), verb.method(), content_type, body(&minimal(suite, verb))).await?;
    }
    let handshake = body(&suite.target.info_request().encode_to_vec());
    client.raw(policy_service_server::SERVICE_NAME, "GetInfo", content_type, handshake).await?;
    suite.still_serves(what).await
}

fn length_of(message: &[u8]) -> u32 {
    crate::question::number(message.len())
}

async fn compressed(suite: &Suite) -> Result<(), Stop> {
    let body = |message: &[u8]| framed(1, length_of(message), message);
    all_methods(suite, GRPC, body, "a message that claims to be compressed").await
}

async fn two_messages(suite: &Suite) -> Result<(), Stop> {
    let body = |message: &[u8]| {
        let one = framed(0, length_of(message), message);
        [&*one, &*one].concat().into()
    };
    all_methods(suite, GRPC, body, "two messages where one is expected").await
}

async fn content_type(suite: &Suite) -> Result<(), Stop> {
    let body = |message: &[u8]| framed(0, length_of(message), message);
    all_methods(suite, "application/json", body, "requests that are not gRPC").await?;
    all_methods(suite, "application/grpc+json", |_| framed(0, 2, b"{}"), "requests of gRPC with JSON").await
}

/// Groups of an unknown field within one another, so deep that a careless decoder overflows its stack.
async fn nested(suite: &Suite) -> Result<(), Stop> {
    const DEPTH: usize = 100_000;
    let (begins, ends) = ([0x7b].repeat(DEPTH), [0x7c].repeat(DEPTH));
    for message in [begins.clone(), [begins, ends].concat()] {
        let message = Bytes::from(message);
        for verb in VERBS {
            drop(suite.send(verb, message.clone()).await?);
        }
        drop(suite.client.unary("GetInfo", message, Extras::default()).await?);
    }
    suite.still_serves("nested groups").await
}

async fn empty_entries(suite: &Suite) -> Result<(), Stop> {
    // `nodes.rows.rows` and `candidates`, each entry two bytes.
    let entries = Bytes::from([0x0a, 0].repeat(500_000));
    let mut rows = BytesMut::new();
    prost::encoding::bytes::encode(2, &entries, &mut rows);
    let mut message = BytesMut::new();
    prost::encoding::bytes::encode(3, &rows.freeze(), &mut message);
    message.extend_from_slice(&[0x22, 0].repeat(500_000));
    let message = message.freeze();
    for verb in VERBS {
        drop(suite.send(verb, message.clone()).await?);
    }
    suite.still_serves("a megabyte of empty entries").await
}

async fn random(suite: &Suite) -> Result<(), Stop> {
    let mut objects = suite.objects();
    let verbs: Vec<_> = suite.askable().map(|terms| terms.verb).collect();
    if verbs.is_empty() {
        return skipped("no verb but bind is declared and answered");
    }
    let scene = Scene::random(&mut objects, 4);
    for _ in 0..1_000 {
        let Some(verb) = objects.random.one_of(&verbs).copied() else { break };
        let mut message = suite.question(verb, &scene)?.encode().to_vec();
        for _ in 0..=objects.random.below(3) {
            let at = objects.random.below(message.len());
            if let Some(byte) = message.get_mut(at) {
                *byte = byte.wrapping_add(u8::try_from(1 + objects.random.below(255)).unwrap_or(1));
            }
        }
        drop(suite.send(verb, message.into()).await?);
    }
    suite.still_serves("1,000 requests with random changes").await
}

async fn connections(suite: &Suite) -> Result<(), Stop> {
    for _ in 0..200 {
        let client = suite.connect().await?;
        // Gone before the response is read.
        let call = suite.handshake_on(&client);
        drop(tokio::time::timeout(std::time::Duration::from_micros(100), call).await);
    }
    let client = suite.connect().await?;
    suite.handshake_on(&client).await?;
    suite.still_serves("200 connections").await
}

async fn status_messages(suite: &Suite) -> Result<(), Stop> {
    // Of the cases before, and of args that a careless backend would repeat.
    let args = format!("{{\"{}\": 1}}", "x".repeat(8 << 10));
    let request =
        extender_policy_api::v1beta1::GetInfoRequest { args: args.into(), ..suite.target.info_request() };
    if let Err(status) = suite.client.info(&request).await? {
        suite.saw("GetInfo", &status);
    }
    suite.check_status_messages()
}
