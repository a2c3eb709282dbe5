//! Answers about nodes that the backend holds.

use extender_policy_api::v1beta1 as api;
use tonic::Code;

use crate::{
    answer::Answer,
    case::{self, Case, Stop, failed},
    declared::Terms,
    question::Scene,
    suite::Suite,
    table::{Table, by_table, filled, filled_on, held, ids, table_verb, table_verbs},
};

const NODES: usize = 30;

/// Calls that come after one for whose version a message is missing, and how often that is tried: a busy machine may leave
/// one call behind for a while.
const LATER: usize = 200;
const ATTEMPTS: usize = 3;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "table.answers" Must ["24.1"] "answers are as with rows" => answers;
        "table.applied" Must ["21.1"] "each message is acknowledged with its version" => applied;
        "table.changed" Must ["24.1"] "a changed row counts from the acknowledgement on" => changed;
        "table.subset" Must ["24.1"] "positions are those of the request" => subset;
        "table.with-rows" Must ["24.2"] "0 stands for the next one of `rows`" => with_rows;
        "table.older" Must ["24.1"] "an earlier `at_least` is answered" => older;
        "table.unknown" Must ["25.1", "19.2"] "a table that is not held is a miss" => unknown;
        "table.behind" Must ["25.2"] "a version that is not there yet is a miss, at once" => behind;
        "table.unknown-id" Must ["25.2"] "an id that is not there is a miss" => unknown_id;
        "table.zeros" Must ["27.1"] "zeros and rows that differ in number are refused" => zeros;
        "table.zeros-unknown" Must ["27.1"] "also if the table is not held" => zeros_unknown;
        "table.count" Must ["27.1"] "a count that differs from the ids is refused" => count;
        "table.other-reads" Must ["44.1"] "a table with other contents is not the verb's" => other_reads;
        "table.other-connection" Must ["19.1"] "calls on any connection may name it" => other_connection;
        "table.two" Must ["19.2"] "tables with the same ids are separate" => two;
    }
}

async fn inline(suite: &Suite, terms: Terms<'_>, scene: &Scene) -> Result<Answer, Stop> {
    suite.ask(&suite.question(terms.verb, scene)?).await
}

/// Verdicts from the table must be those with rows.
async fn same(
    suite: &Suite,
    terms: Terms<'_>,
    scene: &Scene,
    nodes: api::NodeRef,
    what: &str,
) -> Result<(), Stop> {
    let expected = inline(suite, terms, scene).await?;
    let held = suite.ask(&by_table(suite, terms, scene, nodes)).await?;
    let question = suite.question(terms.verb, scene)?;
    super::calls::same_unless_changing(suite, &question, &expected, &held, what).await
}

async fn answers(suite: &Suite) -> Result<(), Stop> {
    table_verb(suite)?;
    let mut objects = suite.objects();
    // Each verb that reads more than names has a table of its own.
    for terms in table_verbs(suite) {
        let scene = Scene::random(&mut objects, NODES);
        let table = filled(suite, terms, &scene).await?;
        same(suite, terms, &scene, table.all(&scene), "by a table").await?;
        table.close().await?;
    }
    Ok(())
}

async fn applied(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let scene = suite.scene(3);
    let mut table = Table::open(suite, &suite.client);
    for (id, node) in ids(&scene).into_iter().zip(&scene.nodes) {
        let message = table.message(terms, &[(id, node)]);
        table.apply(message).await?;
    }
    // Versions grow; they need not be consecutive. A message may have no nodes.
    table.version += 1_000_000;
    let message = table.message(terms, &[]);
    table.apply(message).await?;
    same(suite, terms, &scene, table.all(&scene), "after four messages").await?;
    table.close().await
}

async fn changed(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let mut objects = suite.objects();
    let mut scene = Scene::random(&mut objects, NODES);
    let mut table = filled(suite, terms, &scene).await?;
    for round in 0..5 {
        let at = objects.random.below(NODES);
        let id = crate::question::number(at) + 1;
        let replaced: Vec<_> = (0..NODES).filter(|other| *other % 5 == at % 5).collect();
        for at in replaced {
            let name = scene.nodes.get(at).map(|node| node.name.clone()).unwrap_or_default();
            let node = crate::objects::Node { name, ..objects.node() };
            if let Some(place) = scene.nodes.get_mut(at) {
                *place = node;
            }
        }
        let nodes: Vec<_> =
            ids(&scene).into_iter().zip(&scene.nodes).filter(|(other, _)| other % 5 == id % 5).collect();
        let message = table.message(terms, &nodes);
        table.apply(message).await?;
        same(suite, terms, &scene, table.all(&scene), &format!("after change {round}")).await?;
    }
    table.close().await
}

