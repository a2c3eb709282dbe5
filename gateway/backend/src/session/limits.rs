//! Limits what an unstable backend can cause: log lines, however often it reconnects or changes its handshake, and
//! changes of its views, each of which encodes the rows of all nodes again on the thread that serves calls.

use std::{collections::BTreeSet, mem, net::SocketAddr, time::Duration};

use extender_gateway_core::{BackendFailure, FailureKind};
use extender_gateway_pace::{backoff::Backoff, rate_limited_log::RateLimitedLog};
use extender_gateway_settings as config;
use extender_policy_api::v1beta1::{GetInfoResponse, NodeReads, PodReads, Reads, VerbInfo};
use parking_lot::Mutex;
use prost::Message;
use tokio::time::Instant;

use super::SessionPublisher;

use crate::info::{ClusterTables, Info, UnscaledScores};

/// The limits of one backend over all of its sessions.
#[derive(Debug)]
pub(super) struct SessionLimits {
    announcements: RateLimitedLog,
    pub(super) view_changes: ViewChanges,
}

/// The largest burst of announcements, and how often there is one after that.
const BURST: u32 = 5;
const EVERY: Duration = Duration::from_secs(30);

impl Default for SessionLimits {
    fn default() -> Self {
        Self { announcements: RateLimitedLog::new(BURST, EVERY), view_changes: ViewChanges::default() }
    }
}

impl SessionLimits {
    /// Logs that a backend is ready, and the configured verbs that it cannot serve.
    pub(super) fn announce(&self, settings: &config::BackendSettings, info: &Info, known: &ClusterTables) {
        let Some(similar) = self.announcements.permit() else { return };
        let (backend, name) = (&settings.name, &info.name);
        let (version, revision) = (&info.version, &info.revision);
        tracing::info!(%backend, name, version, revision, similar, "backend is ready");
        for verb in settings.verbs() {
            if let Some(failure) = info.refusal(verb) {
                let verb = verb.name();
                tracing::error!(%backend, verb, "backend cannot serve this verb: it {failure}");
            }
        }
        if let Some(scores) = info.unscaled_scores() {
            tracing::warn!(%backend, "{scores}; {}", UnscaledScores::REMEDY);
        }
        if let [first, others @ ..] = &info.introspection.left_out[..] {
            let others = others.len();
            tracing::warn!(%backend, others, "a path that the backend shows cannot be used: {first}");
        }
        if info.takes_outcomes && known.pods.is_none() {
            tracing::warn!(
                %backend,
                "pods are not watched, so the backend is not told which pods others bind, and which are deleted; set pods.source: Watch"
            );
        }
    }
}

/// Where an outage is.
#[derive(Debug)]
pub(crate) struct Place<'b> {
    backend: &'b config::BackendSettings,
    /// The address, if the backend is available at others.
    other_than: Option<SocketAddr>,
}

impl<'b> Place<'b> {
    /// The whole backend.
    pub(crate) fn host(backend: &'b config::BackendSettings) -> Self {
        Self { backend, other_than: None }
    }

    /// An address without a session.
    pub(super) fn of(backend: &'b config::BackendSettings, publisher: &SessionPublisher) -> Self {
        let others = publisher.shared.availability.since();
        Self { backend, other_than: others.map(|_| publisher.endpoint.address) }
    }
}

/// One outage of a backend. It is logged at its start, at the first failure of another kind, and then once in each
/// [`OUTAGE_PAUSE`], however many attempts to connect there are.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// When it began and when it was last logged.
    logged: Option<(Instant, Instant)>,
    /// The kinds of failures that were logged: after the operator fixes one cause, the next must be logged.
    kinds: Vec<FailureKind>,
    /// Whether it began with the end of a connection, which was not logged.
    lost: bool,
}

const OUTAGE_PAUSE: Duration = Duration::from_mins(1);

