//! What the verbs of scripted backends declare that they read.

use extender_policy_api::v1beta1::{MapReads, NodePart, NodeReads, PodPart, PodReads, Reads};

/// Everything of pods, and nothing of nodes.
pub(crate) fn pods() -> Reads {
    let parts = vec![PodPart::Identity.into()];
    Reads { pod: Some(PodReads { everything: true, parts, ..PodReads::default() }), node: None }
}

/// Everything of pods, and the names of nodes.
pub(crate) fn names() -> Reads {
    with_part(pods(), NodePart::Name)
}

/// Everything of pods and of nodes.
pub(crate) fn facts() -> Reads {
    Reads { node: Some(NodeReads { everything: true, ..NodeReads::default() }), ..pods() }
}

/// The same and the JSON of nodes.
pub(crate) fn json() -> Reads {
    with_part(facts(), NodePart::RawJson)
}

/// The same without who the pod is, which pure verbs do not read.
pub(crate) fn without_identity(mut reads: Reads) -> Reads {
    if let Some(pod) = &mut reads.pod {
        pod.parts.retain(|part| *part != i32::from(PodPart::Identity));
    }
    reads
}

/// The same and this part of nodes.
pub(crate) fn with_part(mut reads: Reads, part: NodePart) -> Reads {
    reads.node.get_or_insert_default().parts.push(part.into());
    reads
}

/// The same and the annotations of pods and nodes with this prefix.
pub(crate) fn with_annotations(mut reads: Reads, prefix: &str) -> Reads {
    let annotations = MapReads { keys: Vec::new(), prefixes: vec![prefix.to_owned()] };
    reads.pod.get_or_insert_default().annotations = Some(annotations.clone());
    reads.node.get_or_insert_default().annotations = Some(annotations);
    reads
}
