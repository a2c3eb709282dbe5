//! Decides a prioritize call.

use std::sync::Arc;

use extender_gateway_core::{
    BackendFailure,
    filter::Asked,
    score::{self, Ballot},
};
use extender_otlp::TraceContext;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::{
    Call, CallError, Decider,
    asking::{self, Asking, only},
    case::Case,
    case::Views,
    foreseen::Scores,
    recall,
};
use crate::{
    account::{Account, Inquiry, Part, Policy, Said, Source},
    backend::{Backend, answer::Reply, info::ScorePlan, link::Link, question::Scores as Wanted},
    cluster::table::Line,
    config::ScoreSettings,
};

/// One backend of a call.
struct Participant<'d> {
    backend: &'d Backend,
    settings: &'d ScoreSettings,
    ready: Result<(Arc<Link>, Views), BackendFailure>,
}

impl Decider {
    /// The total score of each node; `None` for a node that is not listed. A backend that fails is left out, as
    /// kube-scheduler leaves out an extender whose prioritize fails. An interested backend without a `score` block
    /// lists every node with 0, as an extender without `prioritizeVerb` does.
    ///
    /// # Errors
    /// The request holds a node that cannot be read.
    pub async fn prioritize(
        &self,
        call: Call<'_>,
        account: &mut Account,
    ) -> Result<Vec<Option<i64>>, CallError> {
        let count = call.request.names.count();
        let mut case = Case::new(call, account, (&self.known, self.timeouts.decision));
        let foreseen = self.foreseen.take(call.pod.uid());
        let mut participants = Vec::new();
        let mut lists_all = false;
        if count > 0 {
            for backend in self.enforced(call.pod) {
                let Some(settings) = &backend.settings.score else {
                    lists_all = true;
                    continue;
                };
                let ready = case.ready::<ScorePlan>(backend).await?;
                account.parts.push(Part::new(backend, Policy::Ignore));
                participants.push(Participant { backend, settings, ready });
            }
        }
        let deadline = call.began + self.timeouts.decision;
        let asked = (0..)
            .zip(&participants)
            .map(|(at, participant)| participant.ask((&case, at), &foreseen, deadline));
        let answers = join_all(asked).await;
        self.put_down((call, account.trace), answers, &mut account.parts);
        let ballots: Vec<&Ballot> = account.parts.iter().filter_map(Part::ballot).collect();
        let mut totals = score::totals(count as usize, &ballots);
        if lists_all {
            score::list_all(&mut totals);
        }
        self.shadow_score((call, account), &mut case, &totals).await;
        Ok(totals)
    }

