//! The controller, which runs in one replica: it creates placeholder pods, and removes what is over.
//!
//! It decides from the objects at the apiserver alone, in [`mod@step`]; [`observed`] are the pods and nodes, [`queue`] says
//! which Reservations are next, [`freed`] notices where room becomes free. Each write
//! has a precondition, so that a replica that leads no more changes nothing that another one has written.

mod freed;
mod observed;
mod queue;
mod step;
mod waiting;

use std::{sync::Arc, time::Duration};

use extender_apiserver::RequestError;
use extender_gateway_pace::rate_limited_log::RateLimitedLog;
use futures_util::{StreamExt as _, stream, stream::FuturesUnordered};
use kube::Client;
use tokio::{
    pin,
    sync::watch::Receiver,
    time::{Instant, sleep},
};

pub(super) use self::step::invalid;
use self::{
    freed::{Freed, Moment},
    observed::{Nodes, Pods},
    queue::{AT_ONCE, Queue, Work},
    step::{Action, DELETES_A_ROUND, Observed, Unbound, step},
    waiting::Unscheduled,
};
use super::{
    Clock,
    cluster::{Cluster, Note, Place, PodRef, is_conflict, is_missing},
    object::{NewCondition, Reservation, Status},
    placeholder,
    store::Store,
    watch::{Kind, Pulse, watch},
};

const PODS: Kind = Kind { path: "/api/v1/pods", plural: "pods" };
const NODES: Kind = Kind { path: "/api/v1/nodes", plural: "nodes" };

/// The time between two rounds if nothing changes, for what only the clock decides, and the least time between two.
const EVERY: Duration = Duration::from_secs(1);
const AT_MOST_EVERY: Duration = Duration::from_millis(100);

/// The controller of one term.
#[derive(Debug)]
pub(super) struct Controller {
    store: Arc<Store>,
    cluster: Cluster,
    clock: Clock,
    /// Of the containers of placeholder pods.
    image: String,
    pods: Pods,
    nodes: Nodes,
    failures: RateLimitedLog<String>,
}

/// Tells of changes of what the controller decides from.
struct Changes {
    reservations: Receiver<u64>,
    pods: Receiver<u64>,
    nodes: Receiver<u64>,
}

/// What was done, and what failed, if something has.
struct Done {
    work: Work,
    failed: Option<Action>,
}

impl Changes {
    /// Waits for the next round.
    async fn next(&mut self) {
        sleep(AT_MOST_EVERY).await;
        tokio::select! {
            biased;
            // The senders live as long as the controller.
            _ = self.reservations.changed() => {}
            _ = self.pods.changed() => {}
            _ = self.nodes.changed() => {}
            () = sleep(EVERY) => {}
        }
    }
}

