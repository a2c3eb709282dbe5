//! Node tables: filled once, kept up to date, and named by calls when the backend has them.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use extender_policy_api::{
    limits,
    v1beta1::{self as api, NodePart, NodeRef, SyncNodesRequest, Verb, VerbInfo, nodes::Form},
};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    answers::rejecting,
    backend::{Act, Backend, PATIENCE, Received, applied},
    case::{Check, Group, Nodes, Stop, case, ensure, equal, table},
    scene::{backend, by_name, fresh, in_full, info, node, pod, racked, reads, strings, verb},
    stage::Stage,
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const SERVICE: &str = "extender.policy.v1beta1.NodeTableService";

const LATEST: &str = "table.proto: The gateway sends the next message only after that";

pub(crate) fn groups() -> Vec<Group> {
    vec![of_file(), of_calls()]
}

fn objects() -> Vec<Value> {
    NODES.map(node).into()
}

fn of_file() -> Group {
    let mut named = verb(Verb::Filter);
    named.reads.get_or_insert_default().node =
        Some(api::NodeReads { parts: vec![NodePart::Name.into()], ..Default::default() });
    let with = |verbs: Vec<VerbInfo>, services: &[&str]| {
        let mut info = info(verbs);
        info.services = strings(services);
        info
    };
    let filter = json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}});
    let both = json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}, "preempt": {"timeout": "20s"}});
    let backends = vec![
        backend("held", both, &with(vec![verb(Verb::Filter), verb(Verb::Preempt)], &[SERVICE])),
        backend("plain", filter.clone(), &info(vec![verb(Verb::Filter)])),
        backend("named", filter, &with(vec![named], &[SERVICE])),
    ];
    let cases = table!(case:
        "tables.filled" ["44: `SyncNodesRequest.reads` is what the rows of a table contain", "table.proto: Messages then contain nodes, in any order, until one is `complete`", "19: `table` is a random text that names the table"]
            "a table has a name, says what its rows contain, and is complete once" => filled;
        "tables.not-listed" ["table.proto: The gateway opens SyncNodes on the connection", "44: There are no tables for verbs that read at most the name"]
            "no table is opened where none is listed, or at most names are read" => not_opened;
        "tables.by-id" ["66: Calls do not wait for node tables", "node.proto: The smallest SyncNodesRequest.version"]
            "calls name nodes by ids at a version that is acknowledged" => by_id;
        "tables.preempt" ["18: `Preempt` always gets rows"] "preempt gets rows" => preempt;
        "tables.miss" ["25: the gateway sends the nodes inline, once", "policy.proto: The gateway ignores the rest"]
            "a miss is answered by rows, once, and what it has beside is ignored" => |stage| miss(stage, api::Miss::TableBehind as i32);
        "tables.unknown-miss" ["65: A value of `Miss` that the gateway does not know is a miss"]
            "an unknown miss is a miss" => |stage| miss(stage, 63);
        "tables.changed" ["66: Nodes that have changed since are among `rows`", LATEST]
            "nodes that have changed come as rows until that is acknowledged, and only the latest row is sent" => changed;
        "tables.removed" ["20: A removed id is never reused"] "a node that comes back has another id" => removed;
        "tables.again" ["Errors: nodes inline; tries again with growing pauses", "table.proto: The table belongs to the stream and ends with it"]
            "after the end of a stream nodes come as rows, until another table is filled" => again;
        "tables.snapshot" ["56: Where the gateway has a source of nodes of its own", "policy.proto: Absent: kube-scheduler's call brought the nodes"]
            "backends of one call get one name of the state of nodes, and none with names alone" => snapshot;
        "tables.versions" ["table.proto: The table's version after this message; greater than", "table.proto: The table's name: random, the same in all messages of a stream"]
            "versions grow, and a stream has one table" => versions;
    );
    Group { nodes: Nodes::File(objects()), binds: false, backends, cases }
}

