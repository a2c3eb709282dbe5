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
use extender_gateway_pace::backoff::Backoff;
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

/// The most objects of a page of a list.
const PAGE: u32 = 100;
/// The largest page in bytes: larger than the JSON of any object that etcd stores, and small beside the memory of a container.
/// If users' objects make a page larger, the rest is requested in smaller pages.
const LARGEST_PAGE: usize = 16 << 20;
/// After a page that is smaller than this, and comes within this time, the next one has twice as many objects.
const SMALL_PAGE: usize = LARGEST_PAGE / 16;
const EARLY: Duration = Duration::from_secs(2);
/// The longest line of a watch in bytes: more than etcd stores of an object.
const LONGEST_LINE: usize = 16 << 20;
/// After this time the apiserver ends a watch, which shows that it is there.
const WATCH_SECONDS: u32 = 4;
/// The longest time without a sign of the apiserver, in a request or in a watch: it has some time for the end of a watch.
const LONGEST_SILENCE: Duration = Duration::from_secs(8);
/// The longest time for a page of a list.
const LISTED_WITHIN: Duration = Duration::from_secs(15);
/// The pauses after failures.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));

/// An object that the apiserver told of.
#[derive(Debug)]
pub(super) struct WatchedObject {
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
    /// What is kept of an object. A list is as large as its users like, so that of its JSON no more than a page is.
    type Kept: From<WatchedObject> + Send;
    /// These are all objects, as of this version or earlier ones.
    fn listed(&self, objects: Vec<Self::Kept>, version: u64);
    /// This object is new, or has changed.
    fn told(&self, object: WatchedObject);
    /// This object is deleted.
    fn deleted(&self, object: WatchedObject);
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
    let (mut failures, mut page) = (0_u32, PAGE);
    loop {
        let mut is_current = false;
        let ended = follow(&client, kind, watched, pulse, &mut page, &mut is_current).await;
        if is_current && std::mem::take(&mut failures) > 0 {
            tracing::info!("{} are watched again", kind.plural);
        }
        if let Err(error) = ended {
            if failures == 0 {
                tracing::warn!(
                    "cannot watch {}: {error}; trying again. Check that the apiserver is reachable, and that the account may list and watch them",
                    kind.plural
                );
            }
            failures = failures.saturating_add(1);
        }
        sleep(PAUSES.after(failures)).await;
    }
}

/// Lists, and watches until the version is too old for the apiserver, or something fails.
async fn follow(
    client: &Client,
    kind: Kind,
    watched: &impl Watched,
    pulse: &Pulse,
    page: &mut u32,
    is_current: &mut bool,
) -> Result<(), RequestError> {
    let (objects, version) = list(client, kind, page).await?;
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
        if began.elapsed() < PAUSES.after(0) {
            sleep(PAUSES.after(0)).await;
        }
    }
}

/// The result, if it comes within this time.
async fn within<T>(
    time: Duration,
    result: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    timeout(time, result).await.unwrap_or_else(|_| Err(late(time)))
}

fn late(time: Duration) -> RequestError {
    RequestError::Failed(format!("nothing came from the apiserver for {} s", time.as_secs()))
}

