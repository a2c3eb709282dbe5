//! Reserves room on nodes for pods that come later.
//!
//! A Reservation is scheduled by kube-scheduler like a pod: the [`controller`] creates a [`placeholder`] pod, and when that
//! one is to be bound, [`bind`] writes its node and requests into the Reservation's status and deletes it. From then on the
//! policy tells others that the room is used: a hook adds what is reserved to the usage of the node, except for the
//! reservation that serves the pod of the call. Whatever filters by usage, such as [`node_resources`](crate::node_resources),
//! then rejects other pods and accepts owners, while nothing runs on the node and kube-scheduler's own filter counts the room
//! as free.
//!
//! [`room`] is the arithmetic, [`amounts`] are resources, [`owners`] the rules of who owns a reservation, [`affinity`] what else decides which one a pod gets, [`object`] the API
//! object, [`store`] what a replica knows, [`claims`] how it writes which pods have room, [`shown`] what people see of it, [`mod@watch`] how it comes to know it, [`cluster`] the requests to the apiserver.

mod affinity;
mod amounts;
mod bind;
mod claims;
mod cluster;
mod controller;
mod object;
mod owners;
mod placeholder;
mod recorded;
mod room;
mod shown;
mod store;
mod template;
mod watch;

use std::{convert::Infallible, fmt, ops::Deref, sync::Arc};

use extender_policy_controllers::Controllers;
use extender_policy_sdk::{
    Bind, BindAsk, BoxFuture, Change, Hook, Info, Introspect, IntrospectError, Node, NodeChange, NodePart,
    NodeUsage, Nodes, NonZero, NotReady, Pod, PodPart, Policy, Reads, Resources, Scale, Unanswered, Verb,
    Verdict, View,
};
use jiff::Timestamp;
use kube::Client;

use self::{
    bind::{Binder, reservation_of},
    cluster::Cluster,
    controller::Controller,
    owners::Asking,
    room::{Held, held},
    store::{Known, Store},
    watch::{Kind, watch},
};

/// The score of a node where the pod owns a reservation with room that no pod uses yet.
const LEAST_SCORE: i32 = 60;
/// The score of one that is nearly used up, or where the pod has its part already. Reservations are filled one after the
/// other, so that the others keep room for large pods.
const SCORE: i32 = 100;
/// The reservations that a reason names.
const NAMED: usize = 3;
/// What the contract allows of all changes of a call: this many entries, and [`ENTRIES_A_NODE`] for each node.
const ENTRIES: usize = 4_096;
const ENTRIES_A_NODE: usize = 4;

/// Tells the time. Tests have their own.
#[derive(Clone)]
struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Deref for Clock {
    type Target = dyn Fn() -> Timestamp + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// The policy. It takes no args.
#[derive(Debug)]
pub struct Reservations {
    name: String,
    store: Arc<Store>,
    clock: Clock,
    binder: Binder,
}

/// Keeps the Reservations of a policy up to date, and adds the controller to a backend.
#[derive(Clone, Debug)]
pub struct Upkeep {
    store: Arc<Store>,
    clock: Clock,
}

impl Reservations {
    /// A policy with the name `name`, 1 to 63 bytes. It is not ready before [`Upkeep::watch`] has listed the Reservations.
    pub fn new(name: &str, client: Client) -> (Self, Upkeep) {
        Self::with_clock(name, client, Clock(Arc::new(Timestamp::now)))
    }

    fn with_clock(name: &str, client: Client, clock: Clock) -> (Self, Upkeep) {
        let store = Arc::<Store>::default();
        let cluster = Cluster::new(client);
        let binder =
            Binder::new(claims::Objects { store: Arc::clone(&store), cluster, clock: clock.clone() });
        let upkeep = Upkeep { store: Arc::clone(&store), clock: clock.clone() };
        (Self { name: name.to_owned(), store, clock, binder }, upkeep)
    }
}

impl Upkeep {
    /// Watches Reservations. In every replica, as long as the policy is served.
    pub async fn watch(&self, client: Client) -> Infallible {
        watch(client, Kind { path: object::PATH, plural: "reservations" }, &*self.store).await
    }

    /// Adds the controller that creates placeholder pods and removes what is over. Their containers have this image, which
    /// does nothing.
    pub fn controlled_by(self, controllers: Controllers, image: String) -> Controllers {
        let Self { store, clock } = self;
        controllers.runs("reservations", move |leading| {
            let cluster = Cluster::new(leading.client().clone());
            let controller = Controller::new(Arc::clone(&store), cluster, clock.clone(), image.clone());
            async move { controller.run(leading.client().clone()).await }
        })
    }
}

/// What hook, score and bind read of the pod.
fn reads() -> Reads {
    let mut reads = Reads::new();
    reads.pod(PodPart::Namespace).pod(PodPart::Owner).pod(PodPart::Requests).pod(PodPart::Identity);
    reads.pod_labels("");
    reads.pod_annotation(affinity::ANNOTATION);
    reads
}

/// The pod, unless it is a placeholder, which owns nothing.
fn asking<'p>(pod: &Pod<'p>) -> Option<Asking<'p>> {
    reservation_of(pod.owner()).is_none().then(|| Asking::new(pod))
}

