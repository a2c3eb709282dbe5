//! A pod's facts, from a request of a real kube-scheduler and from unusual objects.

use std::collections::BTreeMap;

use extender_policy_api::v1beta1::{
    HostPort, LabelSelector, MapValues, NodeSelectorRequirement, OwnerReference, PodAffinity,
    PodAffinityTerm, Toleration, TopologySpreadConstraint, Volume, WeightedPodAffinityTerm,
};
use serde_json::{Value, json};

use super::parse;
use crate::view::{KeyPrefixes, PodFactsView};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn entries(pairs: &[(&str, &str)]) -> MapValues {
    MapValues { entries: map(pairs), ..MapValues::default() }
}

/// A pod as a `ReplicaSet` creates it, with everything that facts contain.
fn replica() -> Value {
    json!({
        "metadata": {
            "name": "web-7d9-x2x", "namespace": "shop", "uid": "u1", "generateName": "web-7d9-",
            "creationTimestamp": null, "managedFields": [{"fieldsV1": {"f:x": {}}}],
            "labels": {"app": "web", "quote\"d": "a\tb"},
            "annotations": {"acme.io/team": "a", "other": "b"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "u3"},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9", "uid": "u2", "controller": true},
            ],
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "900m", "example.com/gpu": "1"}}}],
            "priority": 10, "priorityClassName": "low", "schedulerName": "default-scheduler",
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}, {}],
            "volumes": [
                {"name": "kube-api-access-x1y2z", "projected": {"sources": []}},
                {"name": "shared", "persistentVolumeClaim": {"claimName": "archive"}},
                {"name": "own", "persistentVolumeClaim": {"claimName": "data-web-7d9-x2x"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "config", "configMap": {"name": "c"}},
            ],
        },
        "status": {"phase": "Pending"},
    })
}

#[test]
fn facts_of_a_replica() {
    let json = replica().to_string();
    let pod = parse(json.as_bytes()).unwrap();
    let facts = pod.facts(&KeyPrefixes::new(["acme.io/"]).into());
    assert_eq!(facts.namespace, "shop");
    assert_eq!(facts.labels, Some(entries(&[("app", "web"), ("quote\"d", "a\tb")])));
    assert_eq!(facts.annotations, Some(entries(&[("acme.io/team", "a")])));
    let owner = OwnerReference {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "web-7d9".into(),
        uid: "u2".into(),
    };
    assert_eq!(facts.owner, Some(owner));
    assert_eq!((facts.priority, &*facts.priority_class_name), (Some(10), "low"));
    assert_eq!(facts.scheduler_name, "default-scheduler");
    assert_eq!(facts.node_selector, map(&[("disk", "ssd")]));
    let tolerations = [
        Toleration {
            key: "k".into(),
            operator: "Exists".into(),
            effect: "NoExecute".into(),
            toleration_seconds: Some(300),
            ..Toleration::default()
        },
        Toleration::default(),
    ];
    assert_eq!(facts.tolerations, tolerations);
    let requests = facts.requests.unwrap();
    assert_eq!((requests.milli_cpu, requests.others["example.com/gpu"]), (900, 1));
}

#[test]
fn what_differs_between_siblings_is_identity() {
    let json = replica().to_string();
    let sibling = json.replace("x2x", "q4q").replace("x1y2z", "s5t6u").replace("\"u1\"", "\"u9\"");
    let (pod, sibling) = (parse(json.as_bytes()).unwrap(), parse(sibling.as_bytes()).unwrap());
    assert_eq!(pod.facts(&PodFactsView::complete()), sibling.facts(&PodFactsView::complete()));

    let identity = pod.identity();
    assert_eq!((&*identity.name, &*identity.uid), ("web-7d9-x2x", "u1"));
    assert_eq!(identity.claims, ["data-web-7d9-x2x", "web-7d9-x2x-scratch"]);
    assert_ne!(identity, sibling.identity());

    let volume = |name: &str, claim: &str, source: &str| Volume {
        name: name.into(),
        claim: claim.into(),
        source: source.into(),
        driver: String::new(),
    };
    let claim = "persistentVolumeClaim";
    let volumes = [
        volume("shared", "archive", claim),
        volume("own", "", claim),
        volume("scratch", "", "ephemeral"),
        volume("config", "", "configMap"),
    ];
    assert_eq!(pod.facts(&PodFactsView::complete()).volumes, volumes);
}

