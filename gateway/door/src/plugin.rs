//! What kube-scheduler's plugin calls: `extender.door.v1alpha1.DoorService`, over HTTP/2, at the socket only: who may call it may
//! have pods counted.
//!
//! A call is decided, recorded and limited like those of an extender: Place is a filter and, if the scores of nodes do not
//! depend on one another, a prioritize call.

mod assumed;
mod grpc;
mod lists;
/// The messages of `extender.door.v1alpha1`.
#[expect(missing_docs, clippy::pedantic, reason = "generated code; its documentation is door.proto")]
pub mod v1alpha1 {
    include!("gen/v1alpha1.rs");
}

use std::sync::Arc;

use bytes::Bytes;
use extender_gateway_core::Verb;
use extender_gateway_decide::{CallError, Filtered};
use extender_gateway_record::HttpCall;
use extender_gateway_wire::Request;
use http::{Response, request::Parts};
use tokio::time::Instant;

pub(super) use self::{assumed::AssumedPods, lists::NodeLists};
use self::{
    lists::Offered,
    v1alpha1::{
        PlaceRequest, PlaceResponse, Placement, Rejection, ScoreRequest, ScoreResponse, Totals, UnknownList,
        place_response, score_response,
    },
};
use super::{Caller, Door, Received, ReplyBody, Served, answer::CallRefusal, call_guard::CallGuard, survive};

const SERVICE: &str = "/extender.door.v1alpha1.DoorService/";

/// A method of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PluginMethod {
    Place,
    Score,
}

impl PluginMethod {
    /// That of a path; `None` if it is not one of the service, and an error if the service has no such method.
    pub(super) fn of(path: &str) -> Option<Result<Self, CallRefusal>> {
        let method = path.strip_prefix(SERVICE)?;
        Some(match method {
            "Place" => Ok(Self::Place),
            "Score" => Ok(Self::Score),
            _ => Err(CallRefusal::plugin_method(method)),
        })
    }

