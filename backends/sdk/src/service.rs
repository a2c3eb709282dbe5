//! The contract's service over [`answer`](crate::answer): nothing but transport types in and out.

use extender_policy_api::v1alpha1::{
    BindRequest, BindResponse, FilterRequest, FilterResponse, GetInfoRequest, GetInfoResponse,
    PreemptRequest, PreemptResponse, ScoreRequest, ScoreResponse, policy_service_server::PolicyService,
};
use tonic::{Request, Response, Status};

use crate::{
    Backend,
    answer::{self, CallError},
};

/// Answers calls with the policies of a backend.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    backend: Backend,
}

impl Service {
    pub(crate) fn new(backend: Backend) -> Self {
        Self { backend }
    }
}

#[tonic::async_trait]
impl PolicyService for Service {
    async fn get_info(&self, request: Request<GetInfoRequest>) -> Result<Response<GetInfoResponse>, Status> {
        Ok(Response::new(answer::info(&self.backend, request.get_ref())?))
    }

    async fn filter(&self, request: Request<FilterRequest>) -> Result<Response<FilterResponse>, Status> {
        Ok(Response::new(answer::filter(&self.backend, request.get_ref())?))
    }

    async fn score(&self, request: Request<ScoreRequest>) -> Result<Response<ScoreResponse>, Status> {
        Ok(Response::new(answer::score(&self.backend, request.get_ref())?))
    }

    async fn preempt(&self, _: Request<PreemptRequest>) -> Result<Response<PreemptResponse>, Status> {
        Err(CallError::NotServed("Preempt").into())
    }

    async fn bind(&self, _: Request<BindRequest>) -> Result<Response<BindResponse>, Status> {
        Err(CallError::NotServed("Bind").into())
    }
}
