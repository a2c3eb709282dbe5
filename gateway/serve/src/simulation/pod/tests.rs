//! Pods and workloads of files, and the errors for invalid ones.

use super::*;

fn read(text: &str) -> Result<Value, String> {
    SimulatedPod::of_text(text, 1).map(|pod| serde_json::from_slice(&pod.json).unwrap())
}

/// A workload with this kind, whose template is at `spec` or below.
fn workload(kind: &str) -> Value {
    let template = json!({"template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "a"}]},
    }});
    let spec = if kind == "CronJob" { json!({"jobTemplate": {"spec": template}}) } else { template };
    json!({"kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
}

#[test]
fn a_pod_is_as_its_controller_creates_it() {
    let (hash, minutes) = ("xxxxxxxxxx", "29000000");
    let cases = [
        (
            "Deployment",
            "ReplicaSet",
            format!("web-{hash}"),
            format!("web-{hash}-xxxxx"),
            "pod-template-hash",
            hash.to_owned(),
        ),
        ("ReplicaSet", "ReplicaSet", "web".into(), "web-xxxxx".into(), "app", "web".into()),
        (
            "StatefulSet",
            "StatefulSet",
            "web".into(),
            "web-0".into(),
            "statefulset.kubernetes.io/pod-name",
            "web-0".into(),
        ),
        ("DaemonSet", "DaemonSet", "web".into(), "web-xxxxx".into(), "app", "web".into()),
        ("Job", "Job", "web".into(), "web-xxxxx".into(), "batch.kubernetes.io/job-name", "web".into()),
        (
            "CronJob",
            "Job",
            format!("web-{minutes}"),
            format!("web-{minutes}-xxxxx"),
            "job-name",
            format!("web-{minutes}"),
        ),
    ];
    for (kind, owner, owner_name, name, label, value) in cases {
        let pod = read(&workload(kind).to_string()).unwrap();
        let metadata = &pod["metadata"];
        assert_eq!([&metadata["namespace"], &metadata["name"]], ["shop", name.as_str()], "{kind}");
        let owned = &metadata["ownerReferences"][0];
        assert_eq!([&owned["kind"], &owned["name"]], [owner, owner_name.as_str()], "{kind}");
        assert_eq!(owned["controller"], true);
        assert_eq!(
            [&metadata["labels"]["app"], &metadata["labels"][label]],
            ["web", value.as_str()],
            "{kind}"
        );
        let generated = metadata["generateName"].as_str().map(|prefix| format!("{prefix}xxxxx"));
        assert_eq!(generated, (kind != "StatefulSet").then_some(name), "{kind}");
    }
}

#[test]
fn what_only_looks_like_a_workload_is_said() {
    let mut volcano = workload("Job");
    volcano["apiVersion"] = json!("batch.volcano.sh/v1alpha1");
    let said = read(&volcano.to_string()).unwrap_err();
    assert!(
        said.contains("contains no pod, only Job of batch.volcano.sh/v1alpha1; expected a Pod"),
        "{said}"
    );
    let misspelt = "metadata: {name: a}\nspec: {contaners: [{name: a, image: b}]}\n";
    assert_eq!(
        read(misspelt).unwrap_err(),
        "object 1 (Pod a): spec.contaners is unknown; expected containers"
    );
    let folder = tempfile::tempdir().unwrap();
    let utf16 = folder.path().join("pod.yaml");
    std::fs::write(&utf16, b"\xff\xfek\x00").unwrap();
    let said = SimulatedPod::read(&utf16, 1).unwrap_err().to_string();
    assert!(said.contains("cannot be read: it is UTF-16; save it as UTF-8"), "{said}");
}

#[test]
fn a_deployment_with_anchors_is_read() {
    let text = "kind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: &labels {app: web}}\n  \
                template:\n    metadata: {labels: *labels}\n    spec: {containers: [{name: web, image: nginx}]}\n";
    assert_eq!(read(text).unwrap()["metadata"]["labels"]["app"], "web");
}

#[test]
fn a_position_is_of_no_text_that_nobody_has() {
    let said = read("metadata: {name: a}\nspec: {priority: [1]}\n").unwrap_err();
    assert!(said.starts_with("object 1 (Pod a): ") && !said.contains("line"), "{said}");
}

#[test]
fn a_stateful_set_claims_its_volumes() {
    let mut set = workload("StatefulSet");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
    let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}});
    assert_eq!(read(&set.to_string()).unwrap()["spec"]["volumes"], json!([claim]));
    let given = json!({"name": "tmp", "emptyDir": {}});
    set["spec"]["template"]["spec"]["volumes"] = json!([given]);
    assert_eq!(read(&set.to_string()).unwrap()["spec"]["volumes"], json!([given, claim]));
}

