//! Makes kube-scheduler try pods again whose backend has recovered or changed.
//!
//! kube-scheduler puts a rejected pod aside until an event that concerns it, for up to five minutes; an update of the
//! pod is such an event for this pod alone. So a condition is set in the status of each pod that waits because of the
//! backend, at a limited rate, and never twice for one change. While a backend leaves no node, one of its pods is tried
//! every 30 seconds, because its answers may change without another revision.

use std::{convert::Infallible, future::pending, sync::Arc, time::Duration};

use extender_apiserver::{ConnectError, PodCondition, RequestError, set_condition};
use extender_gateway_cluster::pods::PodTable;
use extender_gateway_observe::{
    Observer,
    waiting::{Due, DuePod, PolicyChange},
};
use futures_util::future::join_all;
use kube::Client;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};

/// The type of the condition.
const CONDITION: &str = "extender-gateway.io/Requeued";
/// The most updates at once, and the time from one batch to the next: 100 updates per second.
const BATCH: usize = 20;
const BATCH_PERIOD: Duration = Duration::from_millis(200);
/// The time limit of an update.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after an update that failed for a cause that concerns all pods.
const RETRY: Duration = Duration::from_secs(5);

/// The task that sets conditions while the configuration wants it.
#[derive(Debug)]
pub struct Requeue {
    pub(super) observer: Arc<Observer>,
    /// Tells which pods no longer wait.
    pub(super) pods: Arc<PodTable>,
    pub(super) wanted: watch::Receiver<bool>,
}

impl Requeue {
    /// Runs indefinitely.
    pub(super) async fn run(mut self, connect: impl AsyncFn() -> Result<Client, ConnectError>) -> Infallible {
        loop {
            if self.wanted.wait_for(|wanted| *wanted).await.is_err() {
                // It can no longer be requested.
                return pending().await;
            }
            let client = match connect().await {
                Ok(client) => client,
                // Calls do not depend on it.
                Err(error) => {
                    self.failed(format!("cannot set condition {CONDITION} of pods: {error}"));
                    sleep(RETRY).await;
                    continue;
                }
            };
            let mut wanted = self.wanted.clone();
            let ended = tokio::select! {
                never = self.follow(&client) => match never {},
                ended = wanted.wait_for(|wanted| !*wanted) => ended.is_err(),
            };
            if ended {
                return pending().await;
            }
        }
    }

    async fn follow(&self, client: &Client) -> Infallible {
        let waiting = &self.observer.waiting;
        let mut updated = 0_u32;
        let mut lacks_access = false;
        loop {
            waiting.refresh(&self.pods);
            let due = waiting.due(BATCH);
            if !matches!(due, Due::Now(_)) {
                log_updated(&mut updated);
                if !lacks_access {
                    // No pod is left that needs what has failed.
                    waiting.requeue_health.recovered();
                }
            }
            match due {
                Due::Now(pods) => {
                    let sent = Instant::now();
                    let results = join_all(pods.iter().map(|pod| update(client, pod))).await;
                    updated += self.record(&pods, sent, &results);
                    let mut failures = results.iter().filter_map(|result| result.as_ref().err());
                    let failure = failures.find(|why| concerns_all(why));
                    lacks_access = failure.is_some_and(|why| matches!(why.code(), Some(401 | 403)));
                    if let Some(why) = failure {
                        self.failed(format!(
                            "cannot set condition {CONDITION} of pods: {why}{}",
                            remedy(why)
                        ));
                        sleep(RETRY).await;
                    } else {
                        self.recovered();
                        sleep_until(sent + BATCH_PERIOD).await;
                    }
                }
                // Whichever comes first.
                Due::At(at) => drop(timeout_at(at, self.touched()).await),
                Due::Never => self.touched().await,
            }
        }
    }

    /// Waits until pods may have become due.
    async fn touched(&self) {
        let waiting = &self.observer.waiting;
        tokio::select! {
            since = self.pods.freed() => waiting.freed(since),
            () = waiting.touched() => {}
        }
    }

