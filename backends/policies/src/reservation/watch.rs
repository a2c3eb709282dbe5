//! Lists the objects of one kind and then watches them, again and again, as long as the future is polled.
//!
//! An object is its JSON: whoever receives it decides what is wrong with it. While the apiserver is away, what was known
//! stays, and its [`Pulse`] tells for how long. Each request has a time to be answered in, and a watch lasts seconds, so that
//! a connection that nobody closes is noticed, too.

use std::{
    convert::Infallible,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use extender_apiserver::{RequestError, read, send, text::utf8};
use http_body_util::BodyExt as _;
use kube::{
    Client,
    api::{ListParams, WatchParams},
    client::Body,
    core::Request,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};

/// Objects of a page of a list, and the most bytes of a page: each can have as many as etcd stores.
const PAGE: u32 = 100;
const LARGEST_PAGE: usize = 256 << 20;
/// The longest line of a watch in bytes: more than etcd stores of an object.
const LONGEST_LINE: usize = 16 << 20;
/// After this time the apiserver ends a watch, which shows that it is there.
const WATCH_SECONDS: u32 = 4;
/// The longest time without a sign of the apiserver, in a request or in a watch: it has some time for the end of a watch.
const LONGEST_SILENCE: Duration = Duration::from_secs(8);
/// The longest time for a page of a list.
const LISTED_WITHIN: Duration = Duration::from_secs(15);
/// The pauses after failures.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// An object that the apiserver told of.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) version: u64,
    pub(super) json: Vec<u8>,
}

/// When the apiserver last showed that a watch is current.
#[derive(Clone, Debug, Default)]
pub(super) struct Pulse(Arc<Mutex<Option<Instant>>>);

impl Pulse {
    pub(super) fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// How long ago that was; `None` if nothing is watched yet.
    pub(super) fn silence(&self) -> Option<Duration> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.map(|last| last.elapsed())
    }
}

/// Keeps what is watched.
pub(super) trait Watched: Sync {
    /// These are all objects, as of this version or earlier ones.
    fn listed(&self, objects: Vec<Object>, version: u64);
    /// This object is new, or has changed.
    fn told(&self, object: Object);
    /// This object is deleted.
    fn deleted(&self, object: Object);
}

/// What to watch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// The URL path of the list.
    pub(super) path: &'static str,
    /// For the log.
    pub(super) plural: &'static str,
}