/// Nodes that calls bring have tables of their own.
fn of_calls() -> Group {
    let mut info = info(vec![verb(Verb::Filter)]);
    info.services = strings(&[SERVICE]);
    let held = backend("held", json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}}), &info);
    let cases = table!(case:
        "tables.of-calls" ["20: Where calls bring nodes in full, a row that changes gets another id"]
            "nodes that calls bring have ids of their rows" => brought;
    );
    Group { nodes: Nodes::Calls, binds: false, backends: vec![held], cases }
}

fn messages(calls: &[Received]) -> Vec<SyncNodesRequest> {
    calls.iter().map(Received::decode).collect()
}

/// The last Filter of the backend for a call with this body.
async fn asked(stage: &Stage, backend: &Backend, body: &Value) -> Check<Received> {
    let mark = backend.mark();
    stage.filter_ok(body).await?;
    backend.since(mark, "Filter").pop().ok_or_else(|| format!("{} is not called", backend.name()).into())
}

fn by_names() -> Value {
    by_name(&pod(&fresh()), &NODES)
}

fn table_of(received: &Received) -> Option<NodeRef> {
    match received.nodes().form {
        Some(Form::Table(table)) => Some(table),
        _ => None,
    }
}

/// Calls until this is found in the request.
async fn until<T>(
    stage: &Stage,
    what: &str,
    body: impl Fn() -> Value,
    find: impl Fn(&Received) -> Option<T>,
) -> Check<T> {
    let (backend, mut last) = (stage.backend("held")?, None);
    let found = async {
        loop {
            let received = asked(stage, backend, &body()).await?;
            if let Some(found) = find(&received) {
                return Ok::<_, Stop>(found);
            }
            last = Some(received.nodes());
        }
    };
    let found = timeout(PATIENCE, found).await;
    found.map_err(|_| {
        Stop::Failed(format!("{what}: not within {} s; the last request has {last:?}", PATIENCE.as_secs()))
    })?
}

/// The reference when all nodes are named by ids.
async fn held(stage: &Stage) -> Check<NodeRef> {
    let all_by_id = |received: &Received| table_of(received).filter(|table| !table.ids.contains(&0));
    until(stage, "calls name all nodes by ids", by_names, all_by_id).await
}

async fn filled(stage: Stage) -> Check {
    let backend = stage.backend("held")?;
    let complete = |calls: &[Received]| {
        let messages = messages(calls);
        messages.iter().any(|message| message.complete).then_some(messages)
    };
    let messages = backend.until("a table is complete", "SyncNodes", complete).await?;
    let first = &messages[0];
    let name = &first.table;
    let is_name = (1..=limits::TABLE_BYTES).contains(&name.len())
        && name.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    ensure(is_name, || format!("the name {name:?}"))?;
    equal("what rows contain", &first.reads, &reads().node)?;
    let entries: Vec<_> = messages
        .iter()
        .filter(|message| message.table == *name)
        .flat_map(|message| &message.upserts)
        .collect();
    let ids: BTreeSet<_> = entries.iter().map(|entry| entry.id).collect();
    ensure(!ids.contains(&0) && ids.len() == entries.len(), || {
        format!("the ids {ids:?} of {} rows", entries.len())
    })?;
    let names: BTreeSet<_> =
        entries.iter().filter_map(|entry| entry.row.as_ref()).map(|row| row.name.as_str()).collect();
    equal("the nodes", &names, &BTreeSet::from(NODES))
}

async fn not_opened(stage: Stage) -> Check {
    held(&stage).await?;
    for name in ["plain", "named"] {
        equal(&format!("the tables of {name}"), &stage.backend(name)?.received("SyncNodes").len(), &0)?;
    }
    let calls = stage.backend("plain")?.received("Filter");
    ensure(calls.iter().all(|call| table_of(call).is_none()), || "plain is sent ids of a table".into())
}

