//! The calls whose costs are limited.

use extender_harness::{
    gateway::NodeSource,
    node::{Images, Node, nodes},
    pod::ReplicaSet,
    request::{Verb, names_part, objects_part, pod_part, write_node_list},
};
use tempfile::TempDir;

/// Labels of the nodes that the first backend refuses: one of six.
pub const REFUSED_RACK: &str = "rack-2";

/// One call, repeated with other pods of one Deployment.
#[derive(Debug)]
pub struct Call {
    /// Its name in the ceilings' file.
    pub name: &'static str,
    /// The verb.
    pub verb: Verb,
    /// The number of nodes.
    pub nodes: usize,
    form: Form,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Names,
    Objects,
}

impl Call {
    /// All of them. kube-scheduler offers an extender 420 of 1,000 nodes.
    pub const ALL: [Self; 3] = [
        Self { name: "filter 420 names", verb: Verb::Filter, nodes: 420, form: Form::Names },
        Self { name: "prioritize 420 names", verb: Verb::Prioritize, nodes: 420, form: Form::Names },
        Self { name: "filter 100 full nodes", verb: Verb::Filter, nodes: 100, form: Form::Objects },
    ];

    /// The gateway's source of nodes, which is in the folder.
    pub fn source(&self, folder: &TempDir) -> NodeSource {
        match self.form {
            Form::Names => {
                let file = folder.path().join("nodes.json");
                let cluster = self.cluster();
                write_node_list(&file, cluster.iter().map(|node| node.json.as_str()))
                    .expect("a temporary folder can be written to");
                NodeSource::File(file)
            }
            Form::Objects => NodeSource::Request,
        }
    }

    /// Bodies about this many pods.
    pub fn bodies(&self, count: usize) -> Vec<Vec<u8>> {
        let cluster = self.cluster();
        let tail = match self.form {
            Form::Names => names_part(&cluster),
            Form::Objects => objects_part(&cluster),
        };
        let mut set = ReplicaSet::new("shop", "checkout", &[], 1);
        (0..count).map(|_| [&pod_part(&set.pod())[..], &tail].concat()).collect()
    }

    /// Whether the whole body fits into a socket's buffer.
    pub fn is_small(&self) -> bool {
        matches!(self.form, Form::Names)
    }

    fn cluster(&self) -> Vec<Node> {
        nodes(0..self.nodes, Images::Usual)
    }
}