async fn subset(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, table) = held(suite, NODES).await?;
    let order: Vec<_> = suite.objects().random.shuffled(NODES).into_iter().take(NODES / 2).collect();
    let ids: Vec<_> = order.iter().map(|at| crate::question::number(*at) + 1).collect();
    same(suite, terms, &scene.select(&order), table.refer(&ids), "half of the table in another order")
        .await?;
    table.close().await
}

async fn with_rows(suite: &Suite) -> Result<(), Stop> {
    table_verb(suite)?;
    let scene = suite.scene(NODES);
    for terms in table_verbs(suite) {
        let table = filled(suite, terms, &scene).await?;
        let mut nodes = table.all(&scene);
        // The rows of every third node come with the call.
        for (id, node) in nodes.ids.iter_mut().zip(&scene.nodes).step_by(3) {
            *id = 0;
            nodes.rows.push(terms.row(node, crate::sent::Extent::Declared));
        }
        same(suite, terms, &scene, nodes, "with a third of the rows inline").await?;
        table.close().await?;
    }
    Ok(())
}

async fn older(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, mut table) = held(suite, 3).await?;
    let message = table.message(terms, &[]);
    table.apply(message).await?;
    for at_least in [0, 1] {
        let nodes = api::NodeRef { at_least, ..table.all(&scene) };
        same(suite, terms, &scene, nodes, &format!("at_least {at_least}")).await?;
    }
    table.close().await
}

/// The response must be this miss.
pub(super) async fn missed(
    suite: &Suite,
    terms: Terms<'_>,
    scene: &Scene,
    nodes: api::NodeRef,
    miss: api::Miss,
    what: &str,
) -> Result<(), Stop> {
    let response = suite.respond(&by_table(suite, terms, scene, nodes)).await?;
    if response.miss() == Some(miss) {
        return Ok(());
    }
    let (verb, result) = (terms.verb.name(), response.result());
    failed(format!("{verb} about {what}: `result` {result:?}; expected {}", miss.as_str_name()))
}

async fn unknown(suite: &Suite) -> Result<(), Stop> {
    table_verb(suite)?;
    let scene = suite.scene(3);
    for terms in table_verbs(suite) {
        let nodes =
            api::NodeRef { table: suite.table_name(), at_least: 1, ids: ids(&scene), rows: Vec::new() };
        let miss = api::Miss::TableUnknown;
        missed(suite, terms, &scene, nodes.clone(), miss, "a table that was never sent").await?;
        let other = filled(suite, terms, &scene).await?;
        let what = "a table that was never sent, beside one with the same ids";
        missed(suite, terms, &scene, nodes, miss, what).await?;
        other.close().await?;
    }
    Ok(())
}

async fn behind(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, mut table) = held(suite, 3).await?;
    let mut left_behind = 0;
    while left_behind < ATTEMPTS {
        if at_once(suite, terms, &scene, &table).await? {
            break;
        }
        left_behind += 1;
        // The message that it may have waited for.
        let message = table.message(terms, &[]);
        table.apply(message).await?;
    }
    if left_behind == ATTEMPTS {
        return failed(format!(
            "a call about the version after the table's was not answered before {LATER} later calls were, {ATTEMPTS} \
             times: it waits for the missing message"
        ));
    }
    for at_least in [table.version + 1, u64::MAX] {
        let nodes = api::NodeRef { at_least, ..table.all(&scene) };
        missed(suite, terms, &scene, nodes, api::Miss::TableBehind, &format!("at_least {at_least}")).await?;
    }
    table.close().await
}

/// Whether a call about the version after the table's is answered before many later calls, without the message that it
/// could wait for.
async fn at_once(suite: &Suite, terms: Terms<'_>, scene: &Scene, table: &Table) -> Result<bool, Stop> {
    let behind = api::NodeRef { at_least: table.version + 1, ..table.all(scene) };
    let [behind, later] = [behind, table.all(scene)].map(|nodes| by_table(suite, terms, scene, nodes));
    let mut first = std::pin::pin!(suite.respond(&behind));
    for _ in 0..LATER {
        tokio::select! {
            biased;
            response = &mut first => return response.map(|_| true),
            response = suite.respond(&later) => drop(response?),
        }
    }
    Ok(false)
}

async fn unknown_id(suite: &Suite) -> Result<(), Stop> {
    table_verb(suite)?;
    let scene = suite.scene(3);
    for terms in table_verbs(suite) {
        let table = filled(suite, terms, &scene).await?;
        for ids in [[1, 2, 4], [u32::MAX, 1, 2]] {
            let what = format!("ids {ids:?} of 3");
            missed(suite, terms, &scene, table.refer(&ids), api::Miss::TableBehind, &what).await?;
        }
        table.close().await?;
    }
    Ok(())
}

