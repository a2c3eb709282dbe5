//! What is recorded of a placeholder pod when it is created, so that a change is noticed: whoever may edit pods of its
//! namespace can resize it, and as long as it has a gate, choose its nodes.

use std::{collections::BTreeSet, fmt::Write as _};

use extender_policy_sdk::Resources;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    amounts::{self, ResourceList, fits, most, plus},
    placeholder::{KEPT, KEPT_OF_CONTAINERS},
};

/// What the apiserver adds to what the placeholder has of its template.
const ADDED: [&str; 3] = ["hostNetwork", "overhead", "priority"];
/// The bytes of a digest that are recorded.
const LENGTH: usize = 16;

/// What a placeholder pod requests and where it may be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Recorded {
    /// Of all of its spec that bears on nodes.
    pub(super) digest: String,
    pub(super) requests: Resources,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", rename = "Spec")]
struct RecordedSpec {
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    overhead: ResourceList,
    resources: Requirements,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    restart_policy: String,
    resources: Requirements,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Requirements {
    requests: ResourceList,
}

impl Recorded {
    /// Of a pod's JSON.
    ///
    /// # Errors
    /// It is no pod, or a quantity is invalid.
    pub(super) fn of(pod: &[u8]) -> Result<Self, String> {
        let mut pod: Value = serde_json::from_slice(pod).map_err(|error| error.to_string())?;
        let spec = pod.get_mut("spec").map(Value::take).unwrap_or_default();
        let digest = digest_of(&spec);
        let spec: RecordedSpec = serde_json::from_value(spec).map_err(|error| error.to_string())?;
        Ok(Self { digest, requests: spec.requests()? })
    }

    /// # Errors
    /// This pod, of which the gateway tells that it requests this, is not as it was recorded.
    pub(super) fn check(&self, now: &Self, told: &Resources) -> Result<(), String> {
        let changed = if self.requests != now.requests {
            differing("it requests", &now.requests, &self.requests)
        } else if self.digest != now.digest {
            "what decides about its node is no longer as in the template".to_owned()
        } else if !fits(told, &self.requests) {
            differing("the gateway counts for it", told, &self.requests)
        } else {
            return Ok(());
        };
        Err(format!("the placeholder pod was changed: {changed}; create the Reservation again"))
    }
}

/// The resources that are not as they were recorded.
fn differing(what: &str, now: &Resources, recorded: &Resources) -> String {
    let (now, recorded) = (amounts::list(now), amounts::list(recorded));
    let amount =
        |of: &ResourceList, name: &String| of.get(name).and_then(Value::as_str).unwrap_or("0").to_owned();
    let names: BTreeSet<_> = now.keys().chain(recorded.keys()).collect();
    let differ = names.into_iter().filter(|name| now.get(*name) != recorded.get(*name));
    let told =
        differ.map(|name| format!("{name} {} instead of {}", amount(&now, name), amount(&recorded, name)));
    format!("{what} {}", told.collect::<Vec<_>>().join(", "))
}

impl RecordedSpec {
    /// Mirrors `PodRequests` of k8s.io/component-helpers/resource, each amount rounded up.
    fn requests(&self) -> Result<Resources, String> {
        let (mut total, mut sidecars, mut peak) = <(Resources, Resources, Resources)>::default();
        for container in &self.containers {
            total = plus(&total, &container.resources.amounts()?);
        }
        for container in &self.init_containers {
            let amounts = container.resources.amounts()?;
            if container.restart_policy == "Always" {
                (total, sidecars) = (plus(&total, &amounts), plus(&sidecars, &amounts));
            } else {
                peak = most(&peak, &plus(&amounts, &sidecars));
            }
        }
        let mut total = amounts::list(&most(&total, &peak));
        // Of the pod as a whole: they replace what the containers request.
        for (name, amount) in &self.resources.requests {
            if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
                total.insert(name.clone(), amount.clone());
            }
        }
        Ok(plus(&amounts::parse(&total)?, &amounts::parse(&self.overhead)?))
    }
}

impl Requirements {
    fn amounts(&self) -> Result<Resources, String> {
        amounts::parse(&self.requests)
    }
}