/// What is added to the usage of a node.
fn change(held: Held<'_>, requests: &Resources, entries: usize) -> NodeChange {
    let Held { mut resources, by } = held;
    if by.is_empty() {
        return NodeChange::none();
    }
    // Filters look at what the pod requests; the rest could be more than a hook may say.
    resources.others.retain(|name, _| requests.others.contains_key(name));
    resources.others = resources.others.into_iter().take(entries).collect();
    // Each reservation also keeps a place for a pod.
    resources.pods = i64::try_from(by.len()).unwrap_or(i64::MAX);
    let nonzero = NonZero { milli_cpu: resources.milli_cpu, memory: resources.memory };
    NodeChange::none()
        .add_usage(NodeUsage { requested: Some(resources), nonzero: Some(nonzero) })
        .reason(reason(&by))
}

fn reason(by: &[&str]) -> String {
    let named = by[..by.len().min(NAMED)].join(", ");
    match by.len().saturating_sub(NAMED) {
        0 => format!("reserved by {named}"),
        more => format!("reserved by {more} more than {named}"),
    }
}

impl Reservations {
    /// Rejects nodes without a reservation that the pod requires.
    fn required_on(&self, known: &Known, pod: &Asking<'_>, node: &str) -> Verdict {
        if let Some(wrong) = pod.wrong_affinity() {
            return Verdict::reject(wrong.to_owned());
        }
        match room::chosen(known.on(node), pod, (self.clock)()) {
            Some(_) => Verdict::Accept,
            None => Verdict::reject("no reservation that the pod requires has room for it"),
        }
    }

    fn score_on(&self, known: &Known, pod: Option<&Asking<'_>>, node: &str) -> i32 {
        let Some(pod) = pod else { return 0 };
        let Some(chosen) = room::chosen(known.on(node), pod, (self.clock)()) else { return 0 };
        let percent = if chosen.room.claim(pod.uid).is_some() { 100 } else { chosen.used_percent() };
        LEAST_SCORE + (SCORE - LEAST_SCORE) * percent / 100
    }
}

impl Policy for Reservations {
    fn info(&self) -> Info {
        let mut reads = reads();
        let bind_reads = reads.clone();
        reads.node(NodePart::Name);
        let hook = Hook::changing([Change::NodeUsage]).view(View::Name).reads(&reads);
        let score = Verb::per_node().view(View::Name).reads(&reads);
        Info::new(&self.name, env!("CARGO_PKG_VERSION"))
            .before_filter_nodes(hook)
            .filters(score.clone())
            .scores(score, Scale::between(0..=SCORE))
            .binds_reading(&bind_reads)
            .shows(shown::PATH.0, shown::PATH.1)
    }

    fn before_filter_nodes(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<NodeChange> {
        let (now, known, asking) = ((self.clock)(), self.store.read(), asking(pod));
        let entries = ENTRIES / nodes.len().max(1) + ENTRIES_A_NODE;
        let entries = entries.min(amounts::MAX_RESOURCES);
        let change = |node: Node<'_>| {
            change(held(known.on(node.name()), asking.as_ref(), now), pod.requests(), entries)
        };
        nodes.iter().map(change).collect()
    }

    fn filter_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<Verdict> {
        match asking(pod).filter(Asking::needs_reservation) {
            None => vec![Verdict::Accept; nodes.len()],
            Some(asking) => {
                let known = self.store.read();
                nodes.iter().map(|node| self.required_on(&known, &asking, node.name())).collect()
            }
        }
    }

    fn score_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<i32> {
        let (known, asking) = (self.store.read(), asking(pod));
        nodes.iter().map(|node| self.score_on(&known, asking.as_ref(), node.name())).collect()
    }

    fn bind<'a>(&'a self, ask: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        Box::pin(async move { Ok(self.binder.bind(ask).await?) })
    }

    fn introspect(&self, ask: &Introspect<'_>) -> Result<serde_json::Value, IntrospectError> {
        shown::introspect(&self.store, ask, (self.clock)())
    }

    fn ready(&self) -> Result<(), NotReady> {
        if self.store.read().is_listed() {
            Ok(())
        } else {
            Err(NotReady("the Reservations are not listed yet".to_owned()))
        }
    }
}

#[cfg(test)]
mod apiserver;
#[cfg(test)]
mod tests;
