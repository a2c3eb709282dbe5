//! The cases, one after the other: one mistake is one failure, and what ends a run early.

use std::{collections::HashMap, time::Duration};

use tokio::time::{Instant, timeout_at};

use crate::{
    answer::Breach,
    case::{Case, Stop},
    suite::Suite,
};
use conformance_report::Finding;

/// A run of cases against one backend.
#[derive(Debug)]
pub struct Run<'a> {
    suite: &'a Suite,
    until: Option<Instant>,
    /// Why no further case is asked.
    over: Option<&'static str>,
    /// The case that found a rule broken by the answers of a method.
    found: HashMap<(String, &'static str), String>,
}

impl<'a> Run<'a> {
    /// With at most so much time.
    pub fn new(suite: &'a Suite, most: Option<Duration>) -> Self {
        let until = most.map(|most| Instant::now() + most);
        Self { suite, until, over: None, found: HashMap::new() }
    }

    /// Why the cases since then were not run.
    pub fn over(&self) -> Option<&'static str> {
        self.over
    }

    /// Runs a case, or skips it.
    pub async fn case(&mut self, case: &Case) -> Finding {
        let begun = Instant::now();
        let ended = match self.over {
            Some(over) => Err(Stop::Skipped(over.to_owned())),
            None => self.ended(case).await,
        };
        crate::finding(case, ended, begun.elapsed())
    }

    async fn ended(&mut self, case: &Case) -> Result<(), Stop> {
        self.suite.target.trail.change(|steps| steps.lost = None);
        let ended = self.asked(case).await;
        match ended {
            Ok(()) | Err(Stop::Skipped(_)) => ended,
            Err(_) if self.suite.has_ended().await => Err(self.process_ended()),
            Err(Stop::Broken(breach)) => Err(self.once(case, breach)),
            Err(Stop::Failed(_)) => ended,
        }
    }

    async fn asked(&mut self, case: &Case) -> Result<(), Stop> {
        let check = (case.check)(self.suite, case.verb);
        let Some(until) = self.until else { return check.await };
        match timeout_at(until, check).await {
            Ok(ended) => ended,
            Err(_) => Err(Stop::Skipped(self.over.insert("out of time").to_owned())),
        }
    }

    /// What another case has said of the same answers is not said again.
    fn once(&mut self, case: &Case, breach: Breach) -> Stop {
        let key = (breach.method.clone(), breach.rule);
        if let Some(first) = self.found.get(&key) {
            return Stop::Skipped(format!("{} breaks {}, see {first}", breach.method, breach.rule));
        }
        self.found.insert(key, case.name().to_owned());
        Stop::Broken(breach)
    }

    fn process_ended(&mut self) -> Stop {
        self.over = Some("the backend has ended");
        let target = &self.suite.target;
        let fatal = target.trail.change(|steps| steps.lost.take().or_else(|| steps.last.take()));
        let last = fatal.map_or_else(String::new, |sent| format!("; the last request was {sent}"));
        let text = format!("the backend has ended: connections to {} are refused{last}", target.url);
        Stop::Failed(text).of("", "52.1")
    }
}
