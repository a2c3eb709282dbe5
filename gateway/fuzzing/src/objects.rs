//! Pods and nodes, and files of them.

use extender_gateway_cluster::{
    file::content,
    objects::{SyntaxError, for_each},
    table::NodeTable,
};
use extender_gateway_object::{ObjectError, node as object_node, pod as object_pod, view::PodFactsView};
use extender_policy_api::v1beta1::PodPart;
use serde_json::Value;

/// The longest text of an error, in bytes: a path of keys of the object, and the value that it cannot have.
const LONGEST_ERROR: usize = 64 << 10;

/// A pod is refused with a place, or has the facts that its JSON says; one of a call is one of the cluster.
pub fn pod(bytes: &[u8]) {
    let offered = object_pod::offered(bytes).map_err(|error| explained(&error, "Pod"));
    let Ok(pod) = object_pod::parse(bytes) else {
        assert!(offered.is_err(), "accepted of calls only");
        return;
    };
    let facts = pod.facts(&PodFactsView::complete());
    assert_eq!(pod.identity().name, pod.name());
    assert_eq!(facts.namespace, pod.namespace());
    assert!(PodFactsView::complete().has(PodPart::Namespace));
    if let Ok(offered) = offered {
        assert_eq!((offered.identity(), offered.facts(&PodFactsView::complete())), (pod.identity(), facts));
        let share = (pod.share(), offered.share());
        assert_eq!(share.0.requested, share.1.requested);
    }
    if let Some(name) = name_of(bytes) {
        assert_eq!(pod.name(), name);
    }
}

/// A node is refused with a place, or has a name and facts; one of a call is one of the cluster, and a table with it gives
/// the same node again.
pub fn node(bytes: &[u8]) {
    let offered = object_node::offered(bytes).map_err(|error| explained(&error, "Node"));
    let Ok(node) = object_node::parse(bytes) else {
        assert!(offered.is_err(), "accepted of calls only");
        return;
    };
    assert!(!node.name().is_empty());
    let facts = node.facts();
    if let Ok(offered) = offered {
        assert_eq!((offered.name(), offered.facts()), (node.name(), facts));
    }
    if let Some(name) = name_of(bytes) {
        assert_eq!(node.name(), name);
    }
    let table = NodeTable::new();
    assert!(table.apply(bytes).is_ok() && table.len() == 1);
    assert!(!table.apply(bytes).is_ok_and(|changed| changed), "an equal node is no change");
    assert!(table.remove(node.name()) && table.is_empty());
}

/// `metadata.name`, unless a key is there twice.
fn name_of(bytes: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let times = |key: &[u8]| bytes.windows(key.len()).filter(|part| *part == key).count();
    let is_plain = times(b"\"metadata\"") == 1 && times(b"\"name\"") == 1 && times(b"\\") == 0;
    is_plain.then(|| value["metadata"]["name"].as_str().map(str::to_owned))?
}

fn explained(error: &ObjectError, kind: &str) {
    let text = error.to_string();
    assert!(text.starts_with(kind) && text.len() <= LONGEST_ERROR, "{} bytes", text.len());
    assert!(error.path() != "?" || text.contains("line"), "{text}");
}

/// A file is refused with a place, or each of its objects is one object of JSON: a list of them has the same objects.
pub fn file(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut objects = Vec::new();
    let read = for_each(text, |object| {
        let value: Value = serde_json::from_str(object.json.get()).map_err(SyntaxError::Json)?;
        assert!(value.is_object());
        objects.push((object.number, object.json.get().to_owned()));
        Ok::<(), SyntaxError>(())
    });
    if let Err(error) = &read {
        assert!(!error.to_string().is_empty());
    }
    assert!(objects.iter().map(|(number, _)| *number).eq(1..=objects.len()));
    if let Ok(count) = read {
        assert_eq!(count, objects.len());
        listed(&objects);
    }
    let table = NodeTable::new();
    match content::read(text, table.relist()) {
        Ok(list) => {
            table.replace(list);
            // Escapes of lone surrogates are texts for Go and the table, and none for serde_json.
            assert!(read.is_err() || table.len() == objects.len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn listed(objects: &[(usize, String)]) {
    let list = format!("[{}]", objects.iter().map(|(_, json)| json.as_str()).collect::<Vec<_>>().join(","));
    let mut again = Vec::new();
    let count = for_each(&list, |object| {
        again.push((object.number, object.json.get().to_owned()));
        Ok::<(), SyntaxError>(())
    });
    let count = count.unwrap_or_else(|error| panic!("{error}: {list}"));
    assert_eq!((count, &*again), (objects.len(), objects));
}
