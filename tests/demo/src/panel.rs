//! Calls the policies directly over gRPC about the same pod and nodes, for comparison with the gateway's answer.

use extender_gateway_contract::api::sha256;
use extender_harness::policy::Policy;
use extender_policy_api::v1beta1::{
    Call, FilterRequest, GetInfoRequest, Purpose, ScoreRequest, Verb, VerbInfo,
    policy_service_client::PolicyServiceClient,
};
use prost::Message;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint};

use crate::{
    Failure,
    question::Question,
    view::{nodes_of, pod_of},
};

/// All policies, in the gateway's order.
#[derive(Debug)]
pub(crate) struct Panel {
    runtime: Runtime,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: String,
    weight: u32,
    /// From the handshake.
    verbs: Vec<VerbInfo>,
    client: PolicyServiceClient<Channel>,
}

/// One policy's answers about the nodes of a question.
#[derive(Debug)]
pub(crate) struct Opinion<T> {
    /// The policy.
    pub(crate) policy: String,
    /// The weight of its scores.
    pub(crate) weight: u32,
    /// One for each node, in the question's order.
    pub(crate) of_nodes: Vec<T>,
}

impl Panel {
    /// Connects to the policies, and asks what they read.
    pub(crate) fn of(policies: &[(Policy, u32)]) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connect = |(policy, weight): &(Policy, u32)| runtime.block_on(Member::of(policy, *weight));
        let members = policies.iter().map(connect).collect::<Result<_, Failure>>()?;
        Ok(Self { runtime, members })
    }

    /// For each policy and node the reason of its refusal, if any.
    pub(crate) fn refusals(&mut self, question: &Question) -> Result<Vec<Opinion<Option<String>>>, Failure> {
        let Self { runtime, members } = self;
        let ask = |member: &mut Member| {
            let of_nodes = runtime.block_on(member.filter(question))?;
            Ok(member.opinion(of_nodes))
        };
        members.iter_mut().map(ask).collect()
    }

    /// Each policy's raw score of each node.
    pub(crate) fn scores(&mut self, question: &Question) -> Result<Vec<Opinion<i32>>, Failure> {
        let Self { runtime, members } = self;
        let ask = |member: &mut Member| {
            let of_nodes = runtime.block_on(member.score(question))?;
            Ok(member.opinion(of_nodes))
        };
        members.iter_mut().map(ask).collect()
    }
}

impl Member {
    async fn of(policy: &Policy, weight: u32) -> Result<Self, Failure> {
        let endpoint = Endpoint::from_shared(format!("http://{}", policy.address))?;
        let mut client = PolicyServiceClient::new(endpoint.connect().await?);
        let name = policy.process.name().to_owned();
        let handshake = GetInfoRequest { backend: name.clone(), ..GetInfoRequest::default() };
        let verbs = client.get_info(handshake).await?.into_inner().verbs;
        Ok(Self { name, weight, verbs, client })
    }

    fn verb(&self, verb: Verb) -> Result<VerbInfo, Failure> {
        let offered = self.verbs.iter().find(|offered| offered.verb() == verb);
        Ok(offered.ok_or_else(|| format!("{} does not offer {verb:?}", self.name))?.clone())
    }

    fn opinion<T>(&self, of_nodes: Vec<T>) -> Opinion<T> {
        Opinion { policy: self.name.clone(), weight: self.weight, of_nodes }
    }

    async fn filter(&mut self, question: &Question) -> Result<Vec<Option<String>>, Failure> {
        let verb = self.verb(Verb::Filter)?;
        let request = FilterRequest {
            call: Some(self.call(&verb)),
            pod: Some(pod_of(question, &verb)?),
            nodes: Some(nodes_of(question, &verb)?),
            want_scores: false,
        };
        let response = self.client.filter(request).await?.into_inner();
        let mut reasons = vec![None; question.nodes.len()];
        for rejection in response.rejections {
            for position in rejection.positions {
                let node = reasons.get_mut(usize::try_from(position)?);
                *node.ok_or("a policy refuses a node that is not there")? = Some(rejection.reason.clone());
            }
        }
        Ok(reasons)
    }

    async fn score(&mut self, question: &Question) -> Result<Vec<i32>, Failure> {
        let verb = self.verb(Verb::Score)?;
        let request = ScoreRequest {
            call: Some(self.call(&verb)),
            pod: Some(pod_of(question, &verb)?),
            nodes: Some(nodes_of(question, &verb)?),
        };
        let scores = self.client.score(request).await?.into_inner().scores.unwrap_or_default();
        Ok(scores.values)
    }

    fn call(&self, verb: &VerbInfo) -> Call {
        Call {
            id: "demo".to_owned(),
            purpose: Purpose::Simulate.into(),
            gateway: "demo".to_owned(),
            backend: self.name.clone(),
            reads: Vec::from(sha256(&verb.reads.clone().unwrap_or_default().encode_to_vec())).into(),
            ..Call::default()
        }
    }
}
