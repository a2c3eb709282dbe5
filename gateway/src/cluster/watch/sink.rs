//! Where a watch puts what it hears: the one way in which every table is kept.

use std::pin::pin;

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::{watcher, watcher::Event};

use super::{
    raw_object::RawObject,
    state::{Notice, WatchState},
};
use crate::{
    cluster::{
        error_text::whole_text,
        pods::{self, PodTable},
        source_health::SourceHealth,
        table::{self, NodeTable},
    },
    object::ObjectError,
};

/// A table that a watch keeps.
pub(super) trait Sink {
    /// What it holds, in the plural, as the apiserver and the log call it.
    const OBJECTS: &'static str;
    /// Of which kind that is.
    type Kind;
    /// A list that is being collected.
    type List;

    /// Begins a list.
    fn begin(&self) -> Self::List;
    fn add(list: &mut Self::List, json: &[u8]) -> Result<(), ObjectError>;
    /// Takes exactly what the list holds.
    fn replace(&self, list: Self::List);
    fn apply(&self, json: &[u8]) -> Result<(), ObjectError>;
    fn remove(&self, object: &RawObject<Self::Kind>);
    /// How many objects are known.
    fn count(&self) -> usize;
    /// Where it says how its source is.
    fn source_health(&self) -> &SourceHealth;
}

impl Sink for NodeTable {
    const OBJECTS: &'static str = "nodes";
    type Kind = Node;
    type List = table::NodeRelist;

    fn begin(&self) -> Self::List {
        self.relist()
    }

    fn add(list: &mut Self::List, json: &[u8]) -> Result<(), ObjectError> {
        list.add(json).map(drop)
    }

    fn replace(&self, list: Self::List) {
        self.replace(list);
    }

    fn apply(&self, json: &[u8]) -> Result<(), ObjectError> {
        self.apply(json).map(drop)
    }

    fn remove(&self, object: &RawObject<Node>) {
        self.remove(object.name());
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn source_health(&self) -> &SourceHealth {
        &self.source_health
    }
}

impl Sink for PodTable {
    const OBJECTS: &'static str = "pods";
    type Kind = Pod;
    type List = pods::PodRelist;

    fn begin(&self) -> Self::List {
        pods::PodRelist::new()
    }

    fn add(list: &mut Self::List, json: &[u8]) -> Result<(), ObjectError> {
        list.add(json)
    }

    fn replace(&self, list: Self::List) {
        self.replace(list);
    }

    fn apply(&self, json: &[u8]) -> Result<(), ObjectError> {
        self.apply(json)
    }

    fn remove(&self, object: &RawObject<Pod>) {
        self.remove(object.uid());
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn source_health(&self) -> &SourceHealth {
        &self.source_health
    }
}

/// Keeps the table for as long as there are events.
pub(super) async fn feed<S: Sink>(
    sink: &S,
    events: impl Stream<Item = watcher::Result<Event<RawObject<S::Kind>>>>,
    standing: &mut WatchState,
) {
    let mut events = pin!(events);
    let mut list = sink.begin();
    while let Some(event) = events.next().await {
        let notice = match event {
            Ok(event) => {
                sink.source_health().received();
                let notice = standing.heard(&event);
                list = take(sink, list, &event);
                notice
            }
            Err(error) => {
                sink.source_health().failed(|| whole_text(&error));
                standing.failed(&error)
            }
        };
        log(notice, sink);
    }
}

/// Does what the event says; returns the list that is being collected.
fn take<S: Sink>(sink: &S, mut list: S::List, event: &Event<RawObject<S::Kind>>) -> S::List {
    match event {
        Event::Init => return sink.begin(),
        Event::InitApply(object) => report::<S>(object, S::add(&mut list, object.json())),
        Event::InitDone => {
            sink.replace(list);
            return sink.begin();
        }
        Event::Apply(object) => report::<S>(object, sink.apply(object.json())),
        Event::Delete(object) => sink.remove(object),
    }
    list
}

/// An object that cannot be read is left as it was known, or left out.
fn report<S: Sink>(object: &RawObject<S::Kind>, read: Result<(), ObjectError>) {
    if let Err(error) = read {
        let (name, objects) = (object.name(), S::OBJECTS);
        tracing::warn!(name, %error, "the apiserver sent one of the {objects} that cannot be read");
    }
}

fn log<S: Sink>(notice: Option<Notice>, sink: &S) {
    let Some(notice) = notice else { return };
    let (objects, known) = (S::OBJECTS, sink.count());
    match notice {
        Notice::Synced => tracing::info!(known, "all {objects} are known; watching {objects}"),
        Notice::Recovered => tracing::info!(known, "watching {objects} again"),
        Notice::Failed { error, cause } => {
            let remedy = cause.remedy(objects);
            tracing::warn!(known, error, "cannot watch {objects}; those known stay in use. {remedy}");
        }
    }
}
