//! What kube-scheduler's plugin calls: `extender.door.v1alpha1.DoorService`, over HTTP/2, at the socket and at the address on
//! connections with a client certificate: who may call it may have pods counted.
//!
//! A call is decided, recorded and limited like those of an extender: Place is a filter and, if the scores of nodes do not
//! depend on one another, a prioritize call.

mod assumed;
mod grpc;
mod holding;
mod lists;
mod node_reads;
/// The messages of `extender.door.v1alpha1`.
#[expect(missing_docs, clippy::pedantic, reason = "generated code; its documentation is door.proto")]
pub mod v1alpha1 {
    include!("gen/v1alpha1.rs");
}

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::Verb;
use extender_gateway_decide::{CallError, CallerNeeds, Filtered};
use extender_gateway_object::pod::ObjectPod;
use extender_gateway_record::HttpCall;
use extender_gateway_wire::{Names, Request};
use http::{Response, request::Parts};
use tokio::time::Instant;

pub(super) use self::{assumed::AssumedPods, holding::States, lists::NodeLists};
use self::{
    lists::Offered,
    v1alpha1::{
        BindRequest, BindResponse, Change, PlaceRequest, PlaceResponse, Placement, PreemptRequest,
        PreemptResponse, Rejection, ScoreRequest, ScoreResponse, TellRequest, TellResponse, Totals,
        UnknownList, place_response, score_response,
    },
};
use super::{Caller, Door, Received, ReplyBody, Served, answer::CallRefusal, call_guard::CallGuard, survive};

/// The most reasons of an answer that are not summarized.
const MOST_REASONS: usize = 16;

const SERVICE: &str = "/extender.door.v1alpha1.DoorService/";

/// A method of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PluginMethod {
    /// Decides about a pod: counted and recorded.
    Deciding(Deciding),
    Telling(Telling),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deciding {
    Place,
    Score,
    Preempt,
    Bind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    Hold,
    Tell,
}

impl PluginMethod {
    /// That of a path; `None` if it is not one of the service, and an error if the service has no such method.
    pub(super) fn of(path: &str) -> Option<Result<Self, CallRefusal>> {
        let method = path.strip_prefix(SERVICE)?;
        Some(match method {
            "Place" => Ok(Self::Deciding(Deciding::Place)),
            "Score" => Ok(Self::Deciding(Deciding::Score)),
            "Preempt" => Ok(Self::Deciding(Deciding::Preempt)),
            "Bind" => Ok(Self::Deciding(Deciding::Bind)),
            "Hold" => Ok(Self::Telling(Telling::Hold)),
            "Tell" => Ok(Self::Telling(Telling::Tell)),
            _ => Err(CallRefusal::plugin_method(method)),
        })
    }

    /// As which its calls are limited.
    pub(super) fn verb(self) -> Verb {
        match self {
            Self::Deciding(method) => method.verb(),
            Self::Telling(_) => Verb::Filter,
        }
    }
}

impl Deciding {
    /// As which its calls are counted, limited and recorded.
    fn verb(self) -> Verb {
        match self {
            Self::Place => Verb::Filter,
            Self::Score => Verb::Prioritize,
            Self::Preempt => Verb::Preempt,
            Self::Bind => Verb::Bind,
        }
    }
}

/// A request, and what answers it.
pub(super) struct PluginCall<'c> {
    pub(super) door: &'c Door,
    pub(super) served: &'c Served,
    pub(super) head: &'c Parts,
    pub(super) caller: Caller,
}