async fn by_id(stage: Stage) -> Check {
    let backend = stage.backend("held")?;
    let table = held(&stage).await?;
    let versions: Vec<_> = messages(&backend.received("SyncNodes"))
        .into_iter()
        .filter(|message| message.table == table.table)
        .map(|message| message.version)
        .collect();
    ensure(
        versions.contains(&table.at_least) || table.at_least <= versions.last().copied().unwrap_or_default(),
        || format!("`at_least` is {}; acknowledged are {versions:?}", table.at_least),
    )?;
    equal("the number of ids", &table.ids.len(), &3)?;
    backend.on("Filter", rejecting(&["n2"], "no"));
    equal("the nodes that are left", &stage.filter_ok(&by_names()).await?.kept, &["n1", "n3"])
}

async fn preempt(stage: Stage) -> Check {
    let backend = stage.backend("held")?;
    let mark = backend.mark();
    let candidates = json!({"n1": {"Pods": [{"UID": "u1"}], "NumPDBViolations": 0}});
    let body = json!({"Pod": pod(&fresh()), "NodeNameToVictims": null, "NodeNameToMetaVictims": candidates});
    stage.post("preempt", &body).await?;
    let forms: Vec<_> = backend.since(mark, "Preempt").iter().map(|call| table_of(call).is_none()).collect();
    equal("calls with rows", &forms, &[true])
}

async fn miss(stage: Stage, miss: i32) -> Check {
    held(&stage).await?;
    let backend = stage.backend("held")?;
    backend.on("Filter", move |received| {
        if table_of(received).is_none() {
            return rejecting(&["n2"], "no")(received);
        }
        let result =
            api::Result { outcome: Some(api::result::Outcome::Miss(miss)), revision: "another".into() };
        let rejections =
            vec![api::Rejection { reason: "no".into(), positions: vec![0, 0, 9], ..Default::default() }];
        Act::answer(&api::FilterResponse { result: Some(result), rejections, scores: None })
    });
    let mark = backend.mark();
    equal("the nodes that are left", &stage.filter_ok(&by_names()).await?.kept, &["n1", "n3"])?;
    let calls = backend.since(mark, "Filter");
    let forms: Vec<_> = calls.iter().map(|call| table_of(call).is_some()).collect();
    equal("calls by ids", &forms, &[true, false])?;
    equal("the id of the second", &calls[1].call().id, &calls[0].call().id)
}

/// The rack of node n1 in a row.
fn rack(row: &api::NodeRow) -> Option<String> {
    let labels = row.facts.clone()?.labels?;
    (row.name == "n1").then(|| labels.values.first().cloned())?
}

async fn changed(stage: Stage) -> Check {
    held(&stage).await?;
    let backend = stage.backend("held")?;
    let (permits, sent) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (waits, racks) = (Arc::clone(&permits), Arc::clone(&sent));
    backend.on("SyncNodes", move |received| {
        let upserts = received.decode::<SyncNodesRequest>().upserts;
        let of_n1 = upserts.iter().filter_map(|entry| rack(entry.row.as_ref()?));
        racks.lock().unwrap_or_else(PoisonError::into_inner).extend(of_n1);
        Act::After(Arc::clone(&waits), Box::new(applied(received)))
    });
    for name in ["one", "two", "three"] {
        stage.replace_nodes(&[racked("n1", name), node("n2"), node("n3")])?;
        let comes_as_row = |received: &Received| {
            let table = table_of(received)?;
            (table.ids.iter().filter(|id| **id == 0).count() == 1 && rack(table.rows.first()?)? == name)
                .then_some(())
        };
        until(&stage, &format!("n1 comes as a row with rack {name}"), by_names, comes_as_row).await?;
    }
    permits.add_permits(100);
    let seen = || sent.lock().unwrap_or_else(PoisonError::into_inner).clone();
    held(&stage).await?;
    let last: Vec<_> = seen();
    ensure(last == ["one", "three"], || {
        format!("the table was sent the racks {last:?}; expected one and three")
    })?;
    stage.replace_nodes(&objects())?;
    let is_back = |received: &Received| received.rows.iter().find_map(rack).filter(|rack| rack == "r-n1");
    until(&stage, "n1 is as before", by_names, is_back).await.map(drop)
}

