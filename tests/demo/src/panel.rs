//! Calls the policies directly over gRPC about the same pod and nodes, for comparison with the gateway's answer.

use extender_harness::policy::Policy;
use extender_policy_api::v1alpha1::{
    self as api, Call, FilterRequest, NodeRow, NodeRows, Purpose, ScoreRequest, nodes,
    policy_service_client::PolicyServiceClient,
};
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint};

use crate::{Failure, question::Question};

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
    /// Connects to the policies.
    pub(crate) fn of(policies: &[(Policy, u32)]) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connect = |(policy, weight): &(Policy, u32)| {
            let endpoint = Endpoint::from_shared(format!("http://{}", policy.address))?;
            let channel = runtime.block_on(endpoint.connect())?;
            let name = policy.process.name().to_owned();
            Ok(Member { name, weight: *weight, client: PolicyServiceClient::new(channel) })
        };
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
    fn opinion<T>(&self, of_nodes: Vec<T>) -> Opinion<T> {
        Opinion { policy: self.name.clone(), weight: self.weight, of_nodes }
    }

    async fn filter(&mut self, question: &Question) -> Result<Vec<Option<String>>, Failure> {
        let request = FilterRequest {
            call: Some(self.call()),
            pod: Some(question.pod.clone()),
            nodes: Some(nodes_of(question)?),
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
        let request = ScoreRequest {
            call: Some(self.call()),
            pod: Some(question.pod.clone()),
            nodes: Some(nodes_of(question)?),
        };
        let scores = self.client.score(request).await?.into_inner().scores.unwrap_or_default();
        Ok(scores.values)
    }

    fn call(&self) -> Call {
        Call {
            id: "demo".to_owned(),
            purpose: Purpose::Simulate.into(),
            gateway: "demo".to_owned(),
            backend: self.name.clone(),
            ..Call::default()
        }
    }
}

fn nodes_of(question: &Question) -> Result<api::Nodes, Failure> {
    let rows = question.nodes.iter().map(|node| NodeRow {
        name: node.name.clone(),
        facts: Some(node.facts.clone()),
        ..NodeRow::default()
    });
    let count = u32::try_from(question.nodes.len())?;
    Ok(api::Nodes { count, form: Some(nodes::Form::Rows(NodeRows { rows: rows.collect() })) })
}
