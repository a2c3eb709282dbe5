//! One watch: lists the objects, then takes the changes, and pauses after each failure.
//!
//! Mirrors client-go's `Reflector`. After any error of the stream the stream is dropped; the watch continues where
//! it was if the place is still good, and lists again if not. A watch that ends within a second is a failure.
//! Pauses become shorter again only after a watch has lasted.

use std::{borrow::Cow, convert::Infallible, pin::pin, time::Duration};

use extender_apiserver::{RequestError, read, send};
use kube::{
    Client, Resource,
    api::{ListParams, WatchParams},
    core::Request,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep};

use super::{
    backoff::Backoff,
    lines::Lines,
    sink::{HeadMeta, Sink},
    state::{Notice, WatchState},
};
use crate::{object::ObjectError, observe::RateLimitedLog};

/// How many objects of a list are requested at once. Mirrors client-go.
const PAGE: u32 = 500;

/// The most bytes of a page: as many of the largest objects that etcd stores, so that nobody who creates such objects
/// can stop the watch.
const LARGEST_PAGE: usize = 1 << 30;

/// How long the apiserver holds a watch open, in seconds. It ends one with a bookmark, from which the next continues;
/// where even that end does not come, the connection is dead.
const HELD_OPEN: u32 = 60;

/// A watch that ends sooner is a failure, and one that lasts longer works, even if nothing changes.
const SHORT: Duration = Duration::from_secs(1);

/// After a watch that lasted so long, the next pause is the first one again.
const LASTING: Duration = Duration::from_secs(30);

/// Keeps a sink up to date.
pub(super) struct Watcher<'s, S> {
    sink: &'s S,
    client: Client,
    requests: Request,
    backoff: Backoff,
    /// The resource version after which the watch continues; `None` where the objects have to be listed.
    position: Option<String>,
    state: WatchState,
    unreadable: RateLimitedLog,
}

/// A page of a list.
#[derive(Deserialize)]
struct Page<'a> {
    metadata: ListMeta,
    /// Required, though it may be null.
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    r#continue: Option<String>,
}

/// A line of a watch.
#[derive(Deserialize)]
struct WatchEvent<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// What the watcher reads of an object; the sink reads the rest.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectHead {
    metadata: HeadMeta,
    /// Of a `Status` in an error event.
    code: u16,
    message: String,
}

impl<'s, S: Sink> Watcher<'s, S> {
    pub(super) fn new(sink: &'s S, client: Client, backoff: Backoff) -> Self {
        Self {
            sink,
            client,
            requests: Request::new(S::Kind::url_path(&(), None)),
            backoff,
            position: None,
            state: WatchState::default(),
            unreadable: RateLimitedLog::default(),
        }
    }

    /// Lists all objects before the watch continues.
    pub(super) fn list_again(&mut self) {
        self.position = None;
    }

    /// Keeps the sink up to date. May be dropped and called again.
    pub(super) async fn run(&mut self) -> Infallible {
        loop {
            if let Err(error) = self.list_and_watch().await {
                self.failed(&error);
                sleep(self.backoff.pause()).await;
            }
        }
    }

    async fn list_and_watch(&mut self) -> Result<(), RequestError> {
        let position = match self.position.take() {
            Some(position) => position,
            None => self.list().await?,
        };
        self.watch(position).await
    }

