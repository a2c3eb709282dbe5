use std::path::Path;

use super::*;
use crate::config::{Config, Preemption};

const V1: &str = "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
extenders:
- urlPrefix: http://gpu-extender.kube-system.svc:8888/scheduler/
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 5
  bindVerb: bind
  nodeCacheCapable: true
  managedResources:
  - name: example.com/gpu
    ignoredByScheduler: true
- urlPrefix: https://127.0.0.1:9443
  filterVerb: predicates/always_true
  preemptVerb: preemption
  httpTimeout: 100ms
  ignorable: true
  enableHTTPS: true
  tlsConfig: {certFile: /etc/tls.crt, keyFile: /etc/tls.key}
";

/// The gateway's configuration for [`V1`].
const V1_IMPORTED: &str = "\
# The gateway's configuration: each backend is one of the extenders, asked by
# `extender-policies http-extender`.
apiVersion: extender-gateway.io/v1alpha1
kind: GatewayConfiguration
# Who reaches this address can bind pods: another one needs extender.tls with clientCAFile.
extender: {address: \"127.0.0.1:8888\"}
timeouts:
  decision: 6s300ms
  bind: 7s100ms
nodes: {source: Watch}
pods: {source: Watch}  # victims are sent as objects
exempt: {namespaces: []}  # the extenders are asked about all pods, as before
binder: gpu-extender
backends:
- name: gpu-extender
  url: \"http://127.0.0.1:9000\"
  match:
    managedResources:
    - name: example.com/gpu
      ignoredByScheduler: true
  args:
    urlPrefix: \"http://gpu-extender.kube-system.svc:8888/scheduler\"
    filterVerb: filter
    prioritizeVerb: prioritize
    bindVerb: bind
    nodeCacheCapable: true
    httpTimeout: 5s
  filter:
    timeout: 5s100ms
    failurePolicy: Fail
    preemptionMayHelp: Honored  # for FailedNodes, as before
  score: {timeout: 5s100ms, weight: 5}
  bind: {timeout: 5s100ms, failurePolicy: Fail}
- name: extender-2
  url: \"http://127.0.0.1:9000\"
  args:
    urlPrefix: \"https://127.0.0.1:9443\"
    filterVerb: predicates/always_true
    preemptVerb: preemption
    httpTimeout: 100ms
    enableHTTPS: true
    tlsConfig:
      certFile: /etc/tls.crt
      keyFile: /etc/tls.key
  filter:
    timeout: 200ms
    failurePolicy: Ignore
    preemptionMayHelp: Honored  # for FailedNodes, as before
  preempt: {timeout: 200ms, failurePolicy: Ignore}
";

fn import(text: &str) -> Import {
    Import::parse(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// The mistakes, each on a line.
fn mistakes(text: &str) -> String {
    Import::parse(text).unwrap_err().to_string()
}

fn valid(text: &str) -> Config {
    let yaml = import(text).gateway("http://127.0.0.1:9000").to_string();
    Config::parse(&yaml, Path::new("/etc")).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"))
}

#[test]
fn each_extender_becomes_a_backend() {
    let import = import(V1);
    assert_eq!(import.gateway("http://127.0.0.1:9000").to_string(), V1_IMPORTED);
    assert!(!import.is_ignorable());
    let notes = import.notes().join("\n");
    for part in [
        "add the namespaces of the gateway and of http-extender",
        "extender-2: urlPrefix is loopback",
        "extender-2: the files of tlsConfig must exist where http-extender runs",
        "extender-2: the extender's certificate is not verified, as before",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    valid(V1);
}

/// What `check-config` says about timeouts would only be read as a mistake of the import.
#[test]
fn timeouts_leave_room_for_a_second_call_and_the_next_binder() {
    for timeout in ["1ms", "100ms", "2s", "5s", "30s", "20m", "59m", "1h"] {
        for verbs in
            ["filterVerb: f", "preemptVerb: p", "filterVerb: f, prioritizeVerb: p, weight: 1, bindVerb: b"]
        {
            let entry = format!("urlPrefix: 'http://a', httpTimeout: {timeout}, ignorable: true, {verbs}");
            let config = valid(&format!("kind: Policy\nextenders: [{{{entry}}}]\n"));
            let warnings = config.warnings(&BTreeSet::new()).join("\n");
            let is_longest = timeout.ends_with('h') || timeout == "59m";
            let of_times = ["filter.timeout", "bind.timeout", "timeouts.decision", "timeouts.shutdown"];
            let of_times = of_times.iter().filter(|field| !is_longest || **field != "timeouts.shutdown");
            for field in of_times {
                assert!(!warnings.contains(&format!("{field}: ")), "{timeout}, {verbs}: {warnings}");
            }
        }
    }
}

#[test]
fn failed_nodes_may_be_resolved_by_preemption_as_before() {
    let config = valid(V1);
    let honored = config.backends.iter().map(|backend| backend.filter.as_ref().unwrap().preemption_may_help);
    assert!(honored.into_iter().all(|preemption| preemption == Preemption::Honored));
}

#[test]
fn older_forms_are_read_too() {
    for version in ["v1beta1", "v1beta2", "v1beta3"] {
        assert_eq!(import(&V1.replace("io/v1\n", &format!("io/{version}\n"))), import(V1));
    }
    let policy = r#"{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "PodFitsResources"}],
        "extenders": [{"urlPrefix": "http://10.0.0.1/a/", "apiVersion": "v1beta1", "filterVerb": "filter", "weight": 1,
        "enableHttps": false, "httpTimeout": 100000000, "nodeCacheCapable": false, "prioritizeVerb": ""}]}"#;
    let said = mistakes(policy);
    assert!(said.contains("line 2: extenders[0].apiVersion: unknown field"), "{said}");
    let Import(extenders) = import(&policy.replace(r#""apiVersion": "v1beta1", "#, ""));
    assert_eq!((extenders[0].timeout.as_millis(), &*extenders[0].name), (100, "extender-1"));
    assert_eq!(extenders[0].prioritize_verb, None);
}

#[test]
fn names_are_unique_and_valid() {
    let entry = |host: &str| format!("- {{urlPrefix: 'http://{host}', filterVerb: f}}\n");
    let hosts = ["gpu", "gpu.b", "GPU:80", "[::1]:80", "localhost", "1a", "extender-4", "a_b"];
    let entries: String = hosts.map(entry).concat();
    let text = format!("kind: Policy\nextenders:\n{entries}");
    let Import(extenders) = import(&text);
    let names: Vec<_> = extenders.iter().map(|extender| &*extender.name).collect();
    let expected =
        ["gpu", "gpu-2", "gpu-3", "extender-4", "extender-5", "extender-6", "extender-4-2", "extender-8"];
    assert_eq!(names, expected);
    valid(&text);
}

#[test]
fn mistakes_have_a_line_and_a_field() {
    let one = |fields: &str| {
        mistakes(&format!("kind: Policy\nextenders:\n- urlPrefix: http://a\n  filterVerb: f\n  {fields}\n"))
    };
    for (fields, expected) in [
        ("filterVreb: x", "line 5: extenders[0].filterVreb: unknown field; did you mean filterVerb?"),
        ("weight: 1.5", "line 5: extenders[0].weight: 1.5 is a number; expected a whole number"),
        ("prioritizeVerb: p", "line 3: extenders[0].weight: is 0; expected a whole number from 1 to 1000000"),
        ("httpTimeout: soon", "line 5: extenders[0].httpTimeout: \"soon\" is not a duration; expected"),
        (
            "httpTimeout: 1.5s",
            "line 5: extenders[0].httpTimeout: \"1.5s\" is not a duration; expected a duration of whole",
        ),
        ("httpTimeout: 1", "line 5: extenders[0].httpTimeout: 1 is out of range; expected nanoseconds"),
        ("tlsConfig: {cafile: x}", "line 5: extenders[0].tlsConfig.cafile: unknown field"),
        (
            "managedResources: [{name: cpu}]",
            "line 5: extenders[0].managedResources[0].name: \"cpu\" is a native resource of Kubernetes; expected",
        ),
        ("managedResources: [{nme: a}]", "line 5: extenders[0].managedResources[0].name: is missing"),
        ("ignorable: 'yes'", "line 5: extenders[0].ignorable: \"yes\" is a string; expected true or false"),
    ] {
        let said = one(fields);
        assert!(said.contains(expected), "{fields}: {said}");
    }
    for (text, expected) in [
        ("kind: Pod\n", "has kind \"Pod\" and apiVersion none; expected a KubeSchedulerConfiguration"),
        ("a: b\n", "has kind none"),
        ("- a\n", "has kind none"),
        ("kind: Policy\n", "has no extenders; expected a list of extenders"),
        ("kind: Policy\nextenders: []\n", "line 2: extenders: is empty"),
        ("kind: Policy\nextenders: [{filterVerb: f}]\n", "line 2: extenders[0].urlPrefix: is missing"),
        ("kind: Policy\nextenders: [{urlPrefix: 'http://a'}]\n", "line 2: extenders[0]: has no verb"),
        ("kind: Policy\nextenders: [{urlPrefix: 'a:1', filterVerb: f}]\n", "\"a:1\" is not a URL"),
        (
            "kind: Policy\nextenders:\n- {urlPrefix: 'http://a', bindVerb: b}\n- {urlPrefix: 'http://b', bindVerb: b}\n",
            "line 4: extenders[1].bindVerb: is set a second time, after a",
        ),
    ] {
        let said = mistakes(text);
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn all_ignorable_extenders_make_the_gateway_ignorable() {
    let text = |flag: bool| {
        format!("kind: Policy\nextenders:\n- {{urlPrefix: 'http://a', filterVerb: f, ignorable: {flag}}}\n")
    };
    assert!(import(&text(true)).is_ignorable());
    assert!(!import(&text(false)).is_ignorable());
}
