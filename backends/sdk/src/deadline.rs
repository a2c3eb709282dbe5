//! Limits how long the message of a request may take to arrive. Otherwise a client that never completes it would
//! hold the received part in memory indefinitely.

use std::{
    future::pending,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use tokio::time::sleep;
use tonic::{Status, body::Body, codegen::http};

/// Longer than the deadline that a gateway gives any call except a bind, whose message is small.
pub(crate) const MESSAGE: Duration = Duration::from_secs(10);

/// Whether the message of a request has arrived, for answers that then take longer.
#[derive(Debug, Default)]
pub(crate) struct Arrival(AtomicBool);

impl Arrival {
    /// Nothing limits the answer after this.
    pub(crate) fn complete(&self) {
        self.0.store(true, Relaxed);
    }

    fn is_complete(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// The answer to a request, if its message arrives in time. The answer may then take longer.
pub(crate) async fn timely(
    answered: impl Future<Output = http::Response<Body>>,
    arrival: &Arrival,
) -> http::Response<Body> {
    tokio::select! {
        // Most messages have already arrived at the first poll: no timer is started then.
        biased;
        response = answered => response,
        () = late(arrival) => {
            Status::deadline_exceeded(format!("the message did not arrive within {MESSAGE:?}")).into_http()
        }
    }
}

async fn late(arrival: &Arrival) {
    sleep(MESSAGE).await;
    if arrival.is_complete() {
        pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_message_that_does_not_arrive_is_given_up() {
        let response = timeout(MESSAGE * 2, timely(pending(), &Arrival::default())).await.unwrap();
        assert_eq!(response.headers()["grpc-status"], "4");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_may_take_longer_than_its_message() {
        let arrival = Arrival::default();
        arrival.complete();
        timeout(MESSAGE * 10, timely(pending(), &arrival)).await.unwrap_err();
    }
}
