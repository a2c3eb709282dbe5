//! One watch: lists the objects, then applies changes, and pauses after each failure.
//!
//! Mirrors client-go's `Reflector`. A watch that ends or breaks after a second or after an event continues from its
//! position; an earlier end is a failure. After a failure the watch continues, a few times, if its position is still
//! valid; otherwise it lists again. Pauses are reset only after a watch that has lasted.

use std::{convert::Infallible, pin::pin, time::Duration};

use extender_apiserver::{RequestError, bounded, read, send};
use extender_gateway_pace::rate_limited_log::RateLimitedLog;
use kube::{
    Client, Resource,
    api::{ListParams, WatchParams},
    core::Request,
};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    WatchedTable,
    answer::{EventStatus, Page, WatchEvent, parse, reported, unreadable, version},
    lines::{self, Lines, Received},
    state::{Pauses, WatchErrorCause, WatchState},
};

use crate::{head::ObjectHead, unreadable::ObjectName};

/// Objects per page of a list. Mirrors client-go.
const PAGE: u32 = 500;

/// The largest page in bytes: several times the largest object that etcd stores. If users' objects make a page larger,
/// the rest of the list is requested in smaller pages, and the next list begins with these.
const LARGEST_PAGE: usize = 64 << 20;

/// After a page that is smaller than this, the next one has twice as many objects.
const SMALL_PAGE: usize = LARGEST_PAGE / 16;

/// The largest list without pages, in bytes. It is requested only after a continue token has expired.
const LARGEST_LIST: usize = 1 << 30;

/// How long the apiserver keeps a watch open, in seconds. It ends with a bookmark, from which the next watch continues;
/// without this end, the connection is dead.
const HELD_OPEN: u32 = 60;

/// A watch that ends earlier without an event has failed; one that lasts longer works, even if nothing changes. Also the
/// minimum time between the beginnings of two watches.
const SHORT: Duration = Duration::from_secs(1);

/// A watch that lasts this long resets the pauses.
const LASTING: Duration = Duration::from_secs(30);

/// The number of consecutive failures after which the objects are listed again: lists may work when watches do not.
const ATTEMPTS: u32 = 3;

/// Keeps a table up to date.
pub(super) struct Watcher<'t, T> {
    table: &'t T,
    client: Client,
    requests: Request,
    pauses: Pauses,
    /// The resource version from which the watch continues; `None` if the objects must be listed.
    position: Option<String>,
    /// Whether a watch has worked since the last list.
    worked: bool,
    /// Failures since the last list, or since a watch worked.
    failures: u32,
    state: WatchState,
    unreadable: RateLimitedLog,
    /// The smallest page that the latest list needed, in objects.
    page: u32,
}

impl<'t, T: WatchedTable> Watcher<'t, T> {
    pub(super) fn new(table: &'t T, client: Client, pauses: Pauses) -> Self {
        Self {
            table,
            client,
            requests: Request::new(T::Kind::url_path(&(), None)),
            pauses,
            position: None,
            worked: false,
            failures: 0,
            state: WatchState::default(),
            unreadable: RateLimitedLog::default(),
            page: PAGE,
        }
    }

    /// Makes the watch list all objects before it continues.
    pub(super) fn list_again(&mut self) {
        self.position = None;
    }

    /// Keeps the table up to date. Cancel safe.
    pub(super) async fn run(&mut self) -> Infallible {
        loop {
            if let Err(error) = self.list_and_watch().await {
                self.failed(&error);
                sleep(self.pauses.after(&error)).await;
            }
        }
    }

    /// Lists, and applies what a watch sends until it ends.
    pub(super) async fn once(&mut self) -> Result<(), RequestError> {
        let position = self.list().await?;
        let body = send(&self.client, self.requests.watch(&WatchParams::default(), &position)).await?;
        self.follow(Lines::new(body), Instant::now()).await
    }

    async fn list_and_watch(&mut self) -> Result<(), RequestError> {
        let position = match self.position.clone() {
            Some(position) => position,
            None => self.list().await?,
        };
        self.watch(&position).await
    }

