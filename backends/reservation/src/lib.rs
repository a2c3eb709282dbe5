//! Reserves room on nodes for pods that come later.
//!
//! A Reservation is scheduled by kube-scheduler like a pod: the [`controller`] creates a [`placeholder`] pod, and when that
//! one is to be bound, [`bind`] writes its node and requests into the Reservation's status and deletes it. From then on the
//! policy tells others that the room is used: a hook holds what is reserved on the node, except for the
//! reservation that serves the pod of the call, and the gateway takes off what owners use. Whatever filters by usage, such as the policy node-resources,
//! then rejects other pods and accepts owners, while nothing runs on the node and kube-scheduler's own filter counts the room
//! as free. Host ports are kept by a filter, and [`preempt`] keeps owners from being evicted for room that stays reserved.
//!
//! [`room`] is the arithmetic, [`amounts`] are resources, [`owners`] the rules of who owns a reservation, [`affinity`] what else
//! decides which one a pod gets, [`object`] the API object, [`store`] what a replica knows, [`ports`] are host ports, [`claims`] how
//! it writes which pods have room, [`shown`] what people see of it, [`mod@watch`] how it comes to know it, [`cluster`] the requests
//! to the apiserver.

mod affinity;
mod amounts;
mod bind;
mod claims;
mod cluster;
mod controller;
mod object;
mod owners;
mod placeholder;
mod ports;
mod preempt;
mod promises;
mod recorded;
mod room;
mod shown;
mod store;
mod template;
mod watch;

use std::{convert::Infallible, fmt, ops::Deref, sync::Arc, time::Duration};

use extender_policy_api::limits::{CHANGE_ENTRIES, CHANGE_USERS, NODE_ENTRIES, RESPONSE_ENTRIES};
use extender_policy_controllers::Controllers;
use extender_policy_sdk::{
    Bind, BindAsk, BoxFuture, Candidate, ChangedPart, Eviction, HoldUser, Hook, Info, IntrospectAsk,
    IntrospectError, Node, NodeChange, NodePart, Nodes, Normalization, NotReady, Pod, PodPart, Policy, Reads,
    Resources, Scale, Unanswered, Verb, Verdict,
};
use jiff::Timestamp;
use kube::Client;

use self::{
    bind::{Binder, reservation_of},
    cluster::Cluster,
    controller::Controller,
    owners::Asking,
    ports::{PORT_KEPT, UNREADABLE},
    room::{Held, Kept, held, keeps_port},
    store::{Known, Store},
    watch::{Kind, Pulse, watch},
};

/// The score of a node where the pod owns a reservation with room that no pod uses yet.
const LEAST_SCORE: i32 = 60;
/// The score of one that is nearly used up, or where the pod has its part already. Reservations are filled one after the
/// other, so that the others keep room for large pods.
const SCORE: i32 = 100;
/// Without a sign of the apiserver for longer than this, nothing is decided.
const MAX_SILENCE: Duration = Duration::from_secs(10);
/// The reservations that a reason names.
const NAMED: usize = 3;
/// The bytes of the users of holds, with some for each node: within those of a response. A user has its UID, three
/// amounts, and others with their names.
const USER_BYTES: usize = 40 << 10;
const USER_BYTES_A_NODE: usize = 640;
const BYTES_A_USER: usize = 96;

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
    pulse: Pulse,
    clock: Clock,
    binder: Binder,
}

/// Keeps the Reservations of a policy up to date, and adds the controller to a backend.
#[derive(Clone, Debug)]
pub struct Upkeep {
    store: Arc<Store>,
    pulse: Pulse,
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
        let pulse = Pulse::default();
        let upkeep = Upkeep { store: Arc::clone(&store), pulse: pulse.clone(), clock: clock.clone() };
        (Self { name: name.to_owned(), store, pulse, clock, binder }, upkeep)
    }
}

