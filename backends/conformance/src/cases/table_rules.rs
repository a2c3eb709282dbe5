//! Messages of a stream: applied as a whole, or refused as a whole.

use std::time::{Duration, Instant};

use bytes::Bytes;
use extender_policy_api::{
    limits::{KEY_BYTES, READ_COUNTS, READ_KEYS, READ_PARTS, TABLE_BYTES},
    v1beta1 as api,
};
use prost::Message as _;
use tonic::Code;

use crate::{
    answer::Verdict,
    case::{self, Case, Stop, failed, skipped},
    declared::Terms,
    objects::Node,
    question::Scene,
    suite::{Suite, refused},
    table::{PAUSE, Table, by_table, filled, held, table_verb},
};

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "table.removed" Must ["26.1"] "a removed id is a miss, or still the same node" => removed;
        "table.removals-last" Must ["20.2"] "the removals of a message come after its upserts" => removals_last;
        "table.later-upsert" Must ["20.2"] "of two upserts with one id the later counts" => later_upsert;
        "table.remove-unknown" Must ["20.3"] "removals of ids that are not there are ignored" => remove_unknown;
        "table.as-a-whole" Must ["20.1"] "a call sees all of a message or nothing" => as_a_whole;
        "table.later-fields" Must ["8.4"] "unknown fields of a message are ignored" => later_fields;
        "table.not-protobuf" Must ["50.2"] "a message that is not protobuf ends the stream" => not_protobuf;
        "table.no-reads" Should ["23.2"] "a first message without `reads` is refused" => |suite|
            first_message(suite, |message| message.reads = None, "a first message without `reads`").await;
        "table.id-zero" Should ["23.2"] "an id of 0 is refused" => id_zero;
        "table.no-row" Should ["23.2"] "an upsert without a row is refused" => no_row;
        "table.row-lacks-facts" Should ["23.2"] "a row without facts is refused" => row_lacks_facts;
        "table.version" Should ["23.2"] "a version that does not grow is refused" => version;
        "table.renamed" Should ["23.2"] "another table's name is refused" => renamed;
        "table.no-name" Should ["23.2"] "a table without a name is refused" => |suite|
            first_message(suite, |message| message.table.clear(), "a first message without `table`").await;
        "table.bad-name" Should ["23.2"] "a name that is too long, or not printable, is refused" => bad_name;
        "table.name-taken" Should ["23.2"] "a second stream for a table is refused" => name_taken;
        "table.complete-twice" Should ["23.2"] "`complete` is refused the second time" => complete_twice;
        "table.reads-limits" Should ["23.2"] "`reads` beyond the limits is refused" => reads_limits;
        "table.refused-whole" Must ["23.3"] "calls see nothing of a refused message" => refused_whole;
    }
}

/// How long a backend may keep removed rows.
const SOME_SECONDS: Duration = if cfg!(test) { Duration::from_secs(1) } else { Duration::from_secs(30) };

/// Two nodes that the policy tells apart, and a pod for which it does.
async fn apart(suite: &Suite, terms: Terms<'_>) -> Result<(Scene, Vec<Verdict>), Stop> {
    if !terms.is_pure() || !terms.is_per_node() {
        return skipped("the verb is not declared pure, so its answers may differ for another reason");
    }
    let mut objects = suite.objects();
    for _ in 0..20 {
        let scene = Scene::random(&mut objects, 40);
        let verdicts = suite.ask(&suite.question(terms.verb, &scene)?).await?.verdicts;
        let other = verdicts.iter().position(|verdict| Some(verdict) != verdicts.first());
        if let Some(other) = other {
            let scene = scene.select(&[0, other]);
            let verdicts = suite.ask(&suite.question(terms.verb, &scene)?).await?.verdicts;
            if matches!(verdicts.as_slice(), [one, other] if one != other) {
                return Ok((scene, verdicts));
            }
        }
    }
    skipped("all random nodes got the same verdict; name values of labels with --value")
}

/// The scene with one node alone, as held under this id.
async fn verdict(
    suite: &Suite,
    terms: Terms<'_>,
    scene: &Scene,
    table: &Table,
    id: u32,
) -> Result<Verdict, Stop> {
    let alone = scene.select(&[0]);
    let answer = suite.ask(&by_table(suite, terms, &alone, table.refer(&[id]))).await?;
    answer.verdicts.into_iter().next().map_or_else(|| failed("there is no verdict"), Ok)
}

