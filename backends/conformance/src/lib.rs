//! Checks that a running policy backend keeps the rules of `proto/SPEC.md`: the program `policy-conformance`.
//!
//! [`cases`] has the questions, [`suite`] what they share, and [`report`] prints how they ended. The suite speaks gRPC and protobuf alone: it shares no code with the
//! gateway or an SDK, so that it does not share their mistakes.

mod asked;
mod case;
mod cases;
mod client;
mod options;
mod probe;
mod report;
mod run;
mod suite;
mod table;
mod timing;
mod trail;
mod yaml;

use std::{
    error::Error,
    time::{Duration, Instant},
};

use conformance_report::Finding;
use policy_questions::{answer, declared, digest, hook, objects, question, random, sent};
use tonic::{Code, Status};

pub use self::{
    case::Case,
    cases::{all, plain},
    options::{Asking, Options, Target, UsageError},
    probe::{Mode, Probe},
    report::{markdown, summary, title},
    run::Run,
    suite::Suite,
    timing::Timing,
    yaml::yaml,
};
use self::{
    client::{Client, shown},
    declared::Declared,
};

/// The pause before a backend that is starting is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// How a case ended, with the sentence that is broken if it is not one of the case's.
fn finding(case: &Case, ended: Result<(), case::Stop>, took: Duration) -> Finding {
    let sentence = match &ended {
        Err(case::Stop::Broken(breach)) => Some(breach.rule),
        _ => None,
    };
    Finding { outcome: case::outcome(case.info.level, ended), case: case.info.clone(), took, sentence }
}

/// Why no case could be run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Nobody listens, or TLS fails.
    #[error(
        "cannot connect to {url}: {why}; is the backend running there, and do --tls-ca and --tls-cert fit it?"
    )]
    Connect {
        /// As given.
        url: String,
        /// The causes, one after the other.
        why: String,
    },
    /// The backend refuses the handshake, or another service answers it.
    #[error("{url} refuses the handshake: {why}{remedy}")]
    Handshake {
        /// As given.
        url: String,
        /// The status.
        why: String,
        /// What helps, after a semicolon, if the status says that.
        remedy: &'static str,
        /// The code of the status.
        code: Code,
    },
}

impl StartError {
    fn refused(url: String, status: &Status) -> Self {
        Self::Handshake { url, why: shown(status), remedy: remedy(status), code: status.code() }
    }

    /// Whether it may pass: the backend does not listen yet, or has no data.
    fn is_starting(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Handshake { code: Code::Unavailable, .. })
    }
}

/// What helps if a handshake ends with this status. An error of the protocol comes from this side of the connection.
fn remedy(status: &Status) -> &'static str {
    let is_other_protocol = status.source().is_some() || status.message().contains("h2 protocol error");
    match status.code() {
        Code::InvalidArgument => "; --args has the operator's args",
        Code::Unimplemented => "; does another service listen there?",
        _ if is_other_protocol => {
            "; the server does not speak gRPC there: does another service listen, or is TLS missing (an https:// URL)?"
        }
        _ => "",
    }
}

/// Connects, and asks the backend what it declares, with all args. A replica is asked, too, so that no case runs without it. Both are
/// waited for, as `--wait` says.
///
/// # Errors
///
/// [`StartError`] if one of both cannot be reached, or refuses.
pub async fn begin(target: Target) -> Result<Suite, StartError> {
    let until = Instant::now() + target.wait;
    let (client, info) = loop {
        match both(&target).await {
            Err(error) if error.is_starting() && Instant::now() < until => tokio::time::sleep(PAUSE).await,
            greeted => break greeted?,
        }
    };
    Ok(Suite::new(target, client, info).await)
}

/// The backend, with all args, and its replica.
async fn both(target: &Target) -> Result<(Client, Declared), StartError> {
    let first = greeted(target.url.clone(), target, target.connect().await).await?;
    if let Some((url, connected)) = target.connect_replica().await {
        greeted(url, target, connected).await?;
    }
    if let Some(other) = target.other() {
        greeted(other.url.clone(), &other, Ok(first.0.clone())).await?;
    }
    Ok(first)
}

/// A connection with the answer to its handshake.
async fn greeted(
    url: String,
    target: &Target,
    connected: Result<Client, tonic::transport::Error>,
) -> Result<(Client, Declared), StartError> {
    let client = match connected {
        Ok(client) => client,
        Err(error) => return Err(StartError::Connect { url, why: causes(&error) }),
    };
    match client.info(&target.info_request()).await {
        Ok(Ok(info)) => Ok((client, info)),
        Ok(Err(status)) => Err(StartError::refused(url, &status)),
        Err(stop) => Err(StartError::Handshake { url, why: stop.text(), remedy: "", code: Code::Unknown }),
    }
}

impl Case {
    /// Asks the backend.
    pub async fn run(&self, suite: &Suite) -> Finding {
        let begun = Instant::now();
        finding(self, (self.check)(suite, self.verb).await, begun.elapsed())
    }
}

#[cfg(test)]
mod tests;

/// An error and its causes as one text.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
