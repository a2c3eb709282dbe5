//! The verbs: how each is called, and the backends' answers.

use extender_policy_api::v1beta1::{
    BindOutcome, BindResponse, FilterResponse, KeptCandidate, Miss, PreemptResponse, Rejection,
    Result as Evaluated, ScoreResponse, Scores,
};
use prost::Message;
use serde_json::{Value, json};

use crate::support::{backend::Act, binding::TO_A, by_name, pod};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verb {
    Filter,
    Score,
    Preempt,
    Bind,
}

pub(crate) const VERBS: &[Verb] = &[Verb::Filter, Verb::Score, Verb::Preempt, Verb::Bind];
/// Those that are about nodes.
pub(crate) const ABOUT_NODES: &[Verb] = &[Verb::Filter, Verb::Score, Verb::Preempt];

impl Verb {
    /// As a block of the configuration and in metrics.
    pub(crate) fn block(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Score => "score",
            Self::Preempt => "preempt",
            Self::Bind => "bind",
        }
    }

    pub(crate) fn policies(self) -> &'static [&'static str] {
        match self {
            Self::Score => &["Ignore"],
            Self::Filter | Self::Preempt => &["Fail", "Ignore"],
            Self::Bind => &["Fail", "Next"],
        }
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Filter => "/filter",
            Self::Score => "/prioritize",
            Self::Preempt => "/preempt",
            Self::Bind => "/bind",
        }
    }

    /// An answer that says that `count` nodes were evaluated: accepted, scored 0, still candidates. For bind: that
    /// the pod is bound.
    pub(crate) fn answer(self, count: u32) -> Vec<u8> {
        self.about(count, count)
    }

    /// The same about `count` nodes, with `evaluated` as the number of evaluated nodes.
    pub(crate) fn about(self, count: u32, evaluated: u32) -> Vec<u8> {
        let result = Some(Evaluated::answered(evaluated, ""));
        match self {
            Self::Filter => FilterResponse { result, ..FilterResponse::default() }.encode_to_vec(),
            Self::Score => {
                let scores = Some(Scores { values: vec![0; count as usize], absent: Vec::new() });
                ScoreResponse { result, scores }.encode_to_vec()
            }
            Self::Preempt => {
                let kept = (0..count).map(kept).collect();
                PreemptResponse { result, kept }.encode_to_vec()
            }
            Self::Bind => bound(BindOutcome::Bound as i32),
        }
    }

    pub(crate) fn request(self) -> String {
        match self {
            Self::Filter | Self::Score => by_name(&["a", "b"]),
            Self::Preempt => {
                let victims = |uid: &str| json!({"Pods": [{"UID": uid}], "NumPDBViolations": 1});
                let victims = json!({"a": victims("u-a"), "b": victims("u-b")});
                json!({"Pod": pod(), "NodeNameToMetaVictims": victims}).to_string()
            }
            Self::Bind => TO_A.to_owned(),
        }
    }

    /// The result with the other backend alone.
    pub(crate) fn without_the_failing_one(self) -> Value {
        match self {
            Self::Filter => json!(["b"]),
            Self::Score => json!([{"Host": "a", "Score": 4}, {"Host": "b", "Score": 4}]),
            Self::Preempt => json!({"b": {"Pods": [{"UID": "u-b"}], "NumPDBViolations": 1}}),
            Self::Bind => json!({"Error": ""}),
        }
    }
}

pub(crate) fn kept(position: u32) -> KeptCandidate {
    KeptCandidate { position, victims: vec![0], ..KeptCandidate::default() }
}

fn two() -> Evaluated {
    Evaluated::answered(2, "")
}

pub(crate) fn missed() -> Vec<u8> {
    let result = Some(Evaluated::missed(Miss::FormUnknown));
    FilterResponse { result, ..FilterResponse::default() }.encode_to_vec()
}

/// This score for this many nodes, as the answer to a request about two.
pub(crate) fn scores(score: i32, count: usize) -> Act {
    let scores = Some(Scores { values: vec![score; count], absent: Vec::new() });
    Act::Message(ScoreResponse { result: Some(two()), scores }.encode_to_vec())
}

pub(crate) fn refused(groups: &[&[u32]]) -> Act {
    let group = |positions: &&[u32]| Rejection { positions: positions.to_vec(), ..Rejection::default() };
    let rejections = groups.iter().map(group).collect();
    Act::Message(FilterResponse { result: Some(two()), rejections, scores: None }.encode_to_vec())
}

pub(crate) fn keeps(kept: Vec<KeptCandidate>) -> Act {
    Act::Message(PreemptResponse { result: Some(two()), kept }.encode_to_vec())
}

pub(crate) fn bound(outcome: i32) -> Vec<u8> {
    BindResponse { outcome, message: "so I say".into() }.encode_to_vec()
}