impl Outage {
    /// Logs a failed attempt to connect, or the end of a connection that was usable, if a line is due.
    pub(crate) fn log(&mut self, place: &Place<'_>, failure: &BackendFailure, was_usable: bool) {
        let permit = if was_usable { self.permit_of_end(failure.kind) } else { self.permit(failure.kind) };
        let Some(lasted) = permit else { return };
        let (down, minutes) = match lasted.as_secs() / 60 {
            0 => ("down", String::new()),
            minutes => ("still down", format!(" for {minutes} min")),
        };
        let Place { backend, other_than } = place;
        if let Some(address) = other_than {
            tracing::info!(
                backend = %backend.name,
                %address,
                kind = failure.kind.as_str(),
                "address of the backend is {down}{minutes}: {failure}; its other addresses are used"
            );
            return;
        }
        tracing::warn!(
            backend = %backend.name,
            url = %backend.url,
            kind = failure.kind.as_str(),
            "backend is {down}{minutes}: {failure}; its failure policies apply until it is reachable"
        );
    }

    /// As [`permit`](Self::permit), for the end of a connection that was usable. None at the beginning of the outage: the next attempt, a
    /// moment later, tells why, or is the end of the outage. If the backend sent too much, no attempt would tell.
    fn permit_of_end(&mut self, kind: FailureKind) -> Option<Duration> {
        let is_told_later = kind != FailureKind::Oversize && self.logged.is_none();
        if is_told_later && !mem::replace(&mut self.lost, true) {
            return None;
        }
        self.permit(kind)
    }

    /// How long the backend has been down; `None` if it is too early to log it again.
    fn permit(&mut self, kind: FailureKind) -> Option<Duration> {
        let now = Instant::now();
        let (began, last) = *self.logged.get_or_insert((now, now));
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        } else if now - last < OUTAGE_PAUSE {
            return None;
        }
        self.logged = Some((began, now));
        Some(now - began)
    }
}

/// Limits how often a backend may change its views over all of its sessions: some changes at once, as when an operator
/// edits the rules of a policy, and then one after each pause.
#[derive(Debug, Default)]
pub(super) struct ViewChanges(Mutex<AcceptedViews>);

#[derive(Debug, Default)]
struct AcceptedViews {
    /// The handshake that was accepted last.
    handshake: Option<GetInfoResponse>,
    /// When the latest change was, and the number of changes since a quiet time.
    changes: Option<(Instant, u32)>,
}

/// The changes that are accepted without a pause.
const AT_ONCE: u32 = 5;
/// The pauses before further changes.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(1));
/// After this long without a change, changes are accepted at once again.
const QUIET: Duration = Duration::from_mins(10);

impl ViewChanges {
    /// Accepts a handshake after the latest accepted one, unless its views change too soon. The first one of a connection
    /// always is, since without it the backend could not be called. Returns whether it is accepted.
    pub(super) fn try_accept(&self, next: &GetInfoResponse, is_first: bool) -> bool {
        let mut accepted = self.0.lock();
        let differs = accepted.handshake.as_ref().is_some_and(|latest| views(latest) != views(next));
        let allowed = !differs || accepted.try_change() || is_first;
        if allowed {
            accepted.handshake = Some(next.clone());
        }
        allowed
    }
}

impl AcceptedViews {
    fn try_change(&mut self) -> bool {
        let now = Instant::now();
        let changes = match self.changes {
            Some((at, changes)) if now - at < QUIET => {
                if now - at < pause(changes) {
                    return false;
                }
                changes + 1
            }
            _ => 1,
        };
        self.changes = Some((now, changes));
        true
    }
}

/// The pause after this many changes.
fn pause(changes: u32) -> Duration {
    match changes.checked_sub(AT_ONCE) {
        None => Duration::ZERO,
        Some(further) => PAUSES.after(further),
    }
}

/// What a handshake requests. Lists are unordered: a backend may write them from a map.
fn views(info: &GetInfoResponse) -> impl PartialEq + use<> {
    let verb =
        |verb: &VerbInfo| (verb.verb, verb.reads.clone().map(in_order).map(|reads| reads.encode_to_vec()));
    let verbs: BTreeSet<_> = info.verbs.iter().map(verb).collect();
    (verbs, info.services.iter().cloned().collect::<BTreeSet<_>>())
}

/// The declaration with its unordered lists in order.
fn in_order(mut reads: Reads) -> Reads {
    let Reads { pod, node } = &mut reads;
    let mut maps = Vec::new();
    // Counts are ordered.
    if let Some(PodReads { parts, labels, annotations, topology_counts: _, everything: _ }) = pod {
        parts.sort_unstable();
        maps.extend([labels, annotations]);
    }
    if let Some(NodeReads { parts, labels, annotations, pod_counts: _, everything: _ }) = node {
        parts.sort_unstable();
        maps.extend([labels, annotations]);
    }
    for map in maps.into_iter().flatten() {
        map.prefixes.sort_unstable();
    }
    reads
}

