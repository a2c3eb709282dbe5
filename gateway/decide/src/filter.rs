//! Decides a filter call.

use std::time::Duration;

use extender_gateway_backend::{
    Attempt, Backend,
    answer_cache::{AnswerCache, VerbCache},
    info::{Info, VerbPlan},
    session::Session,
};
use extender_gateway_contract::{
    answer::{FilterAnswer, Reply},
    question::{Question, Wants},
    row::RowView,
};
use extender_gateway_core::{
    BackendFailure, PolicyVerb,
    filter::{Again, By, FilterFold, Group, Refusal, Rejected, Seat, Turn, Verdict},
    reason,
};
use extender_gateway_object::pod::ObjectPod;
use extender_gateway_record::{CallRecord, Outcome};
use extender_gateway_settings::{
    ChangingReasons, FailurePolicy, FilterSettings, ReasonPrefix, RepeatedRefusals,
};
use extender_gateway_wire::reply::Reason;
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::time::Instant;

use super::{
    Call, CallError, Decider,
    ask::{Ask, Certain, NodeQuestion, Participant},
    call_context::{CallContext, Readiness},
    pacing::{AttemptScope, Pace, Told},
    prioritize::BackendScores,
    purpose::excluded,
    shadow::Decided,
};

/// The reason for a node that is not in the node table.
const NOT_YET_KNOWN: &str = "node is not yet known to the gateway";
/// The reason for a node that cannot be read. Status has the error.
const UNREADABLE: &str = "node cannot be read by the gateway";
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
    /// The views of nodes of the filters behind the rejections, if the caller wants to know: nothing else of nodes changes one. `None`:
    /// anything may.
    pub rejecting_views: Option<Vec<RowView>>,
}

impl Filtered {
    /// Gives all rejected nodes this text. The rest of a reason stays each node's own.
    fn summarize(&mut self, text: &str) {
        let Self { rejected, reasons, .. } = self;
        let Some(by) = rejected.groups.first().map(|group| group.by) else { return };
        for group in rejected.nodes.iter_mut().flatten() {
            let Reason { preemption_may_help, regardless_of_pods, .. } = reasons[*group as usize];
            *group = u32::from(preemption_may_help) | u32::from(regardless_of_pods) << 1;
        }
        let kinds = [(false, false), (true, false), (false, true), (true, true)];
        let reason = |(preemption_may_help, regardless_of_pods)| Reason {
            text: text.to_owned(),
            preemption_may_help,
            regardless_of_pods,
        };
        *reasons = kinds.map(reason).into();
        let group = |(preemption_may_help, _)| Group { by, reason: text.to_owned(), preemption_may_help };
        rejected.groups = kinds.map(group).into();
    }
}