/// A pod with everything by which it is placed.
fn placed() -> Value {
    let selector = json!({"matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]});
    let term = json!({"labelSelector": selector, "topologyKey": "zone", "namespaces": ["shop"],
        "namespaceSelector": {}, "matchLabelKeys": ["hash"], "mismatchLabelKeys": ["tenant"]});
    json!({
        "metadata": {"name": "p", "creationTimestamp": "2026-11-28T08:00:00Z"},
        "spec": {
            "initContainers": [{"name": "init", "image": "i"}],
            "containers": [{"name": "main", "image": "m", "ports": [
                {"containerPort": 80}, {"hostPort": 8080}, {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]}],
            "affinity": {
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": term}]},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            },
            "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector, "minDomains": 3, "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["hash"]}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}, {"name": "nic", "resourceClaimName": "c"}],
            "schedulingGroup": {"podGroupName": "g"}, "runtimeClassName": "gvisor", "preemptionPolicy": "Never",
            "serviceAccountName": "sa",
            "volumes": [{"name": "v", "csi": {"driver": "d.acme.io"}}, {"NAME": "w", "HostPath": {}}, {"name": "x", "new": {}}],
        },
    })
}

#[test]
fn what_kube_scheduler_places_a_pod_by() {
    let json = placed().to_string();
    let pod = parse(json.as_bytes()).unwrap();
    assert_eq!(pod.identity().created_seconds, Some(1_795_852_800));
    let facts = pod.facts(&PodFactsView::complete());
    let owned = |texts: &[&str]| -> Vec<String> { texts.iter().map(|text| (*text).to_owned()).collect() };
    let containers: Vec<_> = facts.containers.iter().map(|it| (&*it.name, &*it.image, it.init)).collect();
    assert_eq!(containers, [("init", "i", true), ("main", "m", false)]);
    let port = |port, protocol: &str, ip: &str| HostPort { port, protocol: protocol.into(), ip: ip.into() };
    assert_eq!(facts.containers[1].host_ports, [port(8080, "TCP", ""), port(53, "UDP", "10.0.0.1")]);
    let requirement =
        NodeSelectorRequirement { key: "k".into(), operator: "In".into(), values: owned(&["v"]) };
    let selector =
        Some(LabelSelector { match_labels: map(&[("app", "web")]), match_expressions: vec![requirement] });
    let term = PodAffinityTerm {
        selector: selector.clone(),
        namespaces: owned(&["shop"]),
        namespace_selector: Some(LabelSelector::default()),
        topology_key: "zone".into(),
        match_label_keys: owned(&["hash"]),
        mismatch_label_keys: owned(&["tenant"]),
    };
    let affinity = PodAffinity {
        preferred: vec![WeightedPodAffinityTerm { weight: 7, term: Some(term.clone()) }],
        anti_required: vec![term],
        ..PodAffinity::default()
    };
    assert_eq!(facts.pod_affinity, Some(affinity));
    let spread = TopologySpreadConstraint {
        max_skew: 2,
        topology_key: "zone".into(),
        when_unsatisfiable: "DoNotSchedule".into(),
        selector,
        min_domains: Some(3),
        node_taints_policy: "Honor".into(),
        match_label_keys: owned(&["hash"]),
        ..TopologySpreadConstraint::default()
    };
    assert_eq!(facts.topology_spread, [spread]);
    let claims: Vec<_> =
        facts.resource_claims.iter().map(|it| (&*it.name, &*it.claim, &*it.template)).collect();
    assert_eq!(claims, [("gpu", "", "t"), ("nic", "c", "")]);
    assert_eq!((&*facts.pod_group_name, &*facts.runtime_class_name), ("g", "gvisor"));
    assert_eq!((&*facts.preemption_policy, &*facts.service_account_name), ("Never", "sa"));
    let volumes: Vec<_> = facts.volumes.iter().map(|it| (&*it.name, &*it.source, &*it.driver)).collect();
    assert_eq!(volumes, [("v", "csi", "d.acme.io"), ("w", "hostPath", ""), ("x", "", "")]);
}

#[test]
fn nulls_and_absences_are_defaults() {
    let bare = parse(b"{}").unwrap();
    assert_eq!((bare.name(), bare.namespace(), bare.uid()), ("", "default", ""));
    let odd = json!({
        "kind": null, "apiVersion": null, "status": null,
        "metadata": {"name": null, "namespace": null, "uid": null, "labels": null, "annotations": null,
                     "ownerReferences": null},
        "spec": {"containers": null, "initContainers": null, "resources": null, "overhead": null,
                 "priority": null, "priorityClassName": null, "tolerations": null, "nodeSelector": null,
                 "volumes": null, "schedulerName": null, "affinity": null},
    });
    let reported = json!({"status": {"phase": null, "conditions": [null], "containerStatuses": null,
        "initContainerStatuses": [null], "resources": null, "allocatedResources": null}});
    assert_eq!(parse(reported.to_string().as_bytes()).unwrap().share(), bare.share());
    for json in [odd.to_string(), json!({"metadata": null, "spec": null}).to_string()] {
        let pod = parse(json.as_bytes()).unwrap();
        assert_eq!(pod.facts(&PodFactsView::complete()), bare.facts(&PodFactsView::complete()), "{json}");
        assert_eq!(pod.identity(), bare.identity(), "{json}");
    }
    let inner = json!({
        "metadata": {"labels": {"a": null}, "ownerReferences": [null, {"controller": null}]},
        "spec": {"initContainers": [null],
                 "containers": [{"resources": null, "restartPolicy": null}, {"resources": {"requests": {"cpu": null}}}],
                 "tolerations": [{"tolerationSeconds": null}],
                 "volumes": [{"persistentVolumeClaim": null, "ephemeral": null}]},
    });
    let facts = parse(inner.to_string().as_bytes()).unwrap().facts(&PodFactsView::complete());
    assert_eq!(facts.labels, Some(entries(&[("a", "")])));
    assert_eq!(facts.owner, None);
    assert_eq!(facts.tolerations, [Toleration::default()]);
}

#[test]
fn a_pod_has_ended_when_it_succeeded_or_failed() {
    for (phase, ended) in
        [("Pending", false), ("Running", false), ("Unknown", false), ("Succeeded", true), ("Failed", true)]
    {
        let json = json!({"status": {"phase": phase}}).to_string();
        assert_eq!(parse(json.as_bytes()).unwrap().has_ended(), ended, "{phase}");
    }
    assert!(!parse(b"{}").unwrap().has_ended());
}

#[test]
fn a_pod_without_a_name_derives_no_claims() {
    let json = json!({"spec": {"volumes": [
        {"name": "a", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "b", "ephemeral": {}}]}});
    let json = json.to_string();
    let pod = parse(json.as_bytes()).unwrap();
    assert!(pod.identity().claims.is_empty());
    assert_eq!(pod.facts(&PodFactsView::complete()).volumes[0].claim, "c");
}

#[test]
fn strings_without_escapes_stay_slices_of_the_input() {
    let json = br#"{"metadata":{"name":"web","uid":"a\/b"}}"#;
    let pod = parse(json).unwrap();
    assert!(json.as_ptr_range().contains(&pod.name().as_ptr()));
    assert_eq!(pod.uid(), "a/b");
}