impl Upkeep {
    /// Watches Reservations. In every replica, as long as the policy is served.
    pub async fn watch(&self, client: Client) -> Infallible {
        watch(client, Kind { path: object::PATH, plural: "reservations" }, &*self.store, &self.pulse).await
    }

    /// Adds the controller that creates placeholder pods and removes what is over. Their containers have this image, which
    /// does nothing.
    pub fn controlled_by(self, controllers: Controllers, image: String) -> Controllers {
        let Self { store, pulse: _, clock } = self;
        controllers.runs("reservations", move |leading| {
            let cluster = Cluster::new(leading.client().clone());
            let controller = Controller::new(Arc::clone(&store), cluster, clock.clone(), image.clone());
            async move { controller.run(leading.client().clone()).await }
        })
    }
}

/// What all verbs read of the pod.
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

/// What the changes of a call may have.
struct Limits<'p> {
    /// The names of resources that the pod requests: filters look at no others, and there could be many.
    others: Vec<&'p String>,
    /// Entries of one node.
    entries: usize,
    /// Of the users of all nodes, which have this many each.
    bytes: usize,
    user_bytes: usize,
}

impl<'p> Limits<'p> {
    fn of(pod: &Pod<'p>, nodes: usize) -> Self {
        let entries = (RESPONSE_ENTRIES / nodes.max(1) + NODE_ENTRIES).min(CHANGE_ENTRIES);
        let others = pod.requests().others.keys().take(entries.min(amounts::MAX_RESOURCES) - 1);
        let others: Vec<_> = others.collect();
        let user_bytes = BYTES_A_USER + others.iter().map(|name| name.len() + BYTES_A_USER).sum::<usize>();
        Self { others, entries, bytes: USER_BYTES + USER_BYTES_A_NODE * nodes, user_bytes }
    }

    /// These resources, as far as the pod requests them.
    fn shown(&self, resources: &Resources) -> Resources {
        let amount = |name: &&String| Some(((*name).clone(), *resources.others.get(*name)?));
        Resources { others: self.others.iter().filter_map(amount).collect(), ..resources.clone() }
    }

    /// What is held on a node. Without users that are too many, more of it is held.
    fn change(&mut self, held: Held<'_>) -> NodeChange {
        let Held { own: _, mut kept, by, resources: _ } = held;
        if kept.len() * (1 + self.others.len()) > self.entries {
            kept = vec![together(kept)];
        }
        let (mut change, mut users) = (NodeChange::none(), CHANGE_USERS);
        for Kept { resources, users: all } in kept {
            // Each reservation also keeps a place for a pod.
            let resources = Resources { pods: 1, ..self.shown(&resources) };
            let each = 1 + self.others.len();
            let most = (users / each).min(self.bytes / self.user_bytes);
            let taken: Vec<_> = all.iter().take(most).map(|(uid, part)| self.user(uid, part)).collect();
            users -= taken.len() * each;
            self.bytes -= taken.len() * self.user_bytes;
            change = change.hold(resources, taken);
        }
        if by.is_empty() { change } else { change.reason(reason(&by)) }
    }

    fn user(&self, uid: &str, part: &Resources) -> HoldUser {
        HoldUser { uid: uid.to_owned(), at_most: Some(self.shown(part)) }
    }
}

