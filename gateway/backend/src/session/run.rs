//! The task that keeps a backend connected. It connects, performs the handshake, and repeats it every second, or when the backend
//! says that something has changed: its rules, or a replica of another build may have taken over. When the connection ends, the
//! task connects again, with growing pauses and log lines as long as no connection lasts: a backend that completes
//! the handshake and disconnects is as unavailable as one that does not listen. A panic ends only the connection.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use extender_gateway_contract::question::{Parties, RequestHead};
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_gateway_observe::Metrics;
use extender_gateway_pace::{backoff::Backoff, cadences::Cadences, rate_limited_log::RateLimitedLog};
use extender_gateway_settings::{self as config, PureAnswers};
use extender_policy_api::v1beta1::GetInfoResponse;
use futures_util::future::{join, join_all};
use h2::client::SendRequest;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

use super::{
    Connection, Paths, Session, SessionPublisher,
    limits::{Outage, Place, SessionLimits},
};

use crate::{
    answer_cache::{AnswerCache, CachedVerbs, SharedCaches},
    changes::{self, Changes},
    connect::{self, Target, closed, connect},
    containment::{contained, panicked},
    endpoints::{Endpoint, Shared},
    handshake::handshake,
    health::HealthChecks,
    info::{ApiVersion, ClusterTables, Handshake, Info},
    sync::Streams,
};

/// The connection counts as lost after this many consecutive handshakes without a usable answer.
const MISSED: u32 = 5;
/// The pauses after connections that did not last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A connection that was usable for this long ends the outage before it.
const LASTING: Duration = Duration::from_secs(10);

/// The data of a session task.
#[derive(Debug)]
pub(crate) struct SessionTask {
    pub settings: config::BackendSettings,
    /// The sources of facts about nodes.
    pub tables: ClusterTables,
    /// The name of this replica of the gateway.
    pub gateway: Arc<str>,
    /// That of the cluster; empty if it has none.
    pub cluster: Arc<str>,
    /// Where panics are counted.
    pub metrics: Arc<Metrics>,
    pub cadences: Cadences,
    /// Those of the backend's addresses.
    pub caches: SharedCaches,
}

/// Keeps an address connected while its handle exists.
pub(crate) async fn run(task: Arc<SessionTask>, publisher: SessionPublisher) {
    let limits = SessionLimits::default();
    tokio::select! {
        () = publisher.failure.closed() => {}
        never = retry(&task.settings, &publisher, || attempt(&task, &publisher, &limits)) => match never {},
    }
}

/// How an attempt to connect, or the connection, ended.
#[derive(Debug)]
struct SessionEnd {
    failure: BackendFailure,
    /// When its first handshake succeeded; `None` if none did.
    ready_since: Option<Instant>,
}

/// Connects whenever the previous connection has ended, with growing pauses while none of them lasts.
async fn retry<S: Future<Output = SessionEnd>>(
    settings: &config::BackendSettings,
    publisher: &SessionPublisher,
    mut attempt: impl FnMut() -> S,
) -> Infallible {
    let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut outage = Outage::default();
    loop {
        let SessionEnd { failure, ready_since } = attempt().await;
        // The host may resolve to other addresses by now.
        publisher.shared.lost.notify_one();
        let has_lasted = ready_since.is_some_and(|since| since.elapsed() >= LASTING);
        if has_lasted {
            outage = Outage::default();
        }
        if failure.kind == FailureKind::Oversize {
            // It sends more than allowed, and is likely to do it again.
            pauses.skip_to_longest();
        } else if has_lasted {
            pauses.reset();
            // A replica that is being replaced closes the connection; the next one may already be available.
            tracing::info!(backend = %settings.name, "connection lost, reconnecting: {failure}");
            continue;
        }
        publisher.publish(Err(failure.clone()));
        outage.log(&Place::of(settings, publisher), &failure, ready_since.is_some());
        sleep(pauses.next_pause()).await;
    }
}

async fn attempt(task: &SessionTask, publisher: &SessionPublisher, limits: &SessionLimits) -> SessionEnd {
    let mut connecting = Connecting { task, publisher, limits, ready_since: None };
    let Err(failure) = contained(&task.metrics, connecting.run()).await;
    SessionEnd { failure, ready_since: connecting.ready_since }
}

struct Connecting<'s> {
    task: &'s SessionTask,
    publisher: &'s SessionPublisher,
    limits: &'s SessionLimits,
    /// Since when the connection has been usable.
    ready_since: Option<Instant>,
}