async fn removed(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let scene = suite.scene(3);
    let before = suite.ask(&suite.question(terms.verb, &scene)?).await?;
    let mut table = filled(suite, terms, &scene).await?;
    let message = api::SyncNodesRequest { removed: vec![2], ..table.message(terms, &[]) };
    table.apply(message).await?;
    let response = suite.respond(&by_table(suite, terms, &scene, table.all(&scene))).await?;
    match response.miss() {
        Some(api::Miss::TableBehind) => {}
        Some(miss) => {
            return failed(format!("a removed id: {}; expected MISS_TABLE_BEHIND", miss.as_str_name()));
        }
        None => {
            let after = suite.ask(&by_table(suite, terms, &scene, table.all(&scene))).await?;
            if after.verdicts != before.verdicts && terms.is_pure() {
                return failed("a removed id was answered, and not as the node that it was");
            }
        }
    }
    table.close().await
}

/// A backend may keep removed rows for a while, so this asks until the row is gone.
async fn removals_last(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, mut table) = held(suite, 3).await?;
    let Some(node) = scene.nodes.first() else { return Ok(()) };
    let message = api::SyncNodesRequest { removed: vec![9], ..table.message(terms, &[(9, node)]) };
    table.apply(message).await?;
    let question = by_table(suite, terms, &scene.select(&[0]), table.refer(&[9]));
    let asked = Instant::now();
    while suite.respond(&question).await?.miss() != Some(api::Miss::TableBehind) {
        if asked.elapsed() > SOME_SECONDS {
            return failed("an id that one message brings and removes is still there after half a minute");
        }
        tokio::time::sleep(PAUSE).await;
    }
    table.close().await
}

async fn later_upsert(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let (scene, verdicts) = apart(suite, terms).await?;
    let ([one, other], [_, expected]) = (scene.nodes.as_slice(), verdicts.as_slice()) else { return Ok(()) };
    let mut table = Table::open(suite, &suite.client);
    let message = table.message(terms, &[(1, one), (1, other)]);
    table.apply(message).await?;
    let held = verdict(suite, terms, &scene, &table, 1).await?;
    if held != *expected {
        return failed(format!("two upserts with one id: {held}; the later row is {expected}"));
    }
    table.close().await
}

async fn remove_unknown(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, mut table) = held(suite, 2).await?;
    let message = api::SyncNodesRequest { removed: vec![7, 0, u32::MAX], ..table.message(terms, &[]) };
    table.apply(message).await?;
    suite.ask(&by_table(suite, terms, &scene, table.all(&scene))).await?;
    table.close().await
}

/// Two nodes change places again and again; a call about both must never find the same one twice.
async fn as_a_whole(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let (scene, verdicts) = apart(suite, terms).await?;
    let [one, other] = scene.nodes.as_slice() else { return Ok(()) };
    let filler: Vec<_> = suite.objects().nodes(400);
    let mut table = Table::open(suite, &suite.client);
    for round in 0..40 {
        let (first, second) = if round % 2 == 0 { (one, other) } else { (other, one) };
        // The two are at both ends of the message.
        let mut nodes: Vec<(u32, &Node)> = vec![(1, first)];
        nodes.extend((3..).zip(&filler));
        nodes.push((2, second));
        let at_least = table.version;
        let message = table.message(terms, &nodes);
        let version = table.version;
        table.send(&message).await;
        if at_least > 0 {
            for _ in 0..5 {
                let nodes = api::NodeRef { at_least, ..table.refer(&[1, 2]) };
                let seen = suite.ask(&by_table(suite, terms, &scene, nodes)).await?.verdicts;
                if matches!(seen.as_slice(), [one, other] if one == other) {
                    let [first, second] = verdicts.as_slice() else { return Ok(()) };
                    let text = "two nodes changed places in one message, and a call saw both as";
                    let seen = seen.first().map(ToString::to_string).unwrap_or_default();
                    return failed(format!("{text} {seen}; they are {first} and {second}"));
                }
            }
        }
        table.applied(version).await?;
    }
    table.close().await
}

async fn later_fields(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let scene = suite.scene(3);
    let mut table = Table::open(suite, &suite.client);
    let message = table.first(terms, &scene);
    table.send_bytes(super::calls::with_unknown_fields(&message.encode_to_vec())).await;
    table.applied(message.version).await?;
    suite.ask(&by_table(suite, terms, &scene, table.all(&scene))).await?;
    table.close().await
}

async fn not_protobuf(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let mut table = filled(suite, terms, &suite.scene(2)).await?;
    table.send_bytes(Bytes::from_static(&[0xff; 64])).await;
    match table.end().await? {
        None => failed("64 bytes 0xff: acknowledged; expected the end of the stream"),
        Some(_) => suite.still_serves("a message of a stream that is not protobuf").await,
    }
}

/// The stream must end with `INVALID_ARGUMENT` and a text.
async fn refuses(table: &mut Table, message: api::SyncNodesRequest, what: &str) -> Result<(), Stop> {
    refused(table.ends(message).await?.map_or(Ok(()), Err), &[Code::InvalidArgument], what)
}

