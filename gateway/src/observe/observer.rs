//! Who is told what became of calls, and makes of it what can be seen: metrics, the decision log, the log.

use std::{sync::Arc, time::Duration};

use tokio::runtime::Handle;

use super::{DecisionLog, Metrics, decisions::Ending};
use crate::account::{Account, Part, Said, Visit};

/// What the ways of looking at calls share.
#[derive(Debug)]
pub struct Observer {
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// The latest calls.
    pub decisions: DecisionLog,
}

impl Observer {
    /// Everything at its beginning; the decision log may take so many bytes.
    pub fn new(metrics: Arc<Metrics>, log_bytes: usize) -> Self {
        Self { metrics, decisions: DecisionLog::new(log_bytes) }
    }

    /// Takes down what became of a call, behind its answer: this is no part of what its caller waits for.
    pub fn settle_soon(self: Arc<Self>, visit: Visit) {
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { self.settle(visit) })),
            // The runtime is gone, and with it whoever could look.
            Err(_) => self.settle(visit),
        }
    }

    fn settle(&self, visit: Visit) {
        self.metrics.called(visit.verb, visit.outcome);
        let Some(account) = &visit.account else { return };
        account.parts.iter().for_each(|part| self.count(verb_of(visit.verb), part));
        let message = Some(&*visit.message).filter(|message| !message.is_empty());
        let ending = Ending {
            verb: visit.verb,
            took: visit.took,
            trace: None,
            generation: visit.generation,
            outcome: visit.outcome,
            message,
            beside: false,
        };
        self.decisions.keep(account, ending);
    }

    /// Takes down what a backend said that was asked beside a call; `verb` is the backend's.
    pub fn settle_beside(&self, verb: &'static str, account: Account) {
        for part in &account.parts {
            let name = part.backend.settings.name.as_str();
            if let Said::Failed(failure) = &part.said {
                self.metrics.backend_failed(name, verb, failure.kind);
            }
            if let Some(opinion) = part.opinion {
                self.metrics.shadowed(name, verb, opinion.as_str());
            }
        }
        let took: Duration =
            account.parts.iter().flat_map(|part| &part.inquiries).map(|inquiry| inquiry.took).sum();
        let verb = if verb == "score" { "prioritize" } else { verb };
        let ending =
            Ending { verb, took, trace: None, generation: 0, outcome: "ok", message: None, beside: true };
        self.decisions.keep(&account, ending);
    }

    fn count(&self, verb: &'static str, part: &Part) {
        let name = part.backend.settings.name.as_str();
        if let Some(inquiry) = part.inquiries.last() {
            self.metrics.spared.remembered(name, verb, inquiry.known as usize);
        }
        if let Said::Scored(_, outside @ 1..) = &part.said {
            self.metrics.clamped(name, *outside as u64);
        }
    }
}

/// What a backend is asked in a call of this verb.
fn verb_of(verb: &'static str) -> &'static str {
    if verb == "prioritize" { "score" } else { verb }
}
