//! The cost of a Filter call about 500 nodes for a backend: one label is looked up on each, with the rows in the
//! call and with the ids of a table in it; and the cost of filling a table. Both for a policy that is sent everything
//! and for one that declares the label. The client sends bytes that were encoded before, over a real socket, one
//! call at a time.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run stops")]

use std::time::{Duration, Instant};

use extender_policy_api::v1alpha1::{
    Call, FilterRequest, GetInfoRequest, NodeFacts, NodeReads, NodeRef, NodeRow, NodeRows, NodeView, Nodes,
    Pod as PodMessage, PodFacts, Purpose, Reads as ReadsMessage, Resources, SyncNodesRequest, TableEntry,
    TableView, Taint, nodes::Form, policy_service_client::PolicyServiceClient,
};
use extender_policy_sdk::{Bound, Info, Node, NodeKey, Options, Pod, Policy, Reads, Verb, Verdict};
use prost::{
    Message as _,
    bytes::{Buf as _, BufMut as _, Bytes},
};
use tokio_stream::StreamExt as _;
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};

const NODES: u32 = 500;
/// Of the table.
const ROWS: u32 = 5000;
const WARMING_UP: usize = 50;
const CALLS: usize = 1001;
/// How many are filled, and the name of the last one.
const TABLE: u64 = 21;

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

/// The same, with a declaration.
struct Reading {
    reads: Reads,
    arch: NodeKey,
}

impl Reading {
    fn new() -> Self {
        let mut reads = Reads::new();
        let arch = reads.node_label("kubernetes.io/arch");
        Self { reads, arch }
    }
}

impl Policy for Reading {
    fn info(&self) -> Info {
        Info::new("reading", "1").filters(Verb::per_node().pure().reads(&self.reads))
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        match node.get(&self.arch) {
            Some("arm64") => Verdict::reject("arm64"),
            _ => Verdict::Accept,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    measure("everything", NoArm, row).await;
    measure("one label", Reading::new(), value).await;
}

async fn measure(sent: &str, policy: impl Policy, row: fn(u32) -> NodeRow) {
    let bound = Bound::new(policy, Options::default()).await.unwrap();
    let uri = format!("http://{}", bound.address());
    tokio::spawn(bound.until(std::future::pending()));
    let channel = Channel::from_shared(uri).unwrap().connect().await.unwrap();
    let info = PolicyServiceClient::new(channel.clone()).get_info(GetInfoRequest::default()).await.unwrap();
    let reads = info.into_inner().verbs.remove(0).reads;
    let rows = reads.as_ref().and_then(|reads| reads.node.as_ref());
    let mut client = Grpc::new(channel);
    let mut fillings = Vec::new();
    for name in 1..TABLE {
        fillings.push(filled(&mut client, name, rows, row).await.1);
    }
    let (_table, last) = filled(&mut client, TABLE, rows, row).await;
    fillings.push(last);
    print(&format!("{sent}: a table of 5,000 rows filled"), &mut fillings);
    let inline = Form::Rows(NodeRows { rows: (1..=NODES).map(row).collect() });
    let ids =
        Form::Table(NodeRef { table: TABLE, at_least: 1, ids: (1..=NODES).collect(), rows: Vec::new() });
    for (what, form) in [("inline", inline), ("by ids", ids)] {
        let request = Bytes::from(request(form, reads.as_ref()).encode_to_vec());
        let mut times = Vec::new();
        for _ in 0..WARMING_UP + CALLS {
            times.push(call(&mut client, request.clone()).await);
        }
        print(&format!("{sent}: 500 nodes {what}, {} bytes", request.len()), &mut times[WARMING_UP..]);
    }
}

fn print(what: &str, times: &mut [Duration]) {
    times.sort();
    println!(
        "{what}: median {:?}, least {:?}, most {:?}",
        times[times.len() / 2],
        times[0],
        times[times.len() - 1]
    );
}

async fn call(client: &mut Grpc<Channel>, request: Bytes) -> Duration {
    let begin = Instant::now();
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/extender.policy.v1alpha1.PolicyService/Filter");
    client.unary(Request::new(request), path, Raw).await.unwrap();
    begin.elapsed()
}

/// From the first byte to the acknowledgement. The table stays as long as the stream.
async fn filled(
    client: &mut Grpc<Channel>,
    table: u64,
    reads: Option<&NodeReads>,
    row: fn(u32) -> NodeRow,
) -> (Streaming<Bytes>, Duration) {
    let entry = |id| TableEntry { id, row: Some(row(id)) };
    let (node_view, reads) = (NodeView::Facts.into(), reads.cloned());
    let view = Some(TableView { node_view, reads, ..TableView::default() });
    let upserts = (1..=ROWS).map(entry).collect();
    let message = SyncNodesRequest { table, version: 1, view, upserts, ..SyncNodesRequest::default() };
    let message = Bytes::from(message.encode_to_vec());
    let begin = Instant::now();
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/extender.policy.v1alpha1.NodeTableService/SyncNodes");
    let messages = tokio_stream::once(message).chain(tokio_stream::pending());
    let mut applied = client.streaming(Request::new(messages), path, Raw).await.unwrap().into_inner();
    applied.message().await.unwrap().unwrap();
    (applied, begin.elapsed())
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

fn request(form: Form, reads: Option<&ReadsMessage>) -> FilterRequest {
    let reads = reads.map_or(0, |reads| reads.id);
    let call = Call { purpose: Purpose::Decide.into(), reads, ..Call::default() };
    let pod = PodMessage { facts: Some(PodFacts::default()), ..PodMessage::default() };
    FilterRequest {
        call: Some(call),
        pod: Some(pod),
        nodes: Some(Nodes { count: NODES, form: Some(form) }),
        want_scores: false,
    }
}

/// The same node for the policy with a declaration.
fn value(position: u32) -> NodeRow {
    let NodeRow { name, facts, .. } = row(position);
    let arch = facts.unwrap_or_default().labels.remove("kubernetes.io/arch");
    let facts = NodeFacts { label_values: arch.into_iter().collect(), ..NodeFacts::default() };
    NodeRow { name, facts: Some(facts), ..NodeRow::default() }
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
