//! Ways to break a rule: changes of requests and answers, from which the faults are made.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use extender_policy_api::v1beta1::{self as api, result::Outcome};
use futures_util::future::BoxFuture;
use prost::Message as _;
use tonic::{Code, Status};

use super::{
    proxy::{Ask, Fault, State, status},
    streams,
};
use crate::{answer::miss, question::args_sha256};

pub(super) fn before(
    change: impl Fn(&Ask, &State) -> Result<Bytes, Status> + Send + Sync + 'static,
) -> Fault {
    Fault { before: Some(Box::new(change)), ..Fault::none() }
}

pub(super) fn after(
    change: impl Fn(&Ask, &State, Result<Bytes, Status>) -> Result<Bytes, Status> + Send + Sync + 'static,
) -> Fault {
    Fault { after: Some(Box::new(change)), ..Fault::none() }
}

/// Calls for which this has a time take so much longer.
pub(super) fn pauses(time: impl Fn(&Ask, &State) -> Option<Duration> + Send + Sync + 'static) -> Fault {
    pauses_for(move |ask, state| Box::pin(tokio::time::sleep(time(ask, state).unwrap_or_default())))
}

pub(super) fn pauses_for(
    pause: impl for<'a> Fn(&'a Ask, &'a State) -> BoxFuture<'a, ()> + Send + Sync + 'static,
) -> Fault {
    Fault { pause: Some(Box::new(pause)), ..Fault::none() }
}

pub(super) fn streams(stream: streams::StreamFault) -> Fault {
    Fault { stream, ..Fault::none() }
}

pub(super) fn is_verb(method: &str) -> bool {
    matches!(method, "Filter" | "Score" | "Preempt" | "Bind") || is_hook(method)
}

pub(super) fn is_hook(method: &str) -> bool {
    matches!(method, "Change" | "BeforeFilter" | "BeforeFilterNodes" | "BeforeScore")
}

/// Of outcomes.
pub(super) fn is_report(method: &str) -> bool {
    method == "/extender.policy.v1beta1.OutcomeService/Report"
}

/// Refuses calls of a verb for which this holds.
pub(super) fn refuses(when: impl Fn(&Ask) -> bool + Send + Sync + 'static, code: Code) -> Fault {
    before(
        move |ask, _| {
            if is_verb(&ask.method) && when(ask) { Err(status(code)) } else { Ok(ask.message.clone()) }
        },
    )
}

/// Answers nothing after a call for which this holds.
pub(super) fn spoils(when: impl Fn(&Ask, &State) -> bool + Send + Sync + 'static) -> Fault {
    after(move |ask, state, answered| {
        if when(ask, state) {
            state.spoil();
        }
        answered
    })
}

pub(super) fn info(change: impl Fn(&mut api::GetInfoResponse, &Ask) + Send + Sync + 'static) -> Fault {
    after(move |ask, _, answered| {
        if ask.method != "GetInfo" {
            return answered;
        }
        let mut info = api::GetInfoResponse::decode(answered?).unwrap();
        change(&mut info, ask);
        Ok(info.encode_to_vec().into())
    })
}

/// The request with a change of its call. Unknown fields are lost.
pub(super) fn called(ask: &Ask, change: impl Fn(&mut api::Call)) -> Bytes {
    macro_rules! change {
        ($request:ident) => {{
            let Ok(mut request) = api::$request::decode(ask.message.clone()) else {
                return ask.message.clone();
            };
            request.call.iter_mut().for_each(change);
            request.encode_to_vec()
        }};
    }
    let changed = match ask.method.as_str() {
        "Filter" => change!(FilterRequest),
        "Score" => change!(ScoreRequest),
        "Preempt" => change!(PreemptRequest),
        "Bind" => change!(BindRequest),
        hook if is_hook(hook) => change!(ChangeRequest),
        report if is_report(report) => change!(ReportRequest),
        _ => return ask.message.clone(),
    };
    changed.into()
}

/// A call with these args instead of its own.
pub(super) fn with_args(call: &mut api::Call, args: &Bytes) {
    call.args_sha256 = args_sha256(args);
    call.args.clone_from(args);
}

/// What a request says, whichever verb it is of.
pub(super) struct Sent {
    pub(super) call: api::Call,
    pub(super) pod: api::Pod,
    pub(super) nodes: api::Nodes,
    pub(super) candidates: Vec<api::Candidate>,
}