    /// Replaces what the sink has; returns the resource version of the list.
    async fn list(&mut self) -> Result<String, RequestError> {
        let mut list = self.sink.begin();
        let mut params = ListParams {
            limit: Some(PAGE),
            field_selector: S::FIELDS.map(str::to_owned),
            ..ListParams::default()
        };
        let version = loop {
            let json = read(&self.client, self.requests.list(&params), LARGEST_PAGE).await?;
            let Page { metadata, items } = parse(&json, "list")?;
            for object in items.into_iter().flatten() {
                self.report(object, S::add(&mut list, object.get().as_bytes()));
            }
            match metadata.r#continue.filter(|next| !next.is_empty()) {
                Some(next) => params.continue_token = Some(next),
                None => break version(metadata.resource_version)?,
            }
        };
        self.sink.replace(list);
        self.sink.source_health().received();
        let notice = self.state.listed();
        self.log(notice);
        Ok(version)
    }

    async fn watch(&mut self, position: String) -> Result<(), RequestError> {
        let params = WatchParams {
            timeout: Some(HELD_OPEN),
            field_selector: S::FIELDS.map(str::to_owned),
            ..WatchParams::default()
        };
        let opened = send(&self.client, self.requests.watch(&params, &position)).await;
        // Of any other answer the place may be the cause.
        if !matches!(&opened, Err(RequestError::Refused { code, .. }) if *code < 500 && *code != 429) {
            self.position = Some(position);
        }
        let (mut lines, opened) = (Lines::new(opened?), Instant::now());
        let mut short = pin!(sleep(SHORT));
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                () = &mut short, if !short.is_elapsed() => {
                    self.works();
                    continue;
                }
            };
            match line {
                Ok(Some(line)) => self.take(&line)?,
                Ok(None) if opened.elapsed() < SHORT => {
                    return Err(RequestError::Failed("the watch ended at once".to_owned()));
                }
                ended => {
                    if opened.elapsed() >= LASTING {
                        self.backoff.reset();
                    }
                    return ended.map(drop);
                }
            }
        }
    }

    /// Takes a change. After an error the objects have to be listed.
    fn take(&mut self, line: &[u8]) -> Result<(), RequestError> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.position = None;
        let WatchEvent { r#type, object } = parse(line, "watch")?;
        let ObjectHead { metadata, code, message } = parse(object.get().as_bytes(), "watch")?;
        match &*r#type {
            "ADDED" | "MODIFIED" => self.report(object, self.sink.apply(object.get().as_bytes())),
            "DELETED" => self.sink.remove(&metadata),
            "BOOKMARK" => {}
            "ERROR" => return Err(RequestError::Refused { code, message }),
            other => return Err(unreadable("watch", &format!("it has an event of type {other:?}"))),
        }
        self.position = Some(version(metadata.resource_version)?);
        self.works();
        Ok(())
    }

    /// An object that cannot be read is left as it was known, or left out.
    fn report(&self, object: &RawValue, read: Result<(), ObjectError>) {
        let Err(error) = read else { return };
        let Some(similar) = self.unreadable.turn() else { return };
        let head: ObjectHead = serde_json::from_str(object.get()).unwrap_or_default();
        let (name, objects) = (&*head.metadata.name, S::OBJECTS);
        tracing::warn!(name, %error, similar, "one of the {objects} from the apiserver cannot be read and is ignored");
    }

    /// The watch is open, and changes would arrive.
    fn works(&mut self) {
        self.sink.source_health().recovered();
        let notice = self.state.watching();
        self.log(notice);
    }

    /// A place that the apiserver has forgotten is no failure: the objects are listed again.
    fn failed(&mut self, error: &RequestError) {
        if error.code() == Some(410) {
            self.position = None;
            return;
        }
        self.sink.source_health().failed(|| error.to_string());
        let notice = self.state.failed(error);
        self.log(notice);
    }

    fn log(&self, notice: Option<Notice>) {
        let Some(notice) = notice else { return };
        let (objects, known) = (S::OBJECTS, self.sink.count());
        match notice {
            Notice::Synced => tracing::info!(known, "listed all {objects}; watching for changes"),
            Notice::Recovered => tracing::info!(known, "watch of {objects} recovered"),
            Notice::Failed { error, cause } => {
                let remedy = cause.remedy(objects);
                tracing::warn!(
                    known,
                    error,
                    "cannot watch {objects}; the last known ones stay in use. {remedy}"
                );
            }
        }
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a [u8], what: &str) -> Result<T, RequestError> {
    serde_json::from_slice(json).map_err(|error| unreadable(what, &error.to_string()))
}

fn unreadable(what: &str, why: &str) -> RequestError {
    RequestError::Failed(format!("the {what} cannot be read: {why}"))
}

fn version(version: String) -> Result<String, RequestError> {
    if version.is_empty() { Err(unreadable("answer", "it has no resourceVersion")) } else { Ok(version) }
}