/// Several reservations as one.
fn together(kept: Vec<Kept<'_>>) -> Kept<'_> {
    let nothing = Kept { resources: Resources::default(), users: Vec::new() };
    kept.into_iter().fold(nothing, |mut all, kept| {
        all.resources = amounts::plus(&all.resources, &kept.resources);
        all.users.extend(kept.users);
        all
    })
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
            return Verdict::reject(wrong.to_owned()).unresolvable();
        }
        match room::chosen(known.on(node), pod, (self.clock)()) {
            Some(_) => Verdict::Accept,
            None => Verdict::reject("no reservation that the pod requires has room for it").unresolvable(),
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
        let mut names = reads();
        names.node(NodePart::Name);
        let mut room = names.clone();
        room.node(NodePart::Allocatable).node(NodePart::Usage);
        // The facts have no host ports.
        let mut bind_reads = reads();
        bind_reads.pod(PodPart::RawJson);
        // Score reads what filter does, so that scores come with the verdicts.
        let mut placement = names.clone();
        placement.pod(PodPart::RawJson);
        let placement = Verb::per_node().reads(&placement);
        Info::new(&self.name, env!("CARGO_PKG_VERSION"))
            .before_filter_nodes(Hook::changes([ChangedPart::NodeUsage]).reads(&names))
            .filters(placement.clone())
            .preempts(Verb::per_node().reads(&room))
            .scores(placement, Scale::between(0..=SCORE).normalize(Normalization::Range))
            .binds_reading(&bind_reads)
            .shows(shown::PATH.0, shown::PATH.1)
    }

    fn before_filter_nodes(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<NodeChange> {
        let (now, known, asking) = ((self.clock)(), self.store.read(), asking(pod));
        let mut limits = Limits::of(pod, nodes.len());
        let is_last_look = nodes.len() == 1;
        let change = |node: Node<'_>| {
            let held = held(known.on(node.name()), asking.as_ref(), now);
            if let Some((pod, part)) = asking.as_ref().filter(|_| is_last_look).zip(held.own.clone()) {
                self.store.promises.keep(pod.uid, node.name(), part);
            }
            limits.change(held)
        };
        nodes.iter().map(change).collect()
    }

    /// Rejects the nodes without a reservation that the pod requires, and those whose reservations keep a host port of the pod
    /// for others.
    fn filter_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<Verdict> {
        let (now, known, asking) = ((self.clock)(), self.store.read(), asking(pod));
        let wanted = pod.raw_json().map_or_else(|| Ok(Vec::new()), ports::of_pod);
        let Ok(wanted) = wanted else {
            return nodes.iter().map(|_| Verdict::reject(UNREADABLE).unresolvable()).collect();
        };
        let requiring = asking.as_ref().filter(|asking| asking.needs_reservation());
        let verdict = |node: Node<'_>| {
            if keeps_port(known.on(node.name()), asking.as_ref(), &wanted, now) {
                return Verdict::reject(PORT_KEPT).unresolvable();
            }
            requiring.map_or(Verdict::Accept, |asking| self.required_on(&known, asking, node.name()))
        };
        nodes.iter().map(verdict).collect()
    }

    fn preempt_all(&self, pod: &Pod<'_>, candidates: &[Candidate<'_>]) -> Vec<Eviction> {
        let (now, known, asking) = ((self.clock)(), self.store.read(), asking(pod));
        let evicts = |candidate: &Candidate<'_>| {
            preempt::eviction(known.on(candidate.node().name()), asking.as_ref(), pod, candidate, now)
        };
        candidates.iter().map(evicts).collect()
    }

    fn score_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<i32> {
        let (known, asking) = (self.store.read(), asking(pod));
        nodes.iter().map(|node| self.score_on(&known, asking.as_ref(), node.name())).collect()
    }

    fn bind<'a>(&'a self, ask: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        Box::pin(async move { Ok(self.binder.bind(ask).await?) })
    }

    fn introspect(&self, ask: &IntrospectAsk<'_>) -> Result<serde_json::Value, IntrospectError> {
        shown::introspect(&self.store, ask, (self.clock)())
    }

    fn ready(&self) -> Result<(), NotReady> {
        if !self.store.read().is_listed() {
            return Err(NotReady("the Reservations are not listed yet".to_owned()));
        }
        // Another replica may have given room away, or reserved it.
        if self.pulse.silence().is_some_and(|silence| silence > MAX_SILENCE) {
            return Err(NotReady(
                "the apiserver has told nothing about Reservations for too long".to_owned(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod apiserver;
#[cfg(test)]
#[path = "../../policies/src/arbitrary.rs"]
mod arbitrary;
#[cfg(test)]
mod tests;