    /// As which its calls are counted, limited and recorded.
    pub(super) fn verb(self) -> Verb {
        match self {
            Self::Place => Verb::Filter,
            Self::Score => Verb::Prioritize,
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

    fn guard(&self) -> CallGuard<'_> {
        CallGuard::new(&self.door.observer, self.head, self.caller, self.served.generation)
    }

    async fn answer(
        &self,
        method: PluginMethod,
        message: Bytes,
        call: &mut HttpCall,
    ) -> Result<Vec<u8>, CallRefusal> {
        lists::check_size(&message)?;
        match method {
            PluginMethod::Place => {
                let PlaceRequest { pod, nodes, changes, nodes_at, pods_at } = grpc::decoded(message)?;
                let decider = &self.served.decider;
                self.door.assumed.apply(changes, decider);
                self.door.assumed.to_be_placed(&pod);
                if nodes_at.max(pods_at) > 0 {
                    decider.caught_up(nodes_at, pods_at, call.started).await;
                }
                let offered = self.door.lists.offered(nodes)?;
                let outcome = match offered {
                    Some(offered) => {
                        place_response::Outcome::Placement(self.place(&pod, &offered, call).await?)
                    }
                    None => place_response::Outcome::UnknownList(UnknownList {}),
                };
                Ok(grpc::encoded(&PlaceResponse { outcome: Some(outcome) }))
            }
            PluginMethod::Score => {
                let ScoreRequest { pod, nodes } = grpc::decoded(message)?;
                let offered = self.door.lists.offered(nodes)?;
                let outcome = match offered {
                    Some(offered) => {
                        let request = request_about(&pod, offered.names(), offered.len())?;
                        score_response::Outcome::Totals(self.served.totals(&request, call).await?)
                    }
                    None => score_response::Outcome::UnknownList(UnknownList {}),
                };
                Ok(grpc::encoded(&ScoreResponse { outcome: Some(outcome) }))
            }
        }
    }

    async fn place(
        &self,
        pod: &[u8],
        offered: &Offered,
        call: &mut HttpCall,
    ) -> Result<Placement, CallRefusal> {
        let request = request_about(pod, offered.names(), offered.len())?;
        let filtered = self.served.filter(&request, call).await?;
        let id = call.record.as_ref().map(|record| record.id.clone()).unwrap_or_default();
        let totals = self.totals_of_accepted(offered, &request, &filtered, call.started).await?;
        Ok(Placement { rejections: rejections(offered, filtered), totals, call: id })
    }

    /// The totals of the accepted nodes, if kube-scheduler scores them and they do not depend on which are left: a call of
    /// its own in metrics and records.
    async fn totals_of_accepted(
        &self,
        offered: &Offered,
        request: &Arc<Request>,
        filtered: &Filtered,
        began: Instant,
    ) -> Result<Option<Totals>, CallRefusal> {
        let rejected = &filtered.rejected.nodes;
        let is_accepted = |at: usize| rejected.get(at).is_none_or(Option::is_none);
        let accepted = (0..offered.len()).filter(|at| is_accepted(*at)).count();
        if accepted < 2 || self.served.scores_depend_on_nodes(request)? {
            return Ok(None);
        }
        let about_accepted = if accepted == offered.len() {
            Arc::clone(request)
        } else {
            let names = offered.names().enumerate().filter(|(at, _)| is_accepted(*at)).map(|(_, name)| name);
            request_about(&request.pod(), names, accepted)?
        };
        let mut guard = self.guard();
        // Its budget is that of the whole call.
        guard.call.started = began;
        guard.enter(Verb::Prioritize);
        let totals = self.served.totals(&about_accepted, &mut guard.call).await;
        match totals {
            Ok(totals) => {
                guard.decided();
                Ok(Some(totals))
            }
            Err(error) => {
                let refusal = CallRefusal::from(error);
                let response = grpc::refusal(&refusal);
                self.door.refuse(guard, refusal, response);
                // As kube-scheduler ignores an extender whose prioritize fails.
                Ok(Some(Totals::default()))
            }
        }
    }
}

impl Served {
    async fn totals(&self, request: &Arc<Request>, call: &mut HttpCall) -> Result<Totals, CallError> {
        let totals = self.prioritize(request, call).await?;
        let values: Vec<_> = totals.into_iter().map(Option::unwrap_or_default).collect();
        let all_are_0 = values.iter().all(|value| *value == 0);
        Ok(Totals { values: if all_are_0 { Vec::new() } else { values } })
    }

    fn scores_depend_on_nodes(&self, request: &Request) -> Result<bool, CallError> {
        let json = request.pod();
        Ok(self.decider.scores_depend_on_nodes(&self.decider.pod(&json)?))
    }
}

/// A request about so many nodes, each with a name of its own.
fn request_about<'n>(
    pod: &[u8],
    names: impl Iterator<Item = &'n str>,
    count: usize,
) -> Result<Arc<Request>, CallRefusal> {
    let request = Request::about(pod, names).map_err(CallError::from)?;
    if request.names.count() as usize != count {
        return Err(invalid("a name is in the list of nodes twice"));
    }
    Ok(Arc::new(request))
}

fn rejections(offered: &Offered, filtered: Filtered) -> Vec<Rejection> {
    let Filtered { rejected, reasons } = filtered;
    let mut rejections: Vec<_> = reasons
        .into_iter()
        .map(|reason| Rejection {
            reason: reason.text,
            preemption_may_help: reason.preemption_may_help,
            positions: Vec::new(),
        })
        .collect();
    for (at, group) in rejected.nodes.iter().enumerate() {
        if let Some(group) = group {
            rejections[*group as usize].positions.push(offered.position(at));
        }
    }
    rejections.retain(|rejection| !rejection.positions.is_empty());
    rejections
}

fn invalid(what: &str) -> CallRefusal {
    CallError::Request(what.to_owned()).into()
}