#[cfg(test)]
mod tests {
    use extender_policy_api::v1beta1::MapReads;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_failure_is_logged_and_then_one_a_minute() {
        let mut outage = Outage::default();
        let mut logged = Vec::new();
        for attempt in 0..=100_u64 {
            if let Some(lasted) = outage.permit(FailureKind::Unreachable) {
                logged.push((attempt * 2, lasted.as_secs()));
            }
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert_eq!(logged, [(0, 0), (60, 60), (120, 120), (180, 180)]);
    }

    #[tokio::test(start_paused = true)]
    async fn another_kind_of_failure_is_logged_once() {
        let mut outage = Outage::default();
        let kinds =
            [FailureKind::Unreachable, FailureKind::Status, FailureKind::Unreachable, FailureKind::Status];
        let mut logged = Vec::new();
        for kind in kinds {
            logged.push(outage.permit(kind).is_some());
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert_eq!(logged, [true, true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_that_begins_with_a_lost_connection_has_one_line() {
        let mut outage = Outage::default();
        assert!(outage.permit_of_end(FailureKind::Reset).is_none());
        assert!(outage.permit(FailureKind::Unreachable).is_some());
        assert!(outage.permit(FailureKind::Unreachable).is_none());

        let mut flapping = Outage::default();
        let logged = [(); 3].map(|()| flapping.permit_of_end(FailureKind::Reset).is_some());
        assert_eq!(logged, [false, true, false], "it never fails to connect");

        let mut flooding = Outage::default();
        assert!(
            flooding.permit_of_end(FailureKind::Oversize).is_some(),
            "no other line would name the cause"
        );
    }

    fn asking_for(prefix: u32) -> GetInfoResponse {
        let annotations = MapReads { keys: vec![format!("{prefix}.example.com/")], ..MapReads::default() };
        let node = NodeReads { annotations: Some(annotations), ..NodeReads::default() };
        let verb = VerbInfo { reads: Some(Reads { node: Some(node), pod: None }), ..VerbInfo::default() };
        GetInfoResponse { verbs: vec![verb], ..GetInfoResponse::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn other_views_are_taken_more_and_more_rarely() {
        let changes = ViewChanges::default();
        assert!(changes.try_accept(&asking_for(0), true));
        let mut taken = Vec::new();
        for second in 1..=200 {
            tokio::time::advance(Duration::from_secs(1)).await;
            if changes.try_accept(&asking_for(second), false) {
                taken.push(second);
            }
        }
        assert_eq!(taken, [1, 2, 3, 4, 5, 10, 20, 40, 80, 140, 200]);
        let revised = GetInfoResponse { revision: "2".to_owned(), ..asking_for(200) };
        assert!(changes.try_accept(&revised, false), "another revision with the same views is taken at once");
        assert!(!changes.try_accept(&asking_for(0), false));
        assert!(changes.try_accept(&asking_for(0), true), "the first one of another connection");
        assert!(!changes.try_accept(&asking_for(1), false), "which does not make up for the pause");
        tokio::time::advance(QUIET).await;
        assert_eq!((1..=10).filter(|prefix| changes.try_accept(&asking_for(*prefix), false)).count(), 5);
        tokio::time::advance(PAUSES.after(0)).await;
        assert!(changes.try_accept(&asking_for(0), false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_declaration_in_another_order_is_the_same() {
        let declaring = |parts: [i32; 2], prefixes: [&str; 2]| {
            let prefixes = prefixes.map(str::to_owned).to_vec();
            let labels = Some(MapReads { prefixes, ..MapReads::default() });
            let node = Some(NodeReads { parts: parts.into(), labels, ..NodeReads::default() });
            let verb = VerbInfo { reads: Some(Reads { node, pod: None }), ..VerbInfo::default() };
            GetInfoResponse { verbs: vec![verb], ..GetInfoResponse::default() }
        };
        let declared = views(&declaring([1, 2], ["a", "b"]));
        assert!(declared == views(&declaring([2, 1], ["b", "a"])));
        assert!(declared != views(&declaring([1, 3], ["a", "b"])));
        assert!(declared != views(&declaring([1, 2], ["a", "c"])));
    }
}