async fn refused(
    suite: &Suite,
    terms: Terms<'_>,
    scene: &Scene,
    nodes: api::NodeRef,
    what: &str,
) -> Result<(), Stop> {
    suite.refused(&by_table(suite, terms, scene, nodes), Code::InvalidArgument, what).await
}

async fn zeros(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, table) = held(suite, 3).await?;
    refused(suite, terms, &scene, table.refer(&[1, 0, 3]), "one zero in `ids` and no `rows`").await?;
    let mut nodes = table.all(&scene);
    nodes.rows.extend(scene.nodes.first().map(|node| terms.row(node, crate::sent::Extent::Declared)));
    refused(suite, terms, &scene, nodes, "no zero in `ids` and one of `rows`").await?;
    table.close().await
}

async fn zeros_unknown(suite: &Suite) -> Result<(), Stop> {
    table_verb(suite)?;
    let scene = suite.scene(3);
    for terms in table_verbs(suite) {
        let ids = vec![1, 0, 3];
        let nodes = api::NodeRef { table: suite.table_name(), at_least: 1, ids, rows: Vec::new() };
        refused(suite, terms, &scene, nodes, "one zero in `ids`, no `rows`, and an unknown table").await?;
    }
    Ok(())
}

async fn count(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, table) = held(suite, 3).await?;
    for count in [0, 2, 4, u32::MAX] {
        let mut question = by_table(suite, terms, &scene, table.all(&scene));
        if let Some(nodes) = &mut question.nodes {
            nodes.count = count;
        }
        suite.refused(&question, Code::InvalidArgument, &format!("`nodes.count` {count} with 3 ids")).await?;
    }
    table.close().await
}

async fn other_reads(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let scene = suite.scene(3);
    for (what, reads, rows_fit) in [
        ("a table with a label that the verb does not declare", another_label(), false),
        ("a table with another part than the verb declares", another_part(terms), true),
    ] {
        let mut table = Table::open(suite, &suite.client);
        let mut message = api::SyncNodesRequest { reads: Some(reads), ..table.first(terms, &scene) };
        for row in message.upserts.iter_mut().filter_map(|entry| entry.row.as_mut()).filter(|_| !rows_fit) {
            let values = vec!["value".to_owned()];
            let labels = Some(api::MapValues { values, ..api::MapValues::default() });
            let facts = Some(api::NodeFacts { labels, ..api::NodeFacts::default() });
            *row = api::NodeRow { name: row.name.clone(), facts, ..api::NodeRow::default() };
        }
        table.apply(message).await?;
        missed(suite, terms, &scene, table.all(&scene), api::Miss::TableUnknown, what).await?;
        table.close().await?;
    }
    Ok(())
}

/// What another verb could declare.
fn another_label() -> api::NodeReads {
    let labels = Some(api::MapReads { keys: vec!["conformance".to_owned()], prefixes: Vec::new() });
    api::NodeReads { labels, ..api::NodeReads::default() }
}

/// What the verb declares, with or without a part that a row need not have.
fn another_part(terms: Terms<'_>) -> api::NodeReads {
    let mut reads = terms.table_reads();
    let (usage, json) = (api::NodePart::Usage.into(), api::NodePart::RawJson.into());
    match reads.parts.iter().position(|part| *part == usage) {
        None => reads.parts.push(usage),
        Some(_) if !reads.parts.contains(&json) => reads.parts.push(json),
        Some(at) => drop(reads.parts.remove(at)),
    }
    reads.parts.sort_unstable();
    reads
}

async fn other_connection(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let scene = suite.scene(NODES);
    let client = suite.connect().await?;
    let table = filled_on(suite, &client, terms, &scene).await?;
    same(suite, terms, &scene, table.all(&scene), "by a table of another connection").await?;
    table.close().await
}

async fn two(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let mut objects = suite.objects();
    let (one, other) = (Scene::random(&mut objects, NODES), Scene::random(&mut objects, NODES));
    let client = suite.connect().await?;
    let first = filled(suite, terms, &one).await?;
    let second = filled_on(suite, &client, terms, &other).await?;
    same(suite, terms, &one, first.refer(&ids(&one)), "by the first of two tables").await?;
    same(suite, terms, &other, second.refer(&ids(&other)), "by the second of two tables").await?;
    // The end of one does not end the other.
    first.close().await?;
    same(suite, terms, &other, second.refer(&ids(&other)), "by the second after the end of the first")
        .await?;
    second.close().await
}
