//! Decisions for tests.

use jiff::Timestamp;

use super::attempt::Call;
use crate::observe::api::{Decision, NodeForm, PodRef};

/// A point in time, in seconds after a fixed one.
pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_795_302_000 + seconds).unwrap()
}

/// A call that no backend took part in.
pub(super) fn decision(verb: &str, seconds: i64) -> Decision {
    Decision {
        id: format!("{verb}-{seconds}"),
        time: at(seconds),
        seconds: 0.002,
        verb: verb.to_owned(),
        trace_id: None,
        generation: 1,
        pod: PodRef {
            namespace: "shop".into(),
            name: "web-0".into(),
            uid: "u-1".into(),
            nominated_node: None,
        },
        node_form: Some(NodeForm::Names),
        offered: 0,
        left: None,
        outcome: "ok".to_owned(),
        message: None,
        backends: Vec::new(),
        nodes: Vec::new(),
    }
}

/// The same one, decided by this gateway.
pub(super) fn call(verb: &str, seconds: i64, gateway: &str) -> Call {
    Call { gateway: gateway.to_owned(), decision: decision(verb, seconds) }
}