impl PluginCall<'_> {
    /// The response.
    pub(super) async fn response(
        &self,
        method: Result<PluginMethod, CallRefusal>,
        received: impl Future<Output = Result<Received, CallRefusal>>,
    ) -> Response<ReplyBody> {
        let method = match method {
            Ok(PluginMethod::Deciding(method)) => Ok(method),
            Ok(PluginMethod::Telling(method)) => {
                let told = async { self.told(method, grpc::message(received.await?.body)?).await };
                let told = survive(&self.door.observer.metrics, told).await;
                return told.map_or_else(|refusal| grpc::refusal(&refusal), grpc::response);
            }
            Err(refusal) => Err(refusal),
        };
        let mut guard = self.guard();
        let decided = async {
            let method = method?;
            guard.enter(method.verb());
            let Received { body, queued } = received.await?;
            guard.call.queued = queued;
            guard.call.request_bytes = body.len();
            let message = grpc::message(body)?;
            // Its future is as large as that of an extender's call.
            Box::pin(self.answer(method, message, &mut guard.call)).await
        };
        match survive(&self.door.observer.metrics, decided).await {
            Ok(message) => guard.answered(grpc::response(message)),
            Err(refusal) => {
                let response = grpc::refusal(&refusal);
                self.door.refuse(guard, refusal, response)
            }
        }
    }

    /// Answers what decides about no pod.
    async fn told(&self, method: Telling, message: Bytes) -> Result<Vec<u8>, CallRefusal> {
        match method {
            Telling::Hold => {
                let request = grpc::decoded(message)?;
                Ok(grpc::encoded(&self.door.hold(&request).await))
            }
            Telling::Tell => {
                lists::check_size(&message)?;
                let TellRequest { changes } = grpc::decoded(message)?;
                self.apply(changes);
                Ok(grpc::encoded(&TellResponse {}))
            }
        }
    }

    fn apply(&self, changes: Vec<Change>) {
        self.door.assumed.apply(changes, &self.served.decider, &self.door.observer);
    }

    fn guard(&self) -> CallGuard<'_> {
        CallGuard::new(&self.door.observer, self.head, self.caller, self.served.generation)
    }

    async fn answer(
        &self,
        method: Deciding,
        message: Bytes,
        call: &mut HttpCall,
    ) -> Result<Vec<u8>, CallRefusal> {
        lists::check_size(&message)?;
        match method {
            Deciding::Place => {
                let PlaceRequest { pod, nodes, changes, nodes_at, pods_at, part } = grpc::decoded(message)?;
                let decider = &self.served.decider;
                self.apply(changes);
                self.door.assumed.to_be_placed(&pod);
                let is_new =
                    nodes_at.max(pods_at) > 0 && decider.caught_up(nodes_at, pods_at, call.started).await;
                let needs = CallerNeeds { is_part: part, follows_nodes: is_new };
                let offered = self.door.lists.offered(nodes)?;
                let outcome = match offered {
                    Some(offered) => {
                        place_response::Outcome::Placement(self.place(pod, &offered, needs, call).await?)
                    }
                    None => place_response::Outcome::UnknownList(UnknownList {}),
                };
                Ok(grpc::encoded(&PlaceResponse { outcome: Some(outcome) }))
            }
            Deciding::Score => {
                let ScoreRequest { pod, nodes } = grpc::decoded(message)?;
                let offered = self.door.lists.offered(nodes)?;
                let outcome = match offered {
                    Some(offered) => {
                        score_response::Outcome::Totals(self.score(pod, offered.names, call).await?)
                    }
                    None => score_response::Outcome::UnknownList(UnknownList {}),
                };
                Ok(grpc::encoded(&ScoreResponse { outcome: Some(outcome) }))
            }
            Deciding::Preempt => {
                let PreemptRequest { args } = grpc::decoded(message)?;
                let result = self.served.preempt(args, call).await?.into_pieces().concat().into();
                Ok(grpc::encoded(&PreemptResponse { result }))
            }
            Deciding::Bind => {
                let BindRequest { args } = grpc::decoded(message)?;
                self.served.bind(&args, call).await?;
                Ok(grpc::encoded(&BindResponse {}))
            }
        }
    }

    async fn place(
        &self,
        json: Bytes,
        offered: &Offered,
        needs: CallerNeeds,
        call: &mut HttpCall,
    ) -> Result<Placement, CallError> {
        let request = Arc::new(Request::about(json, Arc::clone(&offered.names))?);
        let json = request.pod();
        let pod = self.served.decider.pod(&json)?;
        let class = self.served.decider.class_of(&pod);
        let keep = class.map(|class| holding::keep(self.door.states.number(self.served), class));
        let by_node = !self.served.decider.rejections_depend_on_nodes(&pod);
        let filtered = self.served.filter(&request, &pod, needs, call).await?;
        let id = call.record.as_ref().map(|record| record.id.clone()).unwrap_or_default();
        let is_complete = call.record.as_ref().is_some_and(holding::is_complete);
        let (totals, are_complete) = self.totals_of_accepted(&request, &pod, &filtered, call.started).await?;
        // A pod that waits is known by its calls.
        let rejected = filtered.rejected.nodes.iter().flatten().count();
        let is_held = is_complete && are_complete && rejected < request.names.count() as usize;
        // Not if it may be of another state.
        let keep = keep.filter(|keep| is_held && self.door.states.number(self.served) == keep.state);
        let bind_timeout_ms = self.served.decider.bind_timeout().map_or(0, in_milliseconds);
        let node_reads = filtered.rejecting_views.as_deref().and_then(node_reads::node_reads);
        let rejections = rejections(offered, filtered);
        Ok(Placement { rejections, totals, call: id, keep, bind_timeout_ms, by_node, node_reads })
    }

    /// The totals of the accepted nodes, if kube-scheduler scores them and they do not depend on which are left: a call of
    /// its own in metrics and records. And whether no backend has failed in it.
    async fn totals_of_accepted(
        &self,
        request: &Arc<Request>,
        pod: &ObjectPod<'_>,
        filtered: &Filtered,
        began: Instant,
    ) -> Result<(Option<Totals>, bool), CallError> {
        let (nodes, rejected) = (0..request.names.count(), &filtered.rejected.nodes);
        let is_accepted = |node: &u32| rejected.get(*node as usize).is_none_or(Option::is_none);
        let accepted: Vec<u32> = nodes.clone().filter(is_accepted).collect();
        if accepted.len() < 2 || self.served.decider.scores_depend_on_nodes(pod) {
            return Ok((None, true));
        }
        let about_accepted = if accepted.len() == nodes.len() {
            Arc::clone(request)
        } else {
            Arc::new(Request::about(request.pod(), Arc::new(request.names.only(&accepted)))?)
        };
        let mut guard = self.guard();
        // Its budget is that of the whole call.
        guard.call.started = began;
        guard.enter(Verb::Prioritize);
        let totals = self.served.totals(&about_accepted, pod, &mut guard.call).await;
        match totals {
            Ok(totals) => {
                let is_complete = guard.call.record.as_ref().is_some_and(holding::is_complete);
                guard.decided();
                Ok((Some(totals), is_complete))
            }
            Err(error) => {
                let refusal = CallRefusal::from(error);
                let response = grpc::refusal(&refusal);
                self.door.refuse(guard, refusal, response);
                // As kube-scheduler ignores an extender whose prioritize fails.
                Ok((Some(Totals::default()), false))
            }
        }
    }

    async fn score(&self, json: Bytes, names: Arc<Names>, call: &mut HttpCall) -> Result<Totals, CallError> {
        let request = Arc::new(Request::about(json, names)?);
        let json = request.pod();
        let pod = self.served.decider.pod(&json)?;
        self.served.totals(&request, &pod, call).await
    }
}