impl Connecting<'_> {
    /// Runs one connection, from connecting to its end.
    async fn run(&mut self) -> Result<Infallible, BackendFailure> {
        let SessionTask { settings, cadences, .. } = self.task;
        let target = Target::Address(self.publisher.endpoint.address);
        let (requests, connection) = connect(settings, target, cadences.connect).await?;
        let shared = Arc::clone(&self.publisher.shared);
        let (_session, session_ended) = oneshot::channel();
        // A separate task: a connection that takes no new calls still finishes those in flight.
        let mut driver = tokio::spawn(drive(connection, session_ended, shared));
        let failure = tokio::select! {
            // The end of the connection is a better cause than the handshake that it broke.
            biased;
            ended = &mut driver => {
                if let Some(session) = self.publisher.session() {
                    session.connection.set_ended();
                }
                let error = match ended {
                    Ok(ended) => ended.err(),
                    Err(ended) if ended.is_panic() => {
                        return Err(panicked(&self.task.metrics, ended.into_panic().as_ref()));
                    }
                    Err(_) => None,
                };
                return Err(self.tls_failure(error.as_ref()).unwrap_or_else(|| closed(error.as_ref())));
            }
            Err(failure) = self.refresh(requests) => {
                if let Some(session) = self.publisher.session() {
                    session.connection.set_ended();
                }
                failure
            }
        };
        if self.ready_since.is_some() || failure.kind != FailureKind::Reset {
            return Err(failure);
        }
        // With TLS 1.3, a rejected certificate is reported only after the connection is established, when it ends.
        // The handshake explains any other end better: the connection is unused, so it ends in any case.
        let ended = timeout(self.task.cadences.handshake, driver)
            .await
            .ok()
            .and_then(Result::ok)
            .and_then(Result::err);
        Err(self.tls_failure(ended.as_ref()).unwrap_or(failure))
    }

    /// The backend's TLS error at the end of an unused connection.
    fn tls_failure(&self, end: Option<&h2::Error>) -> Option<BackendFailure> {
        connect::tls_failure(&self.task.settings, end.filter(|_| self.ready_since.is_none())?)
    }

    /// Performs handshakes until the connection counts as lost.
    async fn refresh(&mut self, requests: SendRequest<Bytes>) -> Result<Infallible, BackendFailure> {
        let SessionTask { settings, cadences, .. } = self.task;
        let endpoint = &self.publisher.endpoint;
        // A new connection may lead to another process.
        endpoint.set_serving(true);
        let breakers = &endpoint.breakers;
        let mut known: Option<Known> = None;
        let mut missed = 0;
        loop {
            let spoken = known.as_ref().map(|known| known.connection.api);
            let packages = spoken.as_ref().map_or(&ApiVersion::ALL[..], std::slice::from_ref);
            let answer = handshake(settings, &requests, packages, cadences.handshake).await;
            if answer.as_ref().err().is_none_or(|error| !error.is_late()) {
                if missed > 0 || self.ready_since.is_none() {
                    breakers.probe_now();
                }
                breakers.note_answer();
            }
            match answer {
                Err(error) => {
                    // Behind a proxy the connection may lead to a process of another package by now.
                    let has_another = known.is_some() && error.is_unimplemented();
                    let failure = BackendFailure::from(error);
                    missed += 1;
                    // While the connection lives, a failed handshake is no reason to interrupt calls.
                    let is_over = failure.kind == FailureKind::Reset || has_another || missed == MISSED;
                    if self.ready_since.is_none() || is_over {
                        return Err(failure);
                    }
                }
                Ok((api, mut handshake)) => {
                    missed = 0;
                    let known =
                        known.get_or_insert_with(|| Known::new(self.task, endpoint, requests.clone(), api));
                    // They change without a change of what the backend answers.
                    endpoint.set_controllers(handshake.response.controllers.take(), settings.name.as_str());
                    let rejected = std::mem::take(&mut handshake.response.rejected_configuration);
                    endpoint.set_rejected_configuration(&rejected, settings.name.as_str());
                    known.follow_changes(self.task, &handshake);
                    self.accept(handshake, known).await;
                    if self.publisher.shared.has_several() {
                        known.health.refresh(&known.connection, cadences.handshake).await;
                    }
                    self.ready_since.get_or_insert_with(Instant::now);
                }
            }
            // Replicas of two builds would request a handshake with every answer.
            sleep(cadences.shortest_refresh).await;
            let is_announced = missed == 0 && known.as_ref().is_some_and(Known::announces_changes);
            let is_announced = is_announced && breakers.open().next().is_none();
            let refresh = if is_announced { cadences.announced_refresh } else { cadences.refresh };
            // Whichever comes first; an interval would also catch up after a pause, which is not needed.
            let _ = timeout(refresh, self.publisher.endpoint.recheck.notified()).await;
        }
    }

    /// Publishes the result of a handshake if it has changed, or if answers had another revision.
    async fn accept(&self, handshake: Handshake, known: &mut Known) {
        let SessionTask { settings, tables, cadences, .. } = self.task;
        let is_new = known.latest.as_ref() != Some(&handshake);
        let current = self.publisher.session();
        if !is_new && current.as_ref().is_none_or(|session| !session.cache.is_outdated()) {
            return;
        }
        if !self.limits.view_changes.try_accept(&handshake.response, known.latest.is_none()) {
            if let Some(similar) = known.log_limit.permit() {
                let backend = &settings.name;
                tracing::warn!(
                    %backend,
                    similar,
                    "backend changes too often what it requests; its latest handshake is not used yet (do its replicas have the same version and rules?)"
                );
            }
            if let Some(session) = current {
                session.outdated.store(true, Ordering::Relaxed);
                // Cached answers are of a backend that requested something else.
                session.cache.mark_outdated();
            }
            return;
        }
        let info = Info::read(handshake.clone(), settings, tables);
        self.wait_for_data(&info).await;
        let cached = match settings.pure_answers {
            PureAnswers::Remembered => info.remembered(),
            PureAnswers::AskedEachTime => CachedVerbs::default(),
        };
        let is_impure = !is_new && current.is_some_and(|session| session.cache.is_impure());
        // What it shows, and who leads, has nothing to do with its answers.
        let Handshake { api, response, reads } = handshake.clone();
        let response = GetInfoResponse { introspection: Vec::new(), controllers: None, ..response };
        let key = Handshake { api, response, reads };
        let cache = self.task.caches.of(&key, || {
            let cache = AnswerCache::new(&cached, cadences.check_every);
            if is_impure {
                // The revision is the same, so it is still not pure.
                cache.mark_impure();
            }
            cache
        });
        if is_new {
            known.connection.endpoint.breakers.probe_now();
            self.limits.announce(settings, &info, tables);
        }
        let (connection, tables) = (Arc::clone(&known.connection), known.streams.keep(&info));
        self.publisher.publish(Ok(Session {
            connection,
            info,
            cache,
            tables,
            outdated: AtomicBool::new(false),
        }));
        known.latest = Some(handshake);
    }

    /// Waits until the table has the rows for the backend, and pods are counted for it. Limited: for views with JSON
    /// the nodes are listed again when the first backend requests them, and pods may not be listed yet.
    async fn wait_for_data(&self, info: &Info) {
        let Some(table) = &self.task.tables.table else { return };
        for column in info.columns() {
            table.fill(column).await;
        }
        let rows = join_all(info.columns().map(|column| table.complete(column)));
        let counts = async {
            if let Some(pods) = &self.task.tables.pods {
                join_all(info.topologies().map(|views| pods.counted(views, table))).await;
            }
        };
        let _ = timeout(self.task.cadences.handshake, join(rows, counts)).await;
    }
}

