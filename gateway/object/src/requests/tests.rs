//! Effective requests, by the cases of component-helpers' own tests and by a property of all pods.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{pod, view::PodFactsView};

/// The pod's requests as (milli-CPU, memory, others).
fn requests(spec: &Value) -> (i64, i64, Vec<(String, i64)>) {
    let json = json!({"spec": spec}).to_string();
    let facts = pod::parse(json.as_bytes()).unwrap().facts(&PodFactsView::default());
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
    let facts = pod::parse(json).unwrap().facts(&PodFactsView::default());
    assert_eq!(facts.requests.unwrap().milli_cpu, 2000);
}

/// The pod's values for scores, and on its node, as (milli-CPU, memory in MiB).
fn nonzero(spec: &Value) -> [(i64, i64); 2] {
    let json = json!({"spec": spec}).to_string();
    let pod = pod::parse(json.as_bytes()).unwrap();
    let scores = pod.facts(&PodFactsView::default()).nonzero_requests.unwrap();
    [scores, pod.share().nonzero].map(|nonzero| (nonzero.milli_cpu, nonzero.memory >> 20))
}

#[test]
fn what_is_not_requested_counts_with_a_default() {
    let nothing = json!({});
    let of_pod = |requests: Value, containers: Value| json!({"containers": containers, "resources": {"requests": requests}});
    let cases = [
        ("no container", json!({}), (0, 0)),
        ("each container", json!({"containers": [nothing, container("1"), nothing]}), (1200, 600)),
        ("an explicit nothing stays", json!({"containers": [container("0")]}), (0, 200)),
        ("init containers too", json!({"initContainers": [container("1"), nothing]}), (1000, 200)),
        ("sidecars too", json!({"initContainers": [{"restartPolicy": "Always"}, nothing]}), (200, 400)),
        ("overhead is no request", json!({"containers": [nothing], "overhead": {"cpu": "1"}}), (1100, 200)),
        ("the pod's own requests", of_pod(json!({"cpu": "1"}), json!([nothing, nothing])), (1000, 400)),
        (
            "unsupported ones do not count",
            of_pod(json!({"example.com/gpu": "1"}), json!([nothing])),
            (100, 200),
        ),
    ];
    for (name, spec, expected) in cases {
        assert_eq!(nonzero(&spec), [expected; 2], "{name}");
    }
}

/// The apiserver never creates a pod like this, but the two functions of kube-scheduler treat it differently.
#[test]
fn on_its_node_a_pod_with_own_requests_has_no_default_for_what_a_container_names() {
    let spec = json!({"containers": [container("1"), {}], "resources": {"requests": {"memory": "1Gi"}}});
    assert_eq!(nonzero(&spec), [(1100, 1024), (1000, 1024)]);
}

/// A container with 2 CPU in its spec, 1500m allocated and a resize in progress, and a container without a resize.
fn resized(status: &Value) -> (i64, i64) {
    let containers = json!([
        {"name": "web", "resources": {"requests": {"cpu": "2", "memory": "1Mi"}}},
        {"name": "log", "resources": {"requests": {"cpu": "100m"}}},
    ]);
    let json = json!({"spec": {"containers": containers}, "status": status}).to_string();
    let pod = pod::parse(json.as_bytes()).unwrap();
    let unplaced = pod.facts(&PodFactsView::default()).requests.unwrap();
    assert_eq!(unplaced.milli_cpu, 2100, "the facts look at the spec alone");
    let requested = pod.share().requested;
    (requested.milli_cpu, requested.memory)
}

#[test]
fn until_a_resize_is_done_the_most_of_it_counts() {
    let web =
        |running: Value| json!({"name": "web", "resources": running, "allocatedResources": {"cpu": "1500m"}});
    let one = json!({"requests": {"cpu": "1"}});
    let more = json!({"requests": {"cpu": "3", "memory": "2Mi"}});
    let pending = |reason: &str| json!([{"type": "Ready"}, {"type": "PodResizePending", "reason": reason}]);
    let cases = [
        ("nothing is reported", json!({}), (2100, 1 << 20)),
        ("growing", json!({"containerStatuses": [web(one.clone())]}), (2100, 1 << 20)),
        ("shrinking", json!({"containerStatuses": [web(more.clone()), web(one.clone())]}), (3100, 2 << 20)),
        ("not started", json!({"containerStatuses": [web(json!(null))]}), (2100, 1 << 20)),
        (
            "deferred",
            json!({"containerStatuses": [web(one.clone())], "conditions": pending("Deferred")}),
            (2100, 1 << 20),
        ),
        (
            "infeasible",
            json!({"containerStatuses": [web(one)], "conditions": pending("Infeasible")}),
            // A container about which nothing is reported counts with nothing, as in kube-scheduler.
            (1500, 0),
        ),
        (
            "the pod as a whole",
            json!({
                "containerStatuses": [web(more)],
                "resources": {"requests": {"cpu": "4"}},
                "allocatedResources": {"memory": "3Mi"},
            }),
            (4000, 3 << 20),
        ),
    ];
    for (name, status, expected) in cases {
        assert_eq!(resized(&status), expected, "{name}");
    }
}

#[test]
fn a_resize_of_the_pod_as_a_whole() {
    let spec =
        json!({"containers": [{"name": "web"}], "resources": {"requests": {"cpu": "2", "memory": "1Mi"}}});
    let share = |status: Value| {
        let json = json!({"spec": spec, "status": status}).to_string();
        let requested = pod::parse(json.as_bytes()).unwrap().share().requested;
        (requested.milli_cpu, requested.memory)
    };
    assert_eq!(share(json!({"allocatedResources": {"cpu": "3"}})), (2000, 1 << 20), "nothing runs yet");
    let resources = json!({"requests": {"cpu": "1"}});
    assert_eq!(share(json!({"resources": resources, "allocatedResources": {"cpu": "3"}})), (3000, 1 << 20));
    let infeasible = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
    assert_eq!(share(json!({"resources": resources, "conditions": infeasible})), (1000, 0));
}

#[test]
fn init_containers_are_resized_like_containers() {
    let share = |policy: &str| {
        let json = json!({
            "spec": {"initContainers": [{"name": "a", "restartPolicy": policy,
                                         "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"initContainerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]},
        });
        pod::parse(json.to_string().as_bytes()).unwrap().share().requested.milli_cpu
    };
    assert_eq!((share("Always"), share("Never")), (2000, 2000));
}

proptest! {
    /// The KEP's definition, phase by phase: the maximum that runs at any time.
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
