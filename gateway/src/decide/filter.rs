//! Decides a filter call.

mod question;

use extender_gateway_core::{
    Verb,
    filter::{Again, By, FilterFold, Group, Rejected, Seat, Turn, Verdict},
    reason,
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use std::time::Duration;
use tokio::time::Instant;

use self::question::{FilterQuestion, Verdicts};
use super::{
    Call, CallError, Decider, ask,
    call_context::{CallContext, EncodedNodes, Readiness, Ready},
    failures::Failed,
    pacing::{AttemptScope, Pace},
    prefetched::BackendScores,
};
use crate::{
    backend::{Backend, info::FilterPlan},
    config::{ChangingReasons, FilterSettings, ReasonPrefix, RepeatedRefusals},
    record::{BackendOutcome, CallRecord, Outcome},
    wire::reply::Reason,
};

/// The reason for a node that is not in the node table.
const NOT_YET_KNOWN: &str = "node is not yet known to the gateway";
/// The reason for a deleted node.
const DELETED: &str = "node was deleted";

/// A second call with less time than this would only time out again.
const WORTH_ASKING: Duration = Duration::from_millis(1);

/// A decided filter call.
#[derive(Debug)]
pub struct Filtered {
    /// The rejected nodes.
    pub rejected: Rejected,
    /// The reason for each group of `rejected`.
    pub reasons: Vec<Reason>,
}

/// One backend of a filter call.
type FilterParticipant<'d> = ask::Participant<'d, FilterSettings>;

/// A filter call, and the backends that take part in it.
#[derive(Clone, Copy)]
struct Round<'c> {
    call: Call<'c>,
    context: &'c CallContext<'c>,
    participants: &'c [FilterParticipant<'c>],
    deadline: Instant,
}

/// The decision of a filter call.
struct Decided {
    verdict: Verdict,
    /// Scores that came with the answers.
    scores: Vec<BackendScores>,
}