impl Controller {
    pub(super) fn new(store: Arc<Store>, cluster: Cluster, clock: Clock, image: String) -> Self {
        let (pods, nodes) = Default::default();
        let failures = RateLimitedLog::new(1, Duration::from_mins(1));
        Self { store, cluster, clock, image, pods, nodes, failures }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(self, client: Client) -> Result<(), String> {
        // Without the apiserver, the Lease is lost.
        let pulse = Pulse::default();
        tokio::select! {
            biased;
            never = watch(client.clone(), PODS, &self.pods, &pulse) => match never {},
            never = watch(client, NODES, &self.nodes, &pulse) => match never {},
            ((), (), ()) = async { tokio::join!(self.advance_all(), self.wake(), self.remove_orphans()) } => Ok(()),
        }
    }

    fn changes(&self) -> Changes {
        Changes { reservations: self.store.changes(), pods: self.pods.changes(), nodes: self.nodes.changes() }
    }

    fn knows_all(&self) -> bool {
        self.store.read().is_listed() && self.pods.is_listed() && self.nodes.is_listed()
    }

    /// One step for each Reservation that needs it, again and again.
    async fn advance_all(&self) {
        let (mut changes, mut queue, mut running) =
            (self.changes(), Queue::default(), FuturesUnordered::new());
        let mut next_look = Instant::now();
        loop {
            let unscheduled = (Instant::now() >= next_look).then(|| self.pods.unscheduled());
            if unscheduled.is_some() {
                next_look = Instant::now() + EVERY;
            }
            self.offer(&mut queue, unscheduled.as_deref());
            let next = changes.next();
            pin!(next);
            loop {
                while let Some(work) = queue.take() {
                    running.push(self.advance(work));
                }
                tokio::select! {
                    biased;
                    () = &mut next => break,
                    Some(Done { work, failed }) = running.next() => {
                        queue.ended(&work, failed.as_ref(), Instant::now());
                    }
                }
            }
        }
    }

    /// The pods that wait are compared with each Reservation, which costs more than all the rest: not in each round.
    fn offer(&self, queue: &mut Queue, unscheduled: Option<&[Arc<Unscheduled>]>) {
        if !self.knows_all() {
            return;
        }
        let (now, known) = ((self.clock)(), self.store.read());
        let waiting = unscheduled.map(|pods| pods.iter().filter_map(|pod| pod.waiting(now)));
        let waiting: Option<Vec<_>> = waiting.map(Iterator::collect);
        let work = known.all().filter_map(|reservation| {
            let (pods, nodes) = (&self.pods.read(reservation), &self.nodes);
            let observed = Observed { pods, nodes, waiting: waiting.as_deref() };
            let actions = step(reservation, &observed, now);
            (!actions.is_empty()).then(|| Work { reservation: reservation.clone(), actions })
        });
        queue.offer(work.collect(), Instant::now());
    }

    /// Makes kube-scheduler try waiting pods again where room has become free.
    async fn wake(&self) {
        let (mut changes, mut freed) = (self.changes(), Freed::default());
        loop {
            if self.knows_all() {
                let moment = Moment { now: (self.clock)(), instant: Instant::now() };
                let nodes = freed.on(&self.store.read(), &self.nodes.first(), moment);
                let exists = |(node, _): &(String, Note)| self.nodes.contain(node);
                let annotated = stream::iter(nodes.into_iter().filter(exists))
                    .map(|(node, note)| self.annotate(node, note));
                let failed: Vec<_> = annotated.buffer_unordered(AT_ONCE).collect().await;
                failed.into_iter().flatten().for_each(|node| freed.again(node));
            }
            changes.next().await;
        }
    }

    /// Returns the node if it failed.
    async fn annotate(&self, node: String, annotations: Note) -> Option<String> {
        let error =
            self.cluster.annotate_node(&node, annotations).await.err().filter(|error| !is_missing(error))?;
        if let Some(similar) = self.failures.permit_of(cause("nodes", &error)) {
            tracing::warn!(
                node,
                similar,
                "cannot annotate node {node}, on which reserved room is free: {error}; pods that wait for it are tried later"
            );
        }
        Some(node)
    }

    /// Does what is to be done for a Reservation now. A conflict is no failure: there is a later version. Only the last action
    /// takes it further: what cannot be tidied up, such as a pod that a webhook keeps, must not hold it up.
    async fn advance(&self, work: Work) -> Done {
        let mut failed = None;
        for action in &work.actions {
            let error = self.act(&work.reservation, action.clone()).await.err();
            let error = error.filter(|error| !is_conflict(error) && !is_missing(error));
            failed = error.as_ref().map(|_| action.clone());
            let Some(error) = error else { continue };
            if let Some(similar) = self.failures.permit_of(cause(work.namespace(), &error)) {
                let name = &work.reservation.name;
                tracing::warn!(
                    reservation = name,
                    similar,
                    "cannot continue with Reservation {name}: {error}; trying again, at most 5 minutes later"
                );
            }
        }
        Done { work, failed }
    }

    async fn act(&self, reservation: &Reservation, action: Action) -> Result<(), RequestError> {
        match action {
            Action::CreatePlaceholder => self.create_placeholder(reservation).await,
            Action::OpenGate(pod) => {
                self.pods.learn(&self.cluster.open_gate(&pod).await?);
                Ok(())
            }
            Action::DeletePod(pod) => self.cluster.delete_pod(&pod).await,
            Action::Collect => self.cluster.delete_reservation(reservation).await,
            Action::Write(status) => self.write(reservation, &status).await,
            Action::RemoveUnbound(status, pods) => {
                for pod in &pods {
                    if !self.is_unbound(pod).await? {
                        // The watch of pods is behind, and will tell.
                        return Ok(());
                    }
                }
                self.write(reservation, &status).await
            }
            Action::LoseNode(status) => {
                // The watch of nodes may be behind.
                if self.cluster.has_node(&reservation.status.node_name).await? {
                    return Ok(());
                }
                self.write(reservation, &status).await
            }
        }
    }

    /// Whether the claim of this pod does not count, as far as the apiserver knows.
    async fn is_unbound(&self, pod: &Unbound) -> Result<bool, RequestError> {
        Ok(match pod {
            Unbound::Overdue(pod) => !matches!(self.cluster.place(pod).await?, Place::On(_)),
            Unbound::Unknown(pod) => self.cluster.place(pod).await? == Place::Gone,
        })
    }

    async fn write(&self, reservation: &Reservation, status: &Status) -> Result<(), RequestError> {
        if let Some(written) = self.cluster.write_status(reservation, status).await? {
            self.store.learn(written);
        }
        Ok(())
    }

    /// Creates a placeholder pod and records its UID. The pod waits behind its gate until then.
    async fn create_placeholder(&self, reservation: &Reservation) -> Result<(), RequestError> {
        let Ok(terms) = &reservation.terms else { return Ok(()) };
        // The watch of pods may be behind.
        let existing = self.cluster.placeholders(reservation, &terms.namespace).await?;
        if existing.contains(&reservation.status.placeholder) {
            return Ok(());
        }
        let template = self.cluster.template(&reservation.name).await?;
        let pod = match placeholder::pod(reservation, template, &self.image) {
            Ok(pod) => pod,
            Err(wrong) => {
                return self.write(reservation, &invalid(reservation, &wrong, (self.clock)())).await;
            }
        };
        let created = match self.cluster.create_pod(&terms.namespace, &pod).await {
            Ok(created) => created,
            Err(error) => {
                if error.excludes_an_effect() {
                    self.tell_of_failure(reservation, &error).await?;
                }
                // Never one that lets the next round try again at once: the namespace may not exist.
                return Err(RequestError::Failed(format!("cannot create its placeholder pod: {error}")));
            }
        };
        let created = self
            .pods
            .learn(&created)
            .ok_or_else(|| RequestError::Failed("the created pod has no UID".to_owned()))?;
        let mut status = reservation.status.clone();
        status.record(created.pod.uid, &created.recorded.unwrap_or_default());
        self.write(reservation, &status).await
    }

    /// Tells in the Reservation why its placeholder cannot be created.
    async fn tell_of_failure(
        &self,
        reservation: &Reservation,
        error: &RequestError,
    ) -> Result<(), RequestError> {
        let mut status = reservation.status.clone();
        let (reason, message) = ("PlaceholderRejected", error.to_string());
        let condition = NewCondition { kind: "Scheduled", holds: false, reason, message: &message };
        status.set_condition(condition, (self.clock)());
        if status == reservation.status { Ok(()) } else { self.write(reservation, &status).await }
    }

    /// Deletes placeholder pods whose Reservation no longer exists: the garbage collector does, too, but only if the
    /// pod's owner is what its label says.
    async fn remove_orphans(&self) {
        let mut changes = self.changes();
        loop {
            if self.knows_all() {
                let orphans = {
                    let known = self.store.read();
                    let uids = known.all().map(|reservation| reservation.uid.as_str()).collect();
                    self.pods.gated_orphans(&uids)
                };
                let deletions = orphans.into_iter().take(DELETES_A_ROUND).map(|pod| self.remove_orphan(pod));
                stream::iter(deletions).buffer_unordered(AT_ONCE).collect::<()>().await;
            }
            changes.next().await;
        }
    }

    async fn remove_orphan(&self, pod: PodRef) {
        let Err(error) = self.cluster.delete_pod(&pod).await else { return };
        if let Some(similar) = self.failures.permit_of(cause(&pod.namespace, &error)) {
            let PodRef { namespace, name, .. } = pod;
            tracing::warn!(similar, "cannot delete placeholder pod {namespace}/{name}: {error}");
        }
    }
}

/// What has the same cause most likely: the namespace is gone, a webhook is away, or the apiserver is.
fn cause(namespace: &str, error: &RequestError) -> String {
    format!("{namespace} {:?}", error.code())
}

#[cfg(test)]
mod chaos;
#[cfg(test)]
mod tests;
