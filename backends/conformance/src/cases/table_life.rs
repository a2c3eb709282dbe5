//! How tables begin and end.

use std::time::{Duration, Instant};

use extender_policy_api::v1beta1 as api;
use tonic::Code;

use crate::{
    case::{self, Case, Stop, failed},
    client::shown,
    declared::Terms,
    question::{Question, Scene},
    suite::Suite,
    table::{PAUSE, Table, by_table, filled, filled_on, held, table_verb},
    timing::{median, repeated},
};

/// A message that is applied in the time of fewer calls may come between two of them, and how often that is tried: on a
/// busy machine a call may be slow once.
const CALLS: u32 = 20;
const ATTEMPTS: usize = 3;

/// The rows of a request that every backend accepts.
const ROWS: usize = 500;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "table.closed" Must ["22.1"] "a table ends with its stream" => closed;
        "table.reset" Must ["22.1"] "also if the stream is reset" => reset;
        "table.disconnected" Must ["22.1"] "also if the connection is closed" => disconnected;
        "table.again" Must ["22.1"] "a gateway that comes back fills another table" => again;
        "table.huge" Must ["21.1", "24.1"] "15,000 nodes, answered as with rows" => huge;
        "table.meanwhile" Must ["21.2"] "calls are answered while a large message is applied" => meanwhile;
        "table.nothing-sent" Must ["52.1"] "20 streams without a message do no harm" => nothing_sent;
        "table.limits" Must ["23.1"] "200 tables: each is held, or refused" => limits;
    }
}

/// Asks until the table is not held any more.
async fn discarded(suite: &Suite, terms: Terms<'_>, scene: &Scene, nodes: api::NodeRef) -> Result<(), Stop> {
    let asked = Instant::now();
    loop {
        let response = suite.respond(&by_table(suite, terms, scene, nodes.clone())).await?;
        if response.miss() == Some(api::Miss::TableUnknown) {
            return Ok(());
        }
        if asked.elapsed() > suite.client.patience() {
            return failed("the stream has ended, and calls are still answered from its table");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn closed(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, table) = held(suite, 3).await?;
    let nodes = table.all(&scene);
    table.close().await?;
    discarded(suite, terms, &scene, nodes).await
}

async fn reset(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, table) = held(suite, 3).await?;
    let nodes = table.all(&scene);
    // Both ends are dropped: the stream is reset.
    drop(table);
    discarded(suite, terms, &scene, nodes).await
}

async fn disconnected(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let scene = suite.scene(3);
    let client = suite.connect().await?;
    let table = filled_on(suite, &client, terms, &scene).await?;
    let nodes = table.all(&scene);
    drop((table, client));
    discarded(suite, terms, &scene, nodes).await
}

async fn again(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let scene = suite.scene(3);
    for _ in 0..20 {
        let table = filled(suite, terms, &scene).await?;
        suite.ask(&by_table(suite, terms, &scene, table.all(&scene))).await?;
        table.close().await?;
    }
    Ok(())
}

async fn huge(suite: &Suite) -> Result<(), Stop> {
    let (terms, scene, table) = held(suite, crate::question::LARGE).await?;
    let whole = suite.ask(&by_table(suite, terms, &scene, table.all(&scene))).await?;
    let positions: Vec<_> = (0..scene.nodes.len()).collect();
    for some in positions.chunks(ROWS).take_while(|_| terms.is_per_node()) {
        let same = super::scope::same(suite, terms.verb, &scene, &whole, some);
        same.await.map_err(|stop| stop.after("by a table, and as rows"))?;
    }
    table.close().await
}

async fn meanwhile(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let mut applied = Duration::ZERO;
    let mut alone = Duration::ZERO;
    for _ in 0..ATTEMPTS {
        let question = suite.random_question(terms.verb, 3)?;
        let times = repeated(5, async || suite.ask(&question).await.map(drop)).await?;
        alone = median(&times);
        match unanswered(suite, terms, &question).await? {
            Some(time) if time > alone * CALLS => applied = time,
            _ => return Ok(()),
        }
    }
    failed(format!(
        "no call was answered while a message was applied, {ATTEMPTS} times; the last time that took {applied:.1?}, and a \
         call alone takes {alone:.1?} (the median of several)"
    ))
}

/// How long a message took to be applied, if no call was answered from its arrival on, or one that waited for that: its answer
/// comes on another connection, and so may overtake the response to the message.
async fn unanswered(suite: &Suite, terms: Terms<'_>, question: &Question) -> Result<Option<Duration>, Stop> {
    let mut table = Table::open(suite, &suite.connect().await?);
    let version = table.send_large(suite, terms).await?;
    table.arrived(terms).await;
    let begun = Instant::now();
    let mut answered = 0;
    {
        let mut applied = std::pin::pin!(table.applied(version));
        loop {
            tokio::select! {
                biased;
                applied = &mut applied => break applied?,
                answer = suite.ask(question) => answered += answer.map(|_| 1)?,
            }
        }
    }
    let took = begun.elapsed();
    table.close().await?;
    Ok((answered < 2).then_some(took))
}

async fn nothing_sent(suite: &Suite) -> Result<(), Stop> {
    table_verb(suite)?;
    let client = suite.connect().await?;
    let tables: Vec<_> = (0..20).map(|_| Table::open(suite, &client)).collect();
    suite.still_serves("opening 20 streams").await?;
    for table in tables {
        table.close().await?;
    }
    suite.still_serves("20 streams without a message").await
}

async fn limits(suite: &Suite) -> Result<(), Stop> {
    let terms = table_verb(suite)?;
    let scene = suite.scene(2);
    let mut client = suite.connect().await?;
    let mut tables = Vec::new();
    for number in 0..200 {
        // Servers limit the streams of a connection.
        if number % 10 == 9 {
            client = suite.connect().await?;
        }
        let mut table = Table::open(suite, &client);
        let message = table.first(terms, &scene);
        match table.ends(message).await? {
            None => tables.push(table),
            Some(status) if status.code() == Code::ResourceExhausted => {}
            Some(status) => {
                let text =
                    format!("table {number}: {}; expected to be held, or RESOURCE_EXHAUSTED", shown(&status));
                return failed(text);
            }
        }
    }
    for table in tables.iter().take(3).chain(tables.last()) {
        suite.ask(&by_table(suite, terms, &scene, table.all(&scene))).await?;
    }
    drop(tables);
    suite.still_serves("200 tables").await
}
