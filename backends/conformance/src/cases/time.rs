//! How long calls take. A machine that does other things makes everything slow, so times are medians, and what is a
//! failure is compared with other calls to the same backend in the same moments.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::uri::PathAndQuery;

use crate::{
    case::{self, Case, Stop, failed},
    client::Extras,
    declared::Verb,
    probe::{Mode, Probe},
    suite::Suite,
    timing::{EMPTY_CALLS, Timing, in_turn, median, repeated},
};

/// The verbs of which each pod needs an answer.
const TIMED: [Verb; 2] = [Verb::Filter, Verb::Score];

/// The nodes of a call, and the most calls of which the time is taken.
const SIZES: [(u32, usize); 4] = [(1, 100), (TYPICAL, 100), (5_000, 20), (15_000, 10)];

/// The nodes for which a call must be within the gateway's timeout.
const TYPICAL: u32 = 500;

const HANDSHAKES: usize = 50;

/// A handshake takes no longer than this, or than a few empty calls.
const SLOW_HANDSHAKE: Duration = Duration::from_millis(500);

/// Calls whose time is over, at once, and how often they are sent.
const DEAD: usize = 128;
const ATTEMPTS: usize = 3;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "handshake.time" Must ["5.1"] "GetInfo takes at most 500 ms" => handshake;
        for TIMED: "time" Should ["10.1"] "500 nodes are answered within the gateway's timeout" => calls;
        for TIMED: "dead-calls" Must ["17.1"] "calls whose time is over delay no later ones" => dead_calls;
    }
}

/// A call that does nothing: the way to the backend and back.
pub(super) async fn empty_call(suite: &Suite) -> Result<(), Stop> {
    let path = PathAndQuery::from_static("/extender.policy.v1beta1.PolicyService/Conformance");
    suite.client.unary_at(path, Bytes::new(), Extras::default()).await.map(drop)
}

async fn handshake(suite: &Suite) -> Result<(), Stop> {
    let handshake = async || suite.handshake().await.map(drop);
    let (times, empty) = in_turn(HANDSHAKES, handshake, || empty_call(suite)).await?;
    let (count, median, empty) = (times.len(), median(&times), median(&empty));
    suite.timed(Timing { method: "GetInfo", nodes: None, times });
    if median > SLOW_HANDSHAKE.max(empty * EMPTY_CALLS) {
        return failed(format!(
            "the median of {count} calls of GetInfo is {median:.1?}, that of empty calls in between {empty:.1?}; the \
             gateway asks each second"
        ));
    }
    Ok(())
}

async fn calls(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    suite.terms(verb)?;
    let mut slow = None;
    for (nodes, most) in SIZES {
        let probe = Probe::of(suite, verb, Mode::Rows, usize::try_from(nodes).unwrap_or_default()).await?;
        let times = if probe.fits() { repeated(most, || probe.answered()).await? } else { Vec::new() };
        if nodes == TYPICAL && median(&times) > suite.target.call_timeout {
            slow = Some((times.len(), median(&times)));
        }
        suite.timed(Timing { method: verb.title(), nodes: Some(nodes), times });
    }
    slow.map_or(Ok(()), |(count, median)| {
        let timeout = suite.target.call_timeout;
        failed(format!(
            "the median of {count} calls with {TYPICAL} nodes is {median:.1?}; the gateway waits {timeout:?} (--call-timeout)"
        ))
    })
}

/// A backend that answers as soon as an empty call does has nothing to stop. One that takes longer is asked many questions that are given
/// up, and then whether one more takes longer than alone.
async fn dead_calls(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 3)?;
    let ask = async || suite.ask(&question).await.map(drop);
    let (alone, empty) = in_turn(0, ask, || empty_call(suite)).await?;
    let (alone, empty) = (median(&alone), median(&empty));
    if alone < suite.target.call_timeout || alone < empty * EMPTY_CALLS {
        return Ok(());
    }
    for _ in 0..ATTEMPTS {
        // On a connection of its own: libraries take so many resets for an attack.
        let client = suite.connect().await?;
        let dead = (0..DEAD).map(|_| {
            let extras = Extras { timeout: Some(alone / 4), ..Extras::default() };
            suite.ask_on(&client, &question, extras)
        });
        drop(join_all(dead).await);
        if tokio::time::timeout(alone * 5 / 2, suite.ask(&question))
            .await
            .is_ok_and(|answered| answered.is_ok())
        {
            return Ok(());
        }
    }
    failed(format!(
        "after {DEAD} calls whose `grpc-timeout` was over, one more had no answer within {:.1?}, {ATTEMPTS} times; alone \
         it takes {alone:.1?}: calls that nobody waits for are still worked on",
        alone * 5 / 2
    ))
}
