//! The controller, which runs in one replica: it creates placeholder pods, and removes what is over.
//!
//! It decides from the objects at the apiserver alone, in [`mod@step`]; [`observed`] are the pods and nodes, [`freed`]
//! notices where room becomes free. Each write has a
//! precondition, so that a replica that leads no more changes nothing that another one has written.

mod freed;
mod observed;
mod step;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use extender_apiserver::RequestError;
use kube::Client;
use tokio::time::{Instant, sleep};

use self::{
    freed::Freed,
    observed::{Nodes, Pods},
    step::{Action, DELETES_A_ROUND, Observed, Unbound, step},
};
use super::{
    Clock,
    cluster::{Cluster, Place, is_certain, is_conflict, is_missing},
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
/// A Reservation for which something failed is left alone for this long.
const PAUSE: Duration = Duration::from_secs(10);

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
}

impl Controller {
    pub(super) fn new(store: Arc<Store>, cluster: Cluster, clock: Clock, image: String) -> Self {
        Self { store, cluster, clock, image, pods: Pods::default(), nodes: Nodes::default() }
    }

    /// Runs until it is dropped.
    pub(super) async fn run(self, client: Client) -> Result<(), String> {
        // Without the apiserver, the Lease is lost.
        let pulse = Pulse::default();
        tokio::select! {
            never = watch(client.clone(), PODS, &self.pods, &pulse) => match never {},
            never = watch(client, NODES, &self.nodes, &pulse) => match never {},
            () = self.rounds() => Ok(()),
        }
    }

    async fn rounds(&self) {
        let changes = (self.store.changes(), self.pods.changes(), self.nodes.changes());
        let (mut reservations, mut pods, mut nodes) = changes;
        // By UID: until when they are left alone.
        let (mut paused, mut freed) = (HashMap::new(), Freed::default());
        loop {
            if self.knows_all() {
                self.round(&mut paused).await;
                self.wake(&mut freed).await;
            }
            sleep(AT_MOST_EVERY).await;
            tokio::select! {
                // The senders live as long as this controller.
                _ = reservations.changed() => {}
                _ = pods.changed() => {}
                _ = nodes.changed() => {}
                () = sleep(EVERY) => {}
            }
        }
    }

    fn knows_all(&self) -> bool {
        self.store.read().is_listed() && self.pods.is_listed() && self.nodes.is_listed()
    }

    /// One step for each Reservation.
    async fn round(&self, paused: &mut HashMap<String, Instant>) {
        let now = Instant::now();
        paused.retain(|_, until| *until > now);
        let reservations: Vec<_> = self.store.read().all().cloned().collect();
        for reservation in &reservations {
            if !paused.contains_key(&reservation.uid) && self.advance(reservation).await.is_err() {
                paused.insert(reservation.uid.clone(), Instant::now() + PAUSE);
            }
        }
        let uids: HashSet<_> = reservations.iter().map(|reservation| reservation.uid.as_str()).collect();
        self.remove_orphans(&uids).await;
    }

    /// Makes kube-scheduler try waiting pods again where room has become free.
    async fn wake(&self, freed: &mut Freed) {
        let now = (self.clock)();
        let nodes = freed.on(&self.store.read(), now, Instant::now());
        for node in nodes.iter().filter(|node| self.nodes.contain(node)) {
            if let Err(error) = self.cluster.annotate_node(node, now).await {
                tracing::warn!(
                    node,
                    "cannot annotate node {node}, on which reserved room is free: {error}; pods that wait for it are tried later"
                );
            }
        }
    }

    /// Does what is to be done for a Reservation now. A conflict is no failure: there is a later version.
    async fn advance(&self, reservation: &Reservation) -> Result<(), ()> {
        let observed = Observed { pods: &self.pods.read(reservation), nodes: &self.nodes };
        for action in step(reservation, &observed, (self.clock)()) {
            match self.act(reservation, action).await {
                Ok(()) => {}
                Err(error) if is_conflict(&error) || is_missing(&error) => return Ok(()),
                Err(error) => {
                    tracing::warn!(
                        reservation = reservation.name,
                        "cannot continue with Reservation {}: {error}; trying again in {PAUSE:?}",
                        reservation.name
                    );
                    return Err(());
                }
            }
        }
        Ok(())
    }

    async fn act(&self, reservation: &Reservation, action: Action) -> Result<(), RequestError> {
        match action {
            Action::CreatePlaceholder => self.create_placeholder(reservation).await,
            Action::OpenGate(pod) => {
                self.pods.learn(&self.cluster.open_gate(&pod).await?);
                Ok(())
            }
            Action::DeletePod(pod) => self.cluster.delete_pod(&pod).await,
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
                return self.write(reservation, &step::invalid(reservation, &wrong, (self.clock)())).await;
            }
        };
        let created = match self.cluster.create_pod(&terms.namespace, &pod).await {
            Ok(created) => created,
            Err(error) => {
                if is_certain(&error) {
                    self.tell_of_failure(reservation, &error).await?;
                }
                // Never one that lets the next round try again at once: the namespace may not exist.
                return Err(RequestError::Failed(format!("cannot create its placeholder pod: {error}")));
            }
        };
        let uid = self
            .pods
            .learn(&created)
            .ok_or_else(|| RequestError::Failed("the created pod has no UID".to_owned()))?;
        let mut status = reservation.status.clone();
        status.placeholder = uid;
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
    async fn remove_orphans(&self, uids: &HashSet<&str>) {
        for pod in self.pods.gated_orphans(uids).iter().take(DELETES_A_ROUND) {
            if let Err(error) = self.cluster.delete_pod(pod).await {
                tracing::warn!("cannot delete placeholder pod {}/{}: {error}", pod.namespace, pod.name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
