//! Circuit breaker for a backend that does not respond: after some calls in a row without a response, further ones
//! fail immediately until it responds, also to a handshake. Every canceled call resets a stream, and many servers
//! close a connection with many resets, together with its calls and node tables.

use std::sync::atomic::{AtomicU32, Ordering};

use extender_gateway_core::{BackendFailure, FailureKind};

use super::grpc::RpcError;

/// The most consecutive calls without a response. Half of what the strictest server tolerates: Go, Java and h2
/// close a connection after 20 to 100 resets that they have not processed yet.
const MOST_UNANSWERED: u32 = 10;

/// The circuit of one connection.
#[derive(Debug, Default)]
pub struct Circuit {
    /// Calls that timed out since the latest answer.
    unanswered: AtomicU32,
}

impl Circuit {
    /// Whether a call may be sent.
    ///
    /// # Errors
    /// The circuit is open.
    pub(super) fn check(&self) -> Result<(), BackendFailure> {
        let unanswered = self.unanswered.load(Ordering::Relaxed);
        if unanswered < MOST_UNANSWERED {
            return Ok(());
        }
        let detail = format!("not called: {unanswered} calls in a row had no answer");
        Err(BackendFailure::new(FailureKind::CircuitOpen, detail))
    }

    /// Records the end of a call. A timeout means that there was no response; any other end is a response or the
    /// end of the connection.
    pub(super) fn ended<T>(&self, answer: &Result<T, RpcError>) {
        if answer.as_ref().is_err_and(RpcError::is_late) {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        } else {
            self.answered();
        }
    }

    /// Records a response of the backend.
    pub(super) fn answered(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn late() -> Result<(), RpcError> {
        Err(BackendFailure::new(FailureKind::Late, "no answer within 200 ms").into())
    }

    #[test]
    fn calls_without_an_answer_open_it_and_any_answer_closes_it() {
        let status = BackendFailure::new(FailureKind::Late, "DEADLINE_EXCEEDED");
        let reset = BackendFailure::new(FailureKind::Reset, "the stream was reset");
        let answers = [Ok(()), Err(RpcError::Status(Code::DeadlineExceeded, status)), Err(reset.into())];
        for answer in answers {
            let circuit = Circuit::default();
            for _ in 0..MOST_UNANSWERED {
                assert_eq!(circuit.check(), Ok(()));
                circuit.ended(&late());
            }
            let failure = circuit.check().unwrap_err();
            assert_eq!(failure.kind, FailureKind::CircuitOpen);
            assert_eq!(failure.detail, "not called: 10 calls in a row had no answer");
            circuit.ended(&answer);
            assert_eq!(circuit.check(), Ok(()), "{answer:?}");
            circuit.ended(&late());
            assert_eq!(circuit.check(), Ok(()), "it counts from the start");
        }
    }
}
