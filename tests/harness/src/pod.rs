//! Pods as a `ReplicaSet`'s controller makes them and the apiserver completes them: siblings differ only in their
//! name, UID, resource version and the name of the service account's volume.

use std::collections::BTreeMap;

use crate::{
    random::Random,
    template::{compact, fill},
};

/// A pod's JSON, without the parts that differ between pods and between Deployments.
const TEMPLATE: &str = include_str!("../templates/pod.json");

/// The pod-template-hash of every generated `ReplicaSet`.
const HASH: &str = "7d9c6b5f4";

/// The owner of pods that are equal except for what Kubernetes makes different in each.
#[derive(Debug)]
pub struct ReplicaSet {
    /// The template with the common values of its pods.
    template: String,
    name: String,
    namespace: String,
    created: u64,
    random: Random,
}

/// One generated pod.
#[derive(Debug, Clone)]
pub struct Pod {
    /// metadata.namespace.
    pub namespace: String,
    /// metadata.name.
    pub name: String,
    /// The whole object, compact, with Go's escapes.
    pub json: String,
}

impl ReplicaSet {
    /// The current `ReplicaSet` of the Deployment `app`. `labels` are added to those of every pod. The same seed
    /// makes the same pods.
    pub fn new(namespace: &str, app: &str, labels: &[(&str, &str)], seed: u64) -> Self {
        let mut random = Random::new(seed);
        let name = format!("{app}-{HASH}");
        let template = fill(
            &compact(TEMPLATE),
            &[
                ("app", app),
                ("replicaset", &name),
                ("namespace", namespace),
                ("labels", &label_members(app, labels)),
                ("owner", &random.uid()),
                // Values that differ from pod to pod stay placeholders.
                ("name", "${name}"),
                ("uid", "${uid}"),
                ("version", "${version}"),
                ("token", "${token}"),
            ],
        );
        Self { template, name, namespace: namespace.to_owned(), created: 0, random }
    }

    /// The next pod.
    pub fn pod(&mut self) -> Pod {
        self.created += 1;
        let name = format!("{}-{}", self.name, self.random.suffix());
        let json = fill(
            &self.template,
            &[
                ("name", &name),
                ("uid", &self.random.uid()),
                ("version", &(100_000 + self.created).to_string()),
                ("token", &format!("kube-api-access-{}", self.random.suffix())),
            ],
        );
        Pod { namespace: self.namespace.clone(), name, json }
    }
}

/// The members of metadata.labels, sorted as Go sorts the keys of a map.
fn label_members(app: &str, further: &[(&str, &str)]) -> String {
    let usual = [("app", app), ("pod-template-hash", HASH), ("version", "v1")];
    let sorted: BTreeMap<&str, &str> = usual.into_iter().chain(further.iter().copied()).collect();
    let members: Vec<String> = sorted.iter().map(|(key, value)| format!("\"{key}\":\"{value}\"")).collect();
    members.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(pod: &Pod) -> serde_json::Value {
        serde_json::from_str(&pod.json).unwrap()
    }

    /// The object without what Kubernetes makes different in each sibling.
    fn shared(pod: &Pod) -> serde_json::Value {
        let mut object = parsed(pod);
        for key in ["name", "uid", "resourceVersion"] {
            object["metadata"].as_object_mut().unwrap().remove(key).unwrap();
        }
        object["spec"]["volumes"][0]["name"].take();
        object["spec"]["containers"][0]["volumeMounts"][0]["name"].take();
        object
    }

    #[test]
    fn siblings_differ_in_what_kubernetes_makes_different() {
        let mut set = ReplicaSet::new("shop", "checkout", &[("acme.io/tenant", "tenant-2")], 1);
        let (one, other) = (set.pod(), set.pod());
        assert_eq!(shared(&one), shared(&other));
        let (one, other) = (parsed(&one), parsed(&other));
        for path in ["/metadata/name", "/metadata/uid", "/spec/volumes/0/name"] {
            assert_ne!(one.pointer(path), other.pointer(path), "{path}");
        }
    }
}
