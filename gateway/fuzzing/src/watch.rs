//! The response of a watch of nodes. The first byte selects the size of the chunks in which it arrives.

use std::{cell::LazyCell, collections::BTreeSet, convert::Infallible, iter::repeat_with};

use bytes::Bytes;
use extender_apiserver::text::utf8;
use extender_gateway_cluster::{table::NodeTable, watch::follow_nodes};
use extender_gateway_object::node;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body as HttpBody, Frame};
use kube::{Client, client::Body};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Runtime};

/// The longest text of an error, in bytes.
const LONGEST_ERROR: usize = 4 << 10;

thread_local! {
    static APISERVER: LazyCell<(Runtime, Client)> = const { LazyCell::new(echo) };
}

/// The header with the size of the chunks of the response.
const CHUNK: &str = "chunk";

/// An apiserver that sends back the body of a request in chunks.
fn echo() -> (Runtime, Client) {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let client = {
        let _entered = runtime.enter();
        Client::new(tower::service_fn(in_chunks), "default")
    };
    (runtime, client)
}

async fn in_chunks(
    request: Request<Body>,
) -> Result<Response<impl HttpBody<Data = Bytes, Error = Infallible>>, Infallible> {
    let chunk: usize = request.headers()[CHUNK].to_str().unwrap().parse().unwrap();
    let mut rest = request.into_body().collect().await.unwrap().to_bytes();
    let next = repeat_with(move || rest.split_to(chunk.min(rest.len())));
    let chunks = next.take_while(|chunk| !chunk.is_empty()).map(|chunk| Ok(Frame::data(chunk)));
    Ok(Response::new(StreamBody::new(stream::iter(chunks.collect::<Vec<_>>()))))
}

/// Each event changes the table as if it were alone, and how the lines are split into chunks changes nothing.
pub fn watch(bytes: &[u8]) {
    let Some((chunk, lines)) = bytes.split_first() else { return };
    let (whole, ended) = followed(lines, lines.len().max(1));
    let (in_chunks, ended_so) = followed(lines, usize::from(*chunk) + 1);
    assert_eq!(ended, ended_so);
    if let Err(text) = ended {
        assert!(!text.is_empty() && text.len() <= LONGEST_ERROR, "{} bytes", text.len());
        return;
    }
    let names = expected(lines);
    for table in [whole, in_chunks] {
        assert_eq!(table.len(), names.len(), "{names:?}");
        assert!(names.iter().all(|name| table.reported_resources(name).is_some()), "{names:?}");
    }
}

/// The table after a watch that sends these bytes in chunks of this size, and how the watch ends.
fn followed(lines: &[u8], chunk: usize) -> (NodeTable, Result<(), String>) {
    let table = NodeTable::new();
    let request = Request::builder().header(CHUNK, chunk).body(Body::from(lines.to_vec())).unwrap();
    let ended = APISERVER.with(|apiserver| {
        let (runtime, client) = &**apiserver;
        runtime.block_on(async {
            let body = client.send(request).await.unwrap().into_body();
            follow_nodes(&table, client.clone(), body).await
        })
    });
    (table, ended.map_err(|error| error.to_string()))
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Head {
    metadata: Named,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

/// The names after these events, all of which can be read.
fn expected(lines: &[u8]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let lines = lines.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
        // As in Go, what is not UTF-8 is replaced.
        let line = utf8(line.into());
        let Ok(Event { r#type, object }) = serde_json::from_str(&line) else { continue };
        let object = object.get();
        match r#type {
            "ADDED" | "MODIFIED" => {
                names.extend(node::parse(object.as_bytes()).map(|node| node.name().to_owned()));
            }
            "DELETED" => {
                let head: Result<Head, _> = serde_json::from_str(object);
                names.remove(&head.map(|head| head.metadata.name).unwrap_or_default());
            }
            _ => {}
        }
    }
    names
}
