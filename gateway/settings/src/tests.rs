//! The errors of invalid configurations, and the meaning of valid ones.

mod mistakes;
mod properties;

use extender_gateway_core::interest::{Namespaces, Operator, Requirement};

use super::*;

/// The shipped example, which must stay valid.
const EXAMPLE: &str = include_str!("../../examples/gateway.yaml");
/// A gateway that binds, for callers of its machine.
const BINDS: &str = "extender: {address: '127.0.0.1:8888'}\nbinder: BuiltIn";
/// The beginning of every configuration.
const HEADER: &str = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n";
/// The minimal backends of a configuration.
const BACKENDS: &str = "backends: [{name: a, url: 'http://a:1', filter: {}}]\n";

fn parse(yaml: &str) -> Result<Config, ConfigErrors> {
    Config::parse(yaml, Path::new("/etc/gateway"))
}

/// Parses a text that must be valid.
fn right(yaml: &str) -> Config {
    parse(yaml).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"))
}

#[test]
fn the_example_is_right_and_says_what_it_seems_to() {
    let config = right(EXAMPLE);
    let [zones, quota, racks, reserves, gpus] = config.backends.as_slice() else { panic!("{config:?}") };
    assert_eq!(zones.args.as_deref(), Some(br#"{"prefer":["zone-a","zone-b"]}"#.as_slice()));
    assert_eq!(zones.filter, None);
    let score = zones.score.clone().unwrap();
    assert_eq!((score.weight.value(), score.normalize), (2, Some(Normalize::MinMax)));
    assert_eq!((score.timeout, score.reversed), (Duration::from_millis(100), Some(false)));
    let filter = quota.filter.clone().unwrap();
    assert_eq!(filter.failure_policy, FailurePolicy::Ignore);
    assert_eq!(filter.preemption_may_help, Preemption::Honored);
    assert_eq!(quota.score, None);
    assert_eq!(
        (quota.mode, &quota.matches.interest.namespaces),
        (Mode::Shadow, &Namespaces::Only(names(&["search", "shop"])))
    );
    assert_eq!(racks.url.authority(), "rack-drain.policies.svc:9000");
    assert_eq!(racks.tls.clone().unwrap().server_name.as_deref(), Some("rack-drain.policies.svc"));
    assert_eq!(racks.matches.interest.namespaces, Namespaces::Except(names(&["sandbox"])));
    let requirement = |key: &str, operator| Requirement { key: key.to_owned(), operator };
    let selector = [
        requirement("tier", Operator::In(names(&["batch"]))),
        requirement("team", Operator::NotIn(names(&["operations"]))),
    ];
    assert_eq!(racks.matches.interest.selector, selector);
    let hooks: Vec<_> = reserves.verbs().map(|verb| (verb.name(), reserves.failure_policy(verb))).collect();
    assert_eq!(hooks, [("beforeFilter", "Fail"), ("beforeFilterNodes", "Fail"), ("beforeScore", "Ignore")]);
    assert_eq!(gpus.matches.interest.resources, ["example.com/gpu"]);
    assert_eq!(gpus.matches.ignored_by_scheduler, ["example.com/gpu"]);
    assert_eq!(
        (&config.binder, config.pods.source),
        (&Binder::Backend(gpus.name.clone()), Some(PodSource::Watch))
    );
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn two_backends_may_manage_the_same_resource() {
    let backend = |name| {
        format!(
            "{{name: {name}, url: 'http://a:1', filter: {{}}, match: {{managedResources: [{{name: a.b/c}}]}}}}"
        )
    };
    right(&format!("{HEADER}backends: [{}, {}]", backend("a"), backend("b")));
}

#[test]
fn pods_are_watched_where_something_needs_them() {
    let cases = [
        ("", "filter: {}", PodSource::None),
        ("", "preempt: {}", PodSource::Watch),
        (BINDS, "filter: {}", PodSource::None),
        (&format!("nodes: {{source: Request}}\n{BINDS}"), "preempt: {}", PodSource::None),
        ("pods: {source: None}", "preempt: {}", PodSource::None),
        ("pods: {source: Watch}", "filter: {}", PodSource::Watch),
    ];
    for (lines, verb, expected) in cases {
        let config = right(&format!("{HEADER}{lines}\nbackends: [{{name: a, url: 'http://a:1', {verb}}}]"));
        assert_eq!(config.pod_source(), expected, "{lines} {verb}");
    }
}

#[test]
fn what_only_a_start_can_change() {
    let start = "timeouts: {decision: 1s, bind: 10s}";
    let preempts = "backends: [{name: a, url: 'http://a:1', preempt: {}}]";
    let verbs = "extender: {verbs: {filter: x}}";
    let longer = "timeouts: {decision: 1001ms, bind: 11s}";
    let cases: [(&str, &str, &[&str]); 7] = [
        (start, BACKENDS, &[]),
        (start, preempts, &[]),
        ("pods: {source: Watch}", BACKENDS, &[]),
        ("timeouts: {decision: 500ms, bind: 1s}", BACKENDS, &[]),
        (longer, BACKENDS, &["timeouts.decision to a longer time"]),
        (verbs, BACKENDS, &["extender.verbs"]),
        ("nodes: {source: Request}", BACKENDS, &["nodes"]),
    ];
    let config = |lines: &str, backends: &str| right(&format!("{HEADER}{lines}\n{backends}"));
    for (lines, backends, expected) in cases {
        let fixed = config(lines, backends).fixed_since_the_start(&config(start, BACKENDS));
        assert_eq!(fixed, expected, "{lines} {backends}");
    }
    let binds = format!("{longer}\n{BINDS}");
    let fixed = config(&binds, BACKENDS).fixed_since_the_start(&config(BINDS, BACKENDS));
    assert_eq!(fixed, ["timeouts.decision to a longer time", "timeouts.bind to a longer time"]);
}

#[test]
fn backends_that_fail_the_call_come_first() {
    assert_eq!(right(EXAMPLE).effective_order(), [2, 4, 0, 1, 3]);
}

#[test]
fn node_sources_and_their_paths() {
    let cases = [
        ("{}", NodeSource::Watch),
        ("{source: File, file: nodes.yaml}", NodeSource::File { path: "/etc/gateway/nodes.yaml".into() }),
        ("{source: File, file: /nodes.yaml}", NodeSource::File { path: "/nodes.yaml".into() }),
        ("{source: Request}", NodeSource::Request),
        ("{source: NamesOnly}", NodeSource::NamesOnly),
    ];
    for (nodes, expected) in cases {
        assert_eq!(right(&format!("{HEADER}nodes: {nodes}\n{BACKENDS}")).nodes, expected, "{nodes}");
    }
}

#[test]
fn a_default_timeout_gives_way_to_a_shorter_decision() {
    let config = right(&format!("{HEADER}timeouts: {{decision: 50ms}}\n{BACKENDS}"));
    assert_eq!(config.backends[0].filter.clone().unwrap().timeout, Duration::from_millis(50));
}

#[test]
fn equal_arguments_have_equal_bytes() {
    let args = |args: &str| {
        let backend = format!("[{{name: a, url: 'http://a:1', filter: {{}}, args: {args}}}]");
        right(&format!("{HEADER}backends: {backend}")).backends[0].args.clone().unwrap()
    };
    let expected = br#"{"a":[1,-2,1.5,true,null],"b":{"c":"no","d":"1"}}"#;
    assert_eq!(args("{b: {d: '1', c: no}, a: [1, -2, 1.5, true, ~]}"), expected.as_slice());
    assert_eq!(args("{a: [0x1, -2, 15e-1, true, null], b: {c: 'no', d: !!str 1}}"), expected.as_slice());
    assert_eq!(args("{}"), b"{}".as_slice());
}

#[test]
fn both_doors_can_take_a_free_port() {
    right(&format!("{HEADER}extender: {{address: '[::]:0'}}\nmetrics: {{address: '[::]:0'}}\n{BACKENDS}"));
}

#[test]
fn an_anchor_can_be_used_again() {
    let yaml = "
backends:
- {name: a, url: 'http://a:1', filter: &settings {timeout: 10ms}}
- {name: b, url: 'http://b:1', filter: *settings}";
    let config = right(&format!("{HEADER}{yaml}"));
    assert_eq!(config.backends[1].filter, config.backends[0].filter);
}

#[test]
fn a_file_is_read_with_paths_relative_to_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, format!("{HEADER}nodes: {{source: File, file: nodes.yaml}}\n{BACKENDS}")).unwrap();
    let expected = NodeSource::File { path: folder.path().join("nodes.yaml") };
    assert_eq!(Config::read(&file).unwrap().nodes, expected);
}

#[test]
fn files_that_are_no_configuration_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let large = "#".repeat((1 << 20) + 1);
    let cases: [(&str, &[u8], &str); 3] = [
        ("latin1", b"kind: \xe9", ": is not valid UTF-8; expected a YAML file in UTF-8"),
        ("large", large.as_bytes(), ": is too large; expected at most 1 MiB, the limit of a ConfigMap"),
        (
            "wrong",
            b"apiVersion: v1\nkind: Pod\nbackends: []",
            " line 1: apiVersion: is \"v1\"; expected extender-gateway.io/v1alpha1",
        ),
    ];
    for (name, bytes, expected) in cases {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let message = Config::read(&file).unwrap_err().to_string();
        assert_eq!(message.lines().next().unwrap(), format!("{}{expected}", file.display()));
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let message = Config::read(Path::new("no/such.yaml")).unwrap_err().to_string();
    assert!(message.starts_with("no/such.yaml: cannot be read: "), "{message}");
    assert!(message.ends_with("; expected the path of a readable file"), "{message}");
}