#[test]
fn a_pod_has_what_the_apiserver_adds_and_is_not_scheduled_yet() {
    let pod = read(
        "# comment\n---\napiVersion: v1\nkind: Service\nmetadata: {name: other}\n---\nmetadata: {generateName: web-}\n\
         spec:\n  nodeName: node-a\n  containers:\n  - resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}\n\
         \x20 - resources: {limits: {cpu: 2}}\n  - {}\nstatus: {phase: Running}\n",
    )
    .unwrap();
    let expected = json!({
        "metadata": {
            "generateName": "web-",
            "name": "web-xxxxx",
            "namespace": "default",
            "uid": "00000000-0000-4000-8000-000000000001",
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [
                {"resources": {"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 1, "memory": "1Gi"}}},
                {"resources": {"limits": {"cpu": 2}, "requests": {"cpu": 2}}},
                {},
            ],
        },
        "kind": "Pod",
    });
    assert_eq!(pod, expected);
    let kept = read(r#"{"metadata": {"name": "a", "namespace": "shop", "uid": "u-1"}}"#).unwrap();
    assert_eq!([&kept["metadata"]["namespace"], &kept["metadata"]["uid"]], ["shop", "u-1"]);
}

#[test]
fn invalid_files_are_named_with_object_field_and_remedy() {
    let template = "metadata: {name: w}\nspec: {template: ";
    let cases = [
        ("", "the file contains no object; expected a Pod, Deployment"),
        (
            "kind: Service\n---\nkind: Secret\n",
            "the file contains no pod, only Service, Secret; expected a Pod",
        ),
        (
            "kind: Pod\nmetadata: {name: a}\n---\nkind: Job\nmetadata: {name: b}\n",
            "the file contains more than one pod: object 1 (Pod a), object 2 (Job b); keep one of them",
        ),
        ("kind: Pod\nmetadata: [\n", "not YAML: "),
        ("{\"kind\": \"Pod\",}", "not JSON: "),
        ("kind: Pod\n", "object 1 (Pod): metadata.name is missing; expected the name of the pod"),
        ("kind: Pod\nmetadata: text\n", "object 1 (Pod): metadata.name is missing"),
        ("kind: Pod\nmetadata: {name: ''}\n", "object 1 (Pod): metadata.name is missing"),
        (
            "kind: Job\nmetadata: {name: ''}\n",
            "object 1 (Job): metadata.name is missing; expected the name of the workload",
        ),
        (
            "kind: Job\nmetadata: {name: w}\n",
            "object 1 (Job w): spec.template.spec is missing; expected the template of its pods",
        ),
        (
            "kind: CronJob\nmetadata: {name: w}\nspec: {template: {spec: {}}}\n",
            "object 1 (CronJob w): spec.jobTemplate.spec.template.spec is missing",
        ),
        (&format!("kind: Job\n{template}[]}}\n"), "object 1 (Job w): spec.template.spec is missing"),
        (
            &format!("kind: Job\n{template}{{spec: {{}}, metadata: {{labels: []}}}}}}\n"),
            "object 1 (Job w): spec.template.metadata is invalid; expected a mapping with labels",
        ),
        (
            &format!("kind: Job\n{template}{{spec: {{}}, metadata: x}}}}\n"),
            "object 1 (Job w): spec.template.metadata is invalid",
        ),
        (
            "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{resources: {requests: {cpu: two}}}]}\n",
            "object 1 (Pod a): Pod.spec.containers[0].resources.requests.cpu: invalid quantity \"two\"",
        ),
        ("kind: Pod\nmetadata: {name: a}\nspec: text\n", "object 1 (Pod a): Pod.spec"),
        (
            "kind: StatefulSet\nmetadata: {name: w}\nspec: {template: {spec: {volumes: {}}}, volumeClaimTemplates: [{metadata: {name: d}}]}\n",
            "object 1 (StatefulSet w): spec.template.spec.volumes is invalid; expected a list",
        ),
        ("kind: Pod\nmetadata: {name: a, labels: {on: true}}\n", "object 1 (Pod a): Pod.metadata.labels.on"),
    ];
    for (text, expected) in cases {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pod.yaml");
    let error = SimulatedPod::read(&path, 1).unwrap_err().to_string();
    let begin = format!("{}: cannot be read: No such file", path.display());
    assert!(
        error.starts_with(&begin)
            && error.ends_with(
                "; expected a Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob"
            ),
        "{error}"
    );
    let error = SimulatedPod::read(folder.path(), 1).unwrap_err().to_string();
    assert!(error.contains(": cannot be read: "), "{error}");
}