pub(super) fn sent(ask: &Ask) -> Option<Sent> {
    if !is_verb(&ask.method) || ask.method == "Bind" {
        return None;
    }
    // The fields that they have in common are numbered alike; those of preempt are not there in the others.
    let filter = api::FilterRequest::decode(ask.message.clone()).ok();
    let preempt = api::PreemptRequest::decode(ask.message.clone()).ok();
    let (call, pod, nodes, candidates) = match (filter, preempt) {
        (_, Some(request)) => (request.call, request.pod, request.nodes, request.candidates),
        (Some(request), None) => (request.call, request.pod, request.nodes, Vec::new()),
        (None, None) => return None,
    };
    let (call, pod, nodes) = (call.unwrap_or_default(), pod.unwrap_or_default(), nodes.unwrap_or_default());
    Some(Sent { call, pod, nodes, candidates })
}

impl Sent {
    /// `Result.evaluated` of the answer.
    pub(super) fn evaluated(&self, method: &str) -> u32 {
        if method == "BeforeFilter" { 1 } else { self.nodes.count }
    }

    pub(super) fn rows(&self) -> &[api::NodeRow] {
        match &self.nodes.form {
            Some(api::nodes::Form::Rows(rows)) => &rows.rows,
            _ => &[],
        }
    }

    pub(super) fn by_table(&self) -> Option<&api::NodeRef> {
        match &self.nodes.form {
            Some(api::nodes::Form::Table(nodes)) => Some(nodes),
            _ => None,
        }
    }

    pub(super) fn facts(&self) -> impl Iterator<Item = &api::NodeFacts> {
        self.rows().iter().filter_map(|row| row.facts.as_ref())
    }
}

/// Whether a node has this label, for a verb that is sent it with its key.
pub(super) fn is_labeled(facts: &api::NodeFacts, key: &str, value: &str) -> bool {
    facts.labels.as_ref().and_then(|labels| labels.entries.get(key)).is_some_and(|label| label == value)
}

/// Changes answers to requests for which this holds.
pub(super) fn flips(when: impl Fn(&Ask, &Sent) -> bool + Send + Sync + 'static) -> Fault {
    answers(when, |answer| match answer {
        VerbAnswer::Filter(response) => {
            let rejected = response.rejections.iter().any(|rejection| rejection.positions.contains(&0));
            if rejected {
                response.rejections.clear();
            } else {
                let reason = "flipped".to_owned();
                response.rejections.push(api::Rejection {
                    reason,
                    positions: vec![0],
                    ..api::Rejection::default()
                });
            }
        }
        VerbAnswer::Score(response) => response.scores.iter_mut().for_each(another_score),
        VerbAnswer::Preempt(response) => {
            let kept = response.kept.iter().position(|kept| kept.position == 0);
            match kept {
                Some(at) => drop(response.kept.remove(at)),
                None => {
                    response
                        .kept
                        .push(api::KeptCandidate { victims: vec![0], ..api::KeptCandidate::default() });
                }
            }
        }
        VerbAnswer::BeforeFilter(response) => flip_pod(&mut response.pod),
        VerbAnswer::BeforeNodes(response) => flip_first_node(&mut response.nodes),
    })
}

/// Another score of the first node.
pub(super) fn another_score(scores: &mut api::Scores) {
    scores.values[0] += 1;
    scores.absent.retain(|position| *position != 0);
}

/// Labels that are set by no policy.
fn flipped() -> BTreeMap<String, String> {
    [("flipped".to_owned(), "true".to_owned())].into()
}

fn flip_pod(change: &mut Option<api::PodChange>) {
    *change = match change {
        Some(_) => None,
        None => Some(api::PodChange { set_labels: flipped(), ..api::PodChange::default() }),
    };
}

fn flip_first_node(changes: &mut Vec<api::NodeChange>) {
    let Some(at) = changes.iter().position(|change| change.positions.contains(&0)) else {
        let change =
            api::NodeChange { positions: vec![0], set_labels: flipped(), ..api::NodeChange::default() };
        return changes.push(change);
    };
    changes[at].positions.retain(|position| *position != 0);
    changes.retain(|change| !change.positions.is_empty());
}

/// A response of any verb but bind.
pub(super) enum VerbAnswer {
    Filter(api::FilterResponse),
    Score(api::ScoreResponse),
    Preempt(api::PreemptResponse),
    BeforeFilter(api::ChangeResponse),
    /// Of both hooks about nodes.
    BeforeNodes(api::ChangeResponse),
}

