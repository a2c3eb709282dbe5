//! One watch: lists the objects, then takes the changes, and pauses after each failure.
//!
//! Mirrors client-go's `Reflector`. A watch that ends or breaks after a second or an event continues where it was;
//! anything sooner is a failure. After a failure the watch continues if its position is still good, a few times, and
//! lists again if not. Pauses become shorter again only after a watch has lasted.

use std::{borrow::Cow, convert::Infallible, pin::pin, time::Duration};

use extender_apiserver::{RequestError, bounded, read, send};
use kube::{
    Client, Resource,
    api::{ListParams, WatchParams},
    core::Request,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    backoff::Backoff,
    lines::{Lines, Received},
    sink::{HeadMeta, Sink},
    state::{Notice, WatchState},
};
use crate::{object::ObjectError, observe::RateLimitedLog};

/// How many objects of a list are requested at once. Mirrors client-go.
const PAGE: u32 = 500;

/// The most bytes of a page, and several times those of the largest object that etcd stores. Objects of tenants can
/// make a page larger; the rest of the list is then requested in smaller pages.
const LARGEST_PAGE: usize = 64 << 20;

/// The most bytes of a list without pages, which is requested only after a continue token has expired.
const LARGEST_LIST: usize = 1 << 30;

/// How long the apiserver holds a watch open, in seconds. It ends one with a bookmark, from which the next continues;
/// where even that end does not come, the connection is dead.
const HELD_OPEN: u32 = 60;

/// A watch that ends sooner without an event is a failure, and one that lasts longer works, even if nothing changes.
/// Watches are opened at most this often.
const SHORT: Duration = Duration::from_secs(1);

/// After a watch that lasted so long, the next pause is the first one again.
const LASTING: Duration = Duration::from_secs(30);

/// How often in a row a watch from the same position may fail before the objects are listed again: lists may work where
/// watches do not.
const ATTEMPTS: u32 = 3;

/// Keeps a sink up to date.
pub(super) struct Watcher<'s, S> {
    sink: &'s S,
    client: Client,
    requests: Request,
    backoff: Backoff,
    /// The resource version after which the watch continues; `None` where the objects have to be listed.
    position: Option<String>,
    /// A watch has worked since the last list.
    worked: bool,
    /// Failures since the last list or since a watch worked.
    failures: u32,
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
            worked: false,
            failures: 0,
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
        let position = match self.position.clone() {
            Some(position) => position,
            None => self.list().await?,
        };
        self.watch(&position).await
    }

    /// Replaces what the sink has; returns the resource version of the list.
    async fn list(&mut self) -> Result<String, RequestError> {
        (self.worked, self.failures) = (false, 0);
        let mut list = self.sink.begin();
        let mut params = ListParams {
            limit: Some(PAGE),
            field_selector: S::FIELDS.map(str::to_owned),
            ..ListParams::default()
        };
        let version = loop {
            let largest = params.limit.map_or(LARGEST_LIST, |_| LARGEST_PAGE);
            let json = match (read(&self.client, self.requests.list(&params), largest).await, params.limit) {
                (Err(RequestError::TooLarge(_)), Some(limit @ 2..)) => {
                    params.limit = Some(limit / 2);
                    continue;
                }
                // Mirrors `FullListIfExpired` of client-go's pager.
                (Err(error), _) if error.code() == Some(410) && params.continue_token.take().is_some() => {
                    (params.limit, list) = (None, self.sink.begin());
                    continue;
                }
                (answer, _) => answer?,
            };
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
        self.position = Some(version.clone());
        Ok(version)
    }

    /// Watches from this position, until the watch ends or fails.
    async fn watch(&mut self, position: &str) -> Result<(), RequestError> {
        let params = WatchParams {
            timeout: Some(HELD_OPEN),
            field_selector: S::FIELDS.map(str::to_owned),
            ..WatchParams::default()
        };
        let body = send(&self.client, self.requests.watch(&params, position)).await?;
        let opened = Instant::now();
        let ended = self.follow(Lines::new(body), opened).await;
        if opened.elapsed() >= LASTING {
            self.backoff.reset();
        }
        ended?;
        // Not in a tight loop, whatever ends each watch after its first event.
        sleep_until(opened + SHORT).await;
        Ok(())
    }

    /// Takes the changes until the watch ends.
    async fn follow(&mut self, mut lines: Lines, opened: Instant) -> Result<(), RequestError> {
        let mut short = pin!(sleep_until(opened + SHORT));
        let mut works = false;
        loop {
            let received = tokio::select! {
                biased;
                () = &mut short, if !short.is_elapsed() => {
                    works = true;
                    self.works();
                    continue;
                }
                received = lines.next() => received,
            };
            match received {
                Ok(Received::Line(line)) => {
                    self.take(&line)?;
                    works = true;
                }
                Ok(Received::End(reason)) if works => {
                    tracing::debug!(reason, "watch of {} ended; continuing", S::OBJECTS);
                    return Ok(());
                }
                Ok(Received::End(reason)) => {
                    return Err(RequestError::Failed(format!(
                        "{reason} (in less than a second, without an event)"
                    )));
                }
                Err(too_long) => {
                    self.position = None;
                    return Err(too_long);
                }
            }
        }
    }

    /// Takes a change. After a line that cannot be read the objects have to be listed.
    fn take(&mut self, line: &[u8]) -> Result<(), RequestError> {
        let position = self.position.take();
        let WatchEvent { r#type, object } = parse(line, "watch")?;
        let ObjectHead { metadata, code, message } = parse(object.get().as_bytes(), "watch")?;
        match &*r#type {
            "ADDED" | "MODIFIED" => self.report(object, self.sink.apply(object.get().as_bytes())),
            "DELETED" => self.sink.remove(&metadata),
            "BOOKMARK" => {}
            "ERROR" => {
                self.position = position;
                return Err(RequestError::Refused { code, message: bounded(&message) });
            }
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
        (self.worked, self.failures) = (true, 0);
        self.sink.source_health().recovered();
        let notice = self.state.watching();
        self.log(notice);
    }

    /// Records a failure.
    fn failed(&mut self, error: &RequestError) {
        if !self.position_survives(error) {
            self.position = None;
        }
        if error.code() == Some(410) && self.worked {
            // It was good and has expired since then; the objects are listed again.
            return;
        }
        self.sink.source_health().failed(error.to_string());
        let notice = self.state.failed(error);
        self.log(notice);
    }

    /// Whether the watch can continue where it was after this failure.
    fn position_survives(&mut self, error: &RequestError) -> bool {
        match (error, error.code()) {
            (RequestError::Unreachable(_), _) | (_, Some(429)) => true,
            // The position may be the cause.
            (_, Some(..500)) => false,
            _ => {
                self.failures += 1;
                self.failures < ATTEMPTS
            }
        }
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
    RequestError::Failed(format!("the {what} cannot be read: {}", bounded(why)))
}

fn version(version: String) -> Result<String, RequestError> {
    if version.is_empty() { Err(unreadable("answer", "it has no resourceVersion")) } else { Ok(version) }
}