impl Decider {
    /// Decides which nodes the pod may not run on. The record gets the details.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn filter(&self, call: Call<'_>, record: &mut CallRecord) -> Result<Filtered, CallError> {
        let count = call.request.names.count();
        let mut context =
            CallContext::new(call, record, &self.known, self.unknown_nodes_deadline(call.began));
        let mut participants = Vec::new();
        let mut seats = Vec::new();
        if count > 0 {
            for (backend, settings) in self.asked(call.pod, |backend| backend.filter.as_ref()) {
                let (ready, seat) = self.seat(&mut context, backend, settings).await?;
                let (place, timeout) = (record.backends.len(), settings.timeout);
                let part = BackendOutcome::new(&backend.settings, settings.failure_policy.into());
                let (unknown, deleted) = (seat.unknown.clone(), seat.deleted.clone());
                let oversize = seat.oversize.clone();
                record.backends.push(BackendOutcome { unknown, deleted, oversize, ..part });
                participants.push(FilterParticipant { place, backend, settings, timeout, ready });
                seats.push(seat);
            }
        }
        let deadline = call.began + self.timeouts.decision;
        let round = Round { call, context: &context, participants: &participants, deadline };
        let Decided { verdict, scores } = self.fold(round, seats, &mut record.backends).await;
        // A single remaining node is not scored.
        let choice = verdict_leaves_a_choice(&verdict, count);
        self.prefetched.put(call.pod.uid(), if choice { scores } else { Vec::new() });
        if let Verdict::Decided(rejected) = &verdict {
            let left = |node: &u32| rejected.nodes.get(*node as usize).is_none_or(Option::is_none);
            self.shadow_filter(call, record, &mut context, (0..count).filter(left)).await;
        }
        let filtered = self.conclude(call, &participants, verdict)?;
        record.left = Some(count - number_of_rejected(&filtered.rejected));
        Ok(filtered)
    }

    async fn fold(&self, round: Round<'_>, seats: Vec<Seat>, parts: &mut [BackendOutcome]) -> Decided {
        let Round { call, context, participants, deadline } = round;
        let (mut fold, mut asks) = FilterFold::begin(call.request.names.count(), seats);
        let mut under_way = FuturesUnordered::new();
        let mut scores = Vec::new();
        while fold.verdict().is_none() {
            for ask in asks.drain(..) {
                let participant = &participants[ask.seat];
                under_way.push(async move {
                    let about = ask::NodeContext { context, nodes: &ask.nodes, deadline };
                    (ask.seat, participant.ask(&FilterQuestion, about).await)
                });
            }
            let answered = under_way.next().await;
            let (seat, answer) = answered.expect("while there is no verdict some backend is being asked");
            if let Err(failure) = &answer {
                let (policy, trace) = (parts[seat].policy, context.trace);
                let failed = Failed { verb: Verb::Filter, policy, pod: call.pod, trace };
                self.failures.record(&participants[seat].backend.settings, failure, failed);
                parts[seat].outcome = Outcome::Failed(failure.clone());
            }
            let again = participants[seat].again(deadline);
            let refusals = answer.map(|Verdicts { refusals, scores: early }| {
                scores.extend(early);
                refusals
            });
            asks = fold.answer(seat, refusals, again);
        }
        let (verdict, heard) = fold.end();
        for (part, heard) in parts.iter_mut().zip(heard) {
            part.outcome = heard
                .map_or_else(|| std::mem::replace(&mut part.outcome, Outcome::Pending), Outcome::Filtered);
        }
        Decided { verdict: verdict.expect("the loop ended because there is one"), scores }
    }

    fn conclude(
        &self,
        call: Call<'_>,
        participants: &[FilterParticipant<'_>],
        verdict: Verdict,
    ) -> Result<Filtered, CallError> {
        match verdict {
            Verdict::Decided(rejected) => {
                let reasons = rejected.groups.iter().map(|group| self.reason(participants, group)).collect();
                self.count_unknown(&rejected);
                self.spare_the_scheduler(call, participants, Filtered { rejected, reasons })
            }
            Verdict::Failed { seat, failure } => {
                let name = participants[seat].backend.settings.name.to_string();
                Err(CallError::Backend { name, verb: Verb::Filter, failure })
            }
            Verdict::NotYetKnown { nodes } => {
                self.metrics.unknown_nodes(u64::from(nodes));
                Err(CallError::NotYetKnown { nodes })
            }
        }
    }

    /// If no node is left: keeps reasons the same from one attempt to the next, and makes a pod that is retried too
    /// often back off.
    fn spare_the_scheduler(
        &self,
        call: Call<'_>,
        participants: &[FilterParticipant<'_>],
        mut filtered: Filtered,
    ) -> Result<Filtered, CallError> {
        let Filtered { rejected, reasons } = &mut filtered;
        let pod = call.pod.uid();
        if pod.is_empty() || rejected.nodes.is_empty() || rejected.nodes.iter().any(Option::is_none) {
            return Ok(filtered);
        }
        if self.reasons.changing == ChangingReasons::Held {
            let backend = |group: &Group| match group.by {
                By::Seat(seat) | By::Unknown(seat) | By::Deleted(seat) | By::Oversize(seat) => {
                    participants[seat].backend.settings.name.as_str()
                }
            };
            let backends: Vec<_> = rejected.groups.iter().map(backend).collect();
            let held = self.attempts.hold(pod, &call.request.names, &backends, (rejected, reasons));
            self.metrics.reasons_held(held.changed as u64);
            self.metrics.reasons_forgotten(held.forgotten as u64);
        }
        if self.reasons.repeated == RepeatedRefusals::AsGiven {
            return Ok(filtered);
        }
        match self.attempts.refused(pod, about(call)) {
            Pace::Usual => return Ok(filtered),
            Pace::Unknown => {
                self.metrics.pace_unknown();
                return Ok(filtered);
            }
            Pace::JustTooFast => {
                let (pod, namespace) = (call.pod.name(), call.pod.namespace());
                let text = "pod rejected too often in a short time; returning an error so that kube-scheduler backs off";
                tracing::warn!(pod, namespace, "{text}");
            }
            Pace::TooFast => {}
        }
        self.metrics.refused_too_often();
        let group = filtered.rejected.nodes.iter().flatten().next();
        let reason = group.map(|group| filtered.reasons[*group as usize].text.clone()).unwrap_or_default();
        Err(CallError::Repeated { reason })
    }

    fn count_unknown(&self, rejected: &Rejected) {
        let unknown = |group: &u32| matches!(rejected.groups[*group as usize].by, By::Unknown(_));
        self.metrics
            .unknown_nodes(rejected.nodes.iter().flatten().filter(|group| unknown(group)).count() as u64);
    }

    fn reason(&self, participants: &[FilterParticipant<'_>], group: &Group) -> Reason {
        let text = match (group.by, self.reasons.prefix) {
            (By::Unknown(_), _) => NOT_YET_KNOWN.to_owned(),
            (By::Deleted(_), _) => DELETED.to_owned(),
            (By::Oversize(seat), _) => {
                format!("node is too large for backend {}", participants[seat].backend.settings.name)
            }
            (By::Seat(_), ReasonPrefix::None) => reason::clean(&group.reason),
            (By::Seat(seat), ReasonPrefix::Backend) => {
                reason::prefixed(participants[seat].backend.settings.name.as_str(), &group.reason)
            }
        };
        Reason { text, preemption_may_help: group.preemption_may_help }
    }
}

fn verdict_leaves_a_choice(verdict: &Verdict, count: u32) -> bool {
    let Verdict::Decided(rejected) = verdict else { return false };
    count - number_of_rejected(rejected) > 1
}

fn number_of_rejected(Rejected { nodes, .. }: &Rejected) -> u32 {
    u32::try_from(nodes.iter().flatten().count()).unwrap_or(u32::MAX)
}

fn about(call: Call<'_>) -> AttemptScope {
    let names = &call.request.names;
    let nominated = names.count() == 1 && names.name(0) == call.pod.nominated_node_name();
    if nominated { AttemptScope::Nominated } else { AttemptScope::Nodes }
}

impl Decider {
    /// Determines how to call a backend, and its place in the fold.
    async fn seat(
        &self,
        context: &mut CallContext<'_>,
        backend: &Backend,
        settings: &FilterSettings,
    ) -> Result<(Readiness, Seat), CallError> {
        let mut seat = Seat {
            policy: settings.failure_policy,
            turn: Turn::Parallel,
            preemption: settings.preemption_may_help,
            unknown: Vec::new(),
            deleted: Vec::new(),
            oversize: Vec::new(),
        };
        let ready = context.ready::<FilterPlan>(backend).await?;
        if let Ok(Ready { session, views }) = &ready {
            seat.turn = session.info.filter.as_ref().map_or(seat.turn, |plan| plan.turn);
            let told = context.nodes(*views);
            let EncodedNodes { unknown, deleted, oversize, .. } = told;
            seat.deleted.clone_from(deleted);
            seat.oversize.clone_from(oversize);
            if let Some(node) = oversize.first() {
                backend.log_oversize(oversize.len(), context.name(*node));
            }
            let is_new =
                |node: &&u32| [deleted, oversize].iter().all(|known| known.binary_search(node).is_err());
            seat.unknown = unknown.iter().filter(is_new).copied().collect();
        }
        Ok((ready, seat))
    }
}

impl FilterParticipant<'_> {
    /// Whether a second call could help: not if the backend is unavailable or no time is left.
    fn again(&self, deadline: Instant) -> Again {
        let in_time = deadline.duration_since(Instant::now()) >= WORTH_ASKING;
        if in_time && self.ready.is_ok() { Again::InTime } else { Again::TooLate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{object, wire::Request};

    #[test]
    fn a_call_about_the_nominated_node_alone_is_half_an_attempt() {
        for (nominated, names, expected) in [
            (r#""a""#, r#"["a"]"#, AttemptScope::Nominated),
            (r#""a""#, r#"["b"]"#, AttemptScope::Nodes),
            (r#""a""#, r#"["a","b"]"#, AttemptScope::Nodes),
            ("null", r#"["a"]"#, AttemptScope::Nodes),
        ] {
            let body =
                format!(r#"{{"Pod":{{"status":{{"nominatedNodeName":{nominated}}}}},"NodeNames":{names}}}"#);
            let request = Request::read(body.into()).unwrap();
            let json = request.pod();
            let pod = object::pod::parse(&json).unwrap();
            let call = Call { request: &request, pod: &pod, began: Instant::now() };
            assert_eq!(about(call), expected, "{nominated} {names}");
        }
    }
}