/// Keeps `watched` up to date.
pub(super) async fn watch(client: Client, kind: Kind, watched: &impl Watched, pulse: &Pulse) -> Infallible {
    let (mut pause, mut failing) = (FIRST_PAUSE, false);
    loop {
        let mut is_current = false;
        let ended = follow(&client, kind, watched, pulse, &mut is_current).await;
        if is_current {
            pause = FIRST_PAUSE;
            if std::mem::take(&mut failing) {
                tracing::info!("{} are watched again", kind.plural);
            }
        }
        if let Err(error) = ended {
            if !std::mem::replace(&mut failing, true) {
                tracing::warn!(
                    "cannot watch {}: {error}; trying again. Check that the apiserver is reachable, and that the account may list and watch them",
                    kind.plural
                );
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        sleep(pause).await;
    }
}

/// Lists, and watches until the version is too old for the apiserver, or something fails.
async fn follow(
    client: &Client,
    kind: Kind,
    watched: &impl Watched,
    pulse: &Pulse,
    is_current: &mut bool,
) -> Result<(), RequestError> {
    let (objects, version) = list(client, kind).await?;
    let mut from = version.clone();
    watched.listed(objects, version.parse().unwrap_or_default());
    pulse.beat();
    loop {
        let params = WatchParams::default().timeout(WATCH_SECONDS);
        let sent = within(LONGEST_SILENCE, send(client, Request::new(kind.path).watch(&params, &from)));
        let body = match sent.await {
            Err(error) if error.code() == Some(410) => return Ok(()),
            body => body?,
        };
        *is_current = true;
        pulse.beat();
        let (began, mut lines) = (Instant::now(), Lines { body, received: Vec::new() });
        while let Some(line) = within(LONGEST_SILENCE, lines.next()).await? {
            pulse.beat();
            // An object may have bytes in raw JSON that are no text.
            let line = utf8(line.into());
            let Event { kind, object } = parsed(line.as_bytes())?;
            match (kind, object) {
                (EventKind::Error, _) => return Ok(()),
                (EventKind::Bookmark, object) => from = object.version_text()?,
                (kind, json) => {
                    from = json.version_text()?;
                    let object = json.object()?;
                    if kind == EventKind::Deleted { watched.deleted(object) } else { watched.told(object) }
                }
            }
        }
        if began.elapsed() < FIRST_PAUSE {
            sleep(FIRST_PAUSE).await;
        }
    }
}

/// The result, if it comes within this time.
async fn within<T>(
    time: Duration,
    result: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let late = || RequestError::Failed(format!("nothing came from the apiserver for {} s", time.as_secs()));
    timeout(time, result).await.unwrap_or_else(|_| Err(late()))
}

async fn list(client: &Client, kind: Kind) -> Result<(Vec<Object>, String), RequestError> {
    let (mut objects, mut token) = (Vec::new(), String::new());
    loop {
        let mut params = ListParams::default().limit(PAGE);
        if !token.is_empty() {
            params = params.continue_token(&token);
        }
        let json = read(client, Request::new(kind.path).list(&params), LARGEST_PAGE);
        let json = within(LISTED_WITHIN, json).await?;
        let Page { metadata, items } = parsed(&json)?;
        for item in items.unwrap_or_default() {
            objects.push(item.object()?);
        }
        token = metadata.next.unwrap_or_default();
        if token.is_empty() {
            return Ok((objects, metadata.resource_version));
        }
    }
}

#[derive(Deserialize)]
struct Page<'j> {
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<Json<'j>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Event<'j> {
    #[serde(rename = "type")]
    kind: EventKind,
    #[serde(borrow)]
    object: Json<'j>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum EventKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// An object that is not read yet.
#[derive(Deserialize)]
#[serde(transparent)]
struct Json<'j>(#[serde(borrow)] &'j RawValue);

#[derive(Deserialize)]
struct Head {
    metadata: HeadMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HeadMetadata {
    name: String,
    resource_version: String,
}

impl Json<'_> {
    /// The apiserver writes metadata itself, so this fails only if something else answers.
    fn head(&self) -> Result<HeadMetadata, RequestError> {
        Ok(parsed::<Head>(self.0.get().as_bytes())?.metadata)
    }

    fn version_text(&self) -> Result<String, RequestError> {
        Ok(self.head()?.resource_version)
    }

    fn object(&self) -> Result<Object, RequestError> {
        let HeadMetadata { name, resource_version } = self.head()?;
        let version = resource_version.parse().unwrap_or_default();
        Ok(Object { name, version, json: self.0.get().as_bytes().to_vec() })
    }
}

fn parsed<'j, T: Deserialize<'j>>(json: &'j [u8]) -> Result<T, RequestError> {
    serde_json::from_slice(json)
        .map_err(|error| RequestError::Failed(format!("the answer cannot be read: {error}")))
}

/// The lines of a body while it arrives.
struct Lines {
    body: Body,
    received: Vec<u8>,
}

impl Lines {
    /// The next line; `None` at the end. A connection that breaks is an end, too: the watch begins again.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, RequestError> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.received[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.received.split_off(searched + end + 1);
                return Ok(Some(std::mem::replace(&mut self.received, rest)));
            }
            searched = self.received.len();
            if searched > LONGEST_LINE {
                return Err(RequestError::TooLarge(LONGEST_LINE));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.received.extend_from_slice(&bytes);
                    }
                }
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::{Request as Asked, Response};
    use tokio::sync::Notify;

    use super::*;

    /// What was told, in order.
    #[derive(Default)]
    struct Told {
        names: Mutex<Vec<String>>,
        changed: Notify,
    }

    impl Told {
        fn push(&self, what: &str, name: &str) {
            self.names.lock().unwrap().push(format!("{what} {name}"));
            self.changed.notify_one();
        }
    }

    impl Watched for Told {
        fn listed(&self, objects: Vec<Object>, _: u64) {
            for object in &objects {
                self.push("listed", &object.name);
            }
        }

        fn told(&self, object: Object) {
            self.push("told", &object.name);
        }

        fn deleted(&self, object: Object) {
            self.push("deleted", &object.name);
        }
    }

    #[tokio::test]
    async fn one_object_stops_neither_a_list_nor_a_watch() {
        let pod = |name: &str, fields: &[u8]| {
            let before = format!(
                "{{\"metadata\":{{\"name\":\"{name}\",\"resourceVersion\":\"2\",\"managedFields\":[{{\"f:"
            );
            [
                before.as_bytes(),
                fields,
                b"\":",
                "[".repeat(5_000).as_bytes(),
                "]".repeat(5_000).as_bytes(),
                b"}]}}",
            ]
            .concat()
        };
        let list = [
            br#"{"metadata":{"resourceVersion":"1"},"items":["#.as_slice(),
            &pod("a", b"\xff"),
            b",",
            &pod("b", b""),
            b"]}",
        ];
        let event = |kind: &str, pod: Vec<u8>| {
            [format!("{{\"type\":\"{kind}\",\"object\":").as_bytes(), &pod, b"}\n"].concat()
        };
        let events = [
            event("ADDED", pod("c", b"\xff")),
            event("DELETED", pod("a", b"\xff")),
            event("ADDED", pod("d", b"")),
        ];
        let (list, events) = (list.concat(), events.concat());
        let answer = move |asked: Asked<Body>| {
            let is_watch = asked.uri().query().is_some_and(|query| query.contains("watch="));
            let body = if is_watch { events.clone() } else { list.clone() };
            std::future::ready(Ok::<_, std::io::Error>(Response::new(Body::from(body))))
        };
        let client = Client::new(tower::service_fn(answer), "default");
        let (told, pulse) = (Told::default(), Pulse::default());
        let kind = Kind { path: "/api/v1/pods", plural: "pods" };
        let until = async {
            while told.names.lock().unwrap().len() < 5 {
                told.changed.notified().await;
            }
        };
        tokio::select! {
            never = watch(client, kind, &told, &pulse) => match never {},
            () = until => {}
        }
        let names = told.names.lock().unwrap();
        assert_eq!(names[..5], ["listed a", "listed b", "told c", "deleted a", "told d"]);
    }
}
