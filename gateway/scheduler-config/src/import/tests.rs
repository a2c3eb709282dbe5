use std::path::Path;

use extender_gateway_settings::{Config, Preemption};
use serde_json::json;

use super::*;

const HEADER: &str = "kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1\n";

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
pods: {source: Watch}  # for the victims of preemption
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
    sideEffects: [filter]  # assumed: the verbs that change something
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
    sideEffects: [filter]  # assumed: the verbs that change something
    enableHTTPS: true
    tlsConfig:
      certFile: /etc/tls.crt
      keyFile: /etc/tls.key
  filter:
    timeout: 200ms
    failurePolicy: Ignore
    preemptionMayHelp: Honored  # for FailedNodes, as before
  preempt: {timeout: 200ms, failurePolicy: Ignore, addedVictims: Allowed}
";

fn import(text: &str) -> Import {
    Import::parse(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// The mistakes, each on a line.
fn mistakes(text: &str) -> String {
    Import::parse(text).unwrap_err().to_string()
}

fn valid(text: &str) -> Config {
    let yaml = import(text).gateway("http://127.0.0.1:9000", Address::Local).to_string();
    Config::parse(&yaml, Path::new("/etc")).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"))
}

#[test]
fn each_extender_becomes_a_backend() {
    let import = import(V1);
    assert_eq!(import.gateway("http://127.0.0.1:9000", Address::Local).to_string(), V1_IMPORTED);
    let notes = import.notes().join("\n");
    for part in [
        "add the namespaces of the gateway and of http-extender",
        "extender-2: urlPrefix is loopback",
        "extender-2: the files of tlsConfig must exist where http-extender runs",
        "extender-2: the extender's certificate is not verified, as before",
        "gpu-extender, extender-2: args.sideEffects assumes that filter changes something",
        "extender-2: the gateway lets it name victims of its own",
        "because extender-2 has no managedResources; while no gateway answers",
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
    // Fields that the decoder of a Policy does not know are not read, as they were not before.
    let policy = r#"{"kind": "Policy", "apiVersion": "v1", "predicates": [{"name": "PodFitsResources"}],
        "extenders": [{"urlPrefix": "http://10.0.0.1/a/", "apiVersion": "v1beta1", "filterVerb": "filter", "weight": 1,
        "enableHttps": false, "httpTimeout": 100000000, "nodeCacheCapable": false, "prioritizeVerb": ""}]}"#;
    let without_kind = policy.replace(r#""kind": "Policy", "apiVersion": "v1", "#, "");
    let of_group = policy.replace(r#""v1""#, r#""kubescheduler.config.k8s.io/v1""#);
    for policy in [policy, &without_kind, &of_group] {
        let import = import(policy);
        let extender = &import.extenders[0];
        assert_eq!((extender.timeout.as_millis(), &*extender.name), (100, "a"));
        assert_eq!(extender.prioritize_verb, None);
        let note = "extenders[0].apiVersion: unknown, left out; old kube-schedulers ignored it, too";
        assert!(import.notes().iter().any(|said| said == note), "{:?}", import.notes());
    }
    let said = mistakes(&V1.replace("  weight: 5", "  weight: 5\n  ignoreable: true"));
    assert!(said.contains("extenders[0].ignoreable: unknown field; did you mean ignorable?"), "{said}");
}

/// What people have: manifests with a `ConfigMap`, output of kubectl, several documents.
#[test]
fn a_configuration_is_found_in_what_people_have() {
    let indented = format!("    {}\n", V1.lines().collect::<Vec<_>>().join("\n    "));
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  other: text\n  config.yaml: |\n{indented}"
    );
    let policy =
        json!({"predicates": [], "extenders": [{"urlPrefix": "http://a", "filterVerb": "f"}]}).to_string();
    let policy_map = json!({"kind": "ConfigMap", "data": {"policy.cfg": policy}});
    let other = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
    for text in [
        map.clone(),
        format!("{other}---\n{map}---\n"),
        format!("---\n{V1}---\n"),
        format!("{V1}---\nkind: KubeSchedulerConfiguration\nprofiles: []\n"),
    ] {
        assert_eq!(import(&text), import(V1), "{text}");
    }
    for text in
        [policy_map.to_string(), json!({"kind": "List", "items": [{"kind": "Pod"}, policy_map]}).to_string()]
    {
        assert_eq!(import(&text), import(&policy), "{text}");
    }
    // A mistake has its line in the file.
    let line = 1 + map.lines().position(|line| line.contains("filterVerb: filter")).unwrap();
    let said = mistakes(&map.replace("filterVerb: filter", "filterVreb: filter"));
    let expected = format!("line {line}: data[\"config.yaml\"].extenders[0].filterVreb: unknown field");
    assert!(said.starts_with(&expected), "{said}");
    let said = mistakes(&map.replace("kind: KubeScheduler", "kind: [KubeScheduler"));
    assert!(said.contains(": data[\"config.yaml\"]: invalid YAML"), "{said}");
    let said = mistakes(&format!("{V1}---\n{V1}"));
    assert!(said.contains("is a second configuration of kube-scheduler; keep one of them"), "{said}");
}

#[test]
fn merge_keys_and_fractions_are_read_as_kube_scheduler_reads_them() {
    let import = import(
        "kind: Policy\nextenders:\n- &e\n  urlPrefix: http://127.0.0.1:8888\n  filterVerb: f\n  httpTimeout: 1.5s\n\
         - <<: *e\n  urlPrefix: http://127.0.0.1:8889\n",
    );
    let [one, two] = &import.extenders[..] else { panic!("two") };
    let of = |extender: &Extender| (extender.filter_verb.clone(), extender.timeout.as_millis());
    assert_eq!((of(one), of(two)), ((Some("f".to_owned()), 1_500), (Some("f".to_owned()), 1_500)));
    assert_eq!(two.url_prefix, "http://127.0.0.1:8889");
}

#[test]
fn names_are_unique_and_valid() {
    let entry = |host: &str| format!("- {{urlPrefix: 'http://{host}', filterVerb: f}}\n");
    let hosts = ["gpu", "gpu.b", "GPU:80", "[::1]:80", "localhost", "1a", "extender-4", "a_b"];
    let entries: String = hosts.map(entry).concat();
    let text = format!("kind: Policy\nextenders:\n{entries}");
    let import = import(&text);
    let names: Vec<_> = import.extenders.iter().map(|extender| &*extender.name).collect();
    let expected =
        ["gpu", "gpu-2", "gpu-3", "extender-4", "extender-5", "extender-6", "extender-4-2", "extender-8"];
    assert_eq!(names, expected);
    valid(&text);
}

/// Users read them in the events of pods.
#[test]
fn a_name_comes_from_host_path_or_resource() {
    let name = |url: &str, resources: &str| {
        let entry = format!("{{urlPrefix: '{url}', filterVerb: f, managedResources: [{resources}]}}");
        import(&format!("kind: Policy\nextenders: [{entry}]\n")).extenders[0].name.clone()
    };
    let topolvm = "{name: topolvm.io/capacity}";
    for (url, resources, expected) in [
        ("http://127.0.0.1:32766/gpushare-scheduler", "", "gpushare-scheduler"),
        ("http://127.0.0.1:3456/scheduler", topolvm, "topolvm"),
        ("http://localhost:9251", topolvm, "topolvm"),
        ("http://hami.kube-system.svc:443/x", topolvm, "hami"),
        ("http://10.0.0.1/scheduler", "", "extender-1"),
    ] {
        assert_eq!(name(url, resources), expected, "{url}");
    }
}

/// kube-scheduler rejects a resource in two entries, and one entry with decisions and bind keeps them all.
#[test]
fn pods_without_a_managed_resource_do_not_depend_on_the_gateway() {
    let entries = |text: &str| {
        let config = valid(text);
        let reach = super::super::Reach::new(&config, None, super::super::TlsFiles::default()).unwrap();
        super::super::Extenders { entries: &super::super::entries(&config), reach: &reach }.to_string()
    };
    let one = "{urlPrefix: 'http://a', filterVerb: f, ignorable: true, managedResources: [{name: x.y/a, ignoredByScheduler: true}]}";
    let two = "{urlPrefix: 'http://b', filterVerb: f, bindVerb: b, ignorable: true, managedResources: [{name: x.y/b}]}";
    let text = format!("kind: Policy\nextenders: [{one}, {two}]\n");
    let printed = entries(&text);
    assert_eq!(printed.matches("- urlPrefix").count(), 1, "{printed}");
    let expected = "  managedResources:\n  - name: x.y/a\n    ignoredByScheduler: true\n  - name: x.y/b\n";
    assert!(printed.ends_with(expected) && printed.contains("  bindVerb: bind\n"), "{printed}");
    assert!(printed.contains("  ignorable: true"), "{printed}");
    let general = text.replace("managedResources: [{name: x.y/b}]", "managedResources: []");
    let printed = entries(&general);
    let (decisions, _) = printed.split_once("bindVerb").unwrap();
    assert!(!decisions.contains("managedResources"), "{printed}");
}

#[test]
fn two_binders_are_asked_by_their_resources() {
    let text = "kind: Policy\nextenders:\n\
        - {urlPrefix: 'http://a', bindVerb: bind, managedResources: [{name: a.com/x}]}\n\
        - {urlPrefix: 'http://b', bindVerb: bind, managedResources: [{name: b.com/x}]}\n";
    let config = valid(text);
    assert_eq!(config.binder, extender_gateway_settings::Binder::Backend(config.backends[0].name.clone()));
    assert!(config.backends.iter().all(|backend| backend.bind.is_some()));
    let notes = import(text).notes().join("\n");
    assert!(
        notes.contains("a, b: all bind, which kube-scheduler refuses; the gateway asks the first"),
        "{notes}"
    );
}

#[test]
fn values_of_the_chart_say_the_same() {
    let values = import(V1).values().to_string();
    let start = "# Values for the chart: each policy is one of the extenders, asked by http-extender.\nconfig:\n  timeouts:\n    \
                 decision: 6s300ms\n    bind: 7s100ms\n  nodes: {source: Watch}\n";
    assert!(values.starts_with(start), "{values}");
    let (_, gateway) = V1_IMPORTED.split_once("backends:\n").unwrap();
    let (_, policies) = values.split_once("policies:\n").unwrap();
    assert_eq!(policies, gateway.replace("  url: \"http://127.0.0.1:9000\"\n", "  program: http-extender\n"));
}

#[test]
fn mistakes_have_a_line_and_a_field() {
    let one = |fields: &str| {
        mistakes(&format!("{HEADER}extenders:\n- urlPrefix: http://a\n  filterVerb: f\n  {fields}\n"))
    };
    for (fields, expected) in [
        ("filterVreb: x", "line 6: extenders[0].filterVreb: unknown field; did you mean filterVerb?"),
        ("weight: 1.5", "line 6: extenders[0].weight: 1.5 is a number; expected a whole number"),
        ("prioritizeVerb: p", "line 4: extenders[0].weight: is 0; expected a whole number from 1 to 1000000"),
        ("httpTimeout: soon", "line 6: extenders[0].httpTimeout: \"soon\" is not a duration; expected"),
        (
            "httpTimeout: 2h",
            "line 6: extenders[0].httpTimeout: \"2h\" is out of range; expected a duration from 1ms",
        ),
        (
            "managedResources: [{name: a.b/c}, {name: a.b/c}]",
            "line 6: extenders[0].managedResources[1].name: \"a.b/c\" is there twice; remove one of them",
        ),
        ("httpTimeout: 1", "line 6: extenders[0].httpTimeout: 1 is out of range; expected nanoseconds"),
        ("tlsConfig: {cafile: x}", "line 6: extenders[0].tlsConfig.cafile: unknown field"),
        (
            "managedResources: [{name: cpu}]",
            "line 6: extenders[0].managedResources[0].name: \"cpu\" is a native resource of Kubernetes; expected",
        ),
        ("managedResources: [{nme: a}]", "line 6: extenders[0].managedResources[0].name: is missing"),
        ("ignorable: 'yes'", "line 6: extenders[0].ignorable: \"yes\" is a string; expected true or false"),
    ] {
        let said = one(fields);
        assert!(said.contains(expected), "{fields}: {said}");
    }
    for (text, expected) in [
        ("kind: Pod\n", "has kind \"Pod\" and apiVersion none; expected a KubeSchedulerConfiguration"),
        ("a: b\n", "has kind none"),
        ("kind: Policy\napiVersion: kyverno.io/v1\n", "has kind \"Policy\" and apiVersion \"kyverno.io/v1\""),
        ("- a\n", "has kind none"),
        ("kind: Policy\n", "has no extenders; expected a list of extenders"),
        ("kind: Policy\nextenders: []\n", "line 2: extenders: is empty"),
        ("kind: Policy\nextenders: [{filterVerb: f}]\n", "line 2: extenders[0].urlPrefix: is missing"),
        ("kind: Policy\nextenders: [{urlPrefix: 'http://a'}]\n", "line 2: extenders[0]: has no verb"),
        ("kind: Policy\nextenders: [{urlPrefix: 'a:1', filterVerb: f}]\n", "\"a:1\" is not a URL"),
        (
            "kind: KubeSchedulerConfiguration\napiVersion: kubescheduler.config.k8s.io/v1\nprofiles:\n- extenders: []\n",
            "line 4: profiles[0].extenders: is not read by kube-scheduler, which has no extenders of a profile; move it to",
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
    for flag in [true, false] {
        assert_eq!(valid(&text(flag)).extender.ignorable, flag);
    }
}