/// All objects, in pages of at most `page` objects, which becomes smaller when a page is too large or late, so that a list that
/// failed is not requested in the same way again.
async fn list<K: From<WatchedObject>>(
    client: &Client,
    kind: Kind,
    page: &mut u32,
) -> Result<(Vec<K>, String), RequestError> {
    let (mut objects, mut token) = (Vec::new(), String::new());
    loop {
        let mut params = ListParams::default().limit(*page);
        if !token.is_empty() {
            params = params.continue_token(&token);
        }
        let asked = Instant::now();
        let json = read(client, Request::new(kind.path).list(&params), LARGEST_PAGE);
        let json = match (timeout(LISTED_WITHIN, json).await, *page) {
            (Ok(Err(RequestError::TooLarge(_))), 2..) => {
                *page /= 2;
                continue;
            }
            (Ok(json), _) => json?,
            (Err(_), _) => {
                *page = (*page / 2).max(1);
                return Err(late(LISTED_WITHIN));
            }
        };
        let Page { metadata, items } = parsed(&json)?;
        for item in items.unwrap_or_default() {
            objects.push(item.object()?.into());
        }
        if json.len() < SMALL_PAGE && asked.elapsed() < EARLY {
            *page = (*page * 2).min(PAGE);
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

    fn object(&self) -> Result<WatchedObject, RequestError> {
        let HeadMetadata { name, resource_version } = self.head()?;
        let version = resource_version.parse().unwrap_or_default();
        Ok(WatchedObject { name, version, json: self.0.get().as_bytes().to_vec() })
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
        type Kept = WatchedObject;

        fn listed(&self, objects: Vec<WatchedObject>, _: u64) {
            for object in &objects {
                self.push("listed", &object.name);
            }
        }

        fn told(&self, object: WatchedObject) {
            self.push("told", &object.name);
        }

        fn deleted(&self, object: WatchedObject) {
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
    /// A list of this many objects, of which each has this many bytes more, and takes this time. With the limits of all requests.
    fn in_pages(count: u32, bytes: usize, each: Duration) -> (Client, Arc<Mutex<Vec<u32>>>) {
        let asked = Arc::<Mutex<Vec<u32>>>::default();
        let pages = Arc::clone(&asked);
        let answer = move |request: Asked<Body>| {
            let query = request.uri().query().unwrap().to_owned();
            let number = |name: &str| {
                query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix(name))
                    .map(|number| number.parse::<u32>().unwrap())
            };
            let (limit, from) = (number("limit=").unwrap(), number("continue=").unwrap_or(0));
            pages.lock().unwrap().push(limit);
            let to = (from + limit).min(count);
            let pad = "x".repeat(bytes);
            let item = |number| {
                format!(r#"{{"metadata":{{"name":"{number}","resourceVersion":"1"}},"pad":"{pad}"}}"#)
            };
            let next = if to < count { to.to_string() } else { String::new() };
            let items: Vec<_> = (from..to).map(item).collect();
            let metadata = format!(r#"{{"resourceVersion":"7","continue":"{next}"}}"#);
            let page = format!(r#"{{"metadata":{metadata},"items":[{}]}}"#, items.join(","));
            async move {
                sleep(each * limit).await;
                Ok::<_, std::io::Error>(Response::new(Body::from(page.into_bytes())))
            }
        };
        (Client::new(tower::service_fn(answer), "default"), asked)
    }

    const PODS: Kind = Kind { path: "/api/v1/pods", plural: "pods" };

    /// All that is kept of an object in these tests.
    struct Name(String);

    impl From<WatchedObject> for Name {
        fn from(object: WatchedObject) -> Self {
            Self(object.name)
        }
    }

    #[tokio::test]
    async fn large_objects_come_in_small_pages_and_later_ones_in_larger() {
        let (client, asked) = in_pages(40, 1 << 20, Duration::ZERO);
        let mut page = PAGE;
        let (objects, version) = list::<Name>(&client, PODS, &mut page).await.unwrap();
        let names: Vec<_> = objects.into_iter().map(|Name(name)| name).collect();
        assert_eq!((names, &*version), ((0..40).map(|number| number.to_string()).collect(), "7"));
        assert_eq!(*asked.lock().unwrap(), [100, 50, 25, 12, 12, 12, 12]);
        let (small, asked) = in_pages(40, 10, Duration::ZERO);
        list::<Name>(&small, PODS, &mut page).await.unwrap();
        assert_eq!(*asked.lock().unwrap(), [12, 24, 48]);
        let (huge, asked) = in_pages(2, LARGEST_PAGE, Duration::ZERO);
        let refused = list::<Name>(&huge, PODS, &mut page).await.err();
        assert_eq!(
            (refused, asked.lock().unwrap().last()),
            (Some(RequestError::TooLarge(LARGEST_PAGE)), Some(&1))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_late_page_a_smaller_one_is_requested() {
        let (client, asked) = in_pages(120, 10, Duration::from_millis(200));
        let mut page = PAGE;
        assert_eq!(list::<Name>(&client, PODS, &mut page).await.err(), Some(late(LISTED_WITHIN)));
        list::<Name>(&client, PODS, &mut page).await.unwrap();
        assert_eq!(*asked.lock().unwrap(), [100, 50, 50, 50]);
    }
}