    /// Replaces the objects of the table; returns the resource version of the list.
    pub(super) async fn list(&mut self) -> Result<String, RequestError> {
        (self.worked, self.failures) = (false, 0);
        let (mut list, mut unreadable) = (self.table.begin(), Vec::new());
        // The objects may have become smaller.
        let mut smallest = self.page.saturating_mul(2).min(PAGE);
        let mut params = ListParams {
            limit: Some(self.page),
            field_selector: T::FIELDS.map(str::to_owned),
            ..ListParams::default()
        };
        let version = loop {
            let largest = params.limit.map_or(LARGEST_LIST, |_| LARGEST_PAGE);
            let json = match (read(&self.client, self.requests.list(&params), largest).await, params.limit) {
                (Err(RequestError::TooLarge(_)), Some(limit @ 2..)) => {
                    params.limit = Some(limit / 2);
                    smallest = smallest.min(limit / 2);
                    continue;
                }
                // Mirrors `FullListIfExpired` of client-go's pager.
                (Err(error), _) if error.code() == Some(410) && params.continue_token.take().is_some() => {
                    (params.limit, list) = (None, self.table.begin());
                    unreadable.clear();
                    continue;
                }
                (answer, _) => answer?,
            };
            let Page { metadata, items } = parse(&json, "list")?;
            for object in items.into_iter().flatten().map(|object| object.get().as_bytes()) {
                if let Err(error) = T::add(&mut list, object) {
                    let head = ObjectHead::of(object);
                    T::keep(&mut list, &head);
                    let (object, error) = (head.object(T::KIND), bounded(&error.to_string()));
                    self.log_unreadable(&object, &error);
                    unreadable.push((object, error));
                }
            }
            if json.len() < SMALL_PAGE {
                params.limit = params.limit.map(|limit| (limit * 2).min(PAGE));
            }
            match metadata.r#continue.filter(|next| !next.is_empty()) {
                Some(next) => params.continue_token = Some(next),
                None => break version(metadata.resource_version)?,
            }
        };
        self.page = smallest;
        self.table.unreadable().replace(unreadable);
        self.table.replace(list);
        self.table.source_health().received();
        self.table.source_health().advanced_to(&version);
        if self.state.set_listed() {
            tracing::info!(known = self.table.count(), "listed all {}; watching for changes", T::OBJECTS);
        }
        self.position = Some(version.clone());
        Ok(version)
    }

    /// Watches from this position, until the watch ends or fails.
    async fn watch(&mut self, position: &str) -> Result<(), RequestError> {
        let params = WatchParams {
            timeout: Some(HELD_OPEN),
            field_selector: T::FIELDS.map(str::to_owned),
            ..WatchParams::default()
        };
        let body = send(&self.client, self.requests.watch(&params, position)).await?;
        let opened = Instant::now();
        let ended = self.follow(Lines::new(body), opened).await;
        if opened.elapsed() >= LASTING {
            self.pauses.reset();
        }
        ended?;
        // Avoids a tight loop if each watch ends after its first event.
        sleep_until(opened + SHORT).await;
        Ok(())
    }

    /// Applies changes until the watch ends.
    pub(super) async fn follow(&mut self, mut lines: Lines, opened: Instant) -> Result<(), RequestError> {
        let mut short = pin!(sleep_until(opened + SHORT));
        let mut works = false;
        loop {
            let received = tokio::select! {
                biased;
                () = &mut short, if !short.is_elapsed() => {
                    works = true;
                    self.note_working();
                    continue;
                }
                received = lines.next() => received,
            };
            match received {
                Received::Line(line) => {
                    self.apply(&line)?;
                    works = true;
                }
                Received::TooLong(beginning) => {
                    self.skip(&beginning);
                    works = true;
                }
                Received::End(reason) if works => {
                    tracing::debug!(reason, "watch of {} ended; continuing", T::OBJECTS);
                    return Ok(());
                }
                Received::End(reason) => {
                    return Err(RequestError::Failed(format!(
                        "{reason} (in less than a second, without an event)"
                    )));
                }
            }
        }
    }

    /// Applies an event. An object that cannot be read costs itself; after a line that is no event, the objects must be
    /// listed.
    fn apply(&mut self, line: &[u8]) -> Result<(), RequestError> {
        let position = self.position.take();
        let WatchEvent { r#type, object } = parse(line, "watch")?;
        let head = ObjectHead::of(object.get().as_bytes());
        let mut is_rejected = false;
        match &*r#type {
            "ADDED" | "MODIFIED" => {
                if let Err(error) = self.table.apply(object.get().as_bytes()) {
                    self.reject(&head, &bounded(&error.to_string()));
                    is_rejected = true;
                }
            }
            "DELETED" => self.table.remove(&head),
            "BOOKMARK" => {}
            "ERROR" => {
                self.position = position;
                let EventStatus { code, message } = serde_json::from_str(object.get()).unwrap_or_default();
                return Err(RequestError::Refused { code, message: reported(code, &message) });
            }
            other => return Err(unreadable("watch", &format!("it has an event of type {other:?}"))),
        }
        self.position = match (head.resource_version, is_rejected) {
            // What cannot be read may have lost its version, too.
            (version, true) if version.is_empty() => position,
            (version, _) => Some(self::version(version)?),
        };
        self.advanced();
        self.note_working();
        Ok(())
    }

    /// Skips an event that is too long to be read.
    fn skip(&mut self, beginning: &[u8]) {
        let (kind, head) = ObjectHead::of_event(beginning);
        if kind == "DELETED" {
            self.table.remove(&head);
        } else {
            self.reject(&head, &format!("its JSON has more than {} MiB", lines::LONGEST >> 20));
        }
        if !head.resource_version.is_empty() {
            self.position = Some(head.resource_version);
        }
        self.advanced();
        self.note_working();
    }

    /// The table has everything up to this position.
    fn advanced(&self) {
        if let Some(position) = &self.position {
            self.table.source_health().advanced_to(position);
        }
    }

    fn reject(&self, head: &ObjectHead, error: &str) {
        let object = head.object(T::KIND);
        self.log_unreadable(&object, error);
        self.table.reject(object, error);
    }

    fn log_unreadable(&self, object: &ObjectName, error: &str) {
        if let Some(similar) = self.unreadable.permit() {
            tracing::warn!(
                object = object.words(),
                error,
                similar,
                "an object from the apiserver cannot be read and is left out; the others are used. Look at the object, \
                 and correct or delete it"
            );
        }
    }

    /// Records that the watch works: changes would arrive.
    fn note_working(&mut self) {
        (self.worked, self.failures) = (true, 0);
        self.table.source_health().recovered();
        if self.state.set_watching() {
            tracing::info!(known = self.table.count(), "watch of {} recovered", T::OBJECTS);
        }
    }

    /// Records a failure.
    fn failed(&mut self, error: &RequestError) {
        self.judge_position(error);
        if error.code() == Some(410) && self.worked {
            // A valid position has expired; the objects are listed again.
            return;
        }
        self.table.source_health().refused(error);
        if let Some(cause) = self.state.set_failed(WatchErrorCause::of(error)) {
            let (known, error, objects) = (self.table.count(), error.to_string(), T::OBJECTS);
            let remedy = cause.remedy(objects);
            tracing::warn!(known, error, "cannot watch {objects}; the last known ones stay in use. {remedy}");
        }
    }

    /// Drops the position if the watch cannot continue from it after this failure.
    fn judge_position(&mut self, error: &RequestError) {
        match (error, error.code()) {
            (RequestError::Unreachable(_), _) | (_, Some(429)) => {}
            // The position may be the cause.
            (_, Some(..500)) => self.position = None,
            _ => {
                self.failures += 1;
                self.position.take_if(|_| self.failures >= ATTEMPTS);
            }
        }
    }
}