impl VerbAnswer {
    pub(super) fn result(&mut self) -> &mut api::Result {
        match self {
            Self::Filter(response) => response.result.get_or_insert_default(),
            Self::Score(response) => response.result.get_or_insert_default(),
            Self::Preempt(response) => response.result.get_or_insert_default(),
            Self::BeforeFilter(response) | Self::BeforeNodes(response) => {
                response.result.get_or_insert_default()
            }
        }
    }

    /// Of an answer, not of a miss.
    pub(super) fn evaluated(&mut self, change: impl FnOnce(u32) -> u32) {
        let result = self.result();
        if let Some(Outcome::Evaluated(evaluated)) = result.outcome {
            result.outcome = Some(Outcome::Evaluated(change(evaluated)));
        }
    }

    pub(super) fn decode(method: &str, bytes: Bytes) -> Option<Self> {
        match method {
            "Filter" => api::FilterResponse::decode(bytes).ok().map(Self::Filter),
            "Score" => api::ScoreResponse::decode(bytes).ok().map(Self::Score),
            "Preempt" => api::PreemptResponse::decode(bytes).ok().map(Self::Preempt),
            "BeforeFilter" => api::ChangeResponse::decode(bytes).ok().map(Self::BeforeFilter),
            "BeforeFilterNodes" | "BeforeScore" => {
                api::ChangeResponse::decode(bytes).ok().map(Self::BeforeNodes)
            }
            _ => None,
        }
    }

    fn encode(&self) -> Bytes {
        let encoded = match self {
            Self::Filter(response) => response.encode_to_vec(),
            Self::Score(response) => response.encode_to_vec(),
            Self::Preempt(response) => response.encode_to_vec(),
            Self::BeforeFilter(response) | Self::BeforeNodes(response) => response.encode_to_vec(),
        };
        encoded.into()
    }
}

/// Changes the answers (no misses) to requests for which this holds.
pub(super) fn answers(
    when: impl Fn(&Ask, &Sent) -> bool + Send + Sync + 'static,
    change: impl Fn(&mut VerbAnswer) + Send + Sync + 'static,
) -> Fault {
    after(move |ask, _, answered| {
        let bytes = answered?;
        let Some(sent) = sent(ask).filter(|sent| when(ask, sent)) else { return Ok(bytes) };
        let Some(mut answer) = VerbAnswer::decode(&ask.method, bytes.clone()) else { return Ok(bytes) };
        if sent.evaluated(&ask.method) == 0 || miss(answer.result()).is_some() {
            return Ok(bytes);
        }
        change(&mut answer);
        Ok(answer.encode())
    })
}

/// Changes misses.
pub(super) fn misses(
    change: impl Fn(&mut api::Result) -> Result<(), Status> + Send + Sync + 'static,
) -> Fault {
    after(move |ask, _, answered| {
        let bytes = answered?;
        let Some(mut answer) = VerbAnswer::decode(&ask.method, bytes.clone()) else { return Ok(bytes) };
        let result = answer.result();
        if miss(result).is_none() {
            return Ok(bytes);
        }
        change(result)?;
        Ok(answer.encode())
    })
}

/// Accepts what should be refused: an answer about as many nodes as the request says.
pub(super) fn tolerates() -> Fault {
    after(|ask, _, answered| match answered {
        Err(refused) if refused.code() == Code::InvalidArgument && is_verb(&ask.method) => {
            let evaluated = sent(ask).map_or(0, |sent| sent.evaluated(&ask.method));
            let outcome = Some(Outcome::Evaluated(evaluated));
            let result = Some(api::Result { outcome, ..api::Result::default() });
            let encoded = match ask.method.as_str() {
                "Filter" => api::FilterResponse { result, ..api::FilterResponse::default() }.encode_to_vec(),
                "Score" => api::ScoreResponse { result, ..api::ScoreResponse::default() }.encode_to_vec(),
                "Preempt" => {
                    api::PreemptResponse { result, ..api::PreemptResponse::default() }.encode_to_vec()
                }
                hook if is_hook(hook) => {
                    api::ChangeResponse { result, ..api::ChangeResponse::default() }.encode_to_vec()
                }
                _ => api::BindResponse { outcome: 1, message: String::new() }.encode_to_vec(),
            };
            Ok(encoded.into())
        }
        answered => answered,
    })
}

pub(super) fn has(bytes: &Bytes, part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