/// A connection, and what is known of its backend.
struct Known {
    connection: Arc<Connection>,
    streams: Streams,
    /// The stream of its changes; `None` if it serves none.
    changes: Option<Changes>,
    /// The latest accepted handshake.
    latest: Option<Handshake>,
    health: HealthChecks,
    log_limit: RateLimitedLog,
}

impl Known {
    fn new(
        task: &SessionTask,
        endpoint: &Arc<Endpoint>,
        requests: SendRequest<Bytes>,
        api: ApiVersion,
    ) -> Self {
        let settings = &task.settings;
        if api != ApiVersion::NEWEST {
            tracing::warn!(
                backend = %settings.name,
                "backend speaks {}, as no later release of the gateway will; rebuild it with an SDK of this release, or for {}",
                api.package(),
                ApiVersion::NEWEST.package()
            );
        }
        let backend = settings.name.as_str();
        let parties = Parties { gateway: &task.gateway, cluster: &task.cluster, backend };
        let connection = Arc::new(Connection {
            requests,
            api,
            paths: Paths::new(&settings.url, api),
            head: RequestHead::new(api, parties, settings.args.as_ref()),
            endpoint: Arc::clone(endpoint),
            has_ended: AtomicBool::new(false),
            has_failed_a_call: AtomicBool::new(false),
            refuses_outcomes: AtomicBool::new(false),
        });
        Self {
            streams: Streams::new(task, Arc::clone(&connection)),
            connection,
            changes: None,
            latest: None,
            health: HealthChecks::default(),
            log_limit: RateLimitedLog::default(),
        }
    }

    /// Follows its changes if it announces them. A service that is not listed any more ends its stream; one stream for each
    /// connection is also the limit for a backend that lists it in every other handshake.
    fn follow_changes(&mut self, task: &SessionTask, handshake: &Handshake) {
        let is_served = handshake.response.services.iter().any(|service| service == changes::SERVICE_NAME);
        if is_served && self.connection.api == ApiVersion::NEWEST && self.changes.is_none() {
            self.changes = Some(Changes::follow(task, &self.connection));
        }
    }

    fn announces_changes(&self) -> bool {
        self.changes.as_ref().is_some_and(Changes::is_open)
    }
}

