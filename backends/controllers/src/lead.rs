//! The life of a replica in the election: it waits for the lease, runs the controllers while it holds it, and gives it up at
//! the end.

use std::{pin::pin, sync::Arc, time::Duration};

use extender_policy_sdk::{ControllersFailed, ControllersReport};
use kube::Config;
use tokio::time::Instant;

use crate::{
    candidate::{Candidate, Held, Lost, Store},
    log::log,
    term::{Controller, Term},
};

/// Ends the process, for this reason.
pub(crate) type Exit = dyn Fn(&str) + Send + Sync;

/// What runs during a term, and how it ends.
pub(crate) struct Crew {
    pub(crate) controllers: Vec<Controller>,
    pub(crate) config: Config,
    pub(crate) report: ControllersReport,
    pub(crate) stop_limit: Duration,
    pub(crate) exit: Arc<Exit>,
}

/// Why a term ends.
enum End {
    Stopped,
    Lost(Lost),
    Failed(String),
}

/// Takes part in the election until the stop, or until the controllers fail.
pub(crate) async fn lead(
    mut candidate: Candidate<impl Store>,
    crew: &Crew,
    stop: impl Future<Output = ()>,
) -> Result<(), ControllersFailed> {
    let mut stop = pin!(stop);
    let ended = loop {
        let held = tokio::select! {
            held = candidate.acquire() => held,
            () = &mut stop => break Ok(()),
        };
        match term(&mut candidate, crew, held, stop.as_mut()).await {
            Ok(End::Lost(_)) => {}
            Ok(End::Stopped) => break Ok(()),
            Ok(End::Failed(failure)) => break Err(ControllersFailed(failure)),
            // The lease is not released: its controllers may still write.
            Err(hung) => return Err(hung),
        }
    };
    candidate.release().await;
    ended
}

/// One term, to its end; an error if controllers have not stopped.
async fn term(
    candidate: &mut Candidate<impl Store>,
    crew: &Crew,
    mut held: Held,
    stop: impl Future<Output = ()>,
) -> Result<End, ControllersFailed> {
    let lease = crew.report.lease();
    let (controllers, config) = (crew.controllers.clone(), crew.config.clone());
    let mut term = match Term::begin(controllers, config, &crew.report, held.transitions) {
        Ok(term) => term,
        Err(error) => return Ok(End::Failed(format!("the controllers cannot start: {error}"))),
    };
    let text = format!("lease {lease} obtained (transitions: {}); the controllers start", held.transitions);
    log(move || tracing::info!("{text}"));
    let end = tokio::select! {
        () = stop => End::Stopped,
        lost = candidate.keep(&mut held) => End::Lost(lost),
        failure = term.failure() => End::Failed(failure),
    };
    term.cancel();
    let other = candidate.holder().filter(|holder| holder != crew.report.identity());
    crew.report.led_by(other.as_deref());
    let text = format!("{}; the controllers of lease {lease} stop", end.reason());
    log(move || tracing::info!("{text}"));
    let limit = crew.limit(&end, candidate.expiry(&held));
    if term.stop(limit).await { Ok(end) } else { Err(crew.hung(&end)) }
}

impl Crew {
    /// Until when controllers must have stopped. While no other replica has the lease they also stop before one may obtain
    /// it, although it is no longer renewed.
    fn limit(&self, end: &End, expiry: Instant) -> Instant {
        let limit = Instant::now().checked_add(self.stop_limit).unwrap_or(expiry);
        match end {
            End::Lost(Lost::Taken(_)) => limit,
            End::Lost(Lost::Late(_)) | End::Stopped | End::Failed(_) => limit.min(expiry),
        }
    }

    /// Ends the process.
    fn hung(&self, end: &End) -> ControllersFailed {
        let text = format!(
            "{}, and the controllers of lease {} did not stop in time; the process ends, so that they do not write \
             beside the next leader. Let work that blocks ask Leading::leads between its steps",
            end.reason(),
            self.report.lease(),
        );
        (self.exit)(&text);
        ControllersFailed(text)
    }
}

impl End {
    fn reason(&self) -> String {
        match self {
            Self::Stopped => "the process stops".to_owned(),
            Self::Lost(Lost::Taken(Some(holder))) => format!("the lease was taken by {holder}"),
            Self::Lost(Lost::Taken(None)) => "the lease was released or deleted from outside".to_owned(),
            Self::Lost(Lost::Late(latest)) => {
                let latest = latest.as_deref().unwrap_or("this process was paused");
                format!("the lease could not be renewed in time: {latest}")
            }
            Self::Failed(failure) => failure.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_stop_is_at_most_the_expiry_unless_another_has_the_lease() {
        let crew = |stop_limit| Crew {
            controllers: Vec::new(),
            config: Config::new("http://127.0.0.1:1".parse().unwrap()),
            report: ControllersReport::new(["sync"], "shop/quota", "a").unwrap(),
            stop_limit,
            exit: Arc::new(|_| {}),
        };
        let (taken, late) = (End::Lost(Lost::Taken(None)), End::Lost(Lost::Late(None)));
        let expiry = Instant::now() + Duration::from_secs(5);
        let long = crew(Duration::from_secs(10));
        assert!(long.limit(&taken, expiry) > expiry);
        assert!([late, End::Stopped].iter().all(|end| long.limit(end, expiry) == expiry));
        assert!(crew(Duration::ZERO).limit(&End::Stopped, expiry) < expiry);
        assert_eq!(crew(Duration::MAX).limit(&taken, expiry), expiry);
    }
}
