//! Asks one backend in a filter call: about the nodes of which it does not say what it said before.

use extender_gateway_core::{
    BackendFailure,
    filter::{Asked, Refusal},
};
use tokio::time::Instant;

use super::{
    super::{
        asking::{self, Asking, only},
        case::Case,
        foreseen::Scores,
        recall,
    },
    Participant,
};
use crate::{
    account::{Inquiry, Source},
    backend::{
        answer::{FilterAnswer, Reply},
        info::FilterPlan,
        memory::Verdicts,
    },
    cluster::table::Line,
};

/// What a backend says, remembered or asked.
#[derive(Debug)]
pub(super) struct Told {
    /// Positions are those in the question of the fold.
    pub(super) refusals: Vec<Refusal>,
    /// Scores that came with the answer and are not remembered.
    pub(super) scores: Option<Scores>,
}

impl Participant<'_> {
    /// What it says. How that was found out is put down for its seat.
    pub(super) async fn ask(
        &self,
        case: &Case<'_>,
        (seat, nodes): (usize, &Asked),
        deadline: Instant,
    ) -> Result<Told, BackendFailure> {
        let mut inquiry = case.desk.open(seat, case.trace);
        let told = self.find_out(case, (nodes, deadline), &mut inquiry).await;
        inquiry.close(&told);
        told
    }

    async fn find_out(
        &self,
        case: &Case<'_>,
        (nodes, deadline): (&Asked, Instant),
        inquiry: &mut Inquiry,
    ) -> Result<Told, BackendFailure> {
        let (link, views) = self.ready.as_ref().map_err(Clone::clone)?;
        let plan = link.info.filter.as_ref().map_err(Clone::clone)?;
        let (timeout, until) = asking::patience(self.settings.timeout, deadline);
        let asking = Asking { link, view: &plan.nodes, case, views: *views, timeout, until };
        let lines = asking.told().lines(nodes);
        match link.memory.verdicts.as_ref().filter(|_| link.memory.is_trusted()) {
            Some(verdicts) => self.remember((asking, plan, inquiry), verdicts, &lines).await,
            None => self.ask_about_all((asking, plan, inquiry), &lines).await,
        }
    }

    async fn ask_about_all(
        &self,
        (asking, plan, inquiry): (Asking<'_>, &FilterPlan, &mut Inquiry),
        lines: &[&Line],
    ) -> Result<Told, BackendFailure> {
        let FilterAnswer { refusals, scores } = self.put((asking, plan, inquiry), lines).await?;
        let scored = |scores: Vec<i32>| {
            Scores::new(asking.link, asking.pod(), only(&asking.certain(lines), lines, scores))
        };
        Ok(Told { refusals, scores: scores.map(scored) })
    }

    /// Asks about the nodes of which nothing is remembered, and remembers the answers.
    async fn remember(
        &self,
        (asking, plan, inquiry): (Asking<'_>, &FilterPlan, &mut Inquiry),
        verdicts: &Verdicts,
        lines: &[&Line],
    ) -> Result<Told, BackendFailure> {
        let (memory, pod) = (&asking.link.memory, asking.pod());
        let mut recalled = verdicts.recall(pod, lines.iter().copied());
        let check = recalled.iter().any(Option::is_some) && verdicts.is_check_due();
        let missing = recall::missing(&recalled, check);
        inquiry.knows(lines.len() - missing.len());
        if missing.is_empty() {
            return Ok(Told { refusals: verdicts.refusals(&recalled), scores: None });
        }
        let asked: Vec<&Line> = missing.iter().map(|at| lines[*at as usize]).collect();
        let answer = self.put((asking, plan, inquiry), &asked).await?;
        let known = missing.len() < lines.len();
        if known && !recall::may_combine(Source::Memory, memory) {
            inquiry.knows(0);
            return self.ask_about_all((asking.again(), plan, inquiry), lines).await;
        }
        if !memory.is_trusted() {
            return Ok(Told { refusals: answer.refusals, scores: None });
        }
        let fresh = verdicts.read(&answer.refusals, asked.len());
        let certain = asking.certain(&asked);
        if check && recall::disagree(&recalled, &missing, &fresh, &certain) {
            recall::distrust(memory, self.backend.settings.name.as_str(), &self.backend.meters.filter);
        } else {
            verdicts.file(pod, only(&certain, &asked, fresh));
            if let Some((remembered, scores)) = memory.scores.as_ref().zip(answer.scores) {
                remembered.file(pod, only(&certain, &asked, scores));
            }
        }
        for at in &missing {
            recalled[*at as usize] = None;
        }
        let mut refusals = verdicts.refusals(&recalled);
        refusals.extend(answer.refusals.into_iter().map(|refusal| placed(refusal, &missing)));
        Ok(Told { refusals, scores: None })
    }

    async fn put(
        &self,
        (mut asking, plan, inquiry): (Asking<'_>, &FilterPlan, &mut Inquiry),
        lines: &[&Line],
    ) -> Result<FilterAnswer, BackendFailure> {
        inquiry.asks_about(lines.len());
        if let Some((nodes, named)) = asking.by_reference(lines) {
            let (question, within) = asking.question(&nodes, plan.scores);
            let terms = (within, &mut inquiry.exchanges);
            match self.backend.filter(asking.link, question, terms).await? {
                Reply::Answered(answer) => return Ok(answer),
                Reply::Missed => asking::missed(&named, self.backend),
            }
            asking = asking.again();
        }
        let nodes = asking.inline(lines);
        let (question, within) = asking.question(&nodes, plan.scores);
        self.backend.filter(asking.link, question, (within, &mut inquiry.exchanges)).await?.inline()
    }
}

/// The refusal with its positions among all nodes in question, of which those at `missing` were asked about.
fn placed(mut refusal: Refusal, missing: &[u32]) -> Refusal {
    refusal.positions.iter_mut().for_each(|at| *at = missing[*at as usize]);
    refusal
}