async fn removed(stage: Stage) -> Check {
    let before = held(&stage).await?;
    let backend = stage.backend("held")?;
    stage.replace_nodes(&objects()[..2])?;
    let removal = |calls: &[Received]| {
        let removed = messages(calls).into_iter().flat_map(|message| message.removed);
        removed.into_iter().find(|id| before.ids.contains(id))
    };
    let id = backend.until("a removed node is removed", "SyncNodes", removal).await?;
    let known = backend.received("SyncNodes").len();
    stage.replace_nodes(&objects())?;
    let back = |calls: &[Received]| {
        let entries = messages(calls.get(known..)?).into_iter().flat_map(|message| message.upserts);
        entries.into_iter().find(|entry| entry.row.as_ref().is_some_and(|row| row.name == "n3"))
    };
    let entry = backend.until("a node that is there again is sent", "SyncNodes", back).await?;
    ensure(entry.id != id, || format!("the id {id} is used again"))
}

async fn again(stage: Stage) -> Check {
    let before = held(&stage).await?;
    let backend = stage.backend("held")?;
    backend.on("SyncNodes", |_| Act::Status(8, "too many tables", "ERROR_REASON_OVERLOADED"));
    stage.replace_nodes(&[racked("n1", "other"), node("n2"), node("n3")])?;
    until(&stage, "nodes come as rows", by_names, |received| table_of(received).is_none().then_some(()))
        .await?;
    backend.on("SyncNodes", applied);
    let after = held(&stage).await?;
    ensure(after.table != before.table, || format!("the table is called {:?} again", after.table))?;
    stage.replace_nodes(&objects())
}

async fn snapshot(stage: Stage) -> Check {
    let backends = [stage.backend("held")?, stage.backend("plain")?, stage.backend("named")?];
    stage.filter_ok(&by_names()).await?;
    let last =
        backends.map(|backend| backend.received("Filter").last().map(Received::call).unwrap_or_default());
    let [held, plain, named] = last.map(|call| call.snapshot);
    let is_name = (1..=limits::SNAPSHOT_BYTES).contains(&held.len()) && named.is_empty();
    ensure(is_name && held == plain, || {
        format!("the names {held:?}, {plain:?}, and {named:?} with names alone")
    })
}

async fn versions(stage: Stage) -> Check {
    held(&stage).await?;
    let calls = stage.backend("held")?.received("SyncNodes");
    let streams: BTreeSet<_> = calls.iter().map(|call| call.stream).collect();
    for stream in streams {
        let of_stream: Vec<_> = calls.iter().filter(|call| call.stream == stream).cloned().collect();
        let messages = messages(&of_stream);
        let names: BTreeSet<_> = messages.iter().map(|message| &message.table).collect();
        equal("tables of a stream", &names.len(), &1)?;
        let versions: Vec<_> = messages.iter().map(|message| message.version).collect();
        let grow = versions.windows(2).all(|pair| pair[0] < pair[1]) && versions.first() > Some(&0);
        ensure(grow, || format!("the versions {versions:?} do not grow"))?;
        let complete = messages.iter().filter(|message| message.complete).count();
        ensure(complete <= 1, || format!("the table is complete {complete} times"))?;
    }
    Ok(())
}

async fn brought(stage: Stage) -> Check {
    let nodes = |rack: &'static str| move || in_full(&pod(&fresh()), &[racked("n1", rack), node("n2")]);
    let all_by_id = |received: &Received| table_of(received).filter(|table| !table.ids.contains(&0));
    let one = until(&stage, "calls name all nodes by ids", nodes("one"), all_by_id).await?;
    let other = until(&stage, "calls name all nodes by ids", nodes("two"), all_by_id).await?;
    let ids: BTreeSet<_> = one.ids.iter().chain(&other.ids).collect();
    equal("the different ids of two nodes, of which one has changed", &ids.len(), &3)
}