    /// Records the results of updates that were sent at this time; returns the number of updated pods.
    fn record(&self, pods: &[DuePod], sent: Instant, results: &[Result<(), RequestError>]) -> u32 {
        let (waiting, metrics) = (&self.observer.waiting, self.observer.metrics.process());
        let mut updated = 0;
        for (pod, result) in pods.iter().zip(results) {
            let outcome = match result {
                Ok(()) => {
                    waiting.requested(&pod.uid, pod.change, sent);
                    // A probe is for the gateway itself.
                    updated += u32::from(pod.change != PolicyChange::Probe);
                    "ok"
                }
                Err(why) if is_gone(why) => {
                    waiting.remove(&pod.uid);
                    "gone"
                }
                Err(why) => {
                    if concerns_all(why) {
                        waiting.request_failed(&pod.uid);
                    } else {
                        // Perhaps an admission webhook rejects updates of this pod.
                        waiting.requested(&pod.uid, pod.change, sent);
                        let (pod, namespace) = (&pod.name, &pod.namespace);
                        tracing::warn!(pod, namespace, "cannot set condition {CONDITION}: {why}");
                    }
                    "failed"
                }
            };
            metrics.requeued_pods.add([outcome], 1);
        }
        updated
    }

    fn failed(&self, text: String) {
        let health = &self.observer.waiting.requeue_health;
        if health.failing().is_none() {
            tracing::warn!("{text}");
        }
        health.failed(text);
    }

    fn recovered(&self) {
        let health = &self.observer.waiting.requeue_health;
        if health.failing().is_some() {
            tracing::info!("setting condition {CONDITION} of pods works again");
        }
        health.recovered();
    }
}

/// One line for all pods of a change.
fn log_updated(updated: &mut u32) {
    if *updated > 0 {
        tracing::info!(
            pods = *updated,
            "set condition {CONDITION}, so that kube-scheduler tries these pods again"
        );
        *updated = 0;
    }
}

async fn update(client: &Client, pod: &DuePod) -> Result<(), RequestError> {
    let backend = &pod.backend;
    let (reason, message) = match pod.change {
        PolicyChange::Recovered => ("BackendRecovered", format!("backend {backend} responds again")),
        PolicyChange::Revision => ("PolicyChanged", format!("backend {backend} has another revision")),
        PolicyChange::Configuration => {
            ("ConfigurationChanged", format!("the configuration of backend {backend} may have changed"))
        }
        PolicyChange::Freed => {
            ("RoomFreed", "a pod that was not bound no longer counts on its node".to_owned())
        }
        PolicyChange::Answers => ("PolicyChanged", format!("backend {backend} accepts nodes again")),
        PolicyChange::Probe => ("PolicyProbed", format!("backend {backend} may accept nodes again")),
    };
    let condition = PodCondition { kind: CONDITION, reason, message: &message };
    let set = set_condition(client, &pod.namespace, &pod.name, &pod.uid, condition);
    let late = || RequestError::Failed(format!("no answer within {} s", TIMEOUT.as_secs()));
    timeout(TIMEOUT, set).await.unwrap_or_else(|_| Err(late()))
}

/// Whether there is no such pod, or another one with its name.
fn is_gone(why: &RequestError) -> bool {
    matches!(why, RequestError::Refused { code: 404 | 409, .. })
}

/// Whether updates of other pods may fail, too.
fn concerns_all(why: &RequestError) -> bool {
    match why {
        RequestError::Refused { code, .. } => matches!(code, 401 | 403 | 429 | 500..),
        _ => true,
    }
}

fn remedy(why: &RequestError) -> &'static str {
    match why.code() {
        Some(401) => "; check the token or client certificate of the kubeconfig or the service account",
        Some(403) => {
            "; bind the gateway's service account to a ClusterRole with the rule {apiGroups: [\"\"], \
             resources: [pods/status], verbs: [patch]}, or set requeue: None"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests;
