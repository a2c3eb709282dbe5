//! What a Filter call about 500 nodes costs a backend: one label is looked up on each. The client sends bytes
//! that were encoded before, over a real socket, one call at a time.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run stops")]

use std::time::{Duration, Instant};

use extender_policy_api::v1alpha1::{
    Call, FilterRequest, NodeFacts, NodeRow, NodeRows, Nodes, Pod as PodMessage, PodFacts, Purpose,
    Resources, Taint, nodes::Form,
};
use extender_policy_sdk::{Bound, Info, Node, Options, Pod, Policy, Verb, Verdict};
use prost::{
    Message as _,
    bytes::{Buf as _, BufMut as _, Bytes},
};
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};

const NODES: u32 = 500;
const WARMING_UP: usize = 50;
const CALLS: usize = 1001;

struct NoArm;

impl Policy for NoArm {
    fn info(&self) -> Info {
        Info::new("no-arm", "1").filters(Verb::per_node().pure())
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        match node.label("kubernetes.io/arch") {
            Some("arm64") => Verdict::reject("arm64"),
            _ => Verdict::Accept,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let bound = Bound::new(NoArm, Options::default()).await.unwrap();
    let uri = format!("http://{}", bound.address());
    tokio::spawn(bound.until(std::future::pending()));
    let mut client = Grpc::new(Channel::from_shared(uri).unwrap().connect().await.unwrap());
    let request = Bytes::from(request().encode_to_vec());
    let mut times = Vec::new();
    for _ in 0..WARMING_UP + CALLS {
        times.push(call(&mut client, request.clone()).await);
    }
    let mut times = times.split_off(WARMING_UP);
    times.sort();
    println!("{} bytes, median {:?}, least {:?}", request.len(), times[CALLS / 2], times[0]);
}

async fn call(client: &mut Grpc<Channel>, request: Bytes) -> Duration {
    let begin = Instant::now();
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/extender.policy.v1alpha1.PolicyService/Filter");
    client.unary(Request::new(request), path, Raw).await.unwrap();
    begin.elapsed()
}

/// Messages as their bytes.
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(message.copy_to_bytes(message.remaining())))
    }
}

fn request() -> FilterRequest {
    let call = Call { purpose: Purpose::Decide.into(), ..Call::default() };
    let pod = PodMessage { facts: Some(PodFacts::default()), ..PodMessage::default() };
    let rows = (0..NODES).map(row).collect();
    FilterRequest {
        call: Some(call),
        pod: Some(pod),
        nodes: Some(Nodes { count: NODES, form: Some(Form::Rows(NodeRows { rows })) }),
        want_scores: false,
    }
}

/// A node of a cloud: 12 labels, 3 taints, 5 conditions, capacity and allocatable.
fn row(position: u32) -> NodeRow {
    let name = format!("worker-{position}.eu-west-1.compute.internal");
    let arch = if position.is_multiple_of(10) { "arm64" } else { "amd64" };
    let labels = [
        ("beta.kubernetes.io/arch", arch),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", arch),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/hostname", &name),
        ("node.kubernetes.io/instance-type", "m6i.4xlarge"),
        ("topology.kubernetes.io/region", "eu-west-1"),
        ("topology.kubernetes.io/zone", "eu-west-1b"),
        ("failure-domain.beta.kubernetes.io/region", "eu-west-1"),
        ("failure-domain.beta.kubernetes.io/zone", "eu-west-1b"),
        ("acme.io/rack", "rack-17"),
        ("acme.io/team", "payments"),
    ];
    let conditions = [
        ("DiskPressure", "False"),
        ("MemoryPressure", "False"),
        ("NetworkUnavailable", "False"),
        ("PIDPressure", "False"),
        ("Ready", "True"),
    ];
    let taint = |key: &str| Taint { key: key.into(), value: "true".into(), effect: "NoSchedule".into() };
    let amounts = Resources {
        milli_cpu: 16_000,
        memory: 64 << 30,
        ephemeral_storage: 100 << 30,
        pods: 110,
        others: [("hugepages-2Mi".to_owned(), 0)].into(),
    };
    let facts = NodeFacts {
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        taints: ["acme.io/dedicated", "acme.io/gpu", "acme.io/spot"].map(taint).into(),
        conditions: conditions.map(|(kind, status)| (kind.to_owned(), status.to_owned())).into(),
        capacity: Some(amounts.clone()),
        allocatable: Some(amounts),
        ..NodeFacts::default()
    };
    NodeRow { name, facts: Some(facts), ..NodeRow::default() }
}