    /// Puts each answer into the part of the backend that gave it. Only ballots count.
    fn put_down(
        &self,
        (call, trace): (Call<'_>, Option<TraceContext>),
        answers: Vec<Answer>,
        parts: &mut [Part],
    ) {
        for (part, answer) in parts.iter_mut().zip(answers) {
            match answer {
                Ok(None) => {}
                Ok(Some(mut ballot)) => {
                    let outside = ballot.range.clamp(&mut ballot.scores);
                    part.said = Said::Scored(ballot, outside);
                }
                Err(failure) => {
                    self.failures.record(&part.backend, "score", &failure, (call.pod, part.policy, trace));
                    part.said = Said::Failed(failure);
                }
            }
        }
    }
}

/// A ballot, if something was scored.
type Answer = Result<Option<Ballot>, BackendFailure>;

impl Participant<'_> {
    /// Its scores; `None` when it knows none of the nodes. How they were found out is put down for its place.
    async fn ask(&self, (case, at): (&Case<'_>, usize), foreseen: &[Scores], deadline: Instant) -> Answer {
        let mut inquiry = case.desk.open(at, case.trace);
        let ballot = self.find_out((case, deadline), foreseen, &mut inquiry).await;
        inquiry.close(&ballot);
        ballot
    }

    /// Its scores; `None` when it knows none of the nodes.
    async fn find_out(
        &self,
        (case, deadline): (&Case<'_>, Instant),
        foreseen: &[Scores],
        inquiry: &mut Inquiry,
    ) -> Result<Option<Ballot>, BackendFailure> {
        let (link, views) = self.ready.as_ref().map_err(Clone::clone)?;
        let ScorePlan { range, normalization, nodes: view, .. } =
            link.info.score.as_ref().map_err(Clone::clone)?;
        let told = case.nodes(*views);
        if told.count() == 0 {
            return Ok(None);
        }
        let (timeout, until) = asking::patience(self.settings.timeout, deadline);
        let asking = Asking { link, view, case, views: *views, timeout, until };
        let scores = self.scores((asking, inquiry), &told.lines(&Asked::All), foreseen).await?;
        let weight = self.settings.weight.value();
        Ok(Some(Ballot { weight, normalization: *normalization, range: *range, nodes: told.known(), scores }))
    }

    /// Raw scores: those that are known, and of the other nodes those that it gives now.
    async fn scores(
        &self,
        (asking, inquiry): (Asking<'_>, &mut Inquiry),
        lines: &[&Line],
        foreseen: &[Scores],
    ) -> Result<Vec<i32>, BackendFailure> {
        let memory = &asking.link.memory;
        let (recalled, check) = recalled(asking, lines, foreseen);
        if memory.scores.is_none() || !memory.is_trusted() {
            inquiry.source = Source::Filter;
        }
        let missing = recall::missing(&recalled, check);
        let known = lines.len() - missing.len();
        inquiry.knows(known);
        if missing.is_empty() {
            return Ok(recalled.into_iter().flatten().collect());
        }
        let asked: Vec<&Line> = missing.iter().map(|at| lines[*at as usize]).collect();
        let fresh = self.put((asking, inquiry), &asked).await?;
        if known > 0 && !recall::may_combine(inquiry.source, memory) {
            inquiry.knows(0);
            return self.put((asking.again(), inquiry), lines).await;
        }
        self.remember(asking, (&recalled, &missing, check), &asked, &fresh);
        let mut scores: Vec<i32> = recalled.into_iter().map(Option::unwrap_or_default).collect();
        missing.iter().zip(fresh).for_each(|(at, score)| scores[*at as usize] = score);
        Ok(scores)
    }

    /// Remembers scores, where that is allowed, unless they show that it should not be.
    fn remember(
        &self,
        asking: Asking<'_>,
        (recalled, missing, check): (&[Option<i32>], &[u32], bool),
        asked: &[&Line],
        fresh: &[i32],
    ) {
        let memory = &asking.link.memory;
        let Some(remembered) = memory.scores.as_ref().filter(|_| memory.is_trusted()) else { return };
        let certain = asking.certain(asked);
        let now: Vec<Option<i32>> = fresh.iter().copied().map(Some).collect();
        if check && recall::disagree(recalled, missing, &now, &certain) {
            recall::distrust(memory, self.backend.settings.name.as_str(), &self.backend.meters.score);
        } else {
            remembered.file(asking.pod(), only(&certain, asked, fresh.iter().copied()));
        }
    }

    async fn put(
        &self,
        (mut asking, inquiry): (Asking<'_>, &mut Inquiry),
        lines: &[&Line],
    ) -> Result<Vec<i32>, BackendFailure> {
        inquiry.asks_about(lines.len());
        if let Some((nodes, named)) = asking.by_reference(lines) {
            let (question, within) = asking.question(&nodes, Wanted::Unwanted);
            let terms = (within, &mut inquiry.exchanges);
            match self.backend.score(asking.link, question, terms).await? {
                Reply::Answered(scores) => return Ok(scores),
                Reply::Missed => asking::missed(&named, self.backend),
            }
            asking = asking.again();
        }
        let nodes = asking.inline(lines);
        let (question, within) = asking.question(&nodes, Wanted::Unwanted);
        self.backend.score(asking.link, question, (within, &mut inquiry.exchanges)).await?.inline()
    }
}

/// The scores that are known, and whether they are asked for all the same.
fn recalled(asking: Asking<'_>, lines: &[&Line], foreseen: &[Scores]) -> (Vec<Option<i32>>, bool) {
    let (link, pod) = (asking.link, asking.pod());
    let memory = &link.memory;
    if let Some(scores) = memory.scores.as_ref().filter(|_| memory.is_trusted()) {
        let recalled = scores.recall(pod, lines.iter().copied());
        let check = recalled.iter().any(Option::is_some) && scores.is_check_due();
        return (recalled, check);
    }
    let waiting = foreseen.iter().find(|scores| scores.are_of(link, pod));
    (waiting.map_or_else(|| vec![None; lines.len()], |scores| scores.recall(lines)), false)
}