/// Fields are in order in JSON that this program writes.
fn digest_of(spec: &Value) -> String {
    let mut relevant = kept(spec, KEPT.iter().chain(&ADDED));
    for field in ["containers", "initContainers"] {
        let containers = spec.get(field).and_then(Value::as_array).into_iter().flatten();
        let containers: Vec<_> =
            containers.map(|one| kept(one, &KEPT_OF_CONTAINERS)).map(Value::Object).collect();
        relevant.insert(field.to_owned(), containers.into());
    }
    let hash = digest(&SHA256, Value::Object(relevant).to_string().as_bytes());
    hash.as_ref().iter().take(LENGTH).fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn kept<'f>(of: &Value, fields: impl IntoIterator<Item = &'f &'f str>) -> Map<String, Value> {
    let field = |field: &&str| Some(((*field).to_owned(), of.get(*field)?.clone()));
    fields.into_iter().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use extender_policy_sdk::{
        Backend,
        testing::{self, PodFacts, TestPod},
    };
    use serde_json::json;

    use super::*;
    use crate::{
        apiserver::Apiserver,
        tests::{Seconds, controlling, replica},
    };

    /// Binds a placeholder that was recorded with 1 CPU, and is now like this; the gateway tells these CPUs, in thousandths.
    /// Returns the status of its Reservation.
    async fn bound(pod: &Value, told: i64) -> Value {
        let apiserver = Apiserver::default();
        apiserver.create_pod("pod");
        apiserver.edit_pod("shop/pod", |stored| {
            (stored["spec"], stored["metadata"]["uid"]) = (pod.clone(), "uid".into());
        });
        let recorded = recorded(&json!({"containers": [cpu("1")]}));
        let status = json!({
            "placeholder": "uid", "placeholderDigest": recorded.digest,
            "placeholderRequests": amounts::list(&recorded.requests),
        });
        apiserver.create_reservation("one", &json!({}), &status);
        let owner = Some(controlling("one"));
        let requests = Some(Resources { milli_cpu: told, ..Resources::default() });
        let pod =
            TestPod::from(PodFacts { namespace: "shop".into(), owner, requests, ..PodFacts::default() });
        let policy = replica(&apiserver, &Seconds::default()).0;
        testing::bind(Backend::from(policy), &pod, "a").await.unwrap();
        assert!(apiserver.pods().is_empty(), "it is deleted in any case");
        apiserver.reservation("one")["status"].clone()
    }

    #[tokio::test]
    async fn a_placeholder_that_was_changed_reserves_nothing() {
        let kept = bound(&json!({"containers": [cpu("1")], "activeDeadlineSeconds": 9}), 1_000).await;
        assert_eq!((&kept["phase"], &kept["allocatable"]), (&json!("Available"), &json!({"cpu": "1"})));
        for (pod, told, expected) in [
            (json!({"containers": [cpu("64")]}), 64_000, "it requests cpu 64 instead of 1;"),
            // It was resized back while the gateway asked.
            (json!({"containers": [cpu("1")]}), 64_000, "the gateway counts for it cpu 64 instead of 1;"),
            (
                json!({"containers": [cpu("1")], "nodeSelector": {"a": "b"}}),
                1_000,
                "no longer as in the template;",
            ),
        ] {
            let status = bound(&pod, told).await;
            assert_eq!(
                (&status["phase"], &status["conditions"][0]["reason"]),
                (&json!("Failed"), &json!("Invalid"))
            );
            assert!(text_of(&status["conditions"][0]["message"]).contains(expected), "{status}");
            assert_eq!((&status["allocatable"], &status["nodeName"]), (&Value::Null, &Value::Null));
        }
    }

    fn text_of(value: &Value) -> &str {
        value.as_str().unwrap()
    }

    fn recorded(spec: &Value) -> Recorded {
        Recorded::of(json!({"spec": spec}).to_string().as_bytes()).unwrap()
    }

    fn cpu(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn a_pod_requests_what_kube_scheduler_counts() {
        let sidecar = json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}});
        for (spec, expected) in [
            (json!({"containers": [cpu("1"), cpu("500m")]}), 1_500),
            (json!({"containers": [cpu("1")], "initContainers": [cpu("4"), cpu("2")]}), 4_000),
            (json!({"containers": [cpu("1")], "initContainers": [sidecar, cpu("2")]}), 3_000),
            (json!({"containers": [cpu("1")], "initContainers": [cpu("2"), sidecar]}), 2_000),
            (json!({"containers": [cpu("1")], "overhead": {"cpu": "250m"}}), 1_250),
            (json!({"containers": [cpu("1")], "resources": {"requests": {"cpu": "5"}}}), 5_000),
            (json!({"containers": [{}]}), 0),
        ] {
            assert_eq!(recorded(&spec).requests.milli_cpu, expected, "{spec}");
        }
        assert!(
            Recorded::of(
                b"{\"spec\": {\"containers\": [{\"resources\": {\"requests\": {\"cpu\": \"x\"}}}]}}"
            )
            .is_err()
        );
    }

    #[test]
    fn a_change_that_bears_on_nodes_is_noticed_and_no_other() {
        let spec =
            json!({"containers": [cpu("1")], "nodeSelector": {"a": "b"}, "schedulingGates": [{"name": "g"}]});
        let before = recorded(&spec);
        let checked = |pointer: &str, value: Value| {
            let mut changed = spec.clone();
            changed[pointer] = value;
            before.check(&recorded(&changed), &before.requests)
        };
        for (field, value) in
            [("schedulingGates", json!([])), ("activeDeadlineSeconds", json!(7)), ("nodeName", json!("a"))]
        {
            assert_eq!(checked(field, value), Ok(()), "{field}");
        }
        for (field, value, expected) in [
            ("containers", json!([cpu("64")]), "it requests cpu 64 instead of 1"),
            ("nodeSelector", json!({"a": "c"}), "no longer as in the template"),
            ("tolerations", json!([{"operator": "Exists"}]), "no longer as in the template"),
        ] {
            let wrong = checked(field, value).unwrap_err();
            assert!(wrong.contains(expected), "{wrong}");
        }
        let more = Resources { milli_cpu: 1_001, ..Resources::default() };
        assert!(before.check(&before, &more).unwrap_err().contains("counts for it cpu 1001m instead of 1"));
        assert_eq!(before.check(&before, &Resources::default()), Ok(()));
    }
}