impl Served {
    async fn totals(
        &self,
        request: &Arc<Request>,
        pod: &ObjectPod<'_>,
        call: &mut HttpCall,
    ) -> Result<Totals, CallError> {
        let totals = self.prioritize(request, pod, call).await?;
        let values: Vec<_> = totals.into_iter().map(Option::unwrap_or_default).collect();
        let all_are_0 = values.iter().all(|value| *value == 0);
        Ok(Totals { values: if all_are_0 { Vec::new() } else { values } })
    }
}

fn rejections(offered: &Offered, filtered: Filtered) -> Vec<Rejection> {
    let Filtered { rejected, reasons, .. } = filtered;
    let mut rejections: Vec<_> = reasons
        .into_iter()
        .map(|reason| Rejection {
            reason: reason.text,
            preemption_may_help: reason.preemption_may_help,
            positions: Vec::new(),
            regardless_of_pods: reason.regardless_of_pods,
        })
        .collect();
    for (at, group) in rejected.nodes.iter().enumerate() {
        if let Some(group) = group {
            rejections[*group as usize].positions.push(offered.position(at));
        }
    }
    rejections.retain(|rejection| !rejection.positions.is_empty());
    bounded(rejections)
}

/// The most frequent reasons. The rest are one for each kind: kube-scheduler writes all of them into the condition of the pod.
fn bounded(mut rejections: Vec<Rejection>) -> Vec<Rejection> {
    if rejections.len() <= MOST_REASONS + 1 {
        return rejections;
    }
    // In the same order each time: kube-scheduler would write the condition again.
    rejections
        .sort_by(|a, b| b.positions.len().cmp(&a.positions.len()).then_with(|| a.reason.cmp(&b.reason)));
    let rare = rejections.split_off(MOST_REASONS);
    let text = format!("one of {} other reasons, see extender-gateway explain", rare.len());
    for Rejection { positions, preemption_may_help, regardless_of_pods, .. } in rare {
        let is_same = |other: &&mut Rejection| {
            (other.preemption_may_help, other.regardless_of_pods) == (preemption_may_help, regardless_of_pods)
        };
        match rejections[MOST_REASONS..].iter_mut().find(is_same) {
            Some(others) => others.positions.extend(positions),
            None => rejections.push(Rejection {
                reason: text.clone(),
                preemption_may_help,
                positions,
                regardless_of_pods,
            }),
        }
    }
    rejections[MOST_REASONS..].iter_mut().for_each(|others| others.positions.sort_unstable());
    rejections
}

fn in_milliseconds(timeout: Duration) -> u32 {
    u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1)
}

fn invalid(what: &str) -> CallRefusal {
    CallError::Request(what.to_owned()).into()
}

#[cfg(test)]
mod tests {
    use super::{MOST_REASONS, Rejection, bounded};

    #[test]
    fn rare_reasons_are_one_for_each_kind() {
        let rejection = |at: u32| Rejection {
            reason: format!("reason {at:02}"),
            // The first one is the most frequent.
            positions: if at == 0 { vec![90, 91] } else { vec![60 - at] },
            preemption_may_help: at == 20,
            regardless_of_pods: false,
        };
        let all = |count: u32| (0..count).map(rejection).collect::<Vec<_>>();
        assert_eq!(bounded(all(16)), all(16));
        let left = bounded(all(21));
        assert_eq!(left[..MOST_REASONS], all(16));
        let others = |positions: &[u32], preemption_may_help| Rejection {
            reason: "one of 5 other reasons, see extender-gateway explain".to_owned(),
            preemption_may_help,
            positions: positions.into(),
            regardless_of_pods: false,
        };
        assert_eq!(left[MOST_REASONS..], [others(&[41, 42, 43, 44], false), others(&[40], true)]);
    }
}