impl Decider {
    /// Decides which nodes the pod may not run on. The record gets the details.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn filter(&self, call: Call<'_>, record: &mut CallRecord) -> Result<Filtered, CallError> {
        let (uid, outcomes) = (call.pod.uid(), self.backends.iter().map(|backend| &backend.outcomes));
        outcomes.clone().for_each(|outcomes| outcomes.superseded(uid));
        let filtered = self.decide_filter(call, record).await;
        if filtered.is_err() || record.left == Some(0) {
            outcomes.for_each(|outcomes| outcomes.not_bound(uid, Some(&record.id)));
        }
        filtered
    }

    /// Whether what the filters decide about a node may depend on the other nodes of the call: a backend is called in turn, or a
    /// hook sees them. A backend that is unavailable rejects all or none. One that is told how attempts end is told of calls, so an
    /// attempt has one.
    pub fn rejections_depend_on_nodes(&self, pod: &ObjectPod<'_>) -> bool {
        let in_turn = |plan: &VerbPlan| plan.turn != Turn::Parallel;
        let depends = |session: &Session| {
            session.takes_outcomes() || session.info.about_nodes(PolicyVerb::Filter).is_ok_and(in_turn)
        };
        !self.hooks.is_empty()
            || self
                .asked(pod, |backend| backend.filter.as_ref())
                .any(|(backend, _)| backend.any_session().is_ok_and(|session| depends(&session)))
    }

    async fn decide_filter(&self, call: Call<'_>, record: &mut CallRecord) -> Result<Filtered, CallError> {
        let count = call.request.names.count();
        let mut context = CallContext::new(&self.settings, call, record);
        if count > 0 {
            self.before_filter(&mut context, record).await?;
        }
        let all = |_: &Backend| count > 0;
        let (participants, seats) = self.participants(&mut context, all, record).await?;
        let (verdict, scores) = self.fold(&context, &participants, seats, record).await;
        self.count_rejections(call, record);
        let left = match &verdict {
            Verdict::Decided(rejected) => count - number_of_rejected(rejected),
            Verdict::Failed { .. } | Verdict::NotYetKnown { .. } => 0,
        };
        // A single remaining node is not scored.
        self.prefetched.put(call.pod.uid(), if left > 1 { scores } else { Vec::new() });
        if let Verdict::Decided(rejected) = &verdict {
            let left = |node: &u32| rejected.nodes.get(*node as usize).is_none_or(Option::is_none);
            let left = || Decided::Left((0..count).filter(left).collect());
            self.shadow_nodes(PolicyVerb::Filter, call, record, context.encodings, left);
        }
        let filtered = self.conclude(call, &participants, verdict)?;
        record.left = Some(left);
        Ok(filtered)
    }

    /// The selected backends that filter for this pod, with their places in the fold. The record gets a part for each.
    ///
    /// # Errors
    /// The request contains a node that cannot be parsed.
    pub(super) async fn participants<'d>(
        &'d self,
        context: &mut CallContext<'_>,
        select: impl Fn(&Backend) -> bool,
        record: &mut CallRecord,
    ) -> Result<(Vec<Participant<'d>>, Vec<Seat>), CallError> {
        let (mut participants, mut seats) = (Vec::new(), Vec::new());
        let asked = self.asked(context.call.pod, |backend| backend.filter.as_ref());
        let asked: Vec<_> = asked.filter(|(backend, _)| select(backend)).collect();
        context.look_up_together(PolicyVerb::Filter, asked.iter().map(|(backend, _)| &***backend)).await;
        for (backend, settings) in asked {
            let ready = context.ready(PolicyVerb::Filter, backend).await?;
            let seat = seat(context, backend, settings, &ready);
            let place = record.add_part(&backend.settings, PolicyVerb::Filter, seat.policy);
            record.backends[place].not_sent = seat.not_sent.clone();
            participants.push(Participant { place, backend, timeout: settings.timeout, ready });
            seats.push(seat);
        }
        Ok((participants, seats))
    }

    /// The decision, and the scores that came with the answers. The record has the participants' parts.
    pub(super) async fn fold(
        &self,
        context: &CallContext<'_>,
        participants: &[Participant<'_>],
        seats: Vec<Seat>,
        record: &mut CallRecord,
    ) -> (Verdict, Vec<BackendScores>) {
        let CallContext { call, deadline, .. } = *context;
        let (mut fold, mut asks) = FilterFold::begin(call.request.names.count(), seats);
        let mut pending = FuturesUnordered::new();
        let mut all_scores = Vec::new();
        while fold.verdict().is_none() {
            for ask in asks.drain(..) {
                let participant = &participants[ask.seat];
                pending.push(async move {
                    (ask.seat, participant.ask(&FilterQuestion, context, &ask.nodes).await)
                });
            }
            let answered = pending.next().await;
            let (seat, answer) = answered.expect("while there is no verdict some backend is being asked");
            if let Err(failure) = &answer {
                self.record_failure(PolicyVerb::Filter, failure, record, participants[seat].place);
            }
            // A second call does not help if the backend is unavailable or no time is left.
            let in_time = deadline.duration_since(Instant::now()) >= WORTH_ASKING;
            let again =
                if in_time && participants[seat].ready.is_ok() { Again::InTime } else { Again::TooLate };
            let refusals = answer.map(|Verdicts { refusals, scores }| {
                all_scores.extend(scores);
                refusals
            });
            asks = fold.answer(seat, refusals, again);
        }
        let (verdict, heard) = fold.end();
        for (participant, heard) in participants.iter().zip(heard) {
            if let Some(heard) = heard {
                record.backends[participant.place].outcome = Outcome::Filtered(heard);
            }
        }
        (verdict.expect("the loop ended because there is one"), all_scores)
    }

    fn conclude(
        &self,
        call: Call<'_>,
        participants: &[Participant<'_>],
        verdict: Verdict,
    ) -> Result<Filtered, CallError> {
        match verdict {
            Verdict::Decided(rejected) => {
                let reasons = rejected.groups.iter().map(|group| self.reason(participants, group)).collect();
                let by = |group: &u32| rejected.groups[*group as usize].by;
                let count = |is_it: fn(By) -> bool| {
                    rejected.nodes.iter().flatten().filter(|group| is_it(by(group))).count() as u64
                };
                let process = self.metrics().process();
                process.unknown_nodes.inc_by(count(|by| matches!(by, By::Unknown(_))));
                process.unreadable_objects.inc_by(count(|by| matches!(by, By::Unreadable(_))));
                let views = || self.rejecting_views(participants, &rejected.groups);
                let rejecting_views = call.needs.follows_nodes.then(views).flatten();
                self.pace_retries(call, participants, Filtered { rejected, reasons, rejecting_views })
            }
            Verdict::Failed { seat, failure } => {
                Err(CallError::backend(&participants[seat].backend.settings, PolicyVerb::Filter, failure))
            }
            Verdict::NotYetKnown { nodes } => {
                self.metrics().process().unknown_nodes.inc_by(u64::from(nodes));
                Err(CallError::NotYetKnown(nodes))
            }
        }
    }

    /// If no node is left: keeps the pod's condition the same from one attempt to the next, and makes a pod that is
    /// retried too often even so back off.
    fn pace_retries(
        &self,
        call: Call<'_>,
        participants: &[Participant<'_>],
        mut filtered: Filtered,
    ) -> Result<Filtered, CallError> {
        let (settings, pod) = (&self.settings, call.pod.uid());
        if pod.is_empty() || call.request.names.count() == 0 || call.needs.is_part {
            return Ok(filtered);
        }
        if number_of_rejected(&filtered.rejected) < call.request.names.count() {
            settings.pacing.accepted(pod);
            return Ok(filtered);
        }
        let pace = settings.pacing.refused(pod, scope(call));
        if settings.reasons.changing == ChangingReasons::Held {
            self.hold_condition(pod, participants, pace, &mut filtered);
        }
        if settings.reasons.repeated == RepeatedRefusals::AsGiven {
            return Ok(filtered);
        }
        match pace {
            Pace::Usual | Pace::Half => return Ok(filtered),
            Pace::Unknown => {
                self.metrics().process().uncounted_refusals.inc();
                return Ok(filtered);
            }
            Pace::JustTooFast => {
                let (pod, namespace) = (call.pod.name(), call.pod.namespace());
                let text = "pod rejected too often in a short time; returning an error so that kube-scheduler backs off";
                tracing::warn!(pod, namespace, "{text}");
            }
            Pace::TooFast => {}
        }
        self.metrics().process().repeated_refusals.inc();
        let group = filtered.rejected.nodes.iter().flatten().next();
        let reason = group.map(|group| filtered.reasons[*group as usize].text.clone());
        Err(CallError::Repeated(reason.unwrap_or_default()))
    }

    /// Replaces the reasons by the pod's summary if they would change its condition.
    fn hold_condition(
        &self,
        pod: &str,
        participants: &[Participant<'_>],
        pace: Pace,
        filtered: &mut Filtered,
    ) {
        let pacing = &self.settings.pacing;
        let policies = self.policies(participants);
        let told = match pace {
            Pace::Half => pacing.tell_half(pod, policies),
            _ => pacing.tell(pod, policies, &filtered.rejected, &filtered.reasons),
        };
        match told {
            Told::Reasons => {}
            Told::Untracked => drop(self.metrics().process().untracked_reasons.inc()),
            Told::Summary(summary) => {
                self.metrics().process().summarized_refusals.inc();
                filtered.summarize(&summary);
            }
        }
    }

    /// The policies behind a decision: whose answers count, with which settings and of which revision.
    fn policies(&self, participants: &[Participant<'_>]) -> u64 {
        let policy = |participant: &Participant<'_>| {
            let ready = participant.ready.as_ref().ok();
            let revision = ready.map(|ready| ready.session.info.revision.clone());
            (participant.backend.settings.name.to_string(), revision)
        };
        let policies: Vec<_> = participants.iter().map(policy).collect();
        let hooks: Vec<_> = self
            .hooks
            .iter()
            .map(|backend| backend.any_session().ok().map(|session| session.info.revision.clone()))
            .collect();
        self.settings.pacing.fingerprint((self.policy_settings, policies, hooks))
    }

    pub(super) fn reason(&self, participants: &[Participant<'_>], group: &Group) -> Reason {
        let text = match (group.by, self.settings.reasons.prefix) {
            (By::Unknown(_), _) => NOT_YET_KNOWN.to_owned(),
            (By::Unreadable(_), _) => UNREADABLE.to_owned(),
            (By::Deleted(_), _) => DELETED.to_owned(),
            (By::Oversize(seat), _) => {
                format!("node is too large for backend {}", participants[seat].backend.settings.name)
            }
            (By::Seat(_), ReasonPrefix::None) => reason::clean(&group.reason),
            (By::Seat(seat), ReasonPrefix::Backend) => {
                reason::prefixed(participants[seat].backend.settings.name.as_str(), &group.reason)
            }
        };
        let depends_on_pods = match group.by {
            // The filter says so, or it says that it knows more than it is told.
            By::Seat(seat) | By::Oversize(seat) => {
                let ready = participants[seat].ready.as_ref().ok();
                let plan = ready.and_then(|ready| ready.session.info.about_nodes(PolicyVerb::Filter).ok());
                plan.is_none_or(|plan| !plan.pure || plan.depends_on_pods())
            }
            _ => false,
        };
        let regardless_of_pods = self.hooks.is_empty() && !depends_on_pods;
        Reason { text, preemption_may_help: group.preemption_may_help, regardless_of_pods }
    }
}

fn number_of_rejected(Rejected { nodes, .. }: &Rejected) -> u32 {
    u32::try_from(nodes.iter().flatten().count()).unwrap_or(u32::MAX)
}

fn scope(call: Call<'_>) -> AttemptScope {
    let names = &call.request.names;
    let nominated = names.count() == 1 && names.name(0) == call.pod.nominated_node_name();
    if nominated { AttemptScope::Nominated } else { AttemptScope::Nodes }
}

/// A backend's place in the fold.
fn seat(context: &CallContext<'_>, backend: &Backend, settings: &FilterSettings, ready: &Readiness) -> Seat {
    let info = ready.as_ref().ok().map(|ready| &ready.session.info);
    let excluded = info.and_then(|info| excluded(context.purpose, info, PolicyVerb::Filter));
    let plan = info.and_then(|info| info.about_nodes(PolicyVerb::Filter).ok());
    Seat {
        // A backend that is not called in a simulation rejects nothing there.
        policy: if excluded.is_some() { FailurePolicy::Ignore } else { settings.failure_policy },
        turn: plan.map_or(Turn::Parallel, |plan| plan.turn),
        preemption: settings.preemption_may_help,
        not_sent: context.not_sent(backend, ready),
    }
}

/// Which of these nodes may the pod not run on?
struct FilterQuestion;

/// A backend's answer, from the cache or from a call.
#[derive(Debug, Default)]
struct Verdicts {
    /// Positions are those in the fold's question.
    refusals: Vec<Refusal>,
    /// Scores that came with the answer and are not cached.
    scores: Option<BackendScores>,
}

impl NodeQuestion for FilterQuestion {
    type Fresh = FilterAnswer;
    /// Numbered as in `backend::answer_cache::InternedCache`.
    type Cached = u32;
    type Answer = Verdicts;

    fn verb(&self) -> PolicyVerb {
        PolicyVerb::Filter
    }

    fn wants(&self, info: &Info) -> Wants {
        info.scores_with_filter.into()
    }

    async fn send(
        &self,
        backend: &Backend,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Reply<FilterAnswer>, BackendFailure> {
        backend.filter(session, question, attempt).await
    }

    fn cached<'c>(&self, cache: &'c AnswerCache) -> Option<&'c VerbCache<u32>> {
        cache.verdicts.as_ref().map(|verdicts| &verdicts.answers)
    }

    fn read(&self, cache: &AnswerCache, fresh: &FilterAnswer, count: usize) -> Vec<Option<u32>> {
        cache.verdicts.as_ref().map_or_else(Vec::new, |verdicts| verdicts.read(&fresh.refusals, count))
    }

    fn store_more(&self, ask: &Ask<'_>, certain: &Certain<'_>, fresh: &FilterAnswer) {
        if let Some((cached, scores)) = ask.session.cache.scores.as_ref().zip(fresh.scores.as_ref()) {
            cached.store(ask.pod(), certain.only(scores.iter().copied()));
        }
    }

    fn accept(&self, ask: &Ask<'_>, slots: &[u32], fresh: FilterAnswer) -> Verdicts {
        let FilterAnswer { refusals, scores } = fresh;
        Verdicts { refusals, scores: scores.map(|scores| BackendScores::new(ask, slots, scores)) }
    }

    fn splice(&self, ask: &Ask<'_>, known: Vec<u32>, missing: Option<(&[u32], FilterAnswer)>) -> Verdicts {
        let missing = missing.map(|(missing, fresh)| (missing, fresh.refusals));
        let verdicts = ask.session.cache.verdicts.as_ref();
        let refusals = verdicts.map_or_else(Vec::new, |verdicts| verdicts.spliced(known, missing));
        Verdicts { refusals, scores: None }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use extender_gateway_object as object;
    use extender_gateway_pace::fair_queue::Flow;
    use extender_gateway_wire::Request;

    use super::*;

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
            let request = Arc::new(Request::read(body.into()).unwrap());
            let json = request.pod();
            let pod = object::pod::parse(&json).unwrap();
            let call = Call {
                request: &request,
                pod: &pod,
                began: Instant::now(),
                flow: Flow::Own,
                needs: crate::CallerNeeds::default(),
            };
            assert_eq!(scope(call), expected, "{nominated} {names}");
        }
    }
}
