//! Effective requests, by the cases of component-helpers' own tests and by a rule that holds for all pods.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::object::{annotations::AnnotationPrefixes, pod};

/// The pod's requests as (milli-CPU, memory, others).
fn requests(spec: &Value) -> (i64, i64, Vec<(String, i64)>) {
    let json = json!({"spec": spec}).to_string();
    let facts = pod::parse(json.as_bytes()).unwrap().facts(&AnnotationPrefixes::default());
    let requests = facts.requests.unwrap();
    assert_eq!(requests.pods, 1, "a pod takes one place");
    (requests.milli_cpu, requests.memory, requests.others.into_iter().collect())
}

fn cpu(spec: &Value) -> i64 {
    requests(spec).0
}

fn container(cpu: &str) -> Value {
    json!({"resources": {"requests": {"cpu": cpu}}})
}

fn sidecar(cpu: &str) -> Value {
    json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}})
}

#[test]
fn containers_and_init_containers() {
    let cases = [
        ("nothing", json!({}), 0),
        ("containers are summed", json!({"containers": [container("1"), container("2")]}), 3000),
        (
            "init containers run one after the other",
            json!({"containers": [container("2")], "initContainers": [container("3"), container("1")]}),
            3000,
        ),
        (
            "the larger of both phases",
            json!({"containers": [container("5")], "initContainers": [container("3")]}),
            5000,
        ),
        (
            "a sidecar runs beside the containers",
            json!({"containers": [container("2")], "initContainers": [sidecar("1"), container("1")]}),
            3000,
        ),
        (
            "and beside the init containers after it, not before it",
            json!({"containers": [container("1")],
                   "initContainers": [container("10"), sidecar("5"), container("6"), sidecar("1")]}),
            11_000,
        ),
        (
            "another restart policy is no sidecar",
            json!({"initContainers": [{"restartPolicy": "Never", "resources": {"requests": {"cpu": "2"}}}]}),
            2000,
        ),
        ("overhead comes on top", json!({"containers": [container("1")], "overhead": {"cpu": "250m"}}), 1250),
        (
            "limits are no requests: the apiserver has defaulted those",
            json!({"containers": [{"resources": {"limits": {"cpu": "4"}}}]}),
            0,
        ),
        (
            "fractions are summed before rounding",
            json!({"containers": [container("100u"), container("100u")]}),
            1,
        ),
    ];
    for (name, spec, milli) in cases {
        assert_eq!(cpu(&spec), milli, "{name}");
    }
}

#[test]
fn resources_of_the_pod_replace_those_of_its_containers() {
    let spec = json!({
        "containers": [{"resources": {"requests":
            {"cpu": "4", "memory": "1Gi", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"}}}],
        "initContainers": [container("9")],
        "resources": {"requests": {"cpu": "1", "hugepages-2Mi": "2Mi", "example.com/gpu": "7"}},
        "overhead": {"cpu": "500m", "memory": "1Mi"},
    });
    let others = vec![("example.com/gpu".to_owned(), 2), ("hugepages-2Mi".to_owned(), 2 << 20)];
    assert_eq!(requests(&spec), (1500, (1 << 30) + (1 << 20), others));
}

#[test]
fn a_request_of_nothing_is_still_a_request() {
    let spec = json!({"containers": [{"resources": {"requests": {"example.com/gpu": 0}}}]});
    assert_eq!(requests(&spec).2, [("example.com/gpu".to_owned(), 0)]);
}

#[test]
fn of_equal_names_the_last_counts() {
    let json = br#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"1","cpu":"2"}}}]}}"#;
    let facts = pod::parse(json).unwrap().facts(&AnnotationPrefixes::default());
    assert_eq!(facts.requests.unwrap().milli_cpu, 2000);
}

proptest! {
    /// The KEP's definition, phase by phase: the most that runs at any one time.
    #[test]
    fn is_the_most_that_runs_at_once(
        containers in proptest::collection::vec(0_u32..1000, 0..5),
        init in proptest::collection::vec((0_u32..1000, any::<bool>()), 0..6),
    ) {
        let mut sidecars = 0;
        let mut most = 0;
        for (milli, stays) in &init {
            most = most.max(sidecars + milli);
            sidecars += if *stays { *milli } else { 0 };
        }
        most = most.max(sidecars + containers.iter().sum::<u32>());

        let milli = |amount: &u32| format!("{amount}m");
        let spec = json!({
            "containers": containers.iter().map(|amount| container(&milli(amount))).collect::<Vec<_>>(),
            "initContainers": init.iter()
                .map(|(amount, stays)| if *stays { sidecar(&milli(amount)) } else { container(&milli(amount)) })
                .collect::<Vec<_>>(),
        });
        prop_assert_eq!(cpu(&spec), i64::from(most));
    }
}
