//! Pods and nodes of a cluster, or of Kubernetes YAML, as the gateway's command `try` records them.

use std::{fs, io, path::Path};

use extender_policy_api::v1beta1::{FilterRequest, NodeRows, nodes::Form};
use prost::Message as _;

use super::{TestNode, TestPod};

/// The pod and the nodes in a file that `extender-gateway try --objects FILE.binpb` has written. A verb is sent what it declares of
/// them, as of any test object; counts of pods are those of [`TestNode::running`].
///
/// ```no_run
/// # use extender_policy_sdk::{Policy, testing};
/// # fn test(policy: impl Policy) {
/// let (pod, nodes) = testing::recorded("tests/gpu-pod.binpb").unwrap();
/// assert_eq!(testing::filter(policy, &pod, &nodes).unwrap(), []);
/// # }
/// ```
///
/// # Errors
///
/// The file cannot be read, or is no whole recording. The text names it.
pub fn recorded(path: impl AsRef<Path>) -> io::Result<(TestPod, Vec<TestNode>)> {
    let path = path.as_ref();
    let named = |kind, why: String| io::Error::new(kind, format!("{}: {why}", path.display()));
    let bytes = fs::read(path).map_err(|error| named(error.kind(), error.to_string()))?;
    objects(&bytes).map_err(|why| {
        let text = format!("{why}; record it again with extender-gateway try --objects");
        named(io::ErrorKind::InvalidData, text)
    })
}

fn objects(bytes: &[u8]) -> Result<(TestPod, Vec<TestNode>), String> {
    let FilterRequest { pod, nodes, .. } =
        FilterRequest::decode(bytes).map_err(|error| format!("it is broken or truncated: {error}"))?;
    let pod = pod.filter(|pod| pod.facts.is_some()).ok_or("it has no pod")?;
    let nodes = nodes.ok_or("it has no nodes")?;
    let Some(Form::Rows(NodeRows { rows })) = nodes.form else {
        return Err("it has no rows of nodes".to_owned());
    };
    if usize::try_from(nodes.count) != Ok(rows.len()) {
        return Err(format!("it has {} of {} nodes", rows.len(), nodes.count));
    }
    let nodes = rows.into_iter().map(|row| TestNode { row, pods: Vec::new() }).collect();
    Ok((TestPod { pod, ..TestPod::new("") }, nodes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use extender_policy_api::v1beta1 as api;

    use super::{super::filter, *};
    use crate::{Info, Node, NodePart, Pod, PodPart, Policy, Reads, Verb, Verdict};

    /// Rejects with everything that it reads.
    struct Shows;

    impl Policy for Shows {
        fn info(&self) -> Info {
            let mut reads = Reads::new();
            reads.pod_label("app");
            reads.pod(PodPart::Identity).node(NodePart::Usage).node(NodePart::Nominated);
            reads.node_annotation("rack");
            Info::new("shows", "1").filters(Verb::per_node().reads(&reads))
        }

        fn filter(&self, pod: &Pod<'_>, node: &Node<'_>) -> Verdict {
            let cpu = |usage: Option<&api::NodeUsage>| usage.unwrap().requested.as_ref().unwrap().milli_cpu;
            let usage = [node.usage(), node.nominated()].map(cpu);
            let (pod, rack) = ((pod.label("app"), pod.name()), node.annotation("rack"));
            Verdict::reject(format!("{pod:?} {rack:?} {usage:?}"))
        }
    }

    fn map(key: &str, value: &str) -> api::MapValues {
        let entries = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        api::MapValues { entries, ..api::MapValues::default() }
    }

    fn request() -> FilterRequest {
        let usage = |milli_cpu| {
            let requested = Some(api::Resources { milli_cpu, ..api::Resources::default() });
            Some(api::NodeUsage { requested, nonzero: None })
        };
        let facts = api::PodFacts { labels: Some(map("app", "web")), ..api::PodFacts::default() };
        let identity = api::PodIdentity { name: "web-0".to_owned(), ..api::PodIdentity::default() };
        let pod = api::Pod { facts: Some(facts), identity: Some(identity), ..api::Pod::default() };
        let facts = api::NodeFacts { annotations: Some(map("rack", "r1")), ..api::NodeFacts::default() };
        let (name, facts) = ("a".to_owned(), Some(facts));
        let row =
            api::NodeRow { name, facts, usage: usage(3), nominated: usage(4), ..api::NodeRow::default() };
        let nodes = api::Nodes { count: 1, form: Some(Form::Rows(NodeRows { rows: vec![row] })) };
        FilterRequest { pod: Some(pod), nodes: Some(nodes), ..FilterRequest::default() }
    }

    fn read(bytes: &[u8]) -> Result<(TestPod, Vec<TestNode>), String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        recorded(file.path()).map_err(|error| {
            let text = error.to_string();
            text.strip_prefix(&format!("{}: ", file.path().display())).expect("it names the file").to_owned()
        })
    }

    #[test]
    fn a_policy_is_sent_what_it_declares_of_recorded_objects() {
        let (pod, nodes) = read(&request().encode_to_vec()).unwrap();
        let expected = r#"(Some("web"), Some("web-0")) Some("r1") [3, 4]"#;
        assert_eq!(filter(Shows, &pod, &nodes).unwrap(), [("a".to_owned(), expected.to_owned())]);
    }

    #[test]
    fn a_file_that_is_no_whole_recording_is_named() {
        let whole = request().encode_to_vec();
        let changed = |change: fn(&mut FilterRequest)| {
            let mut request = request();
            change(&mut request);
            request.encode_to_vec()
        };
        for (bytes, expected) in [
            (&whole[..whole.len() - 1], "it is broken or truncated: "),
            (b"apiVersion: v1", "it is broken or truncated: "),
            (b"", "it has no pod; record it again with extender-gateway try --objects"),
            (&changed(|request| request.nodes = None), "it has no nodes; "),
            (&changed(|request| request.nodes.as_mut().unwrap().form = None), "it has no rows of nodes; "),
            (&changed(|request| request.nodes.as_mut().unwrap().count = 2), "it has 1 of 2 nodes; "),
        ] {
            let error = read(bytes).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let missing = recorded("no/such.binpb").unwrap_err().to_string();
        assert!(missing.starts_with("no/such.binpb: No such file"), "{missing}");
    }
}
