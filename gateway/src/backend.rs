//! A policy backend as the gateway sees it: connection, handshake, encode, decode.
//!
//! [`Backend`] is the handle that calls use. Behind it one task ([`session`]) connects, shakes hands,
//! notices when the backend changes or goes, and connects again. Requests are put together from encoded
//! parts ([`crate::contract`]) that backends share; answers are checked against the contract before
//! the decision sees them. Everything that can go wrong is one [`BackendFailure`].

pub mod answer_cache;
mod circuit;
mod connect;
pub mod connections;
mod containment;
pub mod grpc;
pub mod info;
mod outage;
pub mod preflight;
pub mod remote_table;
pub mod session;
pub mod sync;
pub mod tables;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind, preempt::Kept};
use http::Uri;

use containment::{contained, reading};
use grpc::{Limits, RpcError};
use session::Session;

use crate::{
    config,
    contract::{
        answer::{self, Answered, FilterAnswer, Reply},
        bind::{self, BindQuestion, Bound},
        frame,
        nodes::NodeForm,
        preempt,
        question::Question,
    },
    observe::Metrics,
    record::{RpcEnd, Rpcs},
};

/// One configured backend, connected or not.
#[derive(Debug)]
pub struct Backend {
    /// As the operator configured it.
    pub settings: config::BackendSettings,
    /// Where panics are counted.
    metrics: Arc<Metrics>,
    session: Arc<session::SessionHandle>,
}

impl Backend {
    /// The connection, with what the backend said of itself.
    ///
    /// # Errors
    /// Why there is none.
    pub fn session(&self) -> Result<Arc<Session>, BackendFailure> {
        self.session.state.borrow().session()
    }

    /// Waits until a first attempt to connect has ended, well or not.
    pub async fn first_attempt(&self) {
        // An error means that the task behind the handle is gone, which ends the process.
        let _ = self.session.state.clone().wait_for(|state| !state.is_untried()).await;
    }

    /// Asks which of these nodes the pod may not run on. What is asked goes on `rpcs`.
    pub async fn filter(
        &self,
        session: &Session,
        question: Question<'_>,
        (within, rpcs): (Duration, &mut Rpcs),
    ) -> Result<Reply<FilterAnswer>, BackendFailure> {
        let answer = self.ask_nodes(session, &session.paths.filter, question, (within, rpcs)).await?;
        let read = || answer::filter(answer, question.nodes.count, question.scores);
        Ok(self.replied(session, reading(&self.metrics, read)?))
    }

    /// Asks how good these nodes are: raw scores, one a node. What is asked goes on `rpcs`.
    pub async fn score(
        &self,
        session: &Session,
        question: Question<'_>,
        (within, rpcs): (Duration, &mut Rpcs),
    ) -> Result<Reply<Vec<i32>>, BackendFailure> {
        let answer = self.ask_nodes(session, &session.paths.score, question, (within, rpcs)).await?;
        let read = || answer::score(answer, question.nodes.count);
        Ok(self.replied(session, reading(&self.metrics, read)?))
    }

    /// Asks which of these candidates and victims stay. Positions are not checked yet. What is asked goes on
    /// `rpcs`.
    pub async fn preempt(
        &self,
        session: &Session,
        question: preempt::PreemptQuestion<'_>,
        (within, rpcs): (Duration, &mut Rpcs),
    ) -> Result<Vec<Kept>, BackendFailure> {
        let count = question.nodes.count;
        let pieces = question.pieces(&session.head, session.info.most_request_bytes)?;
        let limits = Limits { within, answer: frame::largest_answer(count) };
        let about = (count, NodeForm::Rows);
        let answer = self.call(session, &session.paths.preempt, pieces, (limits, about, rpcs)).await?;
        let offered = question.candidates.iter().map(|candidate| candidate.victims.len()).sum();
        let read = || preempt::answer(answer, count, offered);
        Ok(self.current(session, reading(&self.metrics, read)?))
    }

    /// Asks to bind the pod. What is asked goes on `rpcs`.
    pub async fn bind(
        &self,
        session: &Session,
        question: BindQuestion<'_>,
        (within, rpcs): (Duration, &mut Rpcs),
    ) -> Result<Bound, BackendFailure> {
        let fields = bind::fields(question, &session.info.pod);
        let pieces = session.head.around(question.call, fields, session.info.most_request_bytes)?;
        let limits = Limits { within, answer: bind::LARGEST_ANSWER };
        let about = (1, NodeForm::Name);
        let answer = self.call(session, &session.paths.bind, pieces, (limits, about, rpcs)).await?;
        reading(&self.metrics, || bind::answer(answer))
    }

    fn replied<T>(&self, session: &Session, reply: Reply<Answered<T>>) -> Reply<T> {
        match reply {
            Reply::Answered(answered) => Reply::Answered(self.current(session, answered)),
            Reply::Missed => Reply::Missed,
        }
    }

    /// Takes the answer; when it was made under another revision than the handshake told, the handshake
    /// is repeated soon.
    fn current<T>(&self, session: &Session, answered: Answered<T>) -> T {
        if answered.revision != session.info.revision {
            // Replicas of several builds, or a backend that has changed: the next handshake tells which.
            session.cache.mark_mixed_revisions();
            if !answered.revision.is_empty() {
                self.session.recheck.notify_one();
            }
        }
        answered.value
    }

    async fn ask_nodes(
        &self,
        session: &Session,
        path: &Uri,
        question: Question<'_>,
        (within, rpcs): (Duration, &mut Rpcs),
    ) -> Result<Bytes, BackendFailure> {
        let pieces = session.head.pieces(question, session.info.most_request_bytes)?;
        let limits = Limits { within, answer: frame::largest_answer(question.nodes.count) };
        let about = (question.nodes.count, question.nodes.form);
        self.call(session, path, pieces, (limits, about, rpcs)).await
    }

    async fn call<const N: usize>(
        &self,
        session: &Session,
        path: &Uri,
        pieces: [Bytes; N],
        (limits, (nodes, form), rpcs): (Limits, (u32, NodeForm), &mut Rpcs),
    ) -> Result<Bytes, BackendFailure> {
        if let Some(late) = grpc::too_late(limits) {
            return Err(late);
        }
        if let Err(open) = session.circuit.check() {
            // The next handshake finds out whether it answers again.
            self.session.recheck.notify_one();
            return Err(open);
        }
        let sent = pieces.iter().map(Bytes::len).sum();
        let span = rpcs.start((nodes, form), sent);
        let call = grpc::traced((&session.connection, path), pieces, limits, span.as_ref());
        let answer = contained(&self.metrics, call).await;
        session.circuit.ended(&answer);
        let code = answer.as_ref().err().map_or("OK", RpcError::code);
        let answer = answer.map_err(BackendFailure::from);
        let failure = answer.as_ref().err().map(|failure| failure.kind);
        if failure == Some(FailureKind::Reset) {
            // The connection may be ending; the task behind it finds out sooner than its next look.
            self.session.recheck.notify_one();
        }
        rpcs.end(RpcEnd { received: answer.as_ref().map_or(0, Bytes::len), failure, code });
        answer
    }
}
