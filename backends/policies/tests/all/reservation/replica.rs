//! A replica: the program on a free port, and a client that calls it as the gateway does.

use std::path::Path;

use extender_policy_api::v1beta1::{
    self as api, Verb, hook_service_client::HookServiceClient, policy_service_client::PolicyServiceClient,
};
use prost::Message as _;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use tonic::{Status, transport::Channel};

use crate::Running;

pub(crate) struct Replica {
    running: Running,
    channel: Channel,
    verbs: Vec<api::VerbInfo>,
}

/// A pod with these requests, as the gateway sends it.
pub(crate) fn pod(object: &Value, milli_cpu: i64) -> api::Pod {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let metadata = &object["metadata"];
    let owner = metadata.pointer("/ownerReferences/0").map(|owner| api::OwnerReference {
        api_version: text(&owner["apiVersion"]),
        kind: text(&owner["kind"]),
        name: text(&owner["name"]),
        uid: text(&owner["uid"]),
    });
    // The one annotation that the policy declares to read, which the pod lacks.
    let annotations =
        api::MapValues { values: vec![String::new()], absent: vec![0], ..api::MapValues::default() };
    let facts = api::PodFacts {
        namespace: text(&metadata["namespace"]),
        owner,
        requests: Some(api::Resources { milli_cpu, pods: 1, ..api::Resources::default() }),
        annotations: Some(annotations),
        ..api::PodFacts::default()
    };
    let (name, uid) = (text(&metadata["name"]), text(&metadata["uid"]));
    let identity = api::PodIdentity { name, uid, ..api::PodIdentity::default() };
    api::Pod { identity: Some(identity), facts: Some(facts), ..api::Pod::default() }
}

impl Replica {
    pub(crate) async fn start(kubeconfig: &Path, identity: &str) -> Self {
        let kubeconfig = kubeconfig.to_str().unwrap();
        let running = Running::start(&[
            "reservation",
            "--lease-namespace=shop",
            "--identity",
            identity,
            "--kubeconfig",
            kubeconfig,
        ]);
        let address = &running.address;
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect_lazy();
        let info = PolicyServiceClient::new(channel.clone()).get_info(api::GetInfoRequest::default()).await;
        Self { running, channel, verbs: info.unwrap().into_inner().verbs }
    }

    fn call(&self, verb: Verb) -> api::Call {
        let info = self.verbs.iter().find(|info| info.verb() == verb).unwrap();
        let reads = digest(&SHA256, &info.reads.as_ref().unwrap().encode_to_vec()).as_ref().to_vec().into();
        api::Call { purpose: api::Purpose::Decide.into(), reads, ..api::Call::default() }
    }

    /// Binds the pod to node a.
    pub(crate) async fn bind(&self, pod: &api::Pod) -> Result<api::BindResponse, Status> {
        self.binding(pod.clone()).await
    }

    /// The same on its own.
    pub(crate) fn binding(
        &self,
        pod: api::Pod,
    ) -> impl Future<Output = Result<api::BindResponse, Status>> + use<> {
        let (identity, facts) = (pod.identity.clone().unwrap(), pod.facts.clone().unwrap());
        let request = api::BindRequest {
            call: Some(self.call(Verb::Bind)),
            namespace: facts.namespace,
            name: identity.name,
            uid: identity.uid,
            node: "a".to_owned(),
            pod: Some(pod),
        };
        let mut client = PolicyServiceClient::new(self.channel.clone());
        async move { Ok(client.bind(request).await?.into_inner()) }
    }

    /// How much CPU is held against the pod on node a.
    pub(crate) async fn held(&self, pod: &api::Pod) -> i64 {
        let row = api::NodeRow { name: "a".to_owned(), ..api::NodeRow::default() };
        let rows = api::NodeRows { rows: vec![row] };
        let request = api::ChangeRequest {
            call: Some(self.call(Verb::BeforeFilterNodes)),
            pod: Some(pod.clone()),
            nodes: Some(api::Nodes { count: 1, form: Some(api::nodes::Form::Rows(rows)) }),
            hook: Verb::BeforeFilterNodes.into(),
        };
        let response = HookServiceClient::new(self.channel.clone()).change(request).await;
        let Ok(response) = response else { return -1 };
        let changes = response.into_inner().nodes.into_iter();
        let held = changes.flat_map(|change| change.holds).filter_map(|hold| hold.resources);
        held.map(|resources| resources.milli_cpu).sum()
    }

    pub(crate) fn stop(mut self) {
        self.running.stop();
    }
}