async fn first_message(
    suite: &Suite,
    change: impl FnOnce(&mut api::SyncNodesRequest) + Send,
    what: &str,
) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let scene = suite.scene(2);
    let mut table = Table::open(suite, &suite.client);
    let mut message = table.first(terms, &scene);
    change(&mut message);
    refuses(&mut table, message, what).await
}

async fn id_zero(suite: &Suite) -> Result<(), Stop> {
    let zero =
        |message: &mut api::SyncNodesRequest| message.upserts.iter_mut().for_each(|entry| entry.id = 0);
    first_message(suite, zero, "an upsert with id 0").await
}

async fn no_row(suite: &Suite) -> Result<(), Stop> {
    let none =
        |message: &mut api::SyncNodesRequest| message.upserts.iter_mut().for_each(|entry| entry.row = None);
    first_message(suite, none, "an upsert without a row").await
}

async fn row_lacks_facts(suite: &Suite) -> Result<(), Stop> {
    let none = |message: &mut api::SyncNodesRequest| {
        let rows = message.upserts.iter_mut().filter_map(|entry| entry.row.as_mut());
        rows.for_each(|row| {
            row.facts = None;
            // Not an empty row, which would be refused for that.
            "node".clone_into(&mut row.name);
        });
    };
    first_message(suite, none, "a row without `facts`").await
}

async fn version(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    for version in [1, 0] {
        let mut table = filled(suite, terms, &suite.scene(2)).await?;
        let message = api::SyncNodesRequest { version, ..table.message(terms, &[]) };
        refuses(&mut table, message, &format!("version {version} after version 1")).await?;
    }
    Ok(())
}

async fn renamed(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let mut table = filled(suite, terms, &suite.scene(2)).await?;
    let message = api::SyncNodesRequest { table: suite.table_name(), ..table.message(terms, &[]) };
    refuses(&mut table, message, "another name of the table in the second message").await
}

async fn bad_name(suite: &Suite) -> Result<(), Stop> {
    for name in ["t".repeat(TABLE_BYTES + 1), "a\nb".to_owned(), "ä".to_owned()] {
        let what = format!("a table named {name:?}");
        first_message(suite, |message| message.table = name, &what).await?;
    }
    Ok(())
}

async fn name_taken(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, first) = held(suite, 2).await?;
    let mut second = Table::open(suite, &suite.client);
    second.name.clone_from(&first.name);
    let message = second.first(terms, &scene);
    refuses(&mut second, message, "a second stream for a table").await?;
    suite.ask(&by_table(suite, terms, &scene, first.all(&scene))).await?;
    first.close().await
}

async fn complete_twice(suite: &Suite) -> Result<(), Stop> {
    let (terms, _, mut table) = held(suite, 2).await?;
    let message = api::SyncNodesRequest { complete: true, ..table.message(terms, &[]) };
    refuses(&mut table, message, "`complete` in a second message").await
}

/// The first messages have no nodes, whose rows could not fit.
async fn reads_limits(suite: &Suite) -> Result<(), Stop> {
    let labels = |keys| {
        let labels = Some(api::MapReads { keys, prefixes: Vec::new() });
        api::NodeReads { labels, ..api::NodeReads::default() }
    };
    let texts = |count: usize| (0..count).map(|at| format!("{at:05}")).collect::<Vec<_>>();
    let by = |label| api::PodCountReads { by: api::PodCountBy::Label.into(), label, requests: false };
    let parts = (1..).take(READ_PARTS + 1).collect();
    let pod_counts = texts(READ_COUNTS + 1).into_iter().map(by).collect();
    for (what, reads) in [
        ("too many keys", labels(texts(READ_KEYS + 1))),
        ("a key that is too long", labels(vec!["k".repeat(KEY_BYTES + 1)])),
        ("too many parts", api::NodeReads { parts, ..api::NodeReads::default() }),
        ("too many counts", api::NodeReads { pod_counts, ..api::NodeReads::default() }),
    ] {
        let beyond = |message: &mut api::SyncNodesRequest| {
            message.upserts.clear();
            message.reads = Some(reads);
        };
        first_message(suite, beyond, &format!("`reads` with {what}")).await?;
    }
    Ok(())
}

async fn refused_whole(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, mut table) = held(suite, 2).await?;
    let [one, other] = scene.nodes.as_slice() else { return Ok(()) };
    let mut message = table.message(terms, &[(5, one), (6, other)]);
    message.upserts.iter_mut().skip(1).for_each(|entry| entry.row = None);
    let Some(status) = table.ends(message).await? else {
        return skipped("the backend accepts an upsert without a row");
    };
    drop(status);
    let response = suite.respond(&by_table(suite, terms, &scene.select(&[0]), table.refer(&[5]))).await?;
    if response.miss().is_none() {
        return failed("a call was answered from a message that was refused");
    }
    Ok(())
}