/// Runs a connection until it ends or, after its session, all calls on it must have ended: a peer that reads
/// nothing would otherwise keep it open indefinitely.
async fn drive(
    connection: impl Future<Output = Result<(), h2::Error>>,
    session_ended: oneshot::Receiver<Infallible>,
    shared: Arc<Shared>,
) -> Result<(), h2::Error> {
    let over = async {
        // An error means that the session has ended and dropped the sender.
        let _ = session_ended.await;
        let grace = *shared.longest_timeout.lock();
        sleep(grace).await;
    };
    tokio::select! {
        biased;
        ended = connection => ended,
        () = over => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, path::Path};

    use extender_gateway_settings::Config;
    use parking_lot::Mutex;
    use tokio::task::yield_now;

    use super::*;

    use crate::{availability::Availability, session::channel};

    fn settings() -> config::BackendSettings {
        let yaml = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
                    nodes: {source: Request}\nbackends: [{name: racks, url: 'http://127.0.0.1:1', filter: {}}]\n";
        Config::parse(yaml, Path::new(".")).unwrap().backends.remove(0)
    }

    fn endpoint() -> Arc<Endpoint> {
        let address = ([127, 0, 0, 1], 1).into();
        Arc::new(Endpoint::new("gateway", "racks", address, (&Cadences::default()).into()))
    }

    fn shared() -> Arc<Shared> {
        Arc::new(Shared::new(Availability::of_test()))
    }

    fn hung_up() -> BackendFailure {
        BackendFailure::new(FailureKind::Reset, "the connection was lost")
    }

    /// The pauses before each session in this time, in milliseconds.
    async fn pauses<S: Future<Output = SessionEnd>>(within: Duration, session: impl Fn() -> S) -> Vec<u128> {
        let settings = settings();
        let (publisher, _seen) = channel(endpoint(), shared());
        let ended = Mutex::new(Instant::now());
        let pauses = Mutex::new(Vec::new());
        let sessions = retry(&settings, &publisher, || {
            pauses.lock().push(ended.lock().elapsed().as_millis());
            let session = session();
            async {
                let how = session.await;
                *ended.lock() = Instant::now();
                how
            }
        });
        let _ = timeout(within, sessions).await;
        pauses.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_greets_and_hangs_up_is_left_alone_for_longer_and_longer() {
        let pauses = pauses(Duration::from_mins(10), || async {
            let ready_since = Some(Instant::now());
            // Longer than one interval, but too short to be useful.
            sleep(Duration::from_millis(1500)).await;
            SessionEnd { failure: hung_up(), ready_since }
        })
        .await;
        assert_eq!(pauses[..8], [0, 50, 100, 200, 400, 800, 1600, 2000]);
        assert!(pauses[8..].iter().all(|pause| *pause == 2000), "{pauses:?}");
        assert!(pauses.len() < 180, "{}", pauses.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_has_lasted_is_followed_at_once() {
        let pauses = pauses(Duration::from_mins(2), || async {
            let ready_since = Some(Instant::now());
            sleep(LASTING).await;
            SessionEnd { failure: hung_up(), ready_since }
        })
        .await;
        assert!(pauses.iter().all(|pause| *pause == 0), "{pauses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_a_session_that_has_ended_have_the_longest_timeout_to_end() {
        let shared = shared();
        *shared.longest_timeout.lock() = Duration::from_secs(1);
        let (session, ended) = oneshot::channel();
        let driver = tokio::spawn(drive(pending(), ended, Arc::clone(&shared)));
        yield_now().await;
        // A reload that reuses the connection allows longer calls.
        *shared.longest_timeout.lock() = Duration::from_mins(1);
        let end = Instant::now();
        drop(session);
        driver.await.unwrap().unwrap();
        assert_eq!(end.elapsed(), Duration::from_mins(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_floods_the_connection_is_left_alone_for_the_longest_pause() {
        let pauses = pauses(Duration::from_mins(2), || async {
            let ready_since = Some(Instant::now());
            sleep(LASTING).await;
            SessionEnd { failure: BackendFailure::new(FailureKind::Oversize, "frames"), ready_since }
        })
        .await;
        assert!(pauses[0] == 0 && pauses[1..].iter().all(|pause| *pause == 2000), "{pauses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_panics_is_an_outage_like_any_other() {
        let metrics = Metrics::new();
        let pauses = pauses(Duration::from_secs(10), || async {
            let panics: Result<Infallible, BackendFailure> =
                contained(&metrics, async { panic!("a bug") }).await;
            let Err(failure) = panics;
            SessionEnd { failure, ready_since: None }
        })
        .await;
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1600, 2000, 2000, 2000]);
        let counted = format!("extender_gateway_panics_total {}\n", pauses.len());
        assert!(metrics.text().contains(&counted));
    }
}
